//! Goals that change no files: usages, checks, counts and lists.

use super::grammar::{ALL, CheckSelection, CountTarget, Expectation, Goal, KIND, USAGES, is_identifier};
use super::phrase::Phrase;
use super::scope_clause;
use crate::file_kinds::ending_of_kind;
use crate::scope::Scope;
use crate::words::Word;

/// Parses a goal such as "find all usages of X", "where is X used" or "who calls X".
pub(super) fn find_usages(mut phrase: Phrase<'_>) -> Option<Goal> {
    const USED: &[&str] = &["used", "called", "defined"];
    let symbol = if phrase.eat(&["where is"]) {
        let name = phrase.take_name(KIND, USED)?;
        phrase.eat(USED).then_some(name)?
    } else if phrase.eat(&["who calls", "who uses", "what calls", "what uses"]) {
        phrase.take_name(KIND, &[])?
    } else {
        usages_of(&mut phrase)?
    };
    let mut scope = Scope::default();
    scope_clause::finish(phrase, &mut scope)?;
    Some(Goal::FindUsages {
        symbol: symbol.name(),
        scope,
    })
}

/// Consumes "find all usages of function X", and returns the name.
pub(super) fn usages_of<'a>(phrase: &mut Phrase<'a>) -> Option<&'a Word> {
    phrase.eat(&["find", "list", "show"]).then_some(())?;
    phrase.eat_all(ALL);
    phrase.eat(USAGES).then_some(())?;
    phrase.take_name(KIND, &["and", "then"])
}

/// Parses a goal such as "run the tests", "make sure that `cargo clippy` passes" or "does it compile".
pub(super) fn check(mut phrase: Phrase<'_>) -> Option<Goal> {
    let (check, expectation) = if phrase.eat(&["run"]) {
        (checked(&mut phrase)?, Expectation::Report)
    } else {
        let insists = &["make sure", "make sure that", "check that", "does", "do"];
        phrase.eat(insists).then_some(())?;
        (asserted(&mut phrase)?, Expectation::Success)
    };
    phrase.is_finished().then_some(Goal::Check { check, expectation })
}

/// Consumes the words for a check, such as "`cargo clippy`", "the tests" or "the build".
fn checked(phrase: &mut Phrase<'_>) -> Option<CheckSelection> {
    if let Some(command) = phrase.take_quoted() {
        return command_words(&command.text).map(CheckSelection::Command);
    }
    phrase.eat_all(ALL);
    if phrase.eat(&["tests", "test suite"]) {
        Some(CheckSelection::Tests)
    } else {
        phrase.eat(&["build"]).then_some(CheckSelection::Build)
    }
}

/// Consumes a claim about a check, such as "the tests pass", "it compiles" or "`make` succeeds".
fn asserted(phrase: &mut Phrase<'_>) -> Option<CheckSelection> {
    let mut ahead = *phrase;
    let (check, ends): (_, &[&str]) = if ahead.eat(&["it", "the project", "the code"]) {
        (CheckSelection::Build, &["compiles", "compile", "builds", "build"])
    } else {
        (
            checked(&mut ahead)?,
            &["pass", "passes", "succeed", "succeeds", "works"],
        )
    };
    *phrase = ahead;
    phrase.eat(ends).then_some(check)
}

/// Splits a command line into a program and its arguments. A line with shell syntax is passed to `sh -c`.
fn command_words(line: &str) -> Option<Vec<String>> {
    if line.contains(['\n', '|', '&', ';', '<', '>', '$', '*', '"', '\'', '\\']) {
        return Some(vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()]);
    }
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

/// Parses a goal such as "count the lines in src", "how many times does X occur" or "list the files ending in .rs".
pub(super) fn count(mut phrase: Phrase<'_>) -> Option<Goal> {
    let mut scope = Scope::default();
    let target = if phrase.eat(&["how many times does"]) {
        let name = phrase.take_name(KIND, &["occur"])?;
        phrase.eat(&["occur"]).then(|| text_target(name))?
    } else if phrase.eat(&["count", "how many"]) {
        phrase.eat_all(ALL);
        counted(&mut phrase, &mut scope)?
    } else {
        phrase.eat(&["list", "show"]).then_some(())?;
        phrase.eat_all(ALL);
        phrase.eat(&["files"]).then_some(CountTarget::FileNames)?
    };
    phrase.eat(&["are there", "are"]);
    scope_clause::finish(phrase, &mut scope)?;
    Some(Goal::Count { target, scope })
}

/// Consumes the words for what to count, such as "files", "usages of X", "lines with TODO" or "lines of Rust code".
fn counted(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<CountTarget> {
    if phrase.eat(&["files"]) {
        return Some(CountTarget::Files);
    }
    if phrase.eat(USAGES) {
        return phrase.take_name(KIND, &[]).map(text_target);
    }
    phrase.eat(&["lines"]).then_some(())?;
    if phrase.eat(&["with"]) {
        return phrase.take_name(&["the", "text", "word"], &[]).map(text_target);
    }
    if phrase.eat(&["of"]) {
        scope.endings.push(ending_of_kind(phrase.take()?)?);
        phrase.eat(&["code", "files"]).then_some(())?;
    }
    Some(CountTarget::Lines)
}

fn text_target(word: &Word) -> CountTarget {
    let text = word.text.clone();
    if is_identifier(&text) || word.is_plain() {
        CountTarget::Word(text)
    } else {
        CountTarget::Text(text)
    }
}
