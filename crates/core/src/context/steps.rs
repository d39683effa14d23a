//! The steps of building a context, in order.
//!
//! Building a context, planning how far back to read, and extending the last context all use this
//! list, so a new step is one file and one line here. `fit_budget` and `validity` are not in it:
//! they always apply, at the end.

use super::draft::Draft;
use super::{
    Policy, Step, clip, keep_recent, keep_thinking, stub_tools, trim_results, truncate_results,
};

/// The steps of a policy, in the order they run.
const STEPS: [StepRule; 6] = [
    trim_results::RULE,
    truncate_results::RULE,
    stub_tools::RULE,
    keep_thinking::RULE,
    keep_recent::RULE,
    clip::RULE,
];

/// One step: when it applies, what it does, and what that depends on.
pub(super) struct StepRule {
    /// The name under which its cuts are reported.
    pub(super) name: Step,
    /// Whether the policy uses it.
    pub(super) wanted: fn(&Policy) -> bool,
    /// Applies it.
    pub(super) apply: for<'a> fn(Draft<'a>, &Policy) -> Draft<'a>,
    /// What its effect depends on.
    pub(super) scope: Scope,
}

/// What the effect of a step depends on.
pub(super) enum Scope {
    /// On each turn alone. New turns can be processed without the older ones.
    Turn,
    /// On the turns around it. The function says whether enough of the log was read.
    Log(fn(&Draft<'_>, &Policy) -> Reach),
}

/// Whether a step has seen enough of a log.
pub(super) enum Reach {
    /// Nothing that was not read can be in the context.
    Enough,
    /// Something that was not read may be in it.
    More,
    /// This step does not know; the window of the model decides.
    Unknown,
}

fn wanted(policy: &Policy) -> impl Iterator<Item = &'static StepRule> {
    STEPS.iter().filter(|rule| (rule.wanted)(policy))
}

/// Applies every step of the policy.
pub(super) fn apply_all<'a>(draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    wanted(policy).fold(draft, |draft, rule| (rule.apply)(draft, policy))
}

/// Applies the steps that process each turn alone.
pub(super) fn apply_to_each_turn<'a>(draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    let alone = wanted(policy).filter(|rule| matches!(rule.scope, Scope::Turn));
    alone.fold(draft, |draft, rule| (rule.apply)(draft, policy))
}

/// The position of a step: cuts of one entry are reported in this order.
pub(super) fn order(step: Step) -> usize {
    let listed = STEPS.iter().map(|rule| rule.name);
    let mut all = [Step::CLEAR].into_iter().chain(listed).chain([Step::LEFT_OUT, Step::FIT_BUDGET]);
    all.position(|one| one == step).unwrap_or(usize::MAX)
}

/// Whether a new question may change what is shown of older turns.
pub(super) fn depend_on_the_log(policy: &Policy) -> bool {
    wanted(policy).any(|rule| matches!(rule.scope, Scope::Log(_)))
}

/// Whether the steps know that enough of the log was read, or that it was not.
pub(super) fn reach(draft: &Draft<'_>, policy: &Policy) -> Reach {
    for rule in wanted(policy) {
        if let Scope::Log(reach) = rule.scope {
            match reach(draft, policy) {
                Reach::Unknown => {}
                known => return known,
            }
        }
    }
    Reach::Unknown
}
