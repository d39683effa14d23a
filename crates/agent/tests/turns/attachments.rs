//! Attachments: a log names them, and a model that can read them is sent their bytes.

use crate::bench::{Bench, WIRES, run};
use rethread_agent::limits::ATTACHED_BYTES_MAX;
use rethread_agent::scripted::Answer;
use rethread_core::context::ModelInputs;
use rethread_core::limits::IMAGE_BYTES_MAX;
use rethread_core::{BlobId, Block, Message, Role};
use serde_json::Value;

const ALL: ModelInputs = ModelInputs { images: true, documents: true };

/// A bench whose model accepts these inputs.
fn bench(wire: &str, sees: ModelInputs) -> Bench {
    let mut bench = Bench::new(wire, [Answer::text("I see.")]);
    bench.runner.responder.model.sees = sees;
    bench
}

/// Sends a picture with these bytes.
fn show(bench: &Bench, bytes: &[u8]) {
    let blob = bench.handle.sessions().put_blob(bench.session, bytes).expect("stored");
    bench.write(Message::new(Role::User, vec![Block::image(blob, "image/png")]));
}

/// What was sent.
fn sent(bench: &Bench, wire: &str) -> String {
    let answer = run(bench.turn("what is it?")).unwrap_or_else(|error| panic!("{wire}: {error}"));
    assert_eq!(answer.text, "I see.");
    bench.server.requests().last().expect("asked").text.clone()
}

#[test]
fn a_model_that_sees_is_sent_the_bytes_of_a_picture_and_no_other() {
    for wire in WIRES {
        let bench = bench(wire, ALL);
        show(&bench, b"pixels");
        let text = sent(&bench, wire);
        assert!(text.contains("cGl4ZWxz"), "{wire}: {text}");
        let blind = self::bench(wire, ModelInputs::default());
        show(&blind, b"pixels");
        let text = sent(&blind, wire);
        assert!(!text.contains("cGl4ZWxz"), "{wire}: {text}");
        assert!(text.contains("[a picture that this model cannot read]"), "{wire}: {text}");
    }
}

#[test]
fn a_model_that_reads_documents_is_sent_their_bytes() {
    for (wire, name) in [("anthropic", "\"title\""), ("openai", "\"filename\"")] {
        let bench = bench(wire, ALL);
        let blob = bench.handle.sessions().put_blob(bench.session, b"pages").expect("stored");
        let block = Block::document(blob, "application/pdf", Some("report.pdf"));
        bench.write(Message::new(Role::User, vec![block]));
        let text = sent(&bench, wire);
        assert!(text.contains("cGFnZXM="), "{wire}: {text}");
        assert!(text.contains(&format!("{name}:\"report.pdf\"")), "{wire}: {text}");
    }
}

#[test]
fn a_picture_that_is_gone_or_too_large_is_named_instead() {
    for wire in WIRES {
        let missing = bench(wire, ALL);
        let blob = BlobId::of(b"never stored");
        missing.write(Message::new(Role::User, vec![Block::image(blob, "image/png")]));
        let text = sent(&missing, wire);
        assert!(text.contains("[a picture that is missing]"), "{wire}: {text}");
    }
    let most = usize::try_from(IMAGE_BYTES_MAX).expect("it fits");
    for (size, shown) in [(most - 1, true), (most, true), (most + 1, false)] {
        let bench = bench("openai", ALL);
        show(&bench, &vec![7; size]);
        let text = sent(&bench, "openai");
        assert_eq!(text.contains("data:image/png;base64,BwcH"), shown, "{size}");
        assert_eq!(text.contains("[a picture that is too large]"), !shown, "{size}");
    }
}

#[test]
fn the_newest_pictures_that_fit_are_sent() {
    let bench = bench("openai", ALL);
    let size = IMAGE_BYTES_MAX - 8;
    let fit = ATTACHED_BYTES_MAX / size;
    for n in 0..=fit {
        let mut bytes = vec![7; usize::try_from(size).expect("it fits")];
        bytes.extend(n.to_le_bytes());
        show(&bench, &bytes);
    }
    let request = run(async {
        bench.turn("what are they?").await.expect("answered");
        bench.server.requests().last().expect("asked").body.clone()
    });
    let messages = request["messages"].as_array().expect("messages");
    let kinds: Vec<bool> = messages
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|part| part["text"] != "what are they?")
        .map(|part: &Value| part["type"] == "image_url")
        .collect();
    assert_eq!(kinds.len() as u64, fit + 1);
    assert!(!kinds[0] && kinds[1..].iter().all(|shown| *shown), "{kinds:?}");
}
