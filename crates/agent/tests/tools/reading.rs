//! What `read_file` and `list_dir` return.

use rethread_agent::tool::limits;
use serde_json::json;

use crate::fixture::{Fixture, paths};

#[test]
fn a_file_is_returned_with_line_numbers_and_a_range_says_where_to_continue() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "one\ntwo\nthree\nfour");
    assert_eq!(
        fixture.run("read_file", json!({"path": "a.txt"})),
        "1\tone\n2\ttwo\n3\tthree\n4\tfour"
    );
    let read = |offset: u64, limit: u64| {
        fixture.run("read_file", json!({"path": "a.txt", "offset": offset, "limit": limit}))
    };
    assert_eq!(read(1, 2), "1\tone\n2\ttwo\n[lines 1-2 of 4; continue with offset=3]");
    assert_eq!(read(3, 1), "3\tthree\n[lines 3-3 of 4; continue with offset=4]");
    assert_eq!(read(3, 2), "3\tthree\n4\tfour");
    assert_eq!(read(4, 9), "4\tfour");
    assert_eq!(read(5, 1), "error: `offset` is 5, but `a.txt` has 4 lines");
    assert_eq!(read(0, 1), "error: `offset` must be 1 or more");
    assert_eq!(read(1, 0), "error: `limit` must be 1 or more");
    fixture.write("empty", "");
    assert_eq!(fixture.run("read_file", json!({"path": "empty"})), "[the file is empty]");
}

#[test]
fn a_read_gives_at_most_2000_lines_and_256_kib() {
    let fixture = Fixture::new();
    for (lines, note) in [(1_999, false), (2_000, false), (2_001, true)] {
        fixture.write("lines", "é\n".repeat(lines));
        let answer = fixture.run("read_file", json!({"path": "lines", "limit": 9_999}));
        assert_eq!(answer.matches("é\n").count(), lines.min(2_000));
        assert_eq!(answer.ends_with("continue with offset=2001]"), note, "{lines}");
    }
    let wide = format!("{}\n", "é".repeat(1_000));
    fixture.write("wide", wide.repeat(200));
    let answer = fixture.run("read_file", json!({"path": "wide"}));
    let shown = limits::OUTPUT_BYTES_MAX / wide.len();
    assert!(
        answer.ends_with(&format!("[lines 1-{shown} of 200; continue with offset={}]", shown + 1))
    );
    fixture.write("endless", "é".repeat(limits::OUTPUT_BYTES_MAX));
    let answer = fixture.run("read_file", json!({"path": "endless"}));
    assert_eq!(answer.matches('é').count(), limits::OUTPUT_BYTES_MAX / 2);
    assert!(answer.ends_with("[line 1 is longer than this and was cut]\n[lines 1-1 of 1]"));
}

#[test]
fn a_huge_file_is_read_by_ranges_only() {
    let fixture = Fixture::new();
    let line = format!("{}\n", "x".repeat(1_023));
    for (extra, refused) in [(0, false), (1, true)] {
        let mut text = line.repeat(limits::FILE_BYTES_MAX as usize / line.len());
        text.push_str(&"y".repeat(extra));
        fixture.write("huge", &text);
        let answer = fixture.run("read_file", json!({"path": "huge"}));
        assert_eq!(answer.starts_with("error: `huge` is larger than 8 MiB"), refused);
        let found = fixture.json("grep", json!({"pattern": "x", "max": 1}));
        assert_eq!(found["matches"].as_array().unwrap().is_empty(), refused);
    }
    let answer = fixture.run("read_file", json!({"path": "huge", "offset": 8_192, "limit": 1}));
    assert!(answer.ends_with("x\n[lines 8192-8192; continue with offset=8193]"));
    let answer = fixture.run("read_file", json!({"path": "huge", "offset": 8_193}));
    assert_eq!(answer, "8193\ty");
}

#[test]
fn binary_files_are_refused_and_broken_text_is_shown() {
    let fixture = Fixture::new();
    fixture.write("a.bin", b"abc\0def");
    assert_eq!(
        fixture.run("read_file", json!({"path": "a.bin"})),
        "error: `a.bin` is a binary file (7 bytes)"
    );
    assert_eq!(fixture.json("grep", json!({"pattern": "abc"}))["matches"], json!([]));
    for (zeros_at, refused) in [(8_191, true), (8_192, false)] {
        let mut bytes = vec![b'a'; 8_193];
        bytes[zeros_at] = 0;
        fixture.write("late.bin", &bytes);
        let answer = fixture.run("read_file", json!({"path": "late.bin"}));
        assert_eq!(answer.starts_with("error: "), refused, "{zeros_at}");
    }
    fixture.write("latin.txt", b"caf\xe9\n");
    assert_eq!(fixture.run("read_file", json!({"path": "latin.txt"})), "1\tcaf\u{fffd}\n");
    let edit = fixture.run("edit_file", json!({"path": "latin.txt", "old": "caf", "new": "x"}));
    assert_eq!(edit, "error: `latin.txt` is not valid UTF-8");
}

#[test]
fn a_listing_is_sorted_and_ends_at_a_thousand() {
    let fixture = Fixture::new();
    for n in 0..999 {
        fixture.write(&format!("many/{n:04}"), "");
    }
    for (count, more) in [(999, false), (1_000, false), (1_001, true)] {
        fixture.write(&format!("many/{:04}", count - 1), "");
        for (tool, input) in
            [("list_dir", json!({"path": "many"})), ("glob", json!({"pattern": "many/*"}))]
        {
            let answer = fixture.json(tool, input);
            let paths = paths(&answer, "files");
            assert_eq!((paths.len(), answer["more"].as_bool()), (count.min(1_000), Some(more)));
            assert!(paths.is_sorted());
        }
    }
}
