//! Words that are like a name that was not found, from the plain text of files.
//!
//! Taking text apart at its word boundaries is many times faster than parsing it; whether a word is an identifier is
//! for who asks to check, on the few that are left.

use std::collections::{BTreeMap, HashSet};

use crate::syntax::Language;

/// How alike a word must be, from 0 to 1.
const ALIKE: f64 = 0.6;
/// How many words are kept in the end, and in how many files each may be looked up.
const MAX_WORDS: usize = 20;
const MAX_PATHS: usize = 3;

/// The words that are like one name.
pub(super) struct AlikeWords {
    wanted: String,
    unlike: HashSet<String>,
    alike: BTreeMap<String, Word>,
}

struct Word {
    likeness: f64,
    /// Some files that hold it.
    paths: Vec<String>,
}

impl AlikeWords {
    pub(super) fn new(name: &str) -> Self {
        AlikeWords {
            wanted: without_style(name),
            unlike: HashSet::new(),
            alike: BTreeMap::new(),
        }
    }

    /// Adds the words of a file.
    pub(super) fn add(&mut self, language: Language, path: &str, text: &str) {
        let words = text.split(|character| !language.continues_word(character));
        for word in words.filter(|word| !word.is_empty()) {
            if self.unlike.contains(word) {
                continue;
            }
            if let Some(known) = self.alike.get_mut(word) {
                if known.paths.len() < MAX_PATHS && known.paths.last().is_none_or(|last| last != path) {
                    known.paths.push(path.to_owned());
                }
                continue;
            }
            let likeness = strsim::normalized_damerau_levenshtein(&self.wanted, &without_style(word));
            if likeness < ALIKE {
                self.unlike.insert(word.to_owned());
            } else {
                let paths = vec![path.to_owned()];
                self.alike.insert(word.to_owned(), Word { likeness, paths });
            }
        }
    }

    /// The most alike with the files that hold them; of equals in the order of the alphabet.
    pub(super) fn best_first(self) -> impl Iterator<Item = (String, Vec<String>)> {
        let mut words: Vec<_> = self.alike.into_iter().collect();
        // Stable, and the map was in order.
        words.sort_by(|(_, a), (_, b)| b.likeness.total_cmp(&a.likeness));
        words
            .into_iter()
            .take(MAX_WORDS)
            .map(|(word, found)| (word, found.paths))
    }
}

/// `parseLine`, `ParseLine` and `parse_line` are one name to who mistakes one for another.
fn without_style(name: &str) -> String {
    name.chars()
        .filter(|character| *character != '_')
        .flat_map(char::to_lowercase)
        .collect()
}
