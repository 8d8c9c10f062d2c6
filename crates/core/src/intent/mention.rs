//! How a message mentions a phrase: negated or not.

use super::requests::is_negated;
use super::words::Words;

/// A phrase in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhraseMention {
    /// Whether the words before the phrase negate it, as in "not a dry run" and 不要.
    pub is_negated: bool,
    /// The word after the phrase, in lowercase; empty at the end of the message.
    pub next: String,
}

/// Finds the first occurrence of a phrase in a message, in any letter case and outside of quotes. Words joined by `-` or `_` count as
/// separate words.
///
/// ```
/// use dirigent_core::intent::find_mention;
///
/// let mention = find_mention("this is not a dry run", "dry_run").unwrap();
/// assert!(mention.is_negated);
/// assert_eq!(find_mention("with dry run off", "dry_run").unwrap().next, "off");
/// assert_eq!(find_mention("a wet one", "dry_run"), None);
/// ```
pub fn find_mention(message: &str, phrase: &str) -> Option<PhraseMention> {
    let separate = |text: &str| text.replace(['-', '_'], " ");
    let (message, phrase) = (separate(message), separate(phrase));
    let (words, phrase) = (Words::new(&message), Words::new(&phrase));
    let found = words.occurrences(&phrase).next()?;
    Some(PhraseMention {
        is_negated: is_negated(&words, found.start),
        next: words.text(found.end).to_owned(),
    })
}
