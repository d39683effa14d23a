//! What users read when the database does not work as it should.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rethread_store::testing::{Cluster, Settings, binary};

use crate::CLUSTER;
use crate::commands::Home;
use crate::served::{Served, ask};

const SAYS: &str = "{\"role\":\"user\",\"content\":\"zebra\"}\n";

impl Home {
    fn database(&self) -> &str {
        self.store.rsplit('/').next().expect("a database")
    }

    fn sql(&self, sql: &str) -> String {
        CLUSTER.sql(self.database(), sql)
    }

    /// A home with one session, bound to `file:a`.
    fn with_a_session() -> Home {
        let home = Home::new();
        assert_eq!(home.say(), (0, String::new()));
        home
    }

    /// Sends a message in that session. Returns the exit code and the output.
    fn say(&self) -> (i32, String) {
        let (code, _, err) = self.feed(&["append", "--key", "file:a"], SAYS);
        let told = err.lines().filter(|line| line.starts_with("error") || line.starts_with("hint"));
        (code, told.collect::<Vec<_>>().join("\n"))
    }

    fn said(&self) -> String {
        self.sql("SELECT count(*) FROM rethread_entries")
    }
}

/// A transaction of another client, open until this is dropped.
struct Open(Child);

impl Open {
    fn begin(home: &Home, sql: &str) -> Open {
        let mut psql = Command::new(binary("psql"))
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--username=rethread", "--host=127.0.0.1", "--dbname", home.database()])
            .args(["--port", &CLUSTER.port().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql can be started");
        let input = psql.stdin.as_mut().expect("its input");
        writeln!(input, "BEGIN;\n{sql};\n\\echo begun").expect("written");
        let lines = BufReader::new(psql.stdout.as_mut().expect("its output")).lines();
        let mut lines = lines.map(|line| line.expect("text"));
        assert!(lines.any(|line| line == "begun"), "the transaction did not begin");
        Open(psql)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

#[test]
fn a_lock_that_is_not_released_is_reported_with_its_holder() {
    let home = Home::with_a_session();
    let open = Open::begin(&home, "SELECT 1 FROM rethread_sessions FOR UPDATE");
    let began = std::time::Instant::now();
    let (code, told) = home.say();
    assert!(began.elapsed() >= Duration::from_secs(10), "a lock is waited for");
    let expected = format!(
        "error: line 1: {} is locked by another program\n\
         hint: try again; `SELECT pid, state, query FROM pg_stat_activity` shows which connection \
         holds the lock. Acknowledged entries are safe",
        home.store
    );
    assert_eq!((code, told), (1, expected));
    drop(open);
    assert_eq!(home.said(), "1", "nothing of it was stored");
    assert_eq!(home.say(), (0, String::new()), "and then it works again");
    assert_eq!(home.said(), "2");
}

#[test]
fn a_server_whose_database_does_not_answer_says_so_while_it_still_waits() {
    let home = Home::with_a_session();
    let server = Served::start(home.folder.path(), &home.store, &[], &[]);
    let ready = || ask(&server.address, "GET", "/readyz", None).expect("an answer");
    assert_eq!(ready().0, 200);
    let open = Open::begin(&home, "LOCK TABLE rethread_sessions IN ACCESS EXCLUSIVE MODE");
    let (status, told) = ready();
    assert_eq!(status, 503);
    assert_eq!(told["detail"], "the store has not answered within 2 s");
    drop(open);
    assert_eq!(ready().0, 200);
}

#[test]
fn a_statement_timeout_is_reported_and_stores_nothing() {
    let home = Home::with_a_session();
    home.sql(
        "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS \
           'BEGIN PERFORM pg_sleep(300); RETURN NEW; END'; \
         CREATE TRIGGER dawdle BEFORE INSERT ON rethread_entries \
           FOR EACH ROW EXECUTE FUNCTION dawdle()",
    );
    let expected = format!(
        "error: line 1: {} could not append in time: canceling statement due to statement timeout\n\
         hint: the server is overloaded or a query is stuck: try again. Retrying is safe, and so are \
         acknowledged entries",
        home.store
    );
    let began = std::time::Instant::now();
    assert_eq!(home.say(), (1, expected.clone()));
    assert!(began.elapsed() >= Duration::from_secs(30), "a statement is waited for");
    // Stricter settings of the database stay in force.
    home.sql(&format!("ALTER DATABASE {} SET statement_timeout = '200ms'", home.database()));
    let began = std::time::Instant::now();
    assert_eq!(home.say(), (1, expected));
    assert!(began.elapsed() < Duration::from_secs(25), "it took {:?}", began.elapsed());
    home.sql("DROP TRIGGER dawdle ON rethread_entries");
    assert_eq!(home.said(), "1", "nothing of it was stored");
    assert_eq!(home.say(), (0, String::new()), "and then it works again");
}

#[test]
fn a_role_without_rights_learns_which_it_needs() {
    let hint = "hint: the role needs SELECT, INSERT, UPDATE and DELETE on the tables; the first \
                start in a new database also needs CREATE on the schema";
    let home = Home::new();
    let role = format!("plain_{}", home.database());
    home.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'sesame'"));
    let plain = Home {
        folder: tempfile::tempdir().expect("a folder"),
        store: home.store.replace("rethread@", &format!("{role}:sesame@")),
    };
    let shown = home.store.replace("rethread@", &format!("{role}@"));
    let expected = format!(
        "error: {shown} does not allow this role to set up the database: permission denied for schema \
         public\n{hint}"
    );
    assert_eq!(plain.say(), (1, expected));
    assert_eq!(home.say(), (0, String::new()));
    home.sql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"));
    assert_eq!(plain.run(&["show", "last"]).0, 0, "what it may read it reads");
    let expected = format!(
        "error: line 1: {shown} does not allow this role to append: permission denied for table \
         rethread_sessions\n{hint}"
    );
    assert_eq!(plain.say(), (1, expected));
}

#[test]
fn a_standby_is_distinguished_from_the_primary() {
    let primary = Cluster::with(Settings { more: &["wal_level=replica"], ..Settings::default() });
    let folder = || tempfile::tempdir().expect("a folder");
    let home = Home { folder: folder(), store: primary.database() };
    assert_eq!(home.say(), (0, String::new()));
    let standby = primary.standby("one", Settings::default());
    let reader = Home { folder: folder(), store: standby.url(home.database()) };
    let (code, out, err) = reader.run(&["list"]);
    assert_eq!(code, 0, "{out}{err}");
    let expected = format!(
        "error: line 1: {} cannot be written to\n\
         hint: this server is a standby or read-only: connect to the primary, or list all servers: \
         `postgres://USER@HOST1,HOST2/DATABASE?target_session_attrs=read-write`",
        reader.store
    );
    assert_eq!(reader.say(), (1, expected));
    // With both of them in the URL, in either order, the right one is found.
    let both = format!(
        "postgres://rethread@127.0.0.1:{},127.0.0.1:{}/{}?target_session_attrs=read-write",
        standby.port(),
        primary.port(),
        home.database()
    );
    assert_eq!(Home { folder: folder(), store: both }.say(), (0, String::new()));
}

#[test]
fn a_server_without_tls_is_reported_with_the_option_that_allows_it() {
    let home = Home::new();
    let strict = Home {
        folder: tempfile::tempdir().expect("a folder"),
        store: format!("{}?sslmode=require", home.store.replace("rethread@", "rethread:sesame@")),
    };
    let expected = format!(
        "error: {} cannot be reached: server does not support TLS\n\
         hint: this server does not support TLS; on a network you trust, add `?sslmode=disable` to \
         the URL",
        home.store
    );
    assert_eq!(strict.say(), (1, expected));
}
