//! Converts a Markdown transcript to a session.
//!
//! There are several generations of files: without an id, without a path, with local dates that
//! have no zone, with token counts per turn or running totals. A file names the one it continues;
//! if that is in the same folder, the two become a chain. Older programs also wrote a `.json` with
//! the same name; its contents are kept with the transcript.

use std::path::{Path, PathBuf};

use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, ToSpan};
use rethread_core::entry::{
    Body, Finished, Origin, PreviousSession, Restored, Started, Summarized,
};
use rethread_core::message::Usage;
use rethread_core::sessions::RUNNING_TOTAL;
use rethread_core::{Message, Profile, Raw, SessionId, tokens};

use super::fields::quoted;
use super::lines::LINE_BYTES_MAX;
use super::markdown::{self, Cost, ParsedTranscript, TranscriptSummary};
use super::output::{Out, Slot, fingerprint};
use super::sink::{FoundSession, Link};
use super::{ReadError, Result};
use crate::markdown_marks::FOOTER;

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let parsed = parse_file(path)?;
    let identity = identity(&parsed);
    let parent = parent_of(path, &parsed).filter(|parent| *parent != identity);
    let mut clock = Clock::new(&parsed, out);
    let session = out.session(FoundSession {
        identity,
        name: parsed.id.clone(),
        readable_id: parsed.id.clone(),
        profile: Profile {
            agent: Some(parsed.agent.clone()).filter(|agent| !agent.is_empty()),
            agent_path: parsed.agent_path.clone(),
            ..Profile::default()
        },
        created_at: Some(clock.now),
        parent: parent.map(|identity| Link { identity, origin: Origin::Resume }),
        ..FoundSession::default()
    })?;
    out.records(1);
    out.used("header");
    if let Some(restored) = &parsed.restored {
        out.records(1);
        let at = Some(clock.at(restored.at));
        let id = format!("restored:{}", fingerprint(&[&restored.acknowledgment]));
        let body = restoration(restored);
        out.tokens(usage_of(&restored.cost));
        out.store(Slot { session, id, at }, Body::Restored(Box::new(body)), "restored")?;
    }
    let (costs, running) = costs(&parsed);
    if running {
        out.note("its token counts are running totals; each turn counts what it added");
    }
    for (number, turn) in parsed.turns.iter().enumerate() {
        out.records(1);
        let at = Some(clock.at(turn.at));
        let mark = fingerprint(&[&number.to_string(), &turn.user]);
        let slot = |what: &str| Slot { session, id: format!("{mark}:{what}"), at };
        out.message(slot("user"), Message::user(&turn.user), "turn", 1)?;
        if turn.assistant.is_empty() && turn.tools.is_empty() && costs[number] == Usage::default() {
            continue;
        }
        let mut reply = Message::assistant(&turn.assistant);
        reply.interrupted = turn.interrupted;
        reply.usage = Some(costs[number]).filter(|usage| *usage != Usage::default());
        reply.extra.push((FOOTER.into(), Raw::of(&turn.cost.line)));
        if running && turn.cost.tokens.is_some() {
            reply.extra.push((RUNNING_TOTAL.into(), Raw::of(&usage_of(&turn.cost))));
        }
        if !turn.tools.is_empty() {
            reply.extra.push(("tools".into(), Raw::of(&turn.tools)));
        }
        let answered = fingerprint(&[&turn.assistant]);
        out.message(slot(&format!("reply:{answered}")), reply, "turn", 0)?;
        if let Some(ms) = turn.cost.ms {
            let finished = Finished { rounds: 1, ms, ..Finished::default() };
            out.beside(slot("finished"), Body::Finished(finished))?;
        }
    }
    match &parsed.summary {
        TranscriptSummary::Text(text) => {
            out.records(1);
            let by = "imported".to_owned();
            let body = Summarized { text: text.clone(), by, usage: Usage::default() };
            let id = format!("summary:{}", fingerprint(&[text]));
            let slot = Slot { session, id, at: Some(clock.now) };
            out.store(slot, Body::Summary(body), "summary")?;
        }
        TranscriptSummary::Broken => {
            out.note("its summary is empty, or lacks one of its two markers");
        }
        TranscriptSummary::Nothing => {}
    }
    for words in &parsed.rest {
        out.records(1);
        let id = format!("rest:{}", fingerprint(&[words]));
        out.raw(Slot { session, id, at: Some(clock.now) }, "rest", words)?;
    }
    if let Some(twin) = twin(path, &parsed) {
        out.records(1);
        let id = format!("twin:{}", fingerprint(&[&twin]));
        out.raw(Slot { session, id, at: Some(clock.now) }, "twin", &twin)?;
    }
    if parsed.queries.is_some_and(|queries| queries != parsed.turns.len() as u64) {
        out.note(format!(
            "its header says {} queries, but it has {}",
            parsed.queries.unwrap_or_default(),
            parsed.turns.len()
        ));
    }
    Ok(())
}

