//! Requests to remember, recall and forget facts (INTENT-1).

use std::ops::Range;

use super::language::{Phrases, all};
use super::words::{TokenKind, Words};
use super::{Classification, Intent, IntentContext, IntentRule, MemoryIntent};

/// Minimum length of a fact in tokens.
const MIN_FACT: usize = 2;
/// Maximum length in tokens of the topic of a question or deletion. Longer messages are tasks.
const MAX_QUESTION: usize = 12;

/// Classifies a message that begins with a request about facts, or ends with "remember that".
pub(super) fn classify(words: &Words<'_>, context: &IntentContext<'_>) -> Option<Classification> {
    let start = words.skip(0, all(|language| language.openers));
    // An opener may be part of the phrase, such as 要 in 不要记住.
    let starts = if start == 0 { vec![0] } else { vec![0, start] };
    let at = |rule: fn(&Words<'_>, usize) -> Option<Classification>| {
        starts.iter().find_map(|start| rule(words, *start))
    };
    starts
        .iter()
        .find_map(|start| undo(words, *start, context))
        .or_else(|| at(forget))
        .or_else(|| at(recall))
        .or_else(|| at(remember))
        .or_else(|| at(remember_object))
        .or_else(|| remember_before(words))
}

/// Matches "forget that", 撤销刚才的记忆. Such a request must be the whole message.
fn undo(words: &Words<'_>, at: usize, context: &IntentContext<'_>) -> Option<Classification> {
    let ends = |phrases| ends_message(words, at, phrases);
    let just_kept = context.has_just_remembered;
    let end = ends(|language| language.undo)
        .or_else(|| ends(|language| language.undo_if_kept).filter(|_| just_kept || context.has_kept_fact))
        .or_else(|| ends(|language| language.undo_if_just_kept).filter(|_| just_kept))?;
    Some(memory(words, MemoryIntent::Undo, IntentRule::Undo, at..end))
}

/// The index after the phrase, if one of the phrases starts at this token and only fillers follow it.
fn ends_message(
    words: &Words<'_>,
    at: usize,
    phrases: fn(&super::language::Language) -> Phrases,
) -> Option<usize> {
    let end = words.longest_at(at, all(phrases))?;
    (words.skip(end, all(|language| language.fillers)) == words.len() && !words.is_question()).then_some(end)
}

/// Matches "forget what I told you about …", 忘掉我的….
fn forget(words: &Words<'_>, at: usize) -> Option<Classification> {
    let end = words.longest_at(at, all(|language| language.forget_about))?;
    let query = query(words, end);
    let clauses = words.clauses();
    let is_one_clause = clauses.last().is_some_and(|last| last.start <= end);
    if query.is_empty() || words.is_question() || !is_one_clause || words.len() - end > MAX_QUESTION {
        return None;
    }
    let intent = MemoryIntent::Forget { query };
    Some(memory(words, intent, IntentRule::Forget, at..end))
}

/// Matches "what did I tell you about …", 你还记得我的…吗.
fn recall(words: &Words<'_>, at: usize) -> Option<Classification> {
    let (from, end) = recall_words(words, at)?;
    let query = query(words, from);
    let intent = MemoryIntent::Recall { query };
    Some(memory(words, intent, IntentRule::Recall, at..end))
}

/// For a question about facts, returns the index of its first search term, and the index after the words that identify it as such a
/// question.
fn recall_words(words: &Words<'_>, at: usize) -> Option<(usize, usize)> {
    let is_short = words.len() - at <= MAX_QUESTION * 2;
    let starts = |from: usize, phrases: fn(&super::language::Language) -> Phrases| {
        words.longest_at(from, all(phrases))
    };
    if let Some(end) = starts(at, |language| language.recall) {
        return Some((end, end));
    }
    if let Some(end) = starts(at, |language| language.recall_question)
        && asks(words)
    {
        return Some((end, end));
    }
    let marked = starts(at, |language| language.recall_if_marked).filter(|_| words.is_question());
    if let Some(end) = starts(at, |language| language.recall_if_about).or(marked)
        && asks(words)
        && let Some(about) = starts(end, |language| language.recall_about)
        && starts(end, |language| language.recall_conversation).is_none()
    {
        return Some((end, about));
    }
    if let Some(end) = starts(at, |language| language.recall_if_personal)
        && asks(words)
        && is_short
        && let Some(personal) = starts(end, |language| language.personal)
        && words.len() - personal <= MAX_QUESTION / 2
    {
        return Some((end, personal));
    }
    let end = starts(at, |language| language.recall_whole).filter(|_| asks(words) && is_short)?;
    Some((at, end))
}

/// Returns true for a question, even without a question mark.
fn asks(words: &Words<'_>) -> bool {
    let is_english = words.tokens().iter().all(|token| token.kind != TokenKind::Han);
    is_english
        || words.is_question()
        || words
            .find(0..words.len(), all(|language| language.question_words))
            .is_some()
}

