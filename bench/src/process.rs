//! The program as people run it: processes of its own, and what they cost.
//!
//! With `--before PATH` an older program is measured in the same run, in turns with this one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rethread_agent::scripted::{Answer, Server};

use crate::append::{raw_append, raw_file};
use crate::run::{Report, Setting, Target, median, prose, quantile, timed, us};

/// Processes that write to one session.
const WRITERS: usize = 8;

/// A program to measure, in a folder of its own.
struct Program {
    path: PathBuf,
    home: PathBuf,
    /// The URL of its store, relative to its folder.
    store: &'static str,
}

impl Program {
    /// The program that was built with this one, and the one it is compared with.
    fn all(setting: &Setting) -> Option<Vec<Program>> {
        let now = std::env::current_exe().ok()?.with_file_name("rethread");
        if !now.exists() {
            eprintln!("left out: {} is not built (`cargo build --release`)", now.display());
            return None;
        }
        let all = std::iter::once(now).chain(setting.before.clone()).enumerate();
        let program = |(number, path)| {
            let home = setting.folder.join(format!("home{number}"));
            std::fs::create_dir_all(&home).expect("a folder");
            let home = home.canonicalize().expect("a folder");
            Program { path, home, store: "rethread.db" }
        };
        Some(all.map(program).collect())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        self.set_up(command.args(args));
        command
    }

    fn set_up(&self, command: &mut Command) {
        command.env_clear().env("HOME", &self.home).env("RETHREAD_STORE", self.store);
        command.current_dir(&self.home).stdout(Stdio::piped()).stderr(Stdio::null());
        command.stdin(Stdio::piped());
    }

    fn feed(&self, args: &[&str], input: &str) -> String {
        let mut child = self.command(args).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        let output = std::thread::scope(|scope| {
            // It acknowledges lines while it is being fed.
            scope.spawn(move || stdin.write_all(input.as_bytes()).expect("written"));
            child.wait_with_output().expect("it ends")
        });
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn line(number: usize) -> String {
    format!("{}\n", serde_json::json!({ "role": "user", "content": prose(number, 200) }))
}

/// A figure of this program, and of the one before it.
fn compared(detail: &str, figures: &[String]) -> String {
    match figures {
        [now, before] => format!("{detail}: {now}; before {before}"),
        _ => format!("{detail}: {}", figures.join(", ")),
    }
}

pub(crate) fn processes(setting: &Setting) -> Vec<Report> {
    let Some(programs) = Program::all(setting) else { return Vec::new() };
    vec![one_append(setting, &programs), rivals(setting, &programs), turns(setting, &programs)]
}

/// What a hook pays that appends one message.
fn one_append(setting: &Setting, programs: &[Program]) -> Report {
    let rounds = setting.size(60, 8);
    let mut times: Vec<(Vec<Duration>, Vec<Duration>)> = vec![Default::default(); programs.len()];
    for round in 0..rounds {
        for (program, (appends, lists)) in programs.iter().zip(&mut times) {
            let append = || program.feed(&["append", "--key", "hook"], &line(round));
            appends.push(timed(append).0);
            lists.push(timed(|| program.feed(&["list"], "")).0);
        }
    }
    let medians: Vec<(Duration, Duration)> =
        times.iter_mut().map(|(appends, lists)| (median(appends), median(lists))).collect();
    let (append, list) = medians[0];
    let told =
        |(append, list): &(Duration, Duration)| format!("{} (`list` {})", us(*append), us(*list));
    Report {
        name: "one append, as a process of its own",
        against: "`list`, as a process of its own".into(),
        figure: append.as_secs_f64() / list.as_secs_f64(),
        unit: "×",
        target: Target::AtMost(2.5),
        detail: compared("p50", &medians.iter().map(told).collect::<Vec<_>>()),
    }
}

/// Several processes that append to one session; each waits for the acknowledgement of its last
/// append.
fn rivals(setting: &Setting, programs: &[Program]) -> Report {
    let each = setting.size(1_500, 100);
    let input: String = (0..each).map(line).collect();
    let mut raw = raw_file(setting);
    let mut syncs = Vec::new();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); programs.len()];
    for _ in 0..setting.size(3, 1) {
        for (program, rates) in programs.iter().zip(&mut rates) {
            let (took, ()) = timed(|| {
                std::thread::scope(|scope| {
                    for _ in 0..WRITERS {
                        scope.spawn(|| program.feed(&["append", "--key", "shared"], &input));
                    }
                });
            });
            rates.push((WRITERS * each) as f64 / took.as_secs_f64());
        }
        for round in 0..setting.size(300, 50) {
            syncs.push(timed(|| raw_append(&mut raw, &line(round))).0);
        }
    }
    let best: Vec<f64> = rates.iter().map(|all| all.iter().copied().fold(0.0, f64::max)).collect();
    let possible = 1.0 / median(&mut syncs).as_secs_f64();
    let told = |rate: &f64| format!("{rate:.0} a second");
    Report {
        name: "8 processes appending to one session",
        against: "write + fdatasync, one after the other".into(),
        figure: best[0] / possible,
        unit: "×",
        target: Target::AtLeast(0.5),
        detail: format!(
            "{}; the disk syncs {possible:.0} times",
            compared("best", &best.iter().map(told).collect::<Vec<_>>())
        ),
    }
}

/// A server under `strace`, or by itself.
struct Served {
    child: Child,
    address: String,
    trace: PathBuf,
}

