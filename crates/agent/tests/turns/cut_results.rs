//! What a model does if a result was cut: it learns of it, and can read the rest.

use rethread_agent::Grant;
use rethread_agent::scripted::Answer;
use rethread_core::Body;
use serde_json::json;

use crate::bench::{Bench, WIRES, run};

/// A file of which the end is cut when it is read whole.
fn file() -> String {
    (1..=400).map(|n| format!("    step(\"ordinary words\", {});\n", n % 90)).collect()
}

#[test]
fn text_that_was_cut_is_recalled_by_its_lines_and_edited() {
    for wire in WIRES {
        let mut text = file();
        text.push_str("    the end of it all;\n");
        let edit = json!({"path": "a.rs", "old": "the end of it all;", "new": "and a new end;"});
        let mut bench = Bench::new(
            wire,
            [
                Answer::calls([("read_file", json!({"path": "a.rs"}))]),
                Answer::calls([("recall", json!({"ref": "3#399-401"}))]),
                Answer::calls([("edit_file", edit)]),
                Answer::text("done"),
            ],
        );
        bench.runner.responder.allow = vec![Grant::tool("edit_file")];
        bench.file("a.rs", &text);
        run(bench.turn("change the end of a.rs")).expect("answered");
        let requests = bench.server.requests();
        assert!(requests[0].text.contains("42#38-74"), "{wire}: the context says how to recall");
        let (second, third) = (&requests[1].text, &requests[2].text);
        assert!(second.contains("cut; recall 3]"), "{wire}: {second}");
        assert!(!second.contains("the end of it all"), "{wire}: it was cut");
        assert!(third.contains("the end of it all"), "{wire}: it was brought back");
        let written = std::fs::read_to_string(bench.path("a.rs")).expect("read");
        assert!(written.ends_with("    and a new end;\n"), "{wire}");
        // The lease was held, so what is shown was decided and stored.
        let log = bench.handle.sessions().read(bench.session, 0..99).expect("read");
        let results: Vec<_> = log.iter().flat_map(|entry| &entry.measure.results).collect();
        assert!(results.iter().all(|result| result.shown.is_some()), "{wire}");
        assert!(!log.iter().any(|entry| matches!(entry.body, Body::Thinned(_))), "{wire}");
    }
}
