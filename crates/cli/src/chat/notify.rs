//! Notifies a user who looks at another window that a long turn is over.

use std::time::Duration;

/// The shortest turn with a notification. Users wait for shorter ones.
const LONG: Duration = Duration::from_secs(10);

/// The text of the notification.
const TEXT: &str = "rethread: the answer is ready";

/// Terminals that support OSC 777, by a variable they set.
const BY_777: [&str; 1] = ["VTE_VERSION"];

/// The same, by how their `TERM` begins.
const BY_777_NAMES: [&str; 2] = ["rxvt", "foot"];

/// The escape sequence that makes a terminal notify its user, unless they are looking at it.
pub(super) fn notification(focused: bool, took: Duration) -> Option<String> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    (!focused && took >= LONG).then(|| written(variable))
}

/// Terminals that do not support it ignore it; the bell is for those.
fn written(variable: impl Fn(&str) -> String) -> String {
    let by_777 = BY_777.iter().any(|name| !variable(name).is_empty())
        || BY_777_NAMES.iter().any(|name| variable("TERM").starts_with(name));
    match by_777 {
        true => format!("\x1b]777;notify;rethread;{TEXT}\x1b\\\x07"),
        false => format!("\x1b]9;{TEXT}\x1b\\\x07"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_user_who_looks_elsewhere_is_notified_and_only_after_a_long_turn() {
        let told = |focused, ms| notification(focused, Duration::from_millis(ms)).is_some();
        assert!(told(false, 10_000) && told(false, 10_001));
        assert!(!told(false, 9_999) && !told(true, 60_000));
    }

    #[test]
    fn each_terminal_gets_its_own_escape_sequence() {
        let of = |name: &'static str, value: &'static str| {
            written(|asked| if asked == name { value.into() } else { String::new() })
        };
        assert!(of("TERM", "xterm-256color").starts_with("\x1b]9;"));
        assert!(of("VTE_VERSION", "7600").starts_with("\x1b]777;notify;"));
        assert!(of("TERM", "foot").starts_with("\x1b]777;notify;"));
    }
}
