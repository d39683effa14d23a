//! A proxy between a store and its server that fails on request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The end of an answer: the server is ready for the next query.
const READY: [u8; 5] = [b'Z', 0, 0, 0, 5];

/// A warning that the server is shutting down, as it sends it: severity, code, text.
const GOODBYE: &[u8] = b"SWARNING\0VWARNING\0C57P01\0Mterminating connection\0\0";

/// Forwards in both directions, until it is asked to fail.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    target: Mutex<u16>,
    /// Queries until the one whose answer is cut off; zero for never.
    questions: AtomicI64,
    /// The answer arrives, then a warning that the server is shutting down, and then the end.
    goodbye: AtomicBool,
    pairs: Mutex<Vec<(TcpStream, TcpStream)>>,
    closed: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of the server at this loopback port.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn new(target: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let state = Arc::new(State {
            target: Mutex::new(target),
            questions: AtomicI64::new(0),
            goodbye: AtomicBool::new(false),
            pairs: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let shared = state.clone();
        std::thread::spawn(move || accept(&listener, &shared));
        Proxy { port, state }
    }

    /// Its address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a store, through this proxy.
    pub fn through(&self, url: &str) -> String {
        let target = *self.state.target.lock().unwrap_or_else(PoisonError::into_inner);
        url.replace(&format!(":{target}/"), &format!(":{}/", self.port))
    }

    /// Forwards the query with this number from now on, counted from 1, and lets the server answer
    /// it; then the answer is dropped, and the connection with it.
    pub fn cut_answer(&self, question: u32) {
        self.state.goodbye.store(false, Ordering::SeqCst);
        self.state.questions.store(i64::from(question), Ordering::SeqCst);
    }

    /// Forwards the answer to that query, followed by the warning of a server that is shutting
    /// down; then the connection ends.
    pub fn say_goodbye(&self, question: u32) {
        self.state.goodbye.store(true, Ordering::SeqCst);
        self.state.questions.store(i64::from(question), Ordering::SeqCst);
    }

    /// Whether an answer is still to be dropped.
    pub fn is_waiting(&self) -> bool {
        self.state.questions.load(Ordering::SeqCst) > 0
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        let mut pairs = self.state.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        for (one, other) in pairs.drain(..) {
            // One that is already closed is as good as cut.
            drop(one.shutdown(Shutdown::Both));
            drop(other.shutdown(Shutdown::Both));
        }
    }

    /// Forwards to another server from now on.
    pub fn lead_to(&self, target: u16) {
        *self.state.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        self.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread that listens.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming().flatten() {
        if state.closed.load(Ordering::SeqCst) {
            return;
        }
        let target = *state.target.lock().unwrap_or_else(PoisonError::into_inner);
        // If the server is not there, the connection is closed.
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
        let copies =
            (client.try_clone(), server.try_clone(), client.try_clone(), server.try_clone());
        let (Ok(c1), Ok(s1), Ok(c2), Ok(s2)) = copies else { continue };
        drop((client.set_nodelay(true), server.set_nodelay(true)));
        let mut pairs = state.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.push((client, server));
        drop(pairs);
        let swallow = Arc::new(AtomicBool::new(false));
        let (asked, shared) = (swallow.clone(), state.clone());
        std::thread::spawn(move || questions(c1, s1, &asked, &shared));
        let shared = state.clone();
        std::thread::spawn(move || answers(s2, c2, &swallow, &shared));
    }
}

fn questions(mut client: TcpStream, mut server: TcpStream, swallow: &AtomicBool, state: &State) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        if state.questions.fetch_sub(1, Ordering::SeqCst) == 1 {
            swallow.store(true, Ordering::SeqCst);
        }
        if server.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    drop((client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both)));
}

fn answers(mut server: TcpStream, mut client: TcpStream, swallow: &AtomicBool, state: &State) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = server.read(&mut buffer) {
        if swallow.load(Ordering::SeqCst) {
            let answer = &buffer[..read];
            // A single letter is the answer to the TLS request.
            let ready = answer.len() == 1
                || answer.len() > READY.len()
                    && answer[answer.len() - READY.len() - 1..].starts_with(&READY);
            if ready {
                if state.goodbye.load(Ordering::SeqCst) && answer.len() > 1 {
                    let mut last = answer.to_vec();
                    last.push(b'N');
                    let length = u32::try_from(GOODBYE.len() + 4).unwrap_or_default();
                    last.extend(length.to_be_bytes());
                    last.extend(GOODBYE);
                    // The client may be gone.
                    drop(client.write_all(&last));
                }
                break;
            }
            continue;
        }
        if client.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    drop((client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both)));
}
