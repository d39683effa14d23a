//! The rules for SQL statements, checked on the files that contain them.

/// Features that not every engine has, or that differ between engines, and why they are not used.
const OUTSIDE: &[(&str, &str)] = &[
    ("sequence", "numbers that live outside of a transaction"),
    ("serial", "a sequence by another name"),
    ("generated", "a sequence by another name"),
    ("nextval", "a sequence"),
    ("listen", "known to one server alone"),
    ("notify", "known to one server alone"),
    ("pg_advisory", "a lock of one server alone"),
    ("trigger", "runs where nobody looks"),
    ("create function", "runs where nobody looks"),
    ("savepoint", "not every engine has them"),
    ("jsonb", "not the bytes that were written"),
    ("json", "not the bytes that were written"),
    ("tsvector", "PostgreSQL only; kept separate"),
    ("tsquery", "PostgreSQL only; kept separate"),
    ("using gin", "PostgreSQL's own"),
    ("using gist", "PostgreSQL's own"),
    ("references", "a foreign key over shards"),
    ("collate", "known to one operating system"),
    ("create extension", "not to be had everywhere"),
    ("ctid", "a place in one server's file"),
    ("xmin", "one server's own"),
    ("tablespace", "one server's own"),
    ("partition by", "how a table is spread is the engine's business"),
    ("for share", "not every engine has it"),
    ("skip locked", "not every engine has it"),
    ("temporary", "lives in one connection"),
    ("copy ", "not within a portable transaction"),
];

/// The rules that a piece of SQL breaks.
fn outside(text: &str) -> Vec<String> {
    let flat = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    let flat = flat.collect::<Vec<_>>().join(" ").to_lowercase();
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    let word = |found: usize, length: usize| {
        let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        edge(flat[..found].chars().next_back()) && edge(flat[found + length..].chars().next())
    };
    let mut wrong: Vec<String> = Vec::new();
    for (what, why) in OUTSIDE {
        let trimmed = what.trim();
        if flat.match_indices(trimmed).any(|(found, _)| word(found, trimmed.len())) {
            wrong.push(format!("{trimmed}: {why}"));
        }
    }
    for statement in flat.split(';') {
        if statement.contains("create")
            && statement.contains(" index ")
            && statement.contains(" where ")
        {
            wrong.push("an index over a part of a table".into());
        }
        let table = statement.trim_start().strip_prefix("create table rethread_");
        let keyed = |table: &str| table.contains("primary key (owner, ");
        // The one table without an owner describes the database itself.
        if table.is_some_and(|table| !table.starts_with("store") && !keyed(table)) {
            wrong.push(format!("a key that does not begin with the owner: {statement}"));
        }
    }
    wrong
}

/// The strings of a Rust file, comments left out.
fn strings(code: &str) -> String {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let parts = code.split('"').enumerate().filter(|(index, _)| index % 2 == 1);
    parts.map(|(_, part)| part.replace("\\\n", " ")).collect::<Vec<_>>().join(" ; ")
}

#[test]
fn every_statement_keeps_to_what_the_engines_have_in_common() {
    let statements = strings(include_str!("sql.rs"));
    assert!(statements.contains("INSERT INTO rethread_entries"), "this is not the SQL");
    assert_eq!(outside(&statements), Vec::<String>::new());
    assert_eq!(outside(include_str!("schema.sql")), Vec::<String>::new());
    assert_eq!(outside(include_str!("schema2.sql")), Vec::<String>::new());
}

#[test]
fn what_lies_outside_is_seen() {
    for bad in [
        "CREATE TABLE rethread_x (owner text, id bigserial, n serial, PRIMARY KEY (owner, id))",
        "CREATE TABLE rethread_x (id uuid PRIMARY KEY)",
        "CREATE INDEX a ON rethread_x (owner)\n WHERE owner IS NOT NULL",
        "LISTEN heads",
        "SELECT pg_notify('a', 'b'), nextval('x')",
        "SELECT pg_advisory\n(1)",
        "SAVEPOINT a",
        "SELECT header::jsonb",
        "SELECT to_tsvector(a) @@ b::tsquery",
        "CREATE TRIGGER a BEFORE INSERT",
    ] {
        assert!(!outside(bad).is_empty(), "{bad}");
    }
}

#[test]
fn statements_are_in_one_place() {
    let files = [
        include_str!("append.rs"),
        include_str!("blobs.rs"),
        include_str!("connection.rs"),
        include_str!("pool.rs"),
        include_str!("queue.rs"),
        include_str!("read.rs"),
        include_str!("sessions.rs"),
        include_str!("setup.rs"),
        include_str!("upkeep.rs"),
        include_str!("mod.rs"),
    ];
    for file in files {
        let strings = strings(file);
        for word in ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE "] {
            assert!(!strings.contains(word), "{word} in: {strings}");
        }
    }
    // Search has its own statements, which use only its own table.
    let search = strings(include_str!("search.rs"));
    for table in ["rethread_entries", "rethread_sessions", "rethread_keys", "rethread_fresh"] {
        assert!(!search.contains(table), "{table} in {search}");
    }
}
