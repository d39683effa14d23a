//! `cargo xtask schemathesis`: a tester from PyPI reads the OpenAPI document and sends the real
//! server everything it allows, and much that it does not.
//!
//! The server is the release build on its own store, with the offline model and a token. Requests
//! go through a proxy here: live events never end by themselves, and the proxy ends them. The same
//! proxy injects bugs, each in a separate run, which the tester must find; so the product never
//! contains one, and a tester that finds nothing is not mistaken for a server without bugs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{Failure, Need, cargo, install, is_root, root, run};

/// The version that is installed, so that runs are reproducible.
const VERSION: &str = "4.32.5";

/// Everything it can check but one: that every request that fits the document is accepted. A
/// document cannot say which agents there are, which cursors were given out or which names are
/// reserved.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,missing_required_header,unsupported_method,\
                      allow_header_conformance,use_after_free,ensure_resource_availability,\
                      ignored_auth";

/// Generated requests for each operation, in addition to those that cover its parameters. A run
/// with so many takes less than a minute on two cores.
const EXAMPLES: &str = "10";

/// The same requests in every run: a fault that is found today is found by everybody.
const SEED: &str = "1";

/// How long live events may be silent before the proxy ends them.
const SILENCE: Duration = Duration::from_millis(200);

/// A fault that is injected into responses.
#[derive(Clone, Copy)]
struct Bug {
    about: &'static str,
    /// The operations that are tested; the others are not affected.
    path: &'static str,
    /// What the tester calls such a fault.
    called: &'static str,
    /// Changes the answer to a request, given the first line of that.
    plant: fn(&str, String) -> String,
}

const BUGS: [Bug; 3] = [
    Bug {
        about: "a search for anything but plain letters is a 500",
        path: "/v1/search",
        called: "Server error",
        plant: |line, answer| match line.contains("%") {
            true => with_status(answer, "500 Internal Server Error"),
            false => answer,
        },
    },
    Bug {
        about: "a key that points at nothing is answered with a status nobody documented",
        path: "/v1/keys/{key}",
        called: "Undocumented status code",
        plant: |_, answer| match answer.starts_with("HTTP/1.1 404") {
            true => with_status(answer, "410 Gone"),
            false => answer,
        },
    },
    Bug {
        about: "a new session says `archived` in words",
        path: "/v1/sessions",
        called: "Response violates schema",
        plant: |_, answer| match answer.starts_with("HTTP/1.1 201") {
            // As long as before, so that the length still holds.
            true => answer.replace("\"archived\":false", "\"archived\":\"no!\""),
            false => answer,
        },
    },
];

fn with_status(answer: String, status: &str) -> String {
    let rest = answer.split_once("\r\n").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    format!("HTTP/1.1 {status}\r\n{rest}")
}

/// Builds the server, and tests it.
pub(super) fn task(arguments: &[String]) -> Result<(), Failure> {
    run(cargo(&["build", "--release", "--locked"]).current_dir(root()))?;
    ask(&tester()?, arguments)
}

/// Tests the server that the tests have built. If the tester is not available, that is reported,
/// and only the other tests count.
pub(super) fn after_the_tests() -> Result<(), Failure> {
    match tester() {
        Ok(tester) => ask(&tester, &[]),
        Err(Failure { message, hint, .. }) => {
            eprintln!("\nNOT RUN: what schemathesis would ask the server. {message}");
            eprintln!("hint: {}", hint.unwrap_or_default());
            Ok(())
        }
    }
}

/// Tests the server that was built last, which must have no faults, and the same with each planted
/// bug, which must be found.
fn ask(tester: &Path, arguments: &[String]) -> Result<(), Failure> {
    let place = home().join(format!("run-{}", std::process::id()));
    let done = asked(tester, &place, arguments);
    // The files of a run are not needed afterwards.
    std::fs::remove_dir_all(&place).ok();
    done
}

