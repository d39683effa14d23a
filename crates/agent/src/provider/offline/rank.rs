//! Ranks places by how likely they are to contain the answer.
//!
//! A place scores by the words near it: rare words more than common ones, near ones more than far
//! ones, all together more than each alone. Headings get a small bonus.

use std::collections::BTreeMap;

use super::answer::Source;
use super::evidence::{Evidence, PastMessage};
use super::newcomer;
use super::words::{Keywords, Word};

/// Lines of a quoted passage.
pub(super) const PASSAGE_LINES: u64 = 12;

/// Lines between two places that are scored separately.
const PLACES_APART: u64 = 20;

/// The distance in lines at which a word counts half.
const HALF_AT_LINES: f64 = 6.0;

/// The weight of a word in the path.
const IN_PATH: f64 = 0.4;

/// The score of a quoted phrase: more than all words of most questions.
const PHRASE: f64 = 3.0;

/// Messages count a little less than files, unless they are asked for.
const SAID: f64 = 0.8;
const SAID_WANTED: f64 = 1.3;

/// The weight of a reply, if the words are in the question.
const REPLY_SHARE: f64 = 0.9;

/// A place in a file.
#[derive(Clone, Debug)]
pub(super) struct FilePlace {
    pub(super) path: String,
    pub(super) line: u64,
    score: f64,
}

/// Something to quote.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    pub(super) source: Source,
    pub(super) lines: Vec<String>,
    pub(super) score: f64,
    /// How many of the words it contains.
    pub(super) words: usize,
}

/// The best places in files, apart from each other, best first.
pub(super) fn places(evidence: &Evidence, keywords: &Keywords) -> Vec<FilePlace> {
    let mut all = Vec::new();
    for (path, lines) in &evidence.files {
        all.extend(scored(path, lines, evidence, keywords));
    }
    apart(all, PLACES_APART)
}

/// Messages, best first.
pub(super) fn said<'e>(evidence: &'e Evidence, keywords: &Keywords) -> Vec<(f64, &'e PastMessage)> {
    let mut all: Vec<(f64, &PastMessage)> = evidence
        .said
        .iter()
        .map(|said| (score_said(said, evidence, keywords), said))
        .filter(|(score, _)| *score > 0.0)
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.reference.cmp(&a.1.reference)));
    all
}

/// The passages to quote, best first.
pub(super) fn passages(evidence: &Evidence, keywords: &Keywords) -> Vec<Passage> {
    let mut passages = Vec::new();
    for place in places(evidence, keywords) {
        let lines = &evidence.files[&place.path];
        let (first, last) = extent(lines, place.line, keywords);
        let text: Vec<String> = lines.range(first..=last).map(|(_, line)| line.clone()).collect();
        if text.iter().all(|line| line.trim().is_empty()) {
            continue;
        }
        let words = covered(&text.join("\n"), keywords);
        let source = Source::File { path: place.path, line: first };
        passages.push(Passage { source, lines: text, score: place.score, words });
    }
    // A question is not an answer: what follows it is. And who said something is only known of what
    // was read whole.
    let is_known = |said: &PastMessage| said.is_whole || !evidence.has_recalled;
    let answers = said(evidence, keywords).into_iter();
    for (score, said) in answers.filter(|(_, said)| !said.asks() && is_known(said)) {
        let text: Vec<String> =
            said.text.lines().take(PASSAGE_LINES as usize).map(str::to_owned).collect();
        let words = covered(&said.text, keywords);
        let source = Source::Said { session: said.session.clone(), seq: said.seq };
        passages.push(Passage { source, lines: text, score, words });
    }
    passages.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.source.cmp(&b.source)));
    passages
}

fn covered(text: &str, keywords: &Keywords) -> usize {
    keywords.words.iter().filter(|word| word.is_in(text)).count()
}

/// The places in one file where a word appears, with their scores.
fn scored(
    path: &str,
    lines: &BTreeMap<u64, String>,
    evidence: &Evidence,
    keywords: &Keywords,
) -> Vec<FilePlace> {
    let stands = |word: &Word| -> Vec<u64> {
        lines.iter().filter(|(_, text)| word.is_in(text)).map(|(line, _)| *line).collect()
    };
    let at: Vec<Vec<u64>> = keywords.words.iter().map(stands).collect();
    let named: Vec<bool> = keywords.words.iter().map(|word| word.is_in(path)).collect();
    let kind = of_kind(path);
    let mut places = Vec::new();
    for (line, text) in lines {
        let here = at.iter().any(|lines| lines.contains(line));
        let phrase = keywords.phrases.iter().any(|phrase| phrase.is_in(text));
        let top = *line == 1 && named.contains(&true);
        if !here && !phrase && !top {
            continue;
        }
        let mut values = Vec::new();
        for ((lines, named), weight) in at.iter().zip(&named).zip(&evidence.weights) {
            let nearest = lines.iter().map(|at| at.abs_diff(*line)).min();
            let near = nearest.map_or(0.0, |lines| 1.0 / (1.0 + lines as f64 / HALF_AT_LINES));
            values.push((near + if *named { IN_PATH } else { 0.0 }) * weight);
        }
        let mut score = together(&values);
        if phrase {
            score += PHRASE;
        }
        if is_heading(text) {
            score *= 1.1;
        }
        if evidence.wants_command {
            score *= newcomer::worth(path, text, keywords);
        }
        score *= kind;
        if score <= 0.0 {
            continue;
        }
        places.push(FilePlace { path: path.into(), line: *line, score });
    }
    places
}

