//! Unified diffs in the format of `git diff` and `diff -u`. Dirigent writes them for reports and parses them for `apply_patch`.
//!
//! This is the only module that knows the format, including the quoting of paths. It reads no files.

mod git;
mod parse;
mod path;

use std::time::Duration;

use similar::TextDiff;

use crate::text::TextFile;

pub use git::git_diff;
pub(crate) use parse::{EofMarker, FilePatch, Hunk, HunkLine, PatchError, PatchKind, parse};

/// Maximum size of a reported diff, in bytes.
const MAX_DIFF_BYTES: usize = 64 * 1024;

/// Maximum total size in bytes of the two texts that are compared.
const MAX_COMPARED_BYTES: usize = 4 * 1024 * 1024;

/// Time limit for minimizing a diff. A diff that reaches the limit is correct, but may not be minimal.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the [`unified_diff`] of two contents. Also `None` if either is not text.
pub(crate) fn unified_diff_of_bytes(
    path: &str,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Option<String> {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| TextFile::decode(path, bytes)).transpose();
    let (before, after) = (text(before).ok()?, text(after).ok()?);
    unified_diff(
        path,
        before.as_ref().map(|file| file.text.as_str()),
        after.as_ref().map(|file| file.text.as_str()),
    )
}

/// Returns a unified diff in git's format, for [`StateChange`](dirigent_core::tool::StateChange). `before` is `None` for a new file, `after`
/// for a deleted one. The result is `None` if nothing changed, if the diff would be longer than 64 KiB, or if there are
/// more than 4 MiB to compare.
pub fn unified_diff(path: &str, before: Option<&str>, after: Option<&str>) -> Option<String> {
    if before == after {
        return None;
    }
    let name = |side: &str, text: Option<&str>| match text {
        Some(_) => format!("{side}/{}", path::on_one_line(path)),
        None => path::NULL.to_owned(),
    };
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    let max_bytes = match (before, after) {
        (Some(_), Some(_)) => MAX_COMPARED_BYTES,
        (None, _) | (_, None) => MAX_DIFF_BYTES,
    };
    if old.len() + new.len() > max_bytes {
        return None;
    }
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(old, new)
        .unified_diff()
        .header(&name("a", before), &name("b", after))
        .to_string();
    (diff.len() <= MAX_DIFF_BYTES).then_some(diff)
}
