//! From a log to the context a model will see.
//!
//! Everything here is a pure function: same log, same policy, same model, same bytes. Nothing is
//! stored and nothing is changed; shortening an old tool result shortens the *view*, never the
//! log. Summarising is not here, because it has to ask a model.
//!
//! The steps run in a fixed order, the list in `steps.rs`, on everything since the last clear; then
//! `fit_budget`, and last `validity`, after which a provider accepts the result, regardless of the
//! log. Each step works on whole rounds, so none can separate a call from its result, and reports
//! what it cut.
//!
//! Two rules keep the provider's cache warm. Inside a turn, bytes that were sent do not change;
//! between turns, content is dropped in batches. Where a batch ends depends on absolute positions
//! in the log (running totals), never on earlier calls, so a context is the same after a restart,
//! and if only the end of the log was read.

mod clip;
mod draft;
mod explain;
mod fit_budget;
mod follow;
mod keep_recent;
mod keep_thinking;
mod plan;
mod policy;
mod steps;
mod stub_tools;
mod trim_results;
mod truncate_results;
mod validity;

pub use explain::explain;
pub use follow::Follower;
pub use plan::{Need, next};
pub use policy::{Clip, Policy};

use serde::Serialize;
use serde::ser::SerializeStruct;
use sha2::{Digest, Sha256};

use crate::limits::{DOCUMENT_BYTES_MAX, IMAGE_BYTES_MAX, REPLY_TOKENS, WINDOW_TOKENS};
use crate::log::Log;
use crate::message::Message;
use draft::Draft;
use fit_budget::Fit;

/// The model a context is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Model {
    pub provider: String,
    /// Its name there.
    pub name: String,
    /// Its context window in tokens, reply included.
    pub window: u64,
    /// Tokens reserved for its reply.
    pub reply: u64,
    /// What it can read besides text.
    pub sees: ModelInputs,
}

/// What a model can read besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelInputs {
    /// Pictures.
    pub images: bool,
    /// PDFs.
    pub documents: bool,
}

impl ModelInputs {
    /// Whether it accepts a picture of this size.
    pub fn takes_image(self, bytes: u64) -> bool {
        self.images && bytes <= IMAGE_BYTES_MAX
    }

    /// Whether it accepts a PDF of this size.
    pub fn takes_document(self, bytes: u64) -> bool {
        self.documents && bytes <= DOCUMENT_BYTES_MAX
    }
}

impl Model {
    /// A model of which only the name is known.
    pub fn new(provider: impl Into<String>, name: impl Into<String>) -> Model {
        let (provider, name) = (provider.into(), name.into());
        let sees = ModelInputs::default();
        Model { provider, name, window: WINDOW_TOKENS, reply: REPLY_TOKENS, sees }
    }

    /// `provider/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }

    /// Tokens a context may have.
    pub fn budget(&self) -> u64 {
        self.window.saturating_sub(self.reply).max(self.window / 2)
    }
}

/// What is sent to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The messages, the system message first, in the form of this crate: each can be converted to
    /// any provider's JSON (`rethread-agent` does it for three). Calls and their results are
    /// complete and in order, and a result is a separate message. A session without messages has
    /// none.
    pub messages: Vec<Message>,
    /// Their tokens, by our count.
    pub tokens: u64,
    /// What was removed or shortened.
    pub cuts: Vec<Cut>,
    /// How many leading messages stay the same until the turn is over: where a provider may cache.
    pub stable: usize,
}

/// A context as JSON, the same for every interface. Messages are written byte for byte, so that
/// numbers keep every digit.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Report<'a> {
    /// The policy that shaped it.
    pub policy: &'a Policy,
    pub model: &'a Model,
    pub context: &'a Context,
}

impl Serialize for Report<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Report", 6)?;
        fields.serialize_field("policy", &self.policy.name)?;
        fields.serialize_field("model", &self.model.id())?;
        fields.serialize_field("tokens", &self.context.tokens)?;
        fields.serialize_field("hash", &self.context.hash())?;
        fields.serialize_field("messages", &self.context.messages)?;
        fields.serialize_field("cuts", &self.context.cuts)?;
        fields.end()
    }
}

/// The step that made a cut, by the name of its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Step(&'static str);

