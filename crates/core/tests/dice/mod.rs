//! Random logs, policies and models, each made from a number.

use rethread_core::context::{Clip, Model, Policy};
use rethread_core::entry::{
    Boundary, CarriedMessage, Finished, LeftOut, Origin, Restored, RoundLimit, Started, Thinned,
    Thinning,
};
use rethread_core::log::open_calls;
use rethread_core::measure::measure;
use rethread_core::shown::{Allowances, Seen};
use rethread_core::{
    Block, BlockKind, Body, Entry, Fixed, Message, NewEntry, Raw, Role, SessionId, Tally, World,
};
use serde_json::json;

/// A source of random choices (splitmix64).
pub(crate) struct Dice {
    state: u64,
    calls: u64,
}

/// Appends a message to a log.
pub(crate) fn push(entries: &mut Vec<Entry>, message: Message) {
    push_body(entries, Body::Message(message));
}

fn push_body(entries: &mut Vec<Entry>, body: Body) {
    let world = Fixed::default();
    let mut measure = measure(&body, |id| open_calls(entries.iter().map(|entry| &entry.body), id));
    let tally = entries.last().map_or_else(Tally::default, |entry| entry.tally);
    // Every other result is appended under a lease, which decides what is shown of it.
    if let Some(message) = body.message().filter(|_| entries.len().is_multiple_of(2))
        && message.results().any(|result| result.text().contains('\n'))
    {
        let mut seen = Seen::default();
        entries.iter().for_each(|entry| seen.read(entry.seq, &entry.body, &entry.measure));
        for (result, shown) in measure.results.iter_mut().zip(seen.decide(message, &tally)) {
            result.shown = Some(shown);
        }
    }
    let new = NewEntry { id: world.uuid().into(), at: world.now(), body, measure };
    entries.push(new.placed(&tally));
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1CE, calls: 0 }
    }

    fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `max`, both included.
    pub(crate) fn up_to(&mut self, max: usize) -> usize {
        (self.roll() % (max as u64 + 1)) as usize
    }

    pub(crate) fn one_in(&mut self, chance: usize) -> bool {
        self.up_to(chance - 1) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.up_to(from.len() - 1)].clone()
    }

    fn text(&mut self) -> String {
        match self.up_to(12) {
            0 => String::new(),
            1 => " \n\t ".into(),
            2 => "é🦀".repeat(self.up_to(40)),
            3 => format!("long {}", "word ".repeat(self.up_to(300))),
            4 => "<|endoftext|> \u{0} \u{202e}".into(),
            5 => "ends with space ".into(),
            _ => self.pick(&["yes", "what about the limiter?", "let me look", "ok"]).into(),
        }
    }

    pub(crate) fn policy(&mut self) -> Policy {
        if self.one_in(3) {
            let name = self.pick(&Policy::PRESETS);
            return Policy::preset(name).expect("a preset");
        }
        Policy {
            name: "random".into(),
            trim_results: self.one_in(2).then(Allowances::default),
            thin_turns: self.one_in(2),
            truncate_results: self.one_in(3).then(|| self.up_to(60)),
            stub_tools: self.one_in(2),
            keep_thinking: self.one_in(2),
            keep_recent: self.one_in(2).then(|| 1 + self.up_to(15) as u32),
            clip: self.one_in(4).then(|| Clip { texts: self.up_to(4), chars: self.up_to(30) }),
        }
    }

    pub(crate) fn model(&mut self, provider: &str) -> Model {
        let window = self.pick(&[300, 500, 1_000, 3_000, 128_000]);
        Model { window, reply: 0, ..Model::new(provider, "m") }
    }

    /// A log of up to forty steps.
    pub(crate) fn log(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.one_in(6) {
            self.restored(&mut entries);
        }
        self.steps(&mut entries);
        entries
    }

    /// A log that was not continued from another.
    pub(crate) fn log_without_restored(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.steps(&mut entries);
        entries
    }

    fn steps(&mut self, entries: &mut Vec<Entry>) {
        if self.one_in(2) {
            push(entries, Message::system(self.text()));
        }
        for _ in 0..self.up_to(40) {
            match self.up_to(30) {
                0 => push(entries, Message::system(self.text())),
                1..8 => self.question(entries),
                8 => {
                    let before = entries.last().and_then(|entry: &Entry| entry.tally.boundary);
                    push_body(entries, Body::Cleared { before });
                }
                9 => self.undone(entries),
                10 => push_body(entries, Body::Finished(Finished::default())),
                11 => push_body(entries, Body::RoundLimit(RoundLimit::default())),
                12 => {
                    let raw = Raw::parse("[1]".into()).expect("JSON");
                    push_body(entries, Body::Unknown { kind: "later".into(), raw });
                }
                13 => push(entries, self.misplaced()),
                14 => self.left_out(entries),
                _ => self.round_message(entries),
            }
        }
    }

    /// Marks the latest turn, or another one, or something that is not a turn.
    fn left_out(&mut self, entries: &mut Vec<Entry>) {
        let Some(last) = entries.last() else { return };
        let any = self.up_to(entries.len()) as u64;
        let turn = if self.one_in(2) { last.tally.turn.unwrap_or(any) } else { any };
        push_body(entries, Body::LeftOut(LeftOut { turn, why: "refused".into() }));
    }

    fn undone(&mut self, entries: &mut Vec<Entry>) {
        let clear = entries.last().and_then(|entry| entry.tally.boundary);
        if let Some(Boundary { seq, .. }) = clear
            && let Body::Cleared { before } = entries[seq as usize].body
        {
            push_body(entries, Body::Undone { before });
        }
    }

    fn restored(&mut self, entries: &mut Vec<Entry>) {
        let carried = |message| CarriedMessage { reference: "0199abcd:7".into(), message };
        let mut tail = Vec::new();
        if self.one_in(2) {
            tail.push(carried(Message::user(self.text())));
            let call = Block::tool_use("call_1", "grep", Raw::of(&json!({"n": "carried"})));
            tail.push(carried(Message::new(Role::Assistant, vec![call])));
            tail.push(carried(Message::tool_result("call_1", "carried result")));
            tail.push(carried(Message::assistant(self.text())));
        }
        let from = Some(SessionId(Fixed::default().uuid()));
        push_body(
            entries,
            Body::Restored(Box::new(Restored {
                started: Started { origin: Origin::Compact, from, keys: Vec::new() },
                summary: "short".into(),
                tail,
                prompt: format!("CONTEXT RESTORATION {}", "summary ".repeat(self.up_to(50))),
                acknowledgment: self.text(),
                usage: Default::default(),
                ms: 0,
                model: None,
                previous: Default::default(),
            })),
        );
    }

    /// Lines of a file that several results may show, with numbers or without.
    fn lines(&mut self) -> String {
        let (first, numbered) = (self.up_to(60), self.one_in(2));
        let count = self.pick(&[3, 8, 8, 20, 20, 60]);
        let line = |n: usize| match numbered {
            true => format!("{n:>6}\tlet name_{n} = value_{};", n % 7),
            false => format!("let name_{n} = value_{};", n % 7),
        };
        (first..first + count).map(|n| line(n) + "\n").collect()
    }

    /// Thins some of the turns so far.
    fn thinned(&mut self, entries: &mut Vec<Entry>) {
        let Some(last) = entries.last() else { return };
        let (begins, through) = (last.tally.begins(), last.seq);
        let from = if self.one_in(2) { begins } else { self.up_to(entries.len()) as u64 };
        let why = if self.one_in(2) { Thinning::Cold } else { Thinning::Pays };
        push_body(entries, Body::Thinned(Thinned { from, through, why }));
    }

    fn question(&mut self, entries: &mut Vec<Entry>) {
        if self.one_in(6) {
            self.thinned(entries);
        }
        let mut blocks = Vec::new();
        if self.one_in(4) {
            blocks.push(Block::prefix("[Active file: a.md]\n\n"));
        }
        for _ in 0..self.up_to(2) {
            blocks.push(Block::text(self.text()));
        }
        if self.one_in(8) {
            blocks.push(self.odd_block());
        }
        if self.one_in(8) {
            // Anthropic's form: results inside a user message, with text after them.
            blocks.insert(0, self.result(entries));
        }
        push(entries, Message::new(Role::User, blocks));
    }

    fn odd_block(&mut self) -> Block {
        let json = self.pick(&[
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}"#,
            r#"{"type":"image","source":{"type":"url","url":"https://example.org/a.png"}}"#,
            r#"{"type":"image","source":{"type":"file","id":"f"}}"#,
            r#"{"type":"hologram","n":1}"#,
            r#"{"type":"text","text":"with more","cache_control":{"type":"ephemeral"}}"#,
            r#"{"type":"text","text":"flagged","_compacted":true}"#,
            r#"{"no":"type"}"#,
            r#"7"#,
        ]);
        serde_json::from_str(json).expect("a block")
    }

    fn misplaced(&mut self) -> Message {
        let call = Block::tool_use("x", "tool", Raw::of(&json!({})));
        match self.up_to(4) {
            0 => Message::new(Role::Tool, vec![Block::text("no result")]),
            1 => Message::new(Role::User, vec![call]),
            2 => Message::new(Role::Assistant, vec![Block::tool_result("x", "from the model")]),
            3 => Message::new(Role::Assistant, Vec::new()),
            _ => Message::new(Role::Tool, Vec::new()),
        }
    }

    /// What may come next inside a turn: a reply, or a result of the last reply's calls.
    pub(crate) fn round_message(&mut self, entries: &mut Vec<Entry>) {
        if self.up_to(5) < 3 {
            let block = self.result(entries);
            return push(entries, Message::new(Role::Tool, vec![block]));
        }
        let mut blocks = Vec::new();
        if self.one_in(3) {
            let json = self.pick(&[
                r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#,
                r#"{"type":"thinking","thinking":"unsigned"}"#,
                r#"{"type":"redacted_thinking","data":"eA=="}"#,
            ]);
            blocks.push(serde_json::from_str(json).expect("a block"));
        }
        if self.one_in(2) {
            blocks.push(Block::text(self.text()));
        }
        for _ in 0..self.up_to(3) {
            self.calls += 1;
            let mark = format!("m{}", self.calls);
            let id = match self.up_to(8) {
                0 => "call_1".into(),
                1 => "bad id!".into(),
                2 => String::new(),
                3 => "x".repeat(60),
                _ => format!("call_{mark}"),
            };
            let name =
                self.pick(&["grep", "read_file", "mcp.server/tool", "edit", "recall", "", "ünï"]);
            let input = match self.up_to(6) {
                0 => json!([mark]),
                1 => json!(mark),
                2 => json!({"n": mark, "pad": "x".repeat(self.up_to(3_000))}),
                3 => json!({"n": mark, "offset": 3}),
                _ => json!({"n": mark}),
            };
            blocks.push(Block::tool_use(id, name, Raw::of(&input)));
        }
        if self.one_in(10) {
            blocks.push(self.odd_block());
        }
        let mut message = Message::new(Role::Assistant, blocks);
        message.model = self.pick(&[None, Some("anthropic/m".into()), Some("openai/m".into())]);
        message.interrupted = self.one_in(10);
        push(entries, message);
    }

    /// A result for a call of the last reply, mostly; the text names the call it answers.
    fn result(&mut self, entries: &[Entry]) -> Block {
        let reply = entries.iter().rev().filter_map(|entry| entry.body.message());
        let calls: Vec<_> = reply
            .clone()
            .find(|message| message.role == Role::Assistant)
            .into_iter()
            .flat_map(|message| message.calls().cloned())
            .collect();
        let Some(call) = (!calls.is_empty() && !self.one_in(8)).then(|| self.pick(&calls)) else {
            return Block::tool_result(self.pick(&["nobody", "call_1", ""]), self.text());
        };
        // Of two calls with the same id, the first counts.
        let first = calls.iter().find(|other| other.id == call.id).unwrap_or(&call);
        let mark = first
            .input
            .get()
            .split('"')
            .find(|part| part.strip_prefix('m').is_some_and(|n| n.parse::<u64>().is_ok()));
        let text = match self.up_to(8) {
            0 => self.text(),
            7 | 8 => format!("answers {}\n{}", mark.unwrap_or("?"), self.lines()),
            1 => json!({"results": [{"path": "a.md"}, {"path": "b.md"}], "pad": "y".repeat(self.up_to(2_000))}).to_string(),
            _ => format!("answers {} {}", mark.unwrap_or("?"), "z".repeat(self.up_to(400))),
        };
        let mut content = vec![Block::text(text)];
        if self.one_in(12) {
            content.push(self.odd_block());
        }
        Block::of(BlockKind::ToolResult(rethread_core::message::ToolResult {
            tool_use_id: call.id,
            content,
            is_error: self.one_in(6),
        }))
    }
}
