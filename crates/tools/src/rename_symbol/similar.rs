//! Words similar to a name that was not found, from the plain text of files.
//!
//! Splitting text into words is many times faster than parsing it. The caller checks whether the most similar words are identifiers.

use std::collections::{BTreeMap, HashSet};

use crate::syntax::Language;

/// Minimum similarity of a suggested word, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;
/// Maximum number of words to return, and of files to return for each word.
const MAX_WORDS: usize = 20;
const MAX_PATHS: usize = 3;

/// The words similar to one name.
pub(super) struct SimilarWords {
    normalized_name: String,
    dissimilar: HashSet<String>,
    similar: BTreeMap<String, SimilarWord>,
}

struct SimilarWord {
    similarity: f64,
    /// Some files that contain the word.
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
        let words = text.split(|character| !language.is_word_character(character));
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

    /// Returns the most similar words, each with some files that contain it. Equally similar words are in alphabetical order.
    pub(super) fn best_first(self) -> impl Iterator<Item = (String, Vec<String>)> {
        let mut words: Vec<_> = self.similar.into_iter().collect();
        // The sort is stable, so equally similar words stay in the map's alphabetical order.
        words.sort_by(|(_, a), (_, b)| b.similarity.total_cmp(&a.similarity));
        words
            .into_iter()
            .take(MAX_WORDS)
            .map(|(word, found)| (word, found.paths))
    }
}

/// Normalizes the naming style: `parseLine`, `ParseLine` and `parse_line` become equal.
fn without_style(name: &str) -> String {
    name.chars()
        .filter(|character| *character != '_')
        .flat_map(char::to_lowercase)
        .collect()
}
