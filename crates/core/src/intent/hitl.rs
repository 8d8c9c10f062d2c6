//! Answers to pending calls and questions (INTENT-1, APPROVE-2). A clear message decides; after an unclear message, the user is asked
//! again.

use super::choice::{self, Choice};
use super::decision::{self, Decision, FoundDecision};
use super::words::Words;
use super::{Classification, HitlIntent, Intent, IntentRule, PendingKind, PendingRequest};
use crate::id::EffectId;

/// Classifies a message as an answer to a pending request; `None` if the words fit no request.
pub(super) fn classify(words: &Words<'_>, pending: &[PendingRequest]) -> Option<Classification> {
    if words.source().is_empty() {
        return None;
    }
    match pending {
        [] => None,
        [only] => answer_to(words, only),
        several => answer_to_one_of(words, several),
    }
}

fn answer_to(words: &Words<'_>, request: &PendingRequest) -> Option<Classification> {
    let effect = request.effect;
    match &request.kind {
        PendingKind::Approval => match decision::find(words) {
            Some(found) => Some(decided(effect, found)),
            // A number selects a choice, but an approval has no choices, so the message is unclear.
            None => choice::number(words, 0).map(|_| unclear(words, IntentRule::NoSuchChoice)),
        },
        PendingKind::Question { choices } if choices.is_empty() => Some(open_answer(words, effect)),
        PendingKind::Question { choices } => match choice::find(words, choices) {
            Some(Choice::Number(number, rule)) => Some(chosen(words, effect, number, rule)),
            Some(Choice::Own) => {
                let text = words.source().to_owned();
                Some(hitl(
                    HitlIntent::Answer { effect, text },
                    IntentRule::OwnAnswer,
                    [words.source()],
                ))
            }
            Some(Choice::Unclear(rule)) => Some(unclear(words, rule)),
            None => {
                let found = decision::find(words)?;
                Some(hitl(HitlIntent::Unclear, unclear_rule(found.rule), found.words))
            }
        },
    }
}

/// Classifies an answer to one of several pending requests. The answer counts only if it fits exactly one request. A
/// number fits none, because it could also refer to the list of requests.
fn answer_to_one_of(words: &Words<'_>, pending: &[PendingRequest]) -> Option<Classification> {
    let mut calls = Vec::new();
    let mut open = Vec::new();
    let mut choices = Vec::new();
    for request in pending {
        match &request.kind {
            PendingKind::Approval => calls.push(request.effect),
            PendingKind::Question { choices: texts } if texts.is_empty() => open.push(request.effect),
            PendingKind::Question { choices: texts } => {
                choices.extend(choice::by_text(words, texts).map(|number| (request.effect, number)));
            }
        }
    }
    let several = || Some(unclear(words, IntentRule::SeveralRequests));
    let found = decision::find(words);
    match (found, choices.as_slice()) {
        (None, [(effect, number)]) => Some(chosen(words, *effect, *number, IntentRule::ChoiceText)),
        (_, [_, ..]) => several(),
        (Some(found), []) => match (calls.as_slice(), open.as_slice()) {
            ([call], []) => Some(decided(*call, found)),
            ([call], [_, ..]) if found.names_decision => Some(decided(*call, found)),
            ([], [question]) => Some(open_answer(words, *question)),
            _ => several(),
        },
        (None, []) if choice::number(words, pending.len()).is_some() => several(),
        (None, []) => match open.as_slice() {
            [] => None,
            [question] => Some(open_answer(words, *question)),
            [_, _, ..] => several(),
        },
    }
}

fn decided(effect: EffectId, found: FoundDecision<'_>) -> Classification {
    let intent = match found.decision {
        Decision::Approve => HitlIntent::Approve { effect },
        Decision::Reject { reason } => HitlIntent::Reject { effect, reason },
        Decision::Edit { words } => HitlIntent::Edit { effect, words },
        Decision::Guide { guidance } => HitlIntent::Guide { effect, guidance },
        Decision::Unclear => HitlIntent::Unclear,
    };
    hitl(intent, found.rule, found.words)
}

fn chosen(words: &Words<'_>, effect: EffectId, number: usize, rule: IntentRule) -> Classification {
    hitl(HitlIntent::Choose { effect, number }, rule, [words.source()])
}

fn open_answer(words: &Words<'_>, effect: EffectId) -> Classification {
    let text = words.source().to_owned();
    hitl(HitlIntent::Answer { effect, text }, IntentRule::OpenQuestion, [])
}

fn unclear(words: &Words<'_>, rule: IntentRule) -> Classification {
    hitl(HitlIntent::Unclear, rule, [words.source()])
}

/// The rule that explains why a decision is an unclear answer to a question with choices.
fn unclear_rule(rule: IntentRule) -> IntentRule {
    if rule == IntentRule::Hedged {
        IntentRule::Hedged
    } else {
        IntentRule::MixedWords
    }
}

fn hitl<'w>(
    intent: HitlIntent,
    rule: IntentRule,
    words: impl IntoIterator<Item = &'w str>,
) -> Classification {
    Classification::new(Intent::Hitl(intent), rule, words)
}
