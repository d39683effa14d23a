use rethread_core::{EntryId, NewEntry};

use super::*;

fn redacted(text: &str) -> String {
    Redactor::new().text(text).into_owned()
}

#[test]
fn keys_and_tokens_are_taken_out() {
    // Concatenated here, so that no scanner takes this file for a leak.
    let long = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9";
    for (secret, name) in [
        (format!("sk-ant-api03-{long}"), "anthropic key"),
        (format!("sk-proj-{long}"), "openai key"),
        (format!("ghp_{long}{long}"), "github token"),
        (format!("AKIA{}", "ABCDEFGH12345678"), "aws key id"),
        (format!("xoxb-{long}"), "slack token"),
        (format!("eyJhbGciOiJI.eyJzdWIiOiIx.{long}"), "json web token"),
    ] {
        let said = redacted(&format!("use {secret} here"));
        assert_eq!(said, format!("use [redacted: {name}] here"));
    }
}

#[test]
fn a_private_key_goes_whole_also_when_it_is_cut_off() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----";
    assert_eq!(redacted(&format!("a\n{key}\nb")), "a\n[redacted: private key]\nb");
    assert_eq!(redacted(&format!("a\n{}", &key[..40])), "a\n[redacted: private key]");
    let json = key.replace('\n', "\\n");
    assert_eq!(redacted(&json), "[redacted: private key]");
}