/// The sum, weighted by how many words contribute to it.
fn together(values: &[f64]) -> f64 {
    let there = values.iter().filter(|value| **value > 0.0).count();
    let share = there as f64 / values.len().max(1) as f64;
    values.iter().sum::<f64>() * (0.4 + 0.6 * share)
}

/// The score of a message: by its own words, or by those of the question it follows.
fn score_said(said: &PastMessage, evidence: &Evidence, keywords: &Keywords) -> f64 {
    let own = words_of(said, evidence, keywords);
    let asked = said.follows.as_ref().and_then(|reference| {
        evidence.said.iter().find(|other| other.reference == *reference && other.asks())
    });
    let asked = asked.map_or(0.0, |other| words_of(other, evidence, keywords) * REPLY_SHARE);
    own.max(asked) * if keywords.past { SAID_WANTED } else { SAID }
}

fn words_of(said: &PastMessage, evidence: &Evidence, keywords: &Keywords) -> f64 {
    let mut values = Vec::new();
    for (word, weight) in keywords.words.iter().zip(&evidence.weights) {
        let text = if word.is_in(&said.text) { 1.0 } else { 0.0 };
        let name = if word.is_in(&said.session) { IN_PATH } else { 0.0 };
        values.push((text + name) * weight);
    }
    let phrase = keywords.phrases.iter().any(|phrase| phrase.is_in(&said.text));
    let phrase = if phrase { PHRASE } else { 0.0 };
    together(&values) + phrase
}

/// The weight of a file by its kind: prose explains, and a test only mentions.
fn of_kind(path: &str) -> f64 {
    let is_test = path.split(['/', '.', '_', '-']).any(|part| matches!(part, "test" | "tests"));
    let is_prose = [".md", ".txt", ".rst", ".adoc", ".org"].iter().any(|end| path.ends_with(end));
    if is_test {
        return 0.8;
    }
    if is_prose { 1.1 } else { 1.0 }
}

fn is_heading(text: &str) -> bool {
    text.starts_with('#') && text.trim_start_matches('#').starts_with(' ')
}

/// The best ones that are not too close to a better one.
fn apart(mut all: Vec<FilePlace>, distance: u64) -> Vec<FilePlace> {
    all.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then_with(|| (&a.path, a.line).cmp(&(&b.path, b.line)))
    });
    let mut kept: Vec<FilePlace> = Vec::new();
    for place in all {
        let close = |other: &FilePlace| {
            other.path == place.path && other.line.abs_diff(place.line) < distance
        };
        if !kept.iter().any(close) {
            kept.push(place);
        }
    }
    kept
}

/// The lines around one that belong together: its paragraph with the heading above, or its section
/// if it is a heading, extended as long as further words follow; twelve lines at most.
fn extent(lines: &BTreeMap<u64, String>, center: u64, keywords: &Keywords) -> (u64, u64) {
    let text = |line: u64| lines.get(&line).map(|text| text.trim_end());
    let blank = |line: u64| text(line).is_none_or(str::is_empty);
    let heading = |line: u64| text(line).is_some_and(is_heading);
    let mut first = center;
    while first > 1 && !heading(first) && !blank(first - 1) && center - first < PASSAGE_LINES / 2 {
        first -= 1;
    }
    if first > 2 && !heading(first) && blank(first - 1) && heading(first - 2) {
        first -= 2;
    }
    let end = (center..first + PASSAGE_LINES).take_while(|line| text(*line).is_some()).last();
    let end = end.unwrap_or(center);
    // Where the last of the words appears for the first time.
    let appears =
        |word: &Word| (first..=end).find(|line| text(*line).is_some_and(|text| word.is_in(text)));
    let needed = keywords.words.iter().filter_map(appears).max().unwrap_or(center);
    // A paragraph ends at an empty line, unless so little of it was shown that the next is needed
    // to understand it; a section ends at the next heading.
    let is_end = |last: &u64| {
        let told = || (first..=*last).any(|line| !blank(line) && !heading(line));
        let ends = blank(last + 1) && !heading(center) && last - first >= 3;
        *last >= needed && (ends || heading(last + 1) && told())
    };
    let last = (center..end).find(is_end).unwrap_or(end);
    (first, (center..=last).rfind(|line| !blank(*line)).unwrap_or(center))
}