impl Step {
    /// The context was cleared.
    pub const CLEAR: Step = Step("clear");
    /// The turn was marked as left out: refused, or asked again.
    pub const LEFT_OUT: Step = Step("left_out");
    /// The model's window is too small.
    pub const FIT_BUDGET: Step = Step("fit_budget");
    /// It cannot be read.
    pub const DAMAGE: Step = Step("damage");
    /// No provider would accept it.
    pub const VALIDITY: Step = Step("validity");

    /// The name of the option.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// One thing that was removed or shortened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cut {
    /// The step that did it.
    pub by: Step,
    /// The first entry it concerns.
    pub seq: u64,
    /// The last entry it concerns.
    pub through: u64,
    /// The reference for `recall`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What happened.
    #[serde(flatten)]
    pub change: CutEffect,
}

/// Why lines of a result are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CutReason {
    /// Only blanks, colours and line numbers; every line is there.
    Tidied,
    /// The output of a successful edit or write repeats the call.
    Echo,
    /// An earlier result in the same context shows them.
    Repeated,
    /// There are too many.
    Long,
    /// The turn is over, and the provider's cache had expired.
    Cold,
    /// The turn is over, and showing less saves more than writing the cache again costs.
    Pays,
}

impl CutReason {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            CutReason::Tidied => "tidied",
            CutReason::Echo => "echo",
            CutReason::Repeated => "repeated",
            CutReason::Long => "long",
            CutReason::Cold => "cold",
            CutReason::Pays => "pays",
        }
    }
}

/// What was done to what was cut.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum CutEffect {
    /// It was dropped.
    Dropped { messages: u64, tokens: u64 },
    /// It was shortened.
    Shortened {
        /// Its length in characters.
        from_chars: u64,
        /// Characters that are sent.
        to_chars: u64,
    },
    /// Some of its lines are shown.
    Trimmed {
        /// Its length in characters.
        from_chars: u64,
        /// Characters that are sent.
        to_chars: u64,
        /// Lines it has.
        from_lines: u64,
        /// Lines that are shown.
        to_lines: u64,
        /// Why the others are not.
        why: CutReason,
    },
    /// A part of it could not be sent.
    LeftOut {
        /// What, and why.
        what: String,
    },
}

/// Builds a context from the end of a log.
pub fn build(log: &Log, policy: &Policy, model: &Model) -> Context {
    validity::finish(shape(log, policy, model).draft, model)
}

/// The turn from which thinning results pays although the provider's cache is warm, if there is
/// one.
pub(crate) fn thinning_pays_from(log: &Log, policy: &Policy) -> Option<u64> {
    trim_results::pays_from(log, policy)
}

/// A context before the last step.
struct Shaped<'a> {
    draft: Draft<'a>,
    /// What it took to fit the window.
    fit: Fit,
    /// Lines are shown because the result that shows them, too, had to go.
    filled_in: bool,
}

/// Everything but the last step.
fn shape<'a>(log: &'a Log, policy: &Policy, model: &Model) -> Shaped<'a> {
    let mut draft = steps::apply_all(Draft::new(log), policy);
    let left_out = draft.without_left_out();
    trim_results::resolve(&mut draft, |_| false);
    let was_read = !steps::depend_on_the_log(policy);
    let (mut draft, mut fit) = fit_budget::apply(draft, model.budget(), was_read);
    // What had to go may have been referred to. Those lines are shown where the reference was,
    // which may take more room: what has to go only ever grows.
    let mut filled_in = false;
    while trim_results::resolve(&mut draft, |_| false) {
        let (less, more) = fit_budget::apply(draft, model.budget(), was_read);
        (draft, fit, filled_in) = (less, fit.then(more), true);
    }
    // If older turns had to be dropped, cuts in them are not reported separately: they may not have
    // been read.
    let made_room = draft.cuts.iter().any(|cut| cut.by == Step::FIT_BUDGET);
    let of_log = |turn: &&draft::Turn<'_>| !turn.pinned && !turn.carried;
    let from = draft.turns.iter().find(of_log).map_or(0, |turn| turn.seq);
    draft.cuts.extend(left_out.into_iter().filter(|cut| !made_room || cut.seq > from));
    Shaped { draft, fit, filled_in }
}

impl Context {
    /// The SHA-256 of the messages as JSON, in hexadecimal. Equal hashes mean equal messages, and
    /// so equal bytes sent to the same model.
    pub fn hash(&self) -> String {
        let json = serde_json::to_vec(&self.messages).expect("messages are always valid JSON");
        Sha256::digest(json).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
