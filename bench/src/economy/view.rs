//! A context as it is charged and searched: blocks of text.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rethread_core::identifiers::identifiers;
use rethread_core::message::{Block, BlockKind, Message};
use rethread_core::tokens;

use super::what::What;

/// How tokens are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tokens {
    /// Characters divided by four
    Chars4,
    /// The vocabulary `o200k_base`
    O200k,
}

/// A block of a context.
pub(super) struct View {
    /// Equal blocks have equal keys.
    pub(super) key: u64,
    /// What can be read in it.
    pub(super) text: String,
    /// What is charged for it.
    pub(super) tokens: f64,
    /// The names in it, by number.
    pub(super) names: Vec<u32>,
    pub(super) what: What,
}

/// Every block that was seen, worked out once.
pub(super) struct Views {
    how: Tokens,
    known: HashMap<u64, Rc<View>>,
    numbers: HashMap<String, u32>,
    /// The names by number.
    spelt: Vec<String>,
}

impl Views {
    pub(super) fn new(how: Tokens) -> Views {
        Views { how, known: HashMap::new(), numbers: HashMap::new(), spelt: Vec::new() }
    }

    /// The blocks of a context, in order.
    pub(super) fn of(&mut self, messages: &[Message]) -> Vec<Rc<View>> {
        let mut all = Vec::with_capacity(messages.len());
        let mut kinds = HashMap::new();
        for message in messages {
            for block in &message.content {
                all.push(self.block(message, block, What::of(message, block, &mut kinds)));
            }
        }
        all
    }

    fn block(&mut self, message: &Message, block: &Block, what: What) -> Rc<View> {
        let mut hasher = DefaultHasher::new();
        message.role.as_str().hash(&mut hasher);
        what.hash(&mut hasher);
        let sent = sent(block);
        sent.hash(&mut hasher);
        let key = hasher.finish();
        if let Some(view) = self.known.get(&key) {
            return view.clone();
        }
        let text = readable(block);
        let names = self.names(&text);
        let tokens = match self.how {
            Tokens::Chars4 => sent.chars().count() as f64 / 4.0,
            Tokens::O200k => f64::from(tokens::count(&sent)),
        };
        let view = Rc::new(View { key, text, tokens, names, what });
        self.known.insert(key, view.clone());
        view
    }

    /// The name with this number.
    pub(super) fn name(&self, number: u32) -> &str {
        &self.spelt[number as usize]
    }

    /// The names in a text by number, each once.
    pub(super) fn names(&mut self, text: &str) -> Vec<u32> {
        let mut all: Vec<u32> = identifiers(text)
            .map(|name| match self.numbers.get(name) {
                Some(number) => *number,
                None => {
                    let number = u32::try_from(self.numbers.len()).expect("fewer names than that");
                    self.numbers.insert(name.to_owned(), number);
                    self.spelt.push(name.to_owned());
                    number
                }
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// What is sent of a block.
fn sent(block: &Block) -> String {
    match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => text.clone(),
        BlockKind::Thinking(thinking) => thinking.text.clone(),
        BlockKind::ToolUse(call) => format!("{} {}", call.name, call.input.get()),
        BlockKind::ToolResult(result) => result.text(),
        BlockKind::Image { .. } => "i".repeat(5_200),
        BlockKind::Unknown => block.type_name().to_owned(),
    }
}

/// What a reader sees in a block: the strings of a call without their escapes.
pub(super) fn readable(block: &Block) -> String {
    match &block.kind {
        BlockKind::ToolUse(call) => {
            let mut texts = vec![call.name.clone()];
            strings(&serde_json::from_str(call.input.get()).unwrap_or_default(), &mut texts);
            texts.join("\n")
        }
        BlockKind::Image { .. } => String::new(),
        _ => sent(block),
    }
}

fn strings(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Number(number) => texts.push(number.to_string()),
        serde_json::Value::Array(values) => values.iter().for_each(|value| strings(value, texts)),
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|value| strings(value, texts));
        }
        _ => {}
    }
}
