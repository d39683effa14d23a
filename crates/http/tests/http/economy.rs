//! What contexts cost: of one session, and of all turns of a server.

use rethread_agent::scripted::Answer;
use serde_json::json;

use crate::site::Site;

#[test]
fn the_economy_of_a_session_and_of_the_server_is_shown() {
    let site =
        Site::new([Answer::calls([("recall", json!({"ref": "0"}))]), Answer::text("That was it.")]);
    let created = site.post("/v1/sessions", &json!({"system": "Be brief."})).json();
    let id = created["session"]["id"].as_str().expect("an id").to_owned();
    let turn = site.post(&format!("/v1/sessions/{id}/turns"), &json!({"content": "what was it?"}));
    assert_eq!(turn.status, 200, "{turn:?}");
    let stats = site.get(&format!("/v1/sessions/{id}/stats")).json();
    assert_eq!(stats["session"], json!(id));
    let economy = &stats["economy"];
    assert_eq!(economy["recalls_per_100_calls"], 50.0);
    assert_eq!(economy["replayed"]["calls"], 2);
    assert_eq!(economy["replayed"]["percent_of_everything"], 100.0);
    let metrics = site.get("/metrics").body;
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{metrics}"));
        line.trim().parse().expect("a number")
    };
    assert_eq!(value("rethread_recalls_total "), 1.0);
    assert_eq!(value("rethread_cold_starts_total "), 0.0);
    assert_eq!(value("rethread_cache_rewrites_total "), 0.0);
    assert_eq!(value("rethread_thinned_total{cache=\"cold\"} "), 0.0);
    let sent = |what: &str, cache: &str| {
        value(&format!("rethread_sent_tokens_total{{what=\"{what}\",cache=\"{cache}\"}} "))
    };
    for cache in ["read", "written"] {
        assert!(sent("contexts", cache) > 0.0, "{metrics}");
        assert_eq!(sent("contexts", cache), sent("everything", cache), "nothing was cut");
    }
    assert_eq!(value("rethread_sent_dollars_total{what=\"contexts\"} "), 0.0, "no price is known");
}
