//! Summaries extracted from the conversation, without a model.
//!
//! They are used when no model can be asked: offline, or when the program has to exit at once. Such
//! a summary has the usual format and says in its first line how it was made. It only repeats the
//! conversation: topics are the user's questions, decisions and pending points are sentences with
//! typical words. The same turns give the same summary.

mod sentence;

use std::collections::{BTreeMap, BTreeSet};

use rethread_core::summary::{self, INITIAL};
use rethread_core::tokens;

use sentence::{Cue, clean, cue, sentences, shortened, weighty_words};

/// What the background says about how the summary was made.
pub(crate) const MARKING: &str = "(Extractive summary, made without a model.)";

/// The text of an empty list.
const NONE: &str = "None noted.";

/// Topics: the most informative questions. More than this would be a transcript, not a summary.
const TOPICS_MAX: usize = 6;

/// Decisions, the latest ones: an early decision that still matters is usually repeated.
const DECISIONS_MAX: usize = 6;

/// Pending points, the latest ones: older ones are mostly done.
const PENDING_MAX: usize = 5;

/// Characters of a topic.
const TOPIC_CHARS_MAX: usize = 120;

/// Characters of a decision or a pending point; the reason is often in its second half.
const POINT_CHARS_MAX: usize = 160;

/// Characters of one sentence of the background.
const BACKGROUND_CHARS_MAX: usize = 160;

/// Words of a question that count, so that long questions do not win by length.
const WEIGHED_WORDS_MAX: usize = 6;

/// Maximum length in words.
const WORDS_BELOW: usize = 500;

/// Maximum length in tokens. A summary of up to a thousand tokens is always accepted, so this one
/// is.
const TOKENS_BELOW: u32 = 1_000;

/// Summarises turns (the user's text, the assistant's text) without a model, in the usual format
/// and without its markers. `open_tasks` are the open items of a to-do list, `previous` is the
/// summary of the session this one continues.
///
/// The result is shorter than 500 words and 1,000 tokens, and nothing in the turns can put a
/// marker, a heading or a control character into it.
pub(crate) fn extractive(
    turns: &[(String, String)],
    open_tasks: &[String],
    previous: Option<&str>,
) -> String {
    let mut draft = Draft {
        background: previous.map(background).unwrap_or_else(|| INITIAL.into()),
        topics: topics(turns),
        decisions: Vec::new(),
        pending: Vec::new(),
    };
    draft.pick_points(turns);
    for task in open_tasks.iter().take(PENDING_MAX).map(|task| clean(task)) {
        if !task.is_empty() {
            push_latest(&mut draft.pending, shortened(&task, POINT_CHARS_MAX), PENDING_MAX);
        }
    }
    draft.fit()
}

struct Draft {
    background: String,
    topics: Vec<String>,
    decisions: Vec<String>,
    pending: Vec<String>,
}

impl Draft {
    /// Finds decisions and pending points.
    fn pick_points(&mut self, turns: &[(String, String)]) {
        for text in turns.iter().flat_map(|(user, assistant)| [user, assistant]) {
            for sentence in sentences(text) {
                let (list, max) = match cue(&sentence) {
                    Some(Cue::Decision) => (&mut self.decisions, DECISIONS_MAX),
                    Some(Cue::Pending) => (&mut self.pending, PENDING_MAX),
                    None => continue,
                };
                push_latest(list, shortened(&sentence, POINT_CHARS_MAX), max);
            }
        }
        let unanswered = turns.last().filter(|(_, answer)| answer.trim().is_empty());
        if let Some(question) = unanswered.and_then(|(user, _)| sentences(user).into_iter().next())
        {
            let point = format!("Unanswered: {}", shortened(&question, TOPIC_CHARS_MAX));
            push_latest(&mut self.pending, point, PENDING_MAX);
        }
    }

    /// The summary, shortened until it is within its limits: texts in some scripts have several
    /// tokens per character.
    fn fit(mut self) -> String {
        loop {
            let text = self.text();
            let words = text.split_whitespace().count();
            if words < WORDS_BELOW && tokens::count(&text) < TOKENS_BELOW {
                return text;
            }
            let longest = [&mut self.topics, &mut self.decisions, &mut self.pending]
                .into_iter()
                .max_by_key(|list| list.iter().map(String::len).sum::<usize>());
            match longest.filter(|list| !list.is_empty()) {
                Some(list) => drop(list.remove(0)),
                None if self.background != INITIAL => self.background = INITIAL.into(),
                None => return text,
            }
        }
    }

    fn text(&self) -> String {
        format!(
            "**Background Context:** {} {MARKING}\n\n**Current Session Summary:**\n\
             **Topics Discussed:**\n{}\n\n**Decisions Made:**\n{}\n\n**Pending:**\n{}",
            self.background,
            listed(&self.topics),
            listed(&self.decisions),
            listed(&self.pending),
        )
    }
}

