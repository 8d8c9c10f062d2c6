//! The clause "… and keep the changes even if the tests fail", which asks not to undo a failed change.

use super::phrase::Phrase;
use crate::words::Word;

/// Returns the words before a keep clause at the end; `None` if there is no keep clause.
pub(crate) fn strip_keep_clause(words: &[Word]) -> Option<&[Word]> {
    (0..words.len())
        .find(|&start| is_keep_clause(Phrase::new(&words[start..])))
        .map(|start| &words[..start])
}

fn is_keep_clause(mut phrase: Phrase<'_>) -> bool {
    phrase.eat_all(&["and", "but", "please"]);
    if !phrase.eat(&["keep the changes"]) {
        return false;
    }
    if phrase.eat(&["if", "even if"]) {
        phrase.eat_all(&["the", "tests", "checks", "build", "goal", "it"]);
        if !phrase.eat(&["fail", "fails", "can't be reached", "cannot be reached"]) {
            return false;
        }
    }
    phrase.is_finished()
}