impl Served {
    fn start(program: &Program, model: &Server, traced: bool) -> Served {
        let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--model", "openai/scripted-1"];
        let trace = program.home.join("trace");
        let mut command = match traced {
            true => {
                let mut strace = Command::new("strace");
                strace.args(["-f", "-e", "trace=fdatasync,fsync", "-o"]).arg(&trace);
                strace.arg(&program.path).args(args);
                program.set_up(&mut strace);
                strace
            }
            false => program.command(&args),
        };
        let mut child = command.envs(model.vars()).spawn().expect("it starts");
        let mut said = String::new();
        let out = child.stdout.as_mut().expect("its output");
        BufReader::new(out).read_line(&mut said).expect("a line");
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let url = said["listening"].as_str().expect("an address");
        Served { child, address: url.trim_start_matches("http://").to_owned(), trace }
    }

    fn chat(&self, round: usize) {
        let body = serde_json::json!({
            "message": prose(round, 200), "session_id": null, "active_file": "notes.md",
        });
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(
            stream,
            "POST /chat HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn syncs(&self) -> usize {
        let trace = std::fs::read_to_string(&self.trace).unwrap_or_default();
        trace.lines().filter(|line| line.contains("sync(")).count()
    }

    fn stop(mut self) {
        let own = self.child.id().to_string();
        // The tracer ends with it.
        let traced = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let traced = traced.unwrap_or_default();
        for pid in traced.split_whitespace().chain([own.as_str()]) {
            drop(Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).output());
        }
        drop(self.child.wait());
    }
}

/// What a turn without tools costs, with a model that answers at once.
fn turns(setting: &Setting, programs: &[Program]) -> Report {
    let rounds = setting.size(300, 20);
    let models: Vec<Server> = programs
        .iter()
        .map(|_| {
            let model = Server::start([]);
            model.fallback(|_| Answer::text("a plain answer"));
            model
        })
        .collect();
    let mut syncs = Vec::new();
    for (program, model) in programs.iter().zip(&models) {
        let served = Served::start(program, model, found(Path::new("strace")));
        served.chat(0);
        let before = served.syncs();
        (1..=10).for_each(|round| served.chat(round));
        syncs.push((served.syncs() - before) as f64 / 10.0);
        served.stop();
    }
    let servers: Vec<Served> =
        programs.iter().zip(&models).map(|(p, model)| Served::start(p, model, false)).collect();
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); servers.len()];
    for round in 0..rounds {
        for (served, times) in servers.iter().zip(&mut times) {
            let began = Instant::now();
            served.chat(round);
            times.push(began.elapsed());
        }
    }
    servers.into_iter().for_each(Served::stop);
    let told: Vec<String> = syncs
        .iter()
        .zip(&mut times)
        .map(|(syncs, times)| format!("{syncs} syncs, /chat in {}", us(median(times))))
        .collect();
    Report {
        name: "syncs of a turn without tools",
        against: "the question and the answer".into(),
        figure: syncs[0],
        unit: "",
        target: Target::AtMost(2.0),
        detail: compared("p50 with a model on this machine", &told),
    }
}

/// `/chat` by itself, and while eight processes append to their own sessions in the same store: in
/// a directory of session files, and in one SQLite file.
pub(crate) fn chat_beside_writers(setting: &Setting) -> Vec<Report> {
    let Some(programs) = Program::all(setting) else { return Vec::new() };
    let model = Server::start([]);
    model.fallback(|_| Answer::text("a plain answer"));
    let rounds = setting.size(400, 20);
    let mut p99s = Vec::new();
    let mut details = Vec::new();
    for Program { path, home, .. } in programs {
        let mut measured = Vec::new();
        for (kind, store) in [("files", "files:beside"), ("SQLite", "beside.db")] {
            let program = Program { path: path.clone(), home: home.clone(), store };
            let served = Served::start(&program, &model, false);
            let mut alone = chats(&served, rounds);
            let mut beside = with_writers(&program, || chats(&served, rounds));
            served.stop();
            let told = |times: &mut [Duration]| {
                format!("p50 {} p99 {}", us(median(times)), us(quantile(times, 0.99)))
            };
            measured.push(format!("{kind} {}, alone {}", told(&mut beside), told(&mut alone)));
            p99s.push(quantile(&mut beside, 0.99).as_secs_f64());
        }
        details.push(measured.join("; "));
    }
    vec![Report {
        name: "files: /chat while 8 processes write, p99",
        against: "the same in one SQLite file".into(),
        figure: p99s[0] / p99s[1],
        unit: "×",
        target: Target::AtMost(1.5),
        detail: compared("while they write", &details),
    }]
}

/// How long each of these turns takes, after a few to warm up.
fn chats(served: &Served, rounds: usize) -> Vec<Duration> {
    (0..5).for_each(|round| served.chat(round));
    (0..rounds).map(|round| timed(|| served.chat(round)).0).collect()
}

/// Does some work while processes append without a pause, each to its own session.
fn with_writers<T>(program: &Program, work: impl FnOnce() -> T) -> T {
    let mut writers: Vec<Child> = (0..WRITERS)
        .map(|number| {
            let mut append = program.command(&["append", "--key", &format!("writer-{number}")]);
            append.spawn().expect("it starts")
        })
        .collect();
    std::thread::scope(|scope| {
        for writer in &mut writers {
            let mut input = writer.stdin.take().expect("piped");
            // It ends with its writer.
            scope.spawn(move || (0..).try_for_each(|n| input.write_all(line(n).as_bytes())));
            // It is writing once it has acknowledged a message; its output must be read.
            let mut output = BufReader::new(writer.stdout.take().expect("piped"));
            output.read_line(&mut String::new()).expect("acknowledged");
            scope.spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        }
        let done = work();
        for writer in &mut writers {
            writer.kill().and_then(|()| writer.wait()).expect("it ends");
        }
        done
    })
}

fn found(program: &Path) -> bool {
    Command::new(program).arg("-V").output().is_ok()
}