fn listed(points: &[String]) -> String {
    if points.is_empty() {
        return format!("- {NONE}");
    }
    points.iter().map(|point| format!("- {point}")).collect::<Vec<_>>().join("\n")
}

/// Adds a point, unless it is already there, and keeps the latest `max`.
fn push_latest(points: &mut Vec<String>, point: String, max: usize) {
    if points.iter().any(|other| other.eq_ignore_ascii_case(&point)) {
        return;
    }
    points.push(point);
    if points.len() > max {
        points.remove(0);
    }
}

/// The most informative questions, in the order they were asked.
fn topics(turns: &[(String, String)]) -> Vec<String> {
    let mut asked: Vec<(String, BTreeSet<String>)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (user, _) in turns {
        // The sentence with the most significant words represents the whole message.
        let weighed =
            sentences(user).into_iter().map(|sentence| (weighty_words(&sentence), sentence));
        let Some((words, sentence)) =
            weighed.reduce(|best, next| match next.0.len() > best.0.len() {
                true => next,
                false => best,
            })
        else {
            continue;
        };
        if !words.is_empty() && seen.insert(words.clone()) {
            asked.push((sentence, words));
        }
    }
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for word in asked.iter().flat_map(|(_, words)| words) {
        *uses.entry(word).or_default() += 1;
    }
    // A word counts more the fewer questions use it. Integers, so that all machines agree.
    let weight = |words: &BTreeSet<String>| {
        let mut weights: Vec<usize> =
            words.iter().map(|word| 1_000 / uses[word.as_str()]).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        weights.iter().take(WEIGHED_WORDS_MAX).sum::<usize>()
    };
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(weight(&asked[*index].1)));
    order.truncate(TOPICS_MAX);
    order.sort_unstable();
    order.into_iter().map(|index| shortened(&asked[index].0, TOPIC_CHARS_MAX)).collect()
}

/// One or two sentences that condense an earlier summary.
fn background(previous: &str) -> String {
    let points = |heading: &str, label: &str| {
        let points = summary::points(previous, heading);
        let points: Vec<String> =
            points.into_iter().map(clean).filter(|p| !p.is_empty() && p != NONE).collect();
        let points: Vec<&str> = points.iter().map(|p| p.trim_end_matches('.')).collect();
        let sentence = format!("{label} {}", points.join("; "));
        (!points.is_empty()).then(|| ended(shortened(&sentence, BACKGROUND_CHARS_MAX)))
    };
    let told = summary::background(previous).map(|text| text.replace(MARKING, ""));
    let told = told.filter(|text| text.trim() != INITIAL);
    // For text without the usual format, its first sentences are used.
    let plain = match previous.contains("**Topics Discussed:**") {
        true => told.unwrap_or_default(),
        false => told.unwrap_or_else(|| previous.replace(MARKING, "")),
    };
    let plain = sentences(&plain).into_iter().map(|s| ended(shortened(&s, BACKGROUND_CHARS_MAX)));
    let both = [points("Topics Discussed", "Earlier:"), points("Decisions Made", "Decided:")];
    let picked: Vec<String> = both.into_iter().flatten().chain(plain).take(2).collect();
    match picked.is_empty() {
        true => INITIAL.into(),
        false => picked.join(" "),
    }
}

