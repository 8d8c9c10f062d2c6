//! "… and keep the changes even if the tests fail": what is to become of a change that comes to nothing.

use super::phrase::Phrase;
use crate::words::Word;

const AND: &[&str] = &["and", "but", "then", "also", "please"];
const KEEP: &[&str] = &[
    "keep the changes",
    "keep the change",
    "keep changes",
    "keep all changes",
    "keep any changes",
    "keep all the changes",
    "keep your changes",
    "keep what is changed",
    "keep what was changed",
    "keep what you change",
    "keep what you changed",
    "leave the changes in place",
    "don't put the changes back",
    "don't put anything back",
    "do not put the changes back",
    "do not put anything back",
    "don't undo the changes",
    "do not undo the changes",
    "don't revert the changes",
    "do not revert the changes",
];
const IF: &[&str] = &["if", "even if", "when", "even when"];
const WHAT: &[&str] = &[
    "the",
    "a",
    "any",
    "some",
    "all",
    "tests",
    "test",
    "checks",
    "check",
    "build",
    "goal",
    "rename",
    "project",
    "it",
    "they",
    "something",
    "anything",
];
const FAILS: &[&str] = &[
    "fail",
    "fails",
    "break",
    "breaks",
    "goes wrong",
    "doesn't compile",
    "does not compile",
    "can't be finished",
    "cannot be finished",
    "can't be reached",
    "cannot be reached",
    "is not reached",
    "isn't reached",
];
const ANYWAY: &[&str] = &[
    "anyway",
    "all the same",
    "in any case",
    "in every case",
    "regardless",
    "no matter what",
    "whatever happens",
];

/// The words before the clause with which they end, where that says to keep the changes; none where it doesn't.
pub(crate) fn strip_keep_clause(words: &[Word]) -> Option<&[Word]> {
    (0..words.len())
        .find(|&start| is_keep_clause(Phrase::new(&words[start..])))
        .map(|start| &words[..start])
}

fn is_keep_clause(mut phrase: Phrase<'_>) -> bool {
    phrase.eat_all(AND);
    if !phrase.eat(KEEP) {
        return false;
    }
    if phrase.eat(IF) {
        phrase.eat_all(WHAT);
        if !phrase.eat(FAILS) {
            return false;
        }
    } else {
        phrase.eat(ANYWAY);
    }
    phrase.is_finished()
}
