//! Messages that decide about a call that waits for approval (APPROVE-2). They decide only if every word belongs to the decision.

use std::ops::Range;

use super::IntentRule;
use super::language::{LANGUAGES, all};
use super::words::{TokenKind, Words};

/// Rejections that may be followed by another rejection without making the message unclear ("no, don't").
const REPEATED: [&str; 3] = ["no", "nope", "nah"];
/// Maximum length in tokens of a message that decides.
const MAX_TOKENS: usize = 400;
/// Maximum length in tokens of a message that begins with a hedge and counts as an unclear answer.
const MAX_HEDGED: usize = 8;

/// A message's decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Approve,
    Reject { reason: Option<String> },
    Edit { words: String },
    Guide { guidance: String },
    Unclear,
}

/// A decision and how it was found.
#[derive(Clone, Debug)]
pub(super) struct FoundDecision<'a> {
    pub(super) decision: Decision,
    pub(super) rule: IntentRule,
    /// The words of the decision, as written.
    pub(super) words: Vec<&'a str>,
    /// True if the words can only be about a call: "approve", but not "yes".
    pub(super) names_decision: bool,
}

/// Finds the decision in a message; `None` if it contains no words of a decision.
pub(super) fn find<'a>(words: &Words<'a>) -> Option<FoundDecision<'a>> {
    if words.len() > MAX_TOKENS {
        return None;
    }
    let clauses: Vec<Clause> = words
        .clauses()
        .into_iter()
        .map(|range| clause(words, range))
        .collect();
    let any = |has: fn(&Clause) -> bool| clauses.iter().any(has);
    let approves = any(|clause| clause.approves);
    let rejects = any(|clause| clause.rejects);
    let hedges = any(|clause| clause.hedges);
    let has_other = any(|clause| clause.rest.is_some());
    let begun = |clause: &Clause| words.written(clause.range.start..clause.rest.unwrap_or(clause.range.end));
    let decided = clauses
        .iter()
        .filter(|clause| clause.approves || clause.rejects || clause.hedges);
    let found = |decision, rule| FoundDecision {
        decision,
        rule,
        words: decided.clone().map(begun).collect(),
        names_decision: any(|clause| clause.names_decision),
    };

    if words.is_question() {
        return (approves || rejects || hedges).then(|| found(Decision::Unclear, IntentRule::MixedWords));
    }
    if let Some(edit) = clauses.iter().find_map(|clause| edit(words, clause)) {
        let decision = Decision::Edit {
            words: words.written_from(edit.start).to_owned(),
        };
        return Some(FoundDecision {
            words: vec![words.written(edit)],
            ..found(decision, IntentRule::Edit)
        });
    }
    match (approves, rejects, hedges) {
        (true, false, false) if !has_other => Some(found(Decision::Approve, IntentRule::Decision)),
        (false, true, false) if !has_other => {
            Some(found(Decision::Reject { reason: None }, IntentRule::Decision))
        }
        (false, true, false) => Some(match reason(words, &clauses) {
            Some(reason) => found(
                Decision::Reject { reason: Some(reason) },
                IntentRule::DecisionWithReason,
            ),
            None if does_instead(words, &clauses) => {
                let guidance = words.source().to_owned();
                found(Decision::Guide { guidance }, IntentRule::Instead)
            }
            None => found(Decision::Unclear, IntentRule::MixedWords),
        }),
        (false, false, false) => {
            let guidance = words.source().to_owned();
            ends_with_instead(words, &clauses)
                .then(|| found(Decision::Guide { guidance }, IntentRule::Instead))
        }
        (_, _, true) => {
            let is_hedged = !has_other || words.len() <= MAX_HEDGED || approves || rejects;
            is_hedged.then(|| found(Decision::Unclear, IntentRule::Hedged))
        }
        (true, _, false) => Some(found(Decision::Unclear, IntentRule::MixedWords)),
    }
}

/// A clause, and the decision that its first words express.
#[derive(Debug)]
struct Clause {
    range: Range<usize>,
    approves: bool,
    rejects: bool,
    hedges: bool,
    names_decision: bool,
    /// The first token that is neither part of a decision nor a filler; `None` if all are.
    rest: Option<usize>,
}

