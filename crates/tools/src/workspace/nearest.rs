//! Suggestions for a path that does not exist.

use super::{EntryKind, Hidden, Walk, Workspace};

/// Maximum number of names to consider, including ignored ones.
const MAX_NAMES: usize = 10_000;

/// Maximum number of lines of ignore files to apply.
const MAX_IGNORE_LINES: usize = 2000;

/// Maximum length of a path that is compared, in bytes.
const MAX_COMPARED_BYTES: usize = 300;

/// Maximum total cost of all comparisons. The cost of one comparison is the product of both lengths.
const MAX_COMPARED_PRODUCT: usize = 10_000_000;

const MAX_SUGGESTIONS: usize = 3;

impl Workspace {
    /// Returns existing paths that are similar to a path that does not exist: files and folders of the same name in other folders first,
    /// then similar paths. A folder ends with `/`. Considers only the first [`MAX_NAMES`] names in the workspace, to limit the time.
    pub(super) fn nearest(&self, path: &str) -> Vec<String> {
        if path.len() > MAX_COMPARED_BYTES {
            return Vec::new();
        }
        let path = path.trim_end_matches('/');
        let name = path.rsplit('/').next();
        let mut budget = MAX_COMPARED_PRODUCT;
        let mut scored: Vec<(f64, String)> =
            Walk::everywhere(self, Hidden::Skip, MAX_NAMES, MAX_IGNORE_LINES)
                .filter_map(|entry| {
                    let found = entry.path;
                    let shown = match entry.kind {
                        EntryKind::File => found.clone(),
                        EntryKind::Folder => format!("{found}/"),
                        EntryKind::Other => return None,
                    };
                    if found.rsplit('/').next() == name {
                        return Some((2.0, shown));
                    }
                    if found.len() > MAX_COMPARED_BYTES {
                        return None;
                    }
                    budget = budget.checked_sub(found.len() * path.len())?;
                    let score = strsim::normalized_damerau_levenshtein(&found, path);
                    (score > 0.6).then_some((score, shown))
                })
                .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        scored
            .into_iter()
            .take(MAX_SUGGESTIONS)
            .map(|(_, shown)| shown)
            .collect()
    }
}
