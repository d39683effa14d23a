//! What the providers accept, written from their documentation and not from our code.
//!
//! The property tests build contexts with Rethread and ask these checkers whether a provider
//! would take them. The checkers must therefore share nothing with the code under test: they
//! read the wire request as plain JSON, and each rule names the page or the error text it
//! comes from. Where a provider is lenient and a compatible server is strict, the rule is the
//! strict one, because a context has to survive being sent to either.
//!
//! Both checkers look at the conversation (`messages`, `system`) and at tool names. They do
//! not look at sampling parameters, token limits or the tool schemas, which are not part of a
//! context, and they cannot see whether a thinking signature is genuine.

use serde_json::Value;

/// Defines the rules of a provider, each a constant with its name, and `RULES` with all of
/// them, so that a rule cannot be left out of the list that is checked for completeness.
macro_rules! define_rules {
    ($($(#[$doc:meta])+ $name:ident = $text:literal;)+) => {
        $($(#[$doc])+ pub(crate) const $name: &str = $text;)+

        /// Every rule of this file.
        pub(crate) const RULES: &[&str] = &[$($name),+];
    };
}

pub(crate) mod anthropic;
pub(crate) mod openai;

/// One rule a request breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) detail: String,
}

/// The violations found so far in one request.
#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, rule: &'static str, detail: String) {
        self.0.push(Violation { rule, detail });
    }

    /// Reports every key of `object` that is not one of `allowed`.
    fn extra_keys(&mut self, rule: &'static str, at: &str, object: &Value, allowed: &[&str]) {
        let keys = object.as_object().into_iter().flat_map(|map| map.keys());
        for key in keys.filter(|key| !allowed.contains(&key.as_str())) {
            self.add(rule, format!("{at}.{key} is not a known field"));
        }
    }
}

/// Whether `text` matches `^[a-zA-Z0-9_-]{1,longest}$`, the shape both providers ask of names.
fn is_plain_name(text: &str, longest: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.is_empty() && text.len() <= longest && text.bytes().all(plain)
}

/// The elements of an array, and none where there is no array.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// `object` with one field more, or with another value for a field.
fn set(mut object: Value, key: &str, value: impl Into<Value>) -> Value {
    object[key] = value.into();
    object
}

/// Runs a provider's own lists: each rejected request must break the rule it is listed for,
/// each accepted request must break none, and no rule may be without a rejected request,
/// because a rule nothing was ever seen to break may as well not be checked at all.
fn run_lists(
    check: fn(&Value) -> Vec<Violation>,
    rules: &[&str],
    rejected: &[(&'static str, Value)],
    accepted: &[Value],
) {
    for (rule, request) in rejected {
        let found = check(request);
        assert!(
            found.iter().any(|violation| violation.rule == *rule),
            "expected {rule} to be broken, found {found:?} in {request:#}"
        );
    }
    for request in accepted {
        if let Some(Violation { rule, detail }) = check(request).first() {
            panic!("{rule}: {detail} in {request:#}");
        }
    }
    for rule in rules {
        let listed = rejected.iter().filter(|(name, _)| name == rule).count();
        assert!(listed > 0, "no rejected request is listed for {rule}");
    }
    for (rule, _) in rejected {
        assert!(rules.contains(rule), "{rule} is not in the list of rules");
    }
}

#[test]
fn every_known_rejected_request_breaks_the_rule_it_is_listed_for_openai() {
    run_lists(openai::check, openai::RULES, &openai::rejected(), &openai::accepted());
}

#[test]
fn every_known_rejected_request_breaks_the_rule_it_is_listed_for_anthropic() {
    run_lists(anthropic::check, anthropic::RULES, &anthropic::rejected(), &anthropic::accepted());
}
