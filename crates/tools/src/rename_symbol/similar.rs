//! Words that are like a name that was not found, from the plain text of files.
//!
//! Taking text apart at its word boundaries is many times faster than parsing it; whether a word is an identifier is
//! for who asks to check, on the few that are left.

use std::collections::{BTreeMap, HashSet};

use crate::syntax::Language;

/// How alike a word must be, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;
/// How many words are kept in the end, and in how many files each may be looked up.
const MAX_WORDS: usize = 20;
const MAX_PATHS: usize = 3;

/// The words that are like one name.
pub(super) struct SimilarWords {
    normalized_name: String,
    dissimilar: HashSet<String>,
    similar: BTreeMap<String, SimilarWord>,
}

struct SimilarWord {
    similarity: f64,
    /// Some files that hold it.
    paths: Vec<String>,
}

impl SimilarWords {
    pub(super) fn new(name: &str) -> Self {
        SimilarWords {
            normalized_name: without_style(name),
            dissimilar: HashSet::new(),
            similar: BTreeMap::new(),
        }
    }

    /// Adds the words of a file.
    pub(super) fn add(&mut self, language: Language, path: &str, text: &str) {
        let words = text.split(|character| !language.continues_word(character));
        for word in words.filter(|word| !word.is_empty()) {
            if self.dissimilar.contains(word) {
                continue;
            }
            if let Some(known) = self.similar.get_mut(word) {
                if known.paths.len() < MAX_PATHS && known.paths.last().is_none_or(|last| last != path) {
                    known.paths.push(path.to_owned());
                }
                continue;
            }
            let similarity =
                strsim::normalized_damerau_levenshtein(&self.normalized_name, &without_style(word));
            if similarity < MIN_SIMILARITY {
                self.dissimilar.insert(word.to_owned());
            } else {
                let paths = vec![path.to_owned()];
                self.similar
                    .insert(word.to_owned(), SimilarWord { similarity, paths });
            }
        }
    }

    /// The most alike with the files that hold them; of equals in the order of the alphabet.
    pub(super) fn best_first(self) -> impl Iterator<Item = (String, Vec<String>)> {
        let mut words: Vec<_> = self.similar.into_iter().collect();
        // Stable, and the map was in order.
        words.sort_by(|(_, a), (_, b)| b.similarity.total_cmp(&a.similarity));
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
