//! The page of a session (`export --format html`), as people view and share it.

use serde_json::json;

use crate::home::Home;

#[test]
fn a_page_is_rendered_with_each_call_beside_its_result_and_edits_as_diffs() {
    let home = Home::new();
    let lines = [
        json!({"role": "user", "content": "Where is *it*?\n# not a heading"}),
        json!({"role": "assistant", "content": [
            {"type": "text", "text": "## Looking\n\nLet me **look**."},
            {"type": "tool_use", "id": "1", "name": "grep", "input": {"pattern": "Limiter"}},
            {"type": "tool_use", "id": "2", "name": "edit_file",
             "input": {"path": "a.rs", "old": "let a = 1;\n", "new": "let a = 2;\n"}}]}),
        json!({"role": "tool", "content": [
            {"type": "tool_result", "tool_use_id": "2", "content": "replaced <once>"}]}),
        json!({"role": "tool", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "found <nothing>"}]}),
        json!({"role": "assistant", "content": "```rust\nfn main() {}\n```"}),
        json!({"role": "user", "content": "Thanks. <script>alert(1)</script>"}),
        json!({"role": "assistant", "content": "[bye](javascript:alert(1)) <b>now</b>"}),
    ];
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    home.session("page", &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let page = home.run(&["export", "page", "--format", "html"]).out;
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("`{text}` is not in {page}"));
    assert!(page.contains("<title>Where is *it*? # not a heading</title>"), "{page}");
    assert!(at("<h2 id=\"text-1-looking\"") < at("<strong>look</strong>"));
    // Each result is with its own call, although they arrived in the other order.
    assert!(at("<code>grep</code>") < at("found &lt;nothing&gt;"));
    assert!(at("found &lt;nothing&gt;") < at("<code>edit_file</code>"));
    assert!(at("<code>edit_file</code>") < at("class=\"diff\""));
    assert!(at("class=\"diff\"") < at("replaced &lt;once&gt;"));
    assert!(page.contains("<span class=\"keyword\">fn</span>"), "{page}");
    // The outline links to both questions.
    for turn in [1, 2] {
        assert!(at(&format!("id=\"turn-{turn}\"")) < at(&format!("<li><a href=\"#turn-{turn}\"")));
    }
    assert!(!page.contains("<script") && !page.contains("javascript:alert(1)\""), "{page}");
    assert!(!page.contains("<b>now"), "{page}");
}

#[test]
fn the_sessions_of_a_chain_are_one_page() {
    let home = Home::new();
    home.feed(&["--name", "first"], "hello\ncompact\ny\nthanks\nexit\n");
    let page = home.run(&["export", "first-2", "--format", "html", "--chain"]).out;
    assert_eq!(page.matches("<main>").count(), 1, "{page}");
    assert_eq!(page.matches("<h1").count(), 2, "{page}");
    assert_eq!(page.matches("<title>").count(), 1, "{page}");
}

#[test]
fn what_a_page_cannot_show_is_counted_in_whole_words() {
    let home = Home::new();
    let unknown = json!({"type": "hologram", "depth": 3});
    let lines = [
        json!({"role": "user", "content": "Show me."}).to_string(),
        json!({"role": "assistant", "content": [{"type": "text", "text": "Look."}, unknown, unknown]})
            .to_string(),
        json!({"role": "assistant", "content": [{"type": "text", "text": "Again."}, unknown]})
            .to_string(),
    ];
    home.session("one", &[&lines[0], &lines[2]]);
    home.session("many", &[&lines[0], &lines[1], &lines[2]]);
    for format in ["html", "openai"] {
        for (session, left) in [("one", "1 unknown block"), ("many", "3 unknown blocks")] {
            let said = home.run(&["export", session, "--format", format]).err;
            assert!(said.contains(&format!(" {left}\n")), "{format}: {said}");
        }
    }
}

#[test]
fn a_heading_right_after_a_folded_box_keeps_its_distance() {
    let home = Home::new();
    let reply = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "First I think.", "signature": "s"},
        {"type": "text", "text": "## The answer\n\nForty-two."}]});
    let lines = [json!({"role": "user", "content": "Why?"}).to_string(), reply.to_string()];
    home.session("page", &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let page = home.run(&["export", "page", "--format", "html"]).out;
    // The first heading of a text has no space above it otherwise.
    assert!(page.contains(".rendered > :first-child { margin-top: 0; }"), "{page}");
    assert!(page.contains("</details>\n<div class=\"rendered\"><h2 "), "{page}");
    let rule =
        "details + .rendered > :is(h1, h2, h3, h4, h5, h6):first-child { margin-top: 1.2em; }";
    assert!(page.contains(rule), "{page}");
}
