//! Which files may have been meant by a name that is not there.

use super::{Hidden, Kind, Walk, Workspace};

/// How many names are looked at, those that are ignored included.
const MAX_NAMES: usize = 10_000;

/// How many lines of ignore files count.
const MAX_IGNORE_LINES: usize = 2000;

/// Longer paths are not compared, in bytes.
const MAX_COMPARED_BYTES: usize = 300;

/// How much is compared in all: the sum of the products of the lengths.
const MAX_COMPARED_PRODUCT: usize = 10_000_000;

/// How many are suggested.
const MAX_SUGGESTIONS: usize = 3;

impl Workspace {
    /// The same name in another folder first, then similar paths. In a workspace of more than [`MAX_NAMES`] only among the first of them,
    /// so that a wrong name never takes long.
    pub(super) fn nearest(&self, path: &str) -> Vec<String> {
        if path.len() > MAX_COMPARED_BYTES {
            return Vec::new();
        }
        let name = path.rsplit('/').next();
        let mut budget = MAX_COMPARED_PRODUCT;
        let mut scored: Vec<(f64, String)> =
            Walk::everywhere(self, Hidden::Skip, MAX_NAMES, MAX_IGNORE_LINES)
                .filter(|entry| entry.kind == Kind::File)
                .filter_map(|entry| {
                    let file = entry.path;
                    if file.rsplit('/').next() == name {
                        return Some((2.0, file));
                    }
                    if file.len() > MAX_COMPARED_BYTES {
                        return None;
                    }
                    budget = budget.checked_sub(file.len() * path.len())?;
                    let score = strsim::normalized_levenshtein(&file, path);
                    (score > 0.6).then_some((score, file))
                })
                .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scored
            .into_iter()
            .take(MAX_SUGGESTIONS)
            .map(|(_, file)| file)
            .collect()
    }
}
