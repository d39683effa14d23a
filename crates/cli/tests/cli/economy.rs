//! What contexts cost, as reported by `stats` and `context`.

use serde_json::{Value, json};

use crate::home::{Home, Said};

#[test]
fn what_contexts_cost_is_said_and_nothing_is_written() {
    let home = Home::new();
    let model = "anthropic/claude-sonnet-4-5";
    let says = |content: Value| {
        let usage = json!({"input": 10, "output": 5, "cache_read": 0, "cache_write": 0});
        json!({"role": "assistant", "model": model, "usage": usage, "content": content}).to_string()
    };
    let calls = |id: &str, tool: &str, input: Value| {
        says(json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]))
    };
    let result = |id: &str, text: &str| {
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": text}]);
        json!({"role": "tool", "content": result}).to_string()
    };
    let file: String = (0..900).map(|n| format!("    step(\"ordinary\", {});\n", n % 90)).collect();
    let lines = [
        user("what is in a.rs?"),
        calls("a", "read_file", json!({"path": "a.rs"})),
        result("a", &file),
        calls("b", "recall", json!({"ref": "2#399-401"})),
        result("b", "    step(\"ordinary\", 41);"),
        says(json!("Steps.")),
    ];
    home.session("plan", &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let command = |args: &[&str]| {
        let mut command = home.command(args);
        Said::from(command.env("RETHREAD_MODEL", model).output().expect("it runs"))
    };
    let before = home.json(&["show", "plan"]);
    let stats: Value = serde_json::from_str(&command(&["stats", "plan", "--json"]).out).unwrap();
    let economy = &stats["economy"];
    assert_eq!(economy["recalls"], 1);
    let replayed = &economy["replayed"];
    assert_eq!((&replayed["calls"], &replayed["rewrites"]), (&json!(3), &json!(0)));
    let percent = replayed["percent_of_everything"].as_f64().expect("a share");
    assert!((10.0..90.0).contains(&percent), "{percent}");
    // Everything is written once at 1.25 times the price, and read twice at a tenth of it.
    let sent = &replayed["sent"];
    let dollars = |sent: &Value| {
        let of = |field: &str| sent[field].as_f64().expect("tokens");
        (of("read") * 0.3 + of("written") * 3.75) / 1e6
    };
    let saved = dollars(&sent["everything"]) - dollars(&sent["contexts"]);
    assert!(near(&replayed["saved_dollars"], saved), "{replayed}");
    let text = command(&["stats", "plan"]).out;
    let share = format!("Contexts:  {percent} % of the cost of sending everything, ~$");
    assert!(text.contains(&share), "{text}");
    assert!(text.contains("while warm; 33.3 recalls per 100 calls"), "{text}");
    let explained = command(&["context", "plan", "--explain"]);
    assert!(explained.out.contains("lines; long; recall 2)"), "{explained:?}");
    let context: Value =
        serde_json::from_str(&command(&["context", "plan", "--json"]).out).unwrap();
    let next = &context["next_call"];
    assert_eq!(next["tokens"], context["tokens"]);
    assert_eq!(next["said"], stats["tokens"]);
    assert_eq!(next["cache"], "warm");
    let sent = next["tokens"].as_f64().unwrap() + next["tools"].as_f64().unwrap();
    assert!(near(&next["dollars"], sent * 0.3 / 1e6), "{next}");
    assert!(near(&next["dollars_cold"], sent * 3.75 / 1e6), "{next}");
    assert!(explained.err.contains("next call: the cache is warm for 4 min "), "{explained:?}");
    assert_eq!(home.json(&["show", "plan"]), before);
}

fn near(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9)
}

fn user(text: &str) -> String {
    json!({"role": "user", "content": text}).to_string()
}