/// Matches "remember that …", 记住 ….
fn remember(words: &Words<'_>, at: usize) -> Option<Classification> {
    let starts = |phrases: fn(&super::language::Language) -> Phrases| words.longest_at(at, all(phrases));
    let colon = starts(|language| language.remember_colon).filter(|end| {
        [":", "\n", "—", "-"].contains(&words.text(*end)) && words.kind(*end) == Some(TokenKind::Break)
    });
    let that = starts(|language| language.remember_that).filter(|end| {
        let pointed = words.longest_at(*end, all(|language| language.pointed_at));
        pointed.is_none() && !words.is_question()
    });
    let me = starts(|language| language.remember_me)
        .filter(|end| !words.is_question() && is_statement(words, *end));
    let not_task = starts(|language| language.remember_or_task).filter(|end| {
        words.longest_at(*end, all(|language| language.tasks)).is_none() && !words.is_question()
    });
    let end = colon.or(that).or(me).or(not_task)?;
    let start = fact_start(words, end);
    remembered(words, start..words.len(), at..end)
}

/// The first token of a fact, after punctuation, particles and "this:".
fn fact_start(words: &Words<'_>, mut at: usize) -> usize {
    loop {
        let pronoun = words.longest_at(at, all(|language| language.pronouns));
        let is_lead = |end: usize| matches!(words.text(end), ":" | ",");
        let particle = words.longest_at(at, all(|language| language.particles));
        if words.kind(at) == Some(TokenKind::Break) {
            at += 1;
        } else if let Some(end) = pronoun.filter(|end| is_lead(*end)).or(particle) {
            at = end;
        } else {
            return at;
        }
    }
}

/// Returns true if the tokens from this index on are a statement: "I prefer tabs", "my name is Ann".
fn is_statement(words: &Words<'_>, at: usize) -> bool {
    let at = if words.text(at) == "," { at + 1 } else { at };
    if let Some(end) = words.longest_at(at, all(|language| language.first_person)) {
        return words.len() > end;
    }
    if words
        .longest_at(at, all(|language| language.no_subjects))
        .is_some()
    {
        return false;
    }
    let clause = (at..words.len())
        .find(|at| words.kind(*at) == Some(TokenKind::Break))
        .unwrap_or(words.len());
    let verb = words.find(at..clause, all(|language| language.fact_verbs));
    verb.is_some_and(|verb| verb.start > at && verb.end < clause)
}

/// Matches 把 … 记住, with the fact between the two words.
fn remember_object(words: &Words<'_>, at: usize) -> Option<Classification> {
    let start = words.longest_at(at, all(|language| language.object_marks))?;
    let kept = words.find(start..words.len(), all(|language| language.keep_it))?;
    let is_end = words.skip(kept.end, all(|language| language.fillers)) == words.len();
    let is_pronoun =
        words.longest_in(start..kept.start, all(|language| language.pronouns)) == Some(kept.start);
    if !is_end || is_pronoun || words.is_question() {
        return None;
    }
    remembered(words, start..kept.start, kept)
}

/// Matches "My name is Ann. Please remember that.": the last sentence asks to save the text before it.
fn remember_before(words: &Words<'_>) -> Option<Classification> {
    let clauses = words.clauses();
    let last = clauses.last()?.clone();
    let start = words
        .skip(last.start, all(|language| language.openers))
        .min(last.end);
    let is_whole = [last.start, start].into_iter().any(|start| {
        let end = words.longest_in(start..last.end, all(|language| language.remember_this));
        end.is_some_and(|end| words.skip(end, all(|language| language.fillers)) == words.len())
    });
    let before = 0..last.start;
    let asks_before = before.clone().any(|at| words.text(at) == "?");
    if !is_whole || words.is_question() || asks_before {
        return None;
    }
    remembered(words, before, last)
}

/// The intent to save the text in this range as a fact.
fn remembered(words: &Words<'_>, fact: Range<usize>, matched: Range<usize>) -> Option<Classification> {
    let tokens = words.tokens().get(fact.clone())?;
    let content = tokens.iter().filter(|token| token.kind != TokenKind::Break);
    let is_quotation = tokens.iter().any(|token| token.kind == TokenKind::Quoted);
    if content.count() < MIN_FACT && !is_quotation {
        return None;
    }
    let written = if fact.end == words.len() {
        words.written_from(fact.start)
    } else {
        words.written(fact)
    };
    let fact = written.trim_end_matches([',', '，', ':', '：', ';', '；']).trim();
    let intent = MemoryIntent::Remember {
        fact: fact.to_owned(),
    };
    Some(memory(words, intent, IntentRule::Remember, matched))
}

/// The search terms from this token on, without question words and other noise.
fn query(words: &Words<'_>, mut at: usize) -> String {
    let mut query = String::new();
    let mut after_han = false;
    while at < words.len() {
        let noise = words.longest_at(at, all(|language| language.query_noise));
        let token = &words.tokens()[at];
        if let Some(end) = noise {
            at = end;
            after_han = false;
            continue;
        }
        match token.kind {
            TokenKind::Han if after_han => query.push_str(&token.text),
            TokenKind::Word | TokenKind::Han | TokenKind::Quoted => {
                if !query.is_empty() {
                    query.push(' ');
                }
                query.push_str(&token.text);
            }
            TokenKind::Break | TokenKind::Symbol => {}
        }
        after_han = token.kind == TokenKind::Han;
        at += 1;
    }
    query
}

fn memory(
    words: &Words<'_>,
    intent: MemoryIntent,
    rule: IntentRule,
    matched: Range<usize>,
) -> Classification {
    Classification::new(Intent::Memory(intent), rule, [words.written(matched)])
}
