//! Photos and documents.

use rethread_agent::scripted::Answer;
use rethread_core::BlobId;
use serde_json::{Value, json};

use crate::bot::{Bot, Place};

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 not much of a photo";
/// The same in base64.
const JPEG_BASE64: &str = "/9j/4CBub3QgbXVjaCBvZiBhIHBob3Rv";
const PDF: &[u8] = b"%PDF-1.7 not much of a document";
const PDF_BASE64: &str = "JVBERi0xLjcgbm90IG11Y2ggb2YgYSBkb2N1bWVudA==";

/// A bot that answers with this model.
fn start(place: &Place, model: &str) -> Bot {
    let mut command = place.home.command(&["telegram", "--model", model, "--allow-user", "7"]);
    command
        .env("TELEGRAM_BOT_TOKEN", crate::fake::TOKEN)
        .env("TELEGRAM_API_URL", &place.fake.url)
        .envs(place.model.vars());
    Bot::of(command)
}

/// The user message that the model was sent last.
fn asked(place: &Place) -> Value {
    let body = place.model.requests().last().expect("asked").body.clone();
    let messages = body["messages"].as_array().expect("messages").clone();
    messages.into_iter().rfind(|message| message["role"] == "user").expect("a question")
}

/// The first part of a question, without the cache breakpoint.
fn first_part(question: &Value) -> Value {
    let mut part = question["content"][0].clone();
    part.as_object_mut().expect("a part").remove("cache_control");
    part
}

/// Whether the session keeps these bytes.
fn keeps(place: &Place, bytes: &[u8]) -> bool {
    let id = place.sessions("telegram:7")[0]["id"].as_str().expect("an id").to_owned();
    let lines =
        place.home.run(&["export", &id, "--owner", "telegram:7", "--format", "rethread"]).out;
    lines.lines().any(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["blob"] == json!(BlobId::of(bytes).to_string())
    })
}

#[test]
fn a_photo_is_kept_and_shown_to_a_model_that_sees() {
    for (model, picture) in [
        (
            "openai/gpt-5",
            json!({"type": "image_url", "image_url": {"url": format!("data:image/jpeg;base64,{JPEG_BASE64}")}}),
        ),
        (
            "anthropic/claude-sonnet-4-5",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": JPEG_BASE64}}),
        ),
    ] {
        let place = Place::new();
        let bot = start(&place, model);
        place.model.push(Answer::text("A cat."));
        place.fake.sends_photo(7, "what is it?", JPEG);
        let answer = place.fake.wait_for(7, "A cat.");
        assert_eq!(answer.text, "A cat.", "nothing is missing");
        let content = asked(&place)["content"].clone();
        assert_eq!(first_part(&asked(&place)), picture, "{model}: {content}");
        assert_eq!(content[1]["text"], "what is it?", "{model}: {content}");
        assert!(keeps(&place, JPEG));
        // A photo is a message by itself.
        place.model.push(Answer::text("A dog."));
        place.fake.sends_photo(7, "", JPEG);
        place.fake.wait_for(7, "A dog.");
        assert_eq!(first_part(&asked(&place)), picture, "{model}");
        // What is asked next may be about it.
        place.model.push(Answer::text("Brown."));
        place.fake.says(7, "which colour?");
        place.fake.wait_for(7, "Brown.");
        let messages = place.model.requests().last().expect("asked").text.clone();
        assert_eq!(messages.matches(JPEG_BASE64).count(), 1, "{model}: {messages}");
        bot.stop();
        assert_eq!(place.fake.refused(), [""; 0]);
    }
}

#[test]
fn a_local_model_that_sees_gets_the_bytes_of_a_photo() {
    let place = Place::new();
    let bot = start(&place, "ollama/llava");
    place.fake.sends_photo(7, "what is it?", JPEG);
    place.fake.wait_for(7, "answer to");
    let question = asked(&place);
    assert_eq!(question["images"], json!([JPEG_BASE64]), "{question}");
    assert_eq!(question["content"], "what is it?");
    bot.stop();
}

#[test]
fn a_file_the_model_cannot_read_is_kept_and_the_person_is_informed() {
    let place = Place::new();
    let bot = start(&place, "ollama/llama3.2");
    place.fake.sends_photo(7, "what is it?", JPEG);
    let answer = place.fake.wait_for(7, "is kept with this session");
    assert!(answer.text.contains("ollama/llama3.2 cannot read pictures"), "{answer:?}");
    assert!(answer.text.contains("answer to"), "the caption was asked: {answer:?}");
    let question = asked(&place).to_string();
    assert!(question.contains("what is it?") && question.contains("cannot read"), "{question}");
    assert!(!question.contains(JPEG_BASE64), "{question}");
    assert!(keeps(&place, JPEG));
    let requests = place.model.requests().len();
    // Without a caption there is nothing to ask, and nothing is lost.
    let before = place.fake.chat(7).len();
    place.fake.sends_photo(7, "", JPEG);
    place.fake.wait("a reply", |fake| {
        fake.chat(7).into_iter().skip(before).find(|seen| seen.text.contains("Write what you want"))
    });
    assert_eq!(place.model.requests().len(), requests);
    bot.stop();
    // A model that can read images gets it later.
    let bot = start(&place, "openai/gpt-5");
    place.fake.says(7, "and now?");
    place.fake.wait_for(7, "and now?");
    assert!(asked(&place).to_string().contains(JPEG_BASE64), "{}", asked(&place));
    bot.stop();
}

#[test]
fn a_document_is_shown_to_models_that_read_it_and_a_text_to_all() {
    let place = Place::new();
    let bot = start(&place, "openai/gpt-5");
    place.fake.sends_document(7, "what does it say?", "report.pdf", PDF);
    place.fake.wait_for(7, "answer to what does it say?");
    let content = asked(&place)["content"].clone();
    let data = format!("data:application/pdf;base64,{PDF_BASE64}");
    assert_eq!(
        content[0],
        json!({"type": "file", "file": {"filename": "report.pdf", "file_data": data}})
    );
    bot.stop();
    let bot = start(&place, "ollama/llama3.2");
    place.fake.sends_document(
        7,
        "what is in it?",
        "notes.txt",
        "the gate opens at nine".as_bytes(),
    );
    let answer = place.fake.wait_for(7, "what is in it?");
    assert!(!answer.text.contains("is kept with this session"), "{answer:?}");
    let question = asked(&place).to_string();
    assert!(
        question.contains("[File: notes.txt]") && question.contains("opens at nine"),
        "{question}"
    );
    place.fake.sends_document(7, "and this?", "report.pdf", PDF);
    let answer = place.fake.wait_for(7, "cannot read PDFs");
    assert!(answer.text.contains("report.pdf"), "{answer:?}");
    place.fake.sends_document(7, "or this?", "a.zip", b"PK\x03\x04\x00");
    place.fake.wait_for(7, "cannot read files of this kind");
    bot.stop();
    assert!(keeps(&place, PDF) && keeps(&place, b"PK\x03\x04\x00"));
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_file_that_is_too_large_is_refused_and_nothing_is_stored() {
    let place = Place::new();
    let bot = start(&place, "openai/gpt-5");
    place.fake.sends_document(7, "look", "huge.bin", &vec![0; (20 << 20) + 1]);
    let told = place.fake.wait_for(7, "at most 20 MB");
    assert!(
        told.text.contains("huge.bin") && told.text.contains("Your message was not stored"),
        "{told:?}"
    );
    bot.stop();
    assert!(place.model.requests().is_empty());
    assert!(place.said("telegram:7").is_empty());
}