fn clause(words: &Words<'_>, range: Range<usize>) -> Clause {
    let mut clause = Clause {
        range: range.clone(),
        approves: false,
        rejects: false,
        hedges: false,
        names_decision: false,
        rest: None,
    };
    let mut at = range.start;
    let mut rejected: Option<&str> = None;
    while at < range.end {
        let longest = |of| words.longest_in(at..range.end, all(of));
        let approve_explicitly = longest(|language| language.approve_explicitly);
        let reject_explicitly = longest(|language| language.reject_explicitly);
        let approve = longest(|language| language.approve).max(approve_explicitly);
        let reject = longest(|language| language.reject).max(reject_explicitly);
        let hedge = longest(|language| language.hedges);
        let filler = longest(|language| language.fillers);
        let Some(end) = approve.max(reject).max(hedge).max(filler) else {
            clause.rest = Some(at);
            break;
        };
        // The longest phrase counts: "not sure" is neither "not" nor "sure".
        let is = |found: Option<usize>| found == Some(end);
        if is(hedge) {
            clause.hedges = true;
        } else if is(reject) {
            clause.rejects = true;
            // Two different rejections can be a double negation: "don't stop", 不反对.
            let words = words.written(at..end);
            let first = rejected.get_or_insert(words);
            clause.hedges |=
                !first.eq_ignore_ascii_case(words) && !REPEATED.contains(&first.to_lowercase().as_str());
        } else if is(approve) {
            clause.approves = true;
        }
        clause.names_decision |= is(approve_explicitly) || is(reject_explicitly);
        at = end;
    }
    clause
}

/// The words of a clause that introduce changed parameters: at its start, or after a decision, fillers and "but".
fn edit(words: &Words<'_>, clause: &Clause) -> Option<Range<usize>> {
    let behind = clause.rest?;
    let but = words.longest_in(behind..clause.range.end, all(|language| language.clause_starts));
    // "don't change it to …" does not change parameters.
    let behind = (!clause.rejects).then_some(behind);
    let starts = [Some(clause.range.start), behind, but].into_iter().flatten();
    starts.into_iter().find_map(|start| {
        let whole = start..clause.range.end;
        let single = words.longest_in(whole.clone(), all(|language| language.edits));
        let pairs = LANGUAGES.iter().flat_map(|language| language.edit_pairs);
        let pair = || {
            pairs.into_iter().find_map(|(first, second)| {
                let first = words.phrase_at(start, first).filter(|end| *end < whole.end)?;
                words.find(first..whole.end, second.iter()).map(|range| range.end)
            })
        };
        let end = single.or_else(pair)?;
        let after = words.has_content(end..words.len());
        after.then_some(start..end)
    })
}

/// The reason after a rejection: "no, because …", "reject: …".
fn reason(words: &Words<'_>, clauses: &[Clause]) -> Option<String> {
    let (first, others) = clauses.split_first()?;
    if !first.rejects {
        return None;
    }
    let start = match first.rest {
        Some(rest) => rest,
        None => others.first()?.range.start,
    };
    let is_reason = words
        .longest_at(start, all(|language| language.reasons))
        .is_some();
    let follows_colon = first.rest.is_none() && first.names_decision && words.text(first.range.end) == ":";
    (is_reason || follows_colon).then(|| words.written_from(start).to_owned())
}

/// Returns true if another instruction follows a rejection: "no, use cargo check instead", 不，先跑测试.
fn does_instead(words: &Words<'_>, clauses: &[Clause]) -> bool {
    let mut others = clauses
        .iter()
        .filter(|clause| clause.rest == Some(clause.range.start));
    let begins = others.any(|clause| {
        let range = clause.range.clone();
        words
            .longest_in(range, all(|language| language.instead))
            .is_some()
    });
    begins || ends_with_instead(words, clauses)
}

/// Returns true if the message gives another instruction without a decision: "use cargo check instead", 改用 npm.
fn ends_with_instead(words: &Words<'_>, clauses: &[Clause]) -> bool {
    let Some(last) = clauses.last() else {
        return false;
    };
    let first = clauses.first().map_or(0, |clause| clause.range.start);
    let range = last.range.clone();
    let ends = range.clone().any(|at| {
        words.longest_in(at..range.end, all(|language| language.instead_at_end)) == Some(range.end)
    });
    let begins = words
        .longest_at(first, all(|language| language.instead_at_start))
        .is_some();
    let is_quoted = words.kind(first) == Some(TokenKind::Quoted);
    (ends || begins) && range.len() > 1 && !is_quoted
}
