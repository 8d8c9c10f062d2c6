//! Answers that take one of a question's choices, by number, ordinal or text.

use std::ops::Range;

use super::IntentRule;
use super::language::{LANGUAGES, all};
use super::words::{TokenKind, Words};

/// Maximum length in tokens of a message that ends with a number and counts as an unclear answer.
const MAX_NUMBERED: usize = 6;
/// Maximum length in tokens of a message that mentions a choice among other words and counts as an unclear answer.
const MAX_MENTION: usize = 16;

/// A message's answer to a question with choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The choice with this number, counted from 1.
    Number(usize, IntentRule),
    /// The user's own answer: the whole message.
    Own,
    /// An unclear answer, and the rule that says why.
    Unclear(IntentRule),
}

/// Finds the answer in a message; `None` if the message is not about the choices.
pub(super) fn find(words: &Words<'_>, choices: &[String]) -> Option<Choice> {
    if let Some(number) = by_text(words, choices) {
        return Some(Choice::Number(number, IntentRule::ChoiceText));
    }
    if let Some(number) = number(words, choices.len()) {
        return Some(match number {
            Ok(number) => Choice::Number(number, IntentRule::ChoiceNumber),
            Err(rule) => Choice::Unclear(rule),
        });
    }
    let none = words.longest_at(content(words).start, all(|language| language.none_of_them));
    if none.is_some() && !words.is_question() {
        return Some(Choice::Own);
    }
    let mentioned = choices.iter().filter(|choice| mentions(words, choice)).count();
    match mentioned {
        0 => ends_with_number(words, choices.len()).then_some(Choice::Unclear(IntentRule::MixedWords)),
        _ if words.len() > MAX_MENTION => None,
        1 => Some(Choice::Unclear(IntentRule::MixedWords)),
        _ => Some(Choice::Unclear(IntentRule::SeveralChoices)),
    }
}

/// The number of the only choice whose text or first clause is the whole message apart from fillers; `None` if no choice matches, or
/// several do.
pub(super) fn by_text(words: &Words<'_>, choices: &[String]) -> Option<usize> {
    let source = words.source();
    if let Some(exact) = choices.iter().position(|choice| choice.trim() == source) {
        return Some(exact + 1);
    }
    if words.is_question() {
        return None;
    }
    let whole: Vec<&str> = texts(words, 0..words.len());
    let content = texts(words, content(words));
    if content.is_empty() {
        return None;
    }
    let only = |is: &dyn Fn(&Words<'_>) -> bool| {
        let mut hits = (1..).zip(choices).filter(|(_, choice)| is(&Words::new(choice)));
        hits.next()
            .filter(|_| hits.next().is_none())
            .map(|(number, _): (usize, _)| number)
    };
    let is_text = |text: &[&str]| text == whole || text == content;
    only(&|choice| is_text(&texts(choice, 0..choice.len()))).or_else(|| {
        only(&|choice| {
            choice
                .clauses()
                .first()
                .is_some_and(|first| is_text(&texts(choice, first.clone())))
        })
    })
}

/// The number of the choice if the message, apart from fillers, is a number. `None` if the message is not a number; the
/// rule if the number is unclear.
pub(super) fn number(words: &Words<'_>, choices: usize) -> Option<Result<usize, IntentRule>> {
    if words.is_question() {
        return None;
    }
    let range = content(words);
    if let Some(number) = single_number(words, range.clone(), choices) {
        return Some(if (1..=choices).contains(&number) {
            Ok(number)
        } else {
            Err(IntentRule::NoSuchChoice)
        });
    }
    let mut numbers = 0;
    let mut start = range.start;
    for at in range.clone() {
        let joint = words.longest_in(at..range.end, all(|language| language.joints));
        let is_break = words.kind(at) == Some(TokenKind::Break);
        if joint.is_some() || is_break {
            single_number(words, start..at, choices)?;
            numbers += 1;
            start = joint.unwrap_or(at + 1);
        }
    }
    single_number(words, start..range.end, choices).filter(|_| numbers > 0)?;
    Some(Err(IntentRule::SeveralChoices))
}

/// Returns true for a short message that ends with a number, such as "not the second one".
fn ends_with_number(words: &Words<'_>, choices: usize) -> bool {
    let range = content(words);
    let is_short = range.len() <= MAX_NUMBERED && !words.is_question();
    is_short
        && range
            .clone()
            .any(|at| single_number(words, at..range.end, choices).is_some())
}

/// The number in these tokens if they consist only of a number: `2`, `option 2`, `the second one`, 第二个.
fn single_number(words: &Words<'_>, range: Range<usize>, choices: usize) -> Option<usize> {
    let mut at = range.start;
    while let Some(end) = words.longest_in(at..range.end, all(|language| language.number_before)) {
        at = end;
    }
    let (number, mut at) = number_at(words, at..range.end, choices)?;
    while let Some(end) = words.longest_in(at..range.end, all(|language| language.number_after)) {
        at = end;
    }
    (at == range.end).then_some(number)
}

fn number_at(words: &Words<'_>, range: Range<usize>, choices: usize) -> Option<(usize, usize)> {
    if range.is_empty() {
        return None;
    }
    if let Some(end) = words.longest_in(range.clone(), all(|language| language.last)) {
        return Some((choices, end));
    }
    let text = words.text(range.start);
    if words.kind(range.start) == Some(TokenKind::Word) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large to parse is larger than any list.
        return Some((text.parse().unwrap_or(usize::MAX), range.start + 1));
    }
    LANGUAGES.iter().find_map(|language| {
        (1..)
            .zip(language.numbers)
            .find_map(|(number, names): (usize, _)| {
                words
                    .longest_in(range.clone(), names.iter())
                    .map(|end| (number, end))
            })
    })
}

/// The tokens without punctuation, fillers and phrases such as "I'd go with" at both ends.
fn content(words: &Words<'_>) -> Range<usize> {
    let mut start = 0;
    loop {
        let filler = words.longest_at(start, all(|language| language.fillers));
        let choose = words.longest_at(start, all(|language| language.choose));
        match filler.max(choose) {
            Some(end) if end < words.len() => start = end,
            _ if words.kind(start) == Some(TokenKind::Break) => start += 1,
            Some(_) | None => break,
        }
    }
    let mut end = words.len();
    while end > start {
        let is_filler =
            |from: &usize| words.longest_in(*from..end, all(|language| language.fillers)) == Some(end);
        if words.kind(end - 1) == Some(TokenKind::Break) {
            end -= 1;
        } else if let Some(from) = (start + 1..end).rev().take(4).find(is_filler) {
            end = from;
        } else {
            break;
        }
    }
    start..end
}

/// The texts of the tokens, without punctuation.
fn texts<'w>(words: &'w Words<'_>, range: Range<usize>) -> Vec<&'w str> {
    let tokens = words.tokens().get(range).unwrap_or_default();
    let content = tokens.iter().filter(|token| token.kind != TokenKind::Break);
    content.map(|token| token.text.as_str()).collect()
}

/// Returns true if the message contains the choice's text outside of quotations.
fn mentions(words: &Words<'_>, choice: &str) -> bool {
    let choice = Words::new(choice);
    let wanted = texts(&choice, 0..choice.len());
    let said: Vec<&str> = words
        .tokens()
        .iter()
        .filter(|token| !matches!(token.kind, TokenKind::Break | TokenKind::Quoted))
        .map(|token| token.text.as_str())
        .collect();
    !wanted.is_empty() && said.windows(wanted.len()).any(|window| window == wanted)
}