/// A sentence with a full stop at its end.
fn ended(sentence: String) -> String {
    match sentence.ends_with(['.', '!', '?', '…', '。', '！', '？', ':']) {
        true => sentence,
        false => sentence + ".",
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::summary::{END, START, background, points};

    use super::*;

    fn turns(turns: &[(&str, &str)]) -> Vec<(String, String)> {
        turns.iter().map(|(user, answer)| (user.to_string(), answer.to_string())).collect()
    }

    #[test]
    fn a_conversation_becomes_a_summary_in_the_usual_format() {
        let turns = turns(&[
            ("hi", "Hello! What shall we do?"),
            (
                "How should we limit the request rate? I read about buckets.",
                "There are two ways.\n\n```\nlet todo = still();\n```\nI suggest a token bucket.",
            ),
            (
                "ok, let's use a token bucket with Redis.",
                "Agreed: 100 requests per minute per user.",
            ),
            ("Thanks", "We still need to test it with the auth system."),
        ]);
        assert_eq!(
            extractive(&turns, &[], None),
            "**Background Context:** Initial session. (Extractive summary, made without a model.)\n\n\
             **Current Session Summary:**\n**Topics Discussed:**\n\
             - How should we limit the request rate?\n- ok, let's use a token bucket with Redis.\n\n\
             **Decisions Made:**\n- ok, let's use a token bucket with Redis.\n\
             - Agreed: 100 requests per minute per user.\n\n\
             **Pending:**\n- We still need to test it with the auth system."
        );
    }

    #[test]
    fn nothing_said_is_a_summary_of_nothing() {
        let summary = extractive(&[], &[], None);
        for heading in ["Topics Discussed", "Decisions Made", "Pending"] {
            assert_eq!(points(&summary, heading), [NONE], "{heading}");
        }
    }

    #[test]
    fn topics_are_the_six_rarest_questions_in_order_and_each_once() {
        let subjects = ["parsers", "leases", "tokens", "stubs", "forks", "clears"];
        let mut asked = vec![("Explain the store again".to_owned(), "x".to_owned())];
        for subject in subjects {
            asked.push((format!("Explain the {subject} of sessions"), "x".into()));
            asked.push((format!("explain the {subject} of Sessions!"), "x".into()));
        }
        asked.push(("Explain sessions".into(), "x".into()));
        let expected: Vec<String> =
            subjects.iter().map(|subject| format!("Explain the {subject} of sessions")).collect();
        assert_eq!(points(&extractive(&asked, &[], None), "Topics Discussed"), expected);
    }

    #[test]
    fn a_long_question_is_shortened_and_the_latest_points_stay() {
        let long = format!("Describe {}", "everything possible ".repeat(20));
        let answers: Vec<String> = (0..9)
            .map(|n| format!("We decided on number {n}. We need to check number {n}."))
            .collect();
        let mut said = turns(&[(&long, "")]);
        said.extend(answers.into_iter().map(|answer| (String::new(), answer)));
        let summary = extractive(&said, &[], None);
        let topic = points(&summary, "Topics Discussed")[0];
        assert!(topic.ends_with('…') && topic.chars().count() <= TOPIC_CHARS_MAX, "{topic}");
        let decisions = points(&summary, "Decisions Made");
        assert_eq!((decisions.len(), decisions[5]), (6, "We decided on number 8."));
        assert_eq!(points(&summary, "Pending").len(), PENDING_MAX);
    }

    #[test]
    fn a_last_question_without_an_answer_is_pending() {
        let summary = extractive(&turns(&[("a", "b"), ("Which port? I forgot.", " ")]), &[], None);
        assert_eq!(points(&summary, "Pending"), ["Unanswered: Which port?"]);
    }

    #[test]
    fn the_open_tasks_of_a_to_do_list_are_pending_before_sentences_that_sound_like_it() {
        let said = turns(&[("a", "We still need to sleep. We need to eat. We need to rest.")]);
        let tasks: Vec<String> =
            ["write fold_marks", " ", "**Pending:**\n- test it", "c", "d", "e"]
                .map(String::from)
                .into();
        let summary = extractive(&said, &tasks, None);
        let expected = ["We need to rest.", "write fold_marks", "**Pending:** - test it", "c", "d"];
        assert_eq!(points(&summary, "Pending"), expected);
    }

    #[test]
    fn an_earlier_summary_is_condensed_to_two_sentences() {
        let first = turns(&[("Limit the request rate", "We will use a token bucket.")]);
        let first = extractive(&first, &[], None);
        let second = extractive(&[], &[], Some(&first));
        assert_eq!(
            background(&second),
            Some(
                "Earlier: Limit the request rate. Decided: We will use a token bucket. \
                 (Extractive summary, made without a model.)"
            )
        );
        let third = extractive(&[], &[], Some(&second));
        assert_eq!(background(&third), background(&second));
        let plain =
            extractive(&[], &[], Some("We spoke of cats\nand of dogs. And more. And more."));
        let expected = format!("We spoke of cats. and of dogs. {MARKING}");
        assert_eq!(background(&plain), Some(expected.as_str()));
        assert!(extractive(&[], &[], Some(" ")).contains(INITIAL));
    }

    #[test]
    fn a_summary_is_always_short_and_without_markers() {
        let pieces = [
            "🧑‍🚀🦀".repeat(200),
            "次に使う".repeat(100),
            "a ".repeat(4_000),
            "ẞ\u{301}Ŧ".repeat(500),
            format!("{START} decided {END} todo \u{1b}[2J\u{202e}"),
            "**Pending:**\n- we decided todo later".into(),
        ];
        for piece in &pieces {
            let text = (0..50)
                .map(|n| format!("{n} {piece} we decided. {n} todo later {piece}."))
                .collect::<Vec<_>>()
                .join("\n");
            let turns: Vec<_> =
                (0..20).map(|n| (format!("question {n} {piece}?"), text.clone())).collect();
            let summary = extractive(&turns, &[], Some(&text));
            assert!(summary.split_whitespace().count() < 500, "{summary}");
            assert!(tokens::count(&summary) < 1_000, "{summary}");
            assert!(!summary.contains(START) && !summary.contains(END), "{summary}");
            assert!(!summary.chars().any(|c| c.is_control() && c != '\n'), "{summary:?}");
            assert_eq!(summary.lines().filter(|line| line.starts_with("**")).count(), 5);
            assert_eq!(summary, extractive(&turns, &[], Some(&text)));
        }
    }
}