#[test]
fn the_text_around_a_secret_stays() {
    for (text, expected) in [
        ("postgres://app:hunter2@db/x", "postgres://app:[redacted: connection string]@db/x"),
        ("password = 'hunter2'", "password = '[redacted: password]'"),
        ("API_KEY=a8Fk29dLq0Zx81mP", "API_KEY=[redacted: assigned secret]"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted: authorization]"),
        ("see /home/you/notes and /Users/you/x", "see ~/notes and ~/x"),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn passwords_are_found_however_they_are_assigned_and_escaped() {
    let token = format!("rt_{}", "0123456789abcdef".repeat(4));
    for (text, secret) in [
        ("DB_PASSWORD=hunter2", "hunter2"),
        ("run DB_PASSWORD=hunter2 make", "hunter2"),
        ("  password: hunter2\nuser: me", "hunter2"),
        ("- smtp_pass: hunter2", "hunter2"),
        ("export PGPASSWORD=hunter2", "hunter2"),
        ("API_KEY=lettersonly", "lettersonly"),
        ("the title says password=hunter2", "hunter2"),
        ("mysql --password=hunter2 -u me", "hunter2"),
        ("login --password hunter2", "hunter2"),
        ("jdbc:postgresql://h/d?user=a&password=hunter2", "hunter2"),
        ("[db]\npassword = hunter2\n", "hunter2"),
        (r#""password": "hunter2 and more""#, "and more"),
        ("SECRET_KEY='short'", "short"),
        ("https://bob:s3/cr@etpw@host/p", "etpw"),
        ("https://bob:s3/cr@etpw@host/p", "s3/cr"),
        (r"https:\/\/bob:s3cretpw@host\/p", "s3cretpw"),
        (r#"{"u":"https:\u002f\u002fbob:s3cretpw@host"}"#, "s3cretpw"),
        (r#"{"DB_P\u0041SSWORD":"hunter2"}"#, "hunter2"),
        (r#"{"path":"\/home\/alice\/x"}"#, "alice"),
        (r"see \/home\/alice", "alice"),
        (token.as_str(), "0123456789abcdef"),
    ] {
        let said = redacted(text);
        assert!(!said.contains(secret), "{text}: {said}");
    }
}

#[test]
fn passwords_are_found_in_every_form_of_yaml() {
    for (text, expected) in [
        ("password: hunter2 # staging", "password: [redacted: password] # staging"),
        ("{user: bob, password: hunter2}", "{user: bob, password: [redacted: password]}"),
        ("{password: hunter2, user: bob}", "{password: [redacted: password], user: bob}"),
        (
            "{password: string, a_pwd: hunter2, b_pwd: two words}",
            "{password: string, a_pwd: [redacted: password], b_pwd: [redacted: password]}",
        ),
        ("password: two words\nuser: bob", "password: [redacted: password]\nuser: bob"),
        (
            "db:\n  password: |\n    hunter2\n\n    more\n  user: bob\n",
            "db:\n  password: |\n    [redacted: password]\n  user: bob\n",
        ),
        ("- password: >-\n    hunter2", "- password: >-\n    [redacted: password]"),
        (
            "a:\n  x_password: |\n    one\n  y_password: |\n    two\n",
            "a:\n  x_password: |\n    [redacted: password]\n  y_password: |\n    [redacted: password]\n",
        ),
        (
            "- name: DB_PASSWORD\n  value: x\n- name: MODE\n  value: test",
            "- name: DB_PASSWORD\n  value: [redacted: assigned secret]\n- name: MODE\n  value: test",
        ),
        (
            r#"{"name": "API_TOKEN", "value": "hunter2"}"#,
            r#"{"name": "API_TOKEN", "value": "[redacted: assigned secret]"}"#,
        ),
        (
            r#"- {name: A_TOKEN, value: "a\"b"} # x"#,
            r#"- {name: A_TOKEN, value: "[redacted: assigned secret]"} # x"#,
        ),
        ("secret_key_base: hunter2", "secret_key_base: [redacted: assigned secret]"),
        ("  api_key: hunter2\r\n", "  api_key: [redacted: assigned secret]\r\n"),
        ("password: the user's password", "password: [redacted: password]"),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn a_quoted_secret_goes_up_to_its_last_quote() {
    for (text, expected) in [
        (r#"PASSWORD="abc\"x""#, r#"PASSWORD="[redacted: password]""#),
        (r#"PASSWORD="it's mine" make"#, r#"PASSWORD="[redacted: password]" make"#),
        (r"password: 'it''s mine'", r"password: '[redacted: password]'"),
        (r#"{\"password\":\"ab\\\"cd\"}"#, r#"{\"password\":\"[redacted: password]\"}"#),
        (r#""api_key":"hunter2""#, r#""api_key":"[redacted: assigned secret]""#),
        ("GH_PAT=hunter2", "GH_PAT=[redacted: assigned secret]"),
        (r#"GH_PAT="two words""#, r#"GH_PAT="[redacted: assigned secret]""#),
        (r#"{"password":"ab\"cd"}"#, r#"{"password":"[redacted: password]"}"#),
        (
            r#"{"name":"DB_PASSWORD","value":"ab\"cd"}"#,
            r#"{"name":"DB_PASSWORD","value":"[redacted: password]"}"#,
        ),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn a_message_that_is_nothing_but_an_assignment_is_redacted() {
    let body = Body::Message(rethread_core::Message::user("password: hunter2"));
    let entry = NewEntry {
        id: EntryId::new("e").expect("valid"),
        at: Default::default(),
        body,
        measure: Default::default(),
    };
    let json = Redactor::new().entry(&entry.placed(&Default::default())).body.json();
    assert!(!json.contains("hunter2"), "{json}");
}

#[test]
fn code_that_handles_secrets_stays_readable() {
    for text in [
        "password: String,",
        "    password: Option<String>",
        "password: str = None",
        "password: z.string().min(8)",
        "api_key: str | None",
        "api_key: config.api_key",
        "{ user: string, password: string }",
        "fn login(user: &str, password: &str) {",
        "client = Client(api_key=settings.api_key)",
        r#"api_key: "OPENAI_API_KEY""#,
        "MY_PATH=/usr/bin",
        "- name: MODE\n  value: test",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:",
        "password: $DB_PASSWORD",
        "password: {{ vault_password }}",
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn escapes_in_a_body_hide_nothing() {
    let raw = r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"fetch",
        "input":{"u":"https:\/\/bob:s3cretpw@host\/p","h":"\/home\/alice"}}]}"#;
    let body = Body::parse("message", raw).expect("a message");
    let entry = NewEntry {
        id: EntryId::new("e").expect("valid"),
        at: Default::default(),
        body,
        measure: Default::default(),
    };
    let json = Redactor::new().entry(&entry.placed(&Default::default())).body.json();
    assert!(!json.contains("s3cretpw") && !json.contains("alice"), "{json}");
}

#[test]
fn ordinary_words_are_left_alone() {
    for text in [
        "the token bucket refills",
        "max_tokens = 4096",
        "token: string",
        "let secret_name = load_from_environment",
        "https://example.org:8080/path",
        "sk-short",
        "http://localhost:4873/@scope/pkg",
        "password: string",
        "the password: it is required",
        "MAX_TOKENS=4096",
        "login(password=self.password)",
        "use --password or a file",
        "DB_PASSWORD=$SECRET",
        r"C:\new\table",
        r#"{"a":"b\n"}"#,
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn a_home_folder_goes_where_a_path_begins_and_its_name_ends() {
    for (text, expected) in [
        ("/root", "~"),
        ("see /home/you\u{fc}/x", "see ~/x"),
        ("cd /root; ls /root.", "cd ~; ls ~."),
        ("a:/home/you:/home/you", "a:~:~"),
        (r"\/root\/x", r"~\/x"),
        ("/var/home/you/x /mnt/c/Users/you/x /c/Users/you", "~/x ~/x ~"),
        (r"C:\Users\you\x", r"~\x"),
        ("gcc -I/home/you/include", "gcc -I~/include"),
        ("file:///home/you/x vscode://file/home/you/x", "file://~/x vscode://file~/x"),
        ("a\\n/home/you \u{1b}[1;32m/home/you\u{1b}[0m", "a\\n~ \u{1b}[1;32m~\u{1b}[0m"),
        ("projects/-home-you-code/x and C--Users-you-code", "projects/-~-code/x and -~-code"),
    ] {
        assert_eq!(redacted(text), expected);
    }
}

#[test]
fn a_file_whose_path_looks_like_a_home_folder_keeps_its_name() {
    for text in [
        "internal/cli/root.go",
        "see internal/cli/root, and crates/root/src",
        "/rootfs and /root.go and /root-ca.pem and /root_x",
        "src/home/index.ts and ../home/view.rs and app/Users/list.php",
        "https://example.org/home/x and https://example.org/root/",
        "https://example.org/my-home-page, --home-colour",
        "src:/users/list",
        r"src\/home\/x",
        "~/home/x",
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn what_was_removed_is_counted_by_rule() {
    let mut redactor = Redactor::new();
    redactor.text("/home/you /home/you postgres://a:b@c");
    let removed: Vec<_> = redactor.removed().iter().map(|(name, n)| (*name, *n)).collect();
    assert_eq!(removed, [("connection string", 1), ("home folder", 2)]);
}
