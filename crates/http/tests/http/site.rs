//! A server on a free port, a store in a temporary folder, and a scripted model.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rethread_agent::scripted::{self, Server};
use rethread_agent::{HostLimits, HostSettings, Roster, RosterSettings, Workspaces};
use rethread_core::{Backend, Name, Owner, Sessions};
use rethread_http::{AccessTokens, Limits, ListenError, Rules, ServerSettings};
use rethread_store::System;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::client::{self, Answer, Whole};

/// What differs from test to test.
pub(crate) struct Setup {
    pub(crate) wire: &'static str,
    pub(crate) rules: Rules,
    pub(crate) limits: Limits,
    pub(crate) address: &'static str,
    /// The number of threads for blocking work, if it is limited.
    pub(crate) threads: Option<usize>,
}

impl Default for Setup {
    fn default() -> Setup {
        let (rules, limits) = (Rules::default(), Limits::default());
        Setup { wire: "openai", rules, limits, address: "127.0.0.1:0", threads: None }
    }
}

pub(crate) struct Site {
    pub(crate) model: Server,
    setup: Setup,
    folder: tempfile::TempDir,
    open: Option<Open>,
}

/// A server that runs.
struct Open {
    store: Arc<dyn Backend>,
    address: SocketAddr,
    stop: CancellationToken,
    runtime: Runtime,
    serving: tokio::task::JoinHandle<()>,
}

impl Site {
    pub(crate) fn new(answers: impl IntoIterator<Item = scripted::Answer>) -> Site {
        Site::of(Setup::default(), answers)
    }

    pub(crate) fn of(setup: Setup, answers: impl IntoIterator<Item = scripted::Answer>) -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("work")).expect("a workspace");
        let mut site = Site { model: Server::start(answers), setup, folder, open: None };
        site.start().expect("it starts");
        site
    }

    pub(crate) fn start(&mut self) -> Result<(), ListenError> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        if let Some(threads) = self.setup.threads {
            runtime.max_blocking_threads(threads);
        }
        let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
        let store = self.store();
        let door = self.door(store.clone());
        let address = self.setup.address.parse().expect("an address");
        let listening = runtime.block_on(door.listen(address))?;
        let address = listening.address();
        let stop = CancellationToken::new();
        let serving = runtime.spawn(listening.serve(stop.clone().cancelled_owned()));
        self.open = Some(Open { store, address, stop, runtime, serving });
        Ok(())
    }

    /// The store as another program would open it.
    pub(crate) fn store(&self) -> Arc<dyn Backend> {
        let url = format!("sqlite:{}", self.folder.path().join("rethread.db").display());
        rethread_store::connect(&url, Arc::new(System)).expect("a store")
    }

    pub(crate) fn door(&self, store: Arc<dyn Backend>) -> ServerSettings {
        let workspace = self.folder.path().join("work");
        let settings = HostSettings {
            roster: Roster::new(RosterSettings {
                model: Some(format!("{}/scripted-1", self.setup.wire)),
                env: self.model.env(),
                ..RosterSettings::default()
            }),
            workspaces: Workspaces::only(&workspace).expect("it opens"),
            limits: HostLimits::default(),
            transcripts: None,
        };
        let world = Arc::new(System);
        let Setup { rules, limits, .. } = &self.setup;
        let (rules, limits) = (rules.clone(), *limits);
        ServerSettings { store, world, settings, rules, limits, log: None }
    }

    /// Stops the server as a signal would, and waits until it has.
    pub(crate) fn stop(&mut self) {
        if let Some(open) = self.open.take() {
            open.stop.cancel();
            open.runtime.block_on(open.serving).expect("it ends well");
            open.runtime.shutdown_background();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start().expect("it starts again");
    }

    /// Starts a server that was stopped, at another address.
    pub(crate) fn listen_on(&mut self, address: &'static str) {
        self.setup.address = address;
        self.start().expect("it starts");
    }

    fn open(&self) -> &Open {
        self.open.as_ref().expect("it runs")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.open().address
    }

    /// The sessions of an owner, as another door would see them.
    pub(crate) fn sessions(&self, owner: &str) -> Sessions {
        let owner = Owner::new(owner).expect("valid");
        Sessions::new(self.open().store.clone(), owner, Arc::new(System))
    }

    pub(crate) fn token(&self, name: &str, owner: &str) -> String {
        let tokens = AccessTokens::new(self.store(), Arc::new(System));
        let name = Name::new(name).expect("valid");
        tokens.create(&name, &Owner::new(owner).expect("valid")).expect("made")
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    /// Sends a request; `Host` and the length of the body are added where they are missing.
    pub(crate) fn open_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        let given = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !given("host") {
            head.push_str(&format!("host: {}\r\n", self.address()));
        }
        if !given("content-length") && !given("transfer-encoding") && !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        client::send(self.address(), &head, body)
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Whole {
        self.open_request(method, path, headers, body).whole()
    }

    pub(crate) fn get(&self, path: &str) -> Whole {
        self.request("GET", path, &[], b"")
    }

    /// Sends JSON.
    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> Whole {
        self.request(method, path, &[JSON], body.to_string().as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Whole {
        self.json("POST", path, body)
    }

    /// Sends JSON and follows the events.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> client::Events {
        self.open_request("POST", path, &[JSON], body.to_string().as_bytes()).events()
    }
}

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.runtime.shutdown_background();
        }
    }
}

/// A process that can be killed, and the name of the holder it would use.
pub(crate) fn another_process() -> (std::process::Child, String) {
    let child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    let space = std::fs::read_link("/proc/self/ns/pid").expect("read");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("read");
    let began = stat.split_whitespace().nth(21).expect("a start");
    let holder = format!("{}.{began}@{}-{}#0", child.id(), boot.trim(), space.display());
    (child, holder)
}