fn asked(tester: &Path, place: &Path, arguments: &[String]) -> Result<(), Failure> {
    let server = Server::start(place)?;
    run(server.ask(tester, place, None)?.args(arguments))?;
    for bug in BUGS {
        eprintln!("\n==> planted: {}", bug.about);
        let mut command = server.ask(tester, place, Some(bug))?;
        let output = command.args(["--include-path", bug.path]).output();
        let output = output.map_err(|error| failure(format!("it could not be run: {error}")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() || !said.contains(bug.called) {
            let missed = format!("the tester does not find a planted bug: {}", bug.about);
            return Err(Failure { message: missed, hint: Some(said.into_owned()), code: 1 });
        }
        eprintln!("<== found: {}", bug.called);
    }
    Ok(())
}

fn failure(message: String) -> Failure {
    Failure { message, hint: None, code: 1 }
}

/// The folder of the tester, separate from other Python packages.
fn home() -> PathBuf {
    root().join("target/schemathesis")
}

/// The tester, installed if it is missing.
fn tester() -> Result<PathBuf, Failure> {
    let venv = home().join(VERSION);
    let program = venv.join("bin/st");
    if program.is_file() {
        return Ok(program);
    }
    let venv_works = || {
        let mut python = Command::new("python3");
        super::answers({
            python.args(["-c", "import venv, ensurepip"]);
            python
        })
    };
    if !venv_works() && is_root() {
        let need = Need {
            program: "python3",
            package: "python3-venv",
            purpose: "gives schemathesis a place of its own",
        };
        install(&[&need])?;
    }
    let missing = |failure: Failure| Failure {
        message: format!("schemathesis {VERSION} is missing: {}", failure.message),
        hint: Some(
            "it comes from PyPI by pip: see that `python3 -m venv` works (Debian: python3-venv) \
             and that pypi.org, or the index PIP_INDEX_URL names, can be reached"
                .into(),
        ),
        code: failure.code,
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv)).map_err(missing)?;
    let wanted = format!("schemathesis=={VERSION}");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wanted];
    run(Command::new(venv.join("bin/python3")).args(pip)).map_err(missing)?;
    Ok(program)
}

/// The real server, on its own store. It is stopped when this is dropped.
struct Server {
    process: Child,
    address: SocketAddr,
    token: String,
}