/// Whether a `.json` belongs to the Markdown transcript of the same name: it is read with it.
pub fn belongs_to_transcript(path: &Path) -> bool {
    let transcript = path.with_extension("md");
    path.extension().is_some_and(|extension| extension == "json")
        && matches!(super::recognise(&transcript), Ok(Some(super::Format::Markdown)))
        && parse_file(&transcript).is_ok_and(|parsed| twin(&transcript, &parsed).is_some())
}

/// The `.json` of a transcript, if it names the same session or begins with the same text.
fn twin(path: &Path, parsed: &ParsedTranscript) -> Option<String> {
    let place = path.with_extension("json");
    let length = place.metadata().ok().filter(|meta| meta.is_file())?.len();
    if length > LINE_BYTES_MAX as u64 {
        return None;
    }
    let text = super::document::text(&place).ok()?;
    let text = text.trim();
    serde_json::from_str::<&serde_json::value::RawValue>(text).ok()?;
    let id = parsed.id.as_ref().map(|id| quoted(id));
    let words = parsed.turns.first().map(|turn| quoted(&turn.user));
    let mut marks = id.into_iter().chain(words);
    marks.any(|mark| mark.len() > 2 && text.contains(&mark)).then(|| text.to_owned())
}

fn parse_file(path: &Path) -> Result<ParsedTranscript> {
    let text = super::document::text(path)?;
    markdown::read(&text).map_err(|error| ReadError::broken(error.to_string()))
}

/// Identifies a transcript. Many may be called `session_3`, so its beginning counts too, and its
/// time. None of this changes when the file is rewritten with one more turn, unlike its date.
fn identity(parsed: &ParsedTranscript) -> String {
    let first = parsed.turns.first();
    let text = first.map_or("", |turn| turn.user.as_str());
    let time = first.and_then(|turn| turn.at).map(|time| time.to_string()).unwrap_or_default();
    fingerprint(&[parsed.id.as_deref().unwrap_or_default(), &time, &parsed.agent, text])
}

/// The identity of the transcript that this one continues, if that is in the same folder or at the
/// given path.
fn parent_of(path: &Path, parsed: &ParsedTranscript) -> Option<String> {
    let folder = path.parent()?;
    let mut places: Vec<PathBuf> = Vec::new();
    if let Some(previous) = &parsed.previous_session {
        let previous = Path::new(previous);
        places.extend(previous.file_name().map(|name| folder.join(name)));
    }
    // An id is used as a file name only if it cannot lead to another folder.
    let plain = |id: &&String| !id.contains(['/', '\\', '\0']) && !id.contains("..");
    if let Some(id) = parsed.resumed_from.as_ref().filter(plain) {
        places.push(folder.join(format!("{id}.md")));
    }
    let place = places.into_iter().find(|place| place.is_file() && place != path)?;
    Some(identity(&parse_file(&place).ok()?))
}

/// Converts times of day to times: a new day begins where the clock goes back.
#[derive(Clone)]
struct Clock {
    now: Timestamp,
    zone: jiff::tz::TimeZone,
}

impl Clock {
    /// A clock that starts when the conversation began: at the time in the session's id, if it has
    /// one. The date may be that of the beginning or, as the original program writes it, of the
    /// last save; the one that makes the conversation shorter is used.
    fn new(parsed: &ParsedTranscript, out: &Out<'_>) -> Clock {
        let zone = out.options.zone.clone();
        let id = parsed.id.as_deref().unwrap_or_default();
        if let Some(now) = start_in_id(id, &zone) {
            return Clock { now, zone };
        }
        let date = parsed.date.and_then(|date| zone.to_timestamp(date).ok());
        let clock = Clock { now: date.unwrap_or(out.options.modified), zone };
        let restored = parsed.restored.as_ref().and_then(|restored| restored.at);
        let times: Vec<Time> =
            restored.into_iter().chain(parsed.turns.iter().filter_map(|turn| turn.at)).collect();
        let mut after = clock.clone();
        let last = times.iter().map(|time| after.at(Some(*time))).last().unwrap_or(clock.now);
        let first = times.iter().rev().fold(clock.now, |next, time| clock.before(next, *time));
        match clock.now.as_second() - first.as_second() < last.as_second() - clock.now.as_second() {
            true => Clock { now: first, ..clock },
            false => clock,
        }
    }

