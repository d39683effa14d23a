//! Appends to PostgreSQL, against the same statement sent by PostgreSQL's own benchmark.
//!
//! The server is a private one in a temporary folder that waits for its disk. `pgbench` prepares the
//! statement the store sends, and sends it with entries of the same size to a session of its own.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{Incoming, Message, New, Owner, SessionId, Sessions};
use rethread_store::testing::{Cluster, Settings, append_statement, binary};
use rethread_store::{PostgresStore, System};

use crate::run::{Report, Setting, Target, median, prose, quantile, timed, us};

/// Characters of a message.
const CHARS: usize = 1_000;

/// Messages of a batch: a few turns at once, and what an import sends.
const BATCHES: [usize; 2] = [100, 1_000];

pub(crate) fn appends(setting: &Setting) -> Vec<Report> {
    let cluster = Cluster::with(Settings { fsync: true, ..Settings::default() });
    let url = cluster.database();
    let store = Arc::new(PostgresStore::open(&url).expect("a store"));
    let sessions = Sessions::new(store, Owner::local(), Arc::new(System));
    let new = || sessions.create(&New::default(), None).expect("a session").id();
    let (mine, theirs, together) = (new(), new(), new());
    for id in [mine, theirs, together] {
        sessions.append(id, vec![Incoming::from(Message::user("hello"))]).expect("appended");
    }
    let database = url.rsplit('/').next().expect("a database");
    let bench = Pgbench::new(setting, &cluster, database, theirs);
    let rounds = setting.size(40, 4);
    let each = setting.size(100, 25);
    let (mut ours, mut pgbench) = (Vec::new(), Vec::new());
    let mut batches = BATCHES.map(|_| Vec::new());
    for round in 0..rounds + 2 {
        let numbers = round * each..(round + 1) * each;
        let one = |number| vec![Incoming::from(Message::user(prose(number, CHARS)))];
        let entries: Vec<Vec<Incoming>> = numbers.clone().map(one).collect();
        let mut here: Vec<Duration> = Vec::new();
        for entry in entries {
            here.push(timed(|| sessions.append(mine, entry).expect("appended")).0);
        }
        let there = bench.run(round * each, each);
        let taken = BATCHES.map(|size| {
            let batch: Vec<Incoming> = (0..size).flat_map(one).collect();
            let took = timed(|| sessions.append(together, batch).expect("appended")).0;
            took / u32::try_from(size).expect("a small number")
        });
        // The first rounds prepare statements.
        if round >= 2 {
            ours.extend(here);
            pgbench.extend(there);
            batches.iter_mut().zip(taken).for_each(|(times, took)| times.push(took));
        }
    }
    let (one, peer) = (median(&mut ours), median(&mut pgbench));
    let [few, many] = batches.each_mut().map(|times| median(times));
    vec![
        Report {
            name: "postgres: append of 1 KB, one writer, p50",
            against: "the same statement sent by pgbench".into(),
            figure: one.as_secs_f64() / peer.as_secs_f64(),
            unit: "×",
            target: Target::AtMost(1.5),
            detail: format!(
                "{} against {} (p90 {} against {})",
                us(one),
                us(peer),
                us(quantile(&mut ours, 0.9)),
                us(quantile(&mut pgbench, 0.9))
            ),
        },
        batched("postgres: messages in batches of 100", few, one),
        batched("postgres: messages in batches of 1,000", many, one),
    ]
}

fn batched(name: &'static str, many: Duration, one: Duration) -> Report {
    Report {
        name,
        against: "one message at a time, per message".into(),
        figure: one.as_secs_f64() / many.as_secs_f64(),
        unit: "×",
        target: Target::AtLeast(10.0),
        detail: format!("{} a message against {}", us(many), us(one)),
    }
}

/// PostgreSQL's own benchmark with the statement of the store.
struct Pgbench<'a> {
    setting: &'a Setting,
    port: u16,
    database: String,
}

impl Pgbench<'_> {
    fn new<'a>(
        setting: &'a Setting,
        cluster: &Cluster,
        database: &str,
        session: SessionId,
    ) -> Pgbench<'a> {
        // About what a message of this size is packed to; it does not compress any further.
        let body: String = (0..CHARS / 2).map(|n| format!("{:02x}", (n * 151 + 7) % 256)).collect();
        let list = |value: &str| format!("ARRAY[{value}]");
        let mut values = vec![
            "'local'".to_owned(),
            format!("'{session}'::uuid"),
            "NULL::bigint".to_owned(),
            "NULL::bigint".to_owned(),
            "(:n + 1)::bigint".to_owned(),
            "(CASE WHEN :n = 0 THEN (SELECT id FROM rethread_entries WHERE owner = 'local' \
              AND session = 'SESSION' AND seq = 0) ELSE 'e' || (:n - 1) END)::text"
                .replace("SESSION", &session.to_string()),
            list("(:n + 1)::bigint"),
            list("1735689600000::bigint"),
            list("'e' || :n"),
            list("NULL::text"),
            list("'\\x00112233445566778899aabbccddeeff'::bytea"),
            list("200::bigint"),
            list("NULL::bigint"),
            list("1000::bigint"),
            list(&format!("'\\x{body}'::bytea")),
        ];
        values.extend(["(:n + 2)::bigint", "(:n + 2)::bigint", "200::bigint"].map(list));
        values.extend(["0::bigint", "(:n + 1)::bigint"].map(list));
        values.extend((0..6).map(|_| list("NULL::bigint")));
        // Nothing was charged; and the most a sum may be.
        values.push("ARRAY[]::text[]".to_owned());
        values.extend((0..5).map(|_| "ARRAY[]::bigint[]".to_owned()));
        values.push(format!("{}::bigint", rethread_core::usage::SUM_MAX));
        let mut statement = append_statement().to_owned();
        for (index, value) in values.iter().enumerate().rev() {
            statement = statement.replace(&format!("${}", index + 1), value);
        }
        let script = format!("{statement};\n\\set n :n + 1\n");
        std::fs::write(setting.folder.join("append.sql"), script).expect("written");
        Pgbench { setting, port: cluster.port(), database: database.to_owned() }
    }

    /// Sends so many appends, from this number on, and gives how long each took.
    fn run(&self, from: usize, count: usize) -> Vec<Duration> {
        let output = Command::new(binary("pgbench"))
            .current_dir(&self.setting.folder)
            .args(["--no-vacuum", "--client=1", "--jobs=1", "--protocol=prepared", "--log"])
            .args(["--file=append.sql", &format!("--define=n={from}")])
            .args([&format!("--transactions={count}"), "--username=rethread", "--host=127.0.0.1"])
            .args([&format!("--port={}", self.port), &self.database])
            .output()
            .expect("pgbench can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let log = std::fs::read_dir(&self.setting.folder).expect("the folder").flatten();
        let log = log.map(|entry| entry.path()).find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pgbench_log"))
        });
        let log = log.expect("it writes a log");
        let text = std::fs::read_to_string(&log).expect("read");
        std::fs::remove_file(log).expect("removed");
        let micros = |line: &str| line.split(' ').nth(2).and_then(|field| field.parse().ok());
        let times: Vec<Duration> =
            text.lines().filter_map(micros).map(Duration::from_micros).collect();
        assert_eq!(times.len(), count, "a figure for each: {said}");
        // The first one of each run prepares the statement.
        times[1..].to_vec()
    }
}