impl Server {
    fn start(place: &Path) -> Result<Server, Failure> {
        let cannot = |error: std::io::Error| failure(format!("the server does not start: {error}"));
        std::fs::create_dir_all(place.join("work")).map_err(cannot)?;
        let program = || {
            let mut command = Command::new(root().join("target/release/rethread"));
            let store = format!("sqlite:{}", place.join("rethread.db").display());
            // No files of the user who runs this are read or written.
            command.env_clear().env("HOME", place).env("RETHREAD_STORE", store);
            command.current_dir(place.join("work"));
            command
        };
        let made = program().args(["token", "create", "tester"]).output().map_err(cannot)?;
        let token = String::from_utf8_lossy(&made.stdout).lines().next().map(str::to_owned);
        let token = token.ok_or_else(|| failure("there is no token".into()))?;
        let serve = ["serve", "--json", "--listen", "127.0.0.1:0", "--model", "offline/offline"];
        let mut process = program()
            .args(serve)
            .args(["--require-token", "--allow-host", "127.0.0.1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot)?;
        let mut line = String::new();
        let output = process.stdout.take().map(BufReader::new);
        output.map_or(Ok(0), |mut output| output.read_line(&mut line)).map_err(cannot)?;
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split('"').next());
        let address = address.and_then(|address| address.parse().ok());
        let Some(address) = address else {
            process.kill().ok();
            return Err(failure(format!("the server does not say where it listens: {line:?}")));
        };
        Ok(Server { process, address, token })
    }

    /// The command that tests this server, through a proxy that may plant a bug.
    fn ask(&self, tester: &Path, place: &Path, bug: Option<Bug>) -> Result<Command, Failure> {
        let document = std::fs::read_to_string(root().join("docs/openapi.json"));
        let document = document.map_err(|error| failure(format!("docs/openapi.json: {error}")))?;
        // This server requires a token, so the document may say so.
        let open = "\"security\": [\n    {},\n";
        if !document.contains(open) {
            return Err(failure("docs/openapi.json does not say how to come in".into()));
        }
        let closed = document.replace(open, "\"security\": [\n");
        let path = place.join("openapi.json");
        let cannot = |error: std::io::Error| failure(error.to_string());
        std::fs::write(&path, closed).map_err(cannot)?;
        let proxy = proxy(self.address, bug).map_err(cannot)?;
        let mut command = Command::new(tester);
        command
            .args(["run", "--no-color", "--seed", SEED, "--max-examples", EXAMPLES])
            .args(["--checks", CHECKS, "--warnings", "off", "--request-timeout", "60"])
            .args(["--url", &format!("http://{proxy}")])
            .args(["--header", &format!("Authorization: Bearer {}", self.token)])
            .arg(path)
            .current_dir(place);
        Ok(command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Forwards requests, one for each connection. It ends with this process.
fn proxy(server: SocketAddr, bug: Option<Bug>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The tester sees errors here as a broken connection, and reports them.
            std::thread::spawn(move || pass_on(stream, server, bug).ok());
        }
    });
    Ok(address)
}

fn pass_on(mut stream: TcpStream, server: SocketAddr, bug: Option<Bug>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut head, mut length) = (String::new(), Vec::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        // Headers may hold any byte.
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        if line.trim_ascii().is_empty() {
            break;
        }
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        match text.split_once(':') {
            Some(("connection", _)) => continue,
            Some(("content-length", given)) => length = given.trim().parse().unwrap_or(0),
            _ => {}
        }
        head.extend(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut inside = TcpStream::connect(server)?;
    inside.write_all(first.as_bytes())?;
    inside.write_all(&head)?;
    inside.write_all(b"connection: close\r\n\r\n")?;
    inside.write_all(&body)?;
    let endless = first.split(['?', ' ']).nth(1).is_some_and(|path| path.ends_with("/events"));
    let mut answer = Vec::new();
    let mut part = [0; 64 << 10];
    loop {
        match inside.read(&mut part) {
            Ok(0) => break,
            Ok(read) => answer.extend(&part[..read]),
            Err(_) if endless && !answer.is_empty() => {
                answer.extend(b"0\r\n\r\n");
                break;
            }
            Err(error) => return Err(error),
        }
        if endless {
            inside.set_read_timeout(Some(SILENCE))?;
        }
    }
    match (bug, String::from_utf8(answer)) {
        (Some(bug), Ok(text)) => stream.write_all((bug.plant)(&first, text).as_bytes()),
        (_, Ok(text)) => stream.write_all(text.as_bytes()),
        (_, Err(bytes)) => stream.write_all(bytes.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_bug_changes_the_answers_it_is_meant_for_and_no_others() {
        let planted = |bug: &Bug, line: &str, answer: &str| (bug.plant)(line, answer.to_owned());
        let (found, gone) = ("HTTP/1.1 200 OK\r\n\r\n{}", "HTTP/1.1 404 Not Found\r\n\r\n{}");
        assert_eq!(planted(&BUGS[0], "GET /v1/search?q=a HTTP/1.1", found), found);
        let crashed = planted(&BUGS[0], "GET /v1/search?q=%C3%A9 HTTP/1.1", found);
        assert_eq!(crashed, "HTTP/1.1 500 Internal Server Error\r\n\r\n{}");
        assert_eq!(planted(&BUGS[1], "GET /v1/keys/a HTTP/1.1", found), found);
        let odd = planted(&BUGS[1], "GET /v1/keys/a HTTP/1.1", gone);
        assert_eq!(odd, "HTTP/1.1 410 Gone\r\n\r\n{}");
        let session = "HTTP/1.1 201 Created\r\n\r\n{\"archived\":false}";
        let broken = planted(&BUGS[2], "POST /v1/sessions HTTP/1.1", session);
        assert_eq!(broken, "HTTP/1.1 201 Created\r\n\r\n{\"archived\":\"no!\"}");
        assert_eq!(broken.len(), session.len());
    }
}