    /// The latest moment with this time of day that is not after another.
    fn before(&self, next: Timestamp, time: Time) -> Timestamp {
        let day = next.to_zoned(self.zone.clone()).date();
        let on = |day: jiff::civil::Date| self.zone.to_timestamp(day.to_datetime(time)).ok();
        let today = on(day).filter(|at| at.as_second() <= next.as_second());
        let yesterday = || day.checked_sub(1.day()).ok().and_then(on);
        today.or_else(yesterday).unwrap_or(next)
    }

    fn at(&mut self, time: Option<Time>) -> Timestamp {
        let Some(time) = time else { return self.now };
        let now = self.now.to_zoned(self.zone.clone());
        let on = |day: jiff::civil::Date| self.zone.to_timestamp(day.to_datetime(time)).ok();
        // A transcript has seconds even if its date is more precise.
        let slack = self.now.as_second() - 1;
        let today = on(now.date()).filter(|at| at.as_second() >= slack);
        let tomorrow = || now.date().checked_add(1.day()).ok().and_then(on);
        self.now = today.or_else(tomorrow).unwrap_or(self.now).max(self.now);
        self.now
    }
}

/// When a session was started, if its id says so: `simple_sally_20251230_112153`, perhaps with a
/// number after it, or one of ours.
fn start_in_id(id: &str, zone: &jiff::tz::TimeZone) -> Option<Timestamp> {
    if let Ok(SessionId(uuid)) = serde_json::from_value(id.into()) {
        let bits = uuid.as_u128();
        let is_of_time = bits >> 76 & 0xf == 7;
        let millis = i64::try_from(bits >> 80).ok().filter(|_| is_of_time)?;
        return Timestamp::from_millisecond(millis).ok();
    }
    let mut parts: Vec<&str> = id.split('_').collect();
    // A number distinguishes ids of the same second.
    parts.pop_if(|last| last.len() < 6 && last.bytes().all(|byte| byte.is_ascii_digit()));
    let [.., date, time] = parts.as_slice() else { return None };
    let digits =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(date, 8) || !digits(time, 6) {
        return None;
    }
    let start = DateTime::strptime("%Y%m%d_%H%M%S", format!("{date}_{time}")).ok()?;
    zone.to_timestamp(start).ok()
}

fn restoration(restored: &markdown::RestoredFrom) -> Restored {
    let from = restored.from.clone().unwrap_or_default();
    Restored {
        started: Started { origin: Origin::Resume, from: None, keys: Vec::new() },
        summary: String::new(),
        tail: Vec::new(),
        prompt: format!("This session was resumed from: {from}"),
        acknowledgment: restored.acknowledgment.clone(),
        usage: usage_of(&restored.cost),
        ms: restored.cost.ms.unwrap_or_default(),
        model: None,
        previous: PreviousSession {
            id: from,
            queries: restored.queries.unwrap_or_default(),
            tokens: restored.tokens.unwrap_or_default(),
            file: restored.previous_session.clone(),
        },
    }
}

fn usage_of(cost: &Cost) -> Usage {
    let usage = |input, output| Usage { input, output, ..Usage::default() };
    match (cost.tokens_in, cost.tokens_out, cost.tokens) {
        (None, None, Some(total)) => usage(total, 0),
        (input, output, _) => usage(input.unwrap_or_default(), output.unwrap_or_default()),
    }
}

/// The cost of each turn, and whether the file has running totals. Some programs write the total so
/// far; then the output counts are close to the sum of the replies up to there, rather than to each
/// reply.
fn costs(parsed: &ParsedTranscript) -> (Vec<Usage>, bool) {
    let counts: Vec<Usage> = parsed.turns.iter().map(|turn| usage_of(&turn.cost)).collect();
    let (mut sum, mut each_off, mut sum_off, mut rising) = (0_u64, 0_u64, 0_u64, true);
    let mut before = Usage::default();
    for (turn, usage) in parsed.turns.iter().zip(&counts).filter(|(_, u)| u.output > 0) {
        let own = u64::from(tokens::count(&turn.assistant));
        sum = sum.saturating_add(own);
        each_off = each_off.saturating_add(usage.output.abs_diff(own));
        sum_off = sum_off.saturating_add(usage.output.abs_diff(sum));
        rising &= usage.output >= before.output && usage.input >= before.input;
        before = *usage;
    }
    if !rising || sum_off >= each_off {
        return (counts, false);
    }
    let mut before = Usage::default();
    let mut costs = Vec::with_capacity(counts.len());
    for usage in counts {
        if usage == Usage::default() {
            costs.push(usage);
            continue;
        }
        costs.push(Usage {
            // A turn without a reply was not considered.
            input: usage.input.saturating_sub(before.input),
            output: usage.output.saturating_sub(before.output),
            ..Usage::default()
        });
        before = usage;
    }
    (costs, true)
}
