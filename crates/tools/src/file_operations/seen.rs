//! What the calling agent last saw of a file against what is there now (PAOR-5): what others have changed since is left as it is, and
//! shown to the agent, so that it can do its work anew.
//!
//! It never decides by who changed a file: only by what the agent saw.

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{SeenFile, SeenFiles, ToolResult, code};
use serde_json::Value;

use crate::ToolContext;
use crate::workspace::{FileError, Workspace};

use super::read::{self, Range, ShownLines};

/// The most text of a file that is shown with a refusal, in bytes; `read` shows the rest.
const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// How much of a file a change takes the place of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// A part that the agent names word for word: it may do without having seen the rest.
    Part,
    /// The file by its name: it may do without having looked at it, but not after a look at a part.
    Name,
    /// Whatever is in it.
    Whole,
}

/// A file that is not as the agent last saw it.
#[derive(Debug, thiserror::Error)]
#[error("{}", reason.text(path))]
pub(crate) struct Stale {
    path: String,
    reason: StaleReason,
}

#[derive(Clone, Copy, Debug)]
enum StaleReason {
    Changed,
    Unseen,
    /// The first line that it has not seen.
    UnseenFrom(usize),
    Gone,
}

impl StaleReason {
    fn text(self, path: &str) -> String {
        match self {
            StaleReason::Changed => format!(
                "`{path}` has changed since you last saw it, by another agent, a command or a person, and is left as it is"
            ),
            StaleReason::Unseen => {
                format!("`{path}` exists and you have not seen what is in it, so it is left as it is")
            }
            StaleReason::UnseenFrom(line) => format!(
                "you have seen `{path}` only up to line {}, so it is left as it is",
                line - 1
            ),
            StaleReason::Gone => format!(
                "`{path}` is gone since you last saw it: another agent, a command or a person deleted or moved it"
            ),
        }
    }
}

/// Whether the caller may change a file of which this is the present content; none where there is no such file.
pub(crate) fn check(
    context: &ToolContext,
    name: &str,
    present: Option<&[u8]>,
    extent: Extent,
) -> Result<(), Stale> {
    let Some(seen) = &context.seen else {
        return Ok(());
    };
    let reason = match (seen.get(name), present) {
        (None | Some(SeenFile { digest: None, .. }), None) => return Ok(()),
        (None, Some(_)) => match extent {
            Extent::Part | Extent::Name => return Ok(()),
            Extent::Whole => StaleReason::Unseen,
        },
        (Some(SeenFile { digest: None, .. }), Some(_)) => StaleReason::Unseen,
        (Some(_), None) => StaleReason::Gone,
        (Some(known), Some(bytes)) if !matches_digest(known, bytes) => StaleReason::Changed,
        (Some(known), Some(_)) => match (extent, known.unseen_from) {
            (Extent::Part, _) | (_, None) => return Ok(()),
            (Extent::Name | Extent::Whole, Some(0 | 1)) => StaleReason::Unseen,
            (Extent::Name | Extent::Whole, Some(line)) => StaleReason::UnseenFrom(line),
        },
    };
    let path = name.to_owned();
    Err(Stale { path, reason })
}

fn matches_digest(known: &SeenFile, bytes: &[u8]) -> bool {
    known
        .digest
        .as_ref()
        .is_some_and(|digest| *digest == sha256_hex(bytes))
}

/// What the caller knows of a file by having written this.
pub(crate) fn content(name: &str, bytes: &[u8]) -> SeenFile {
    SeenFile {
        path: name.to_owned(),
        digest: Some(sha256_hex(bytes)),
        unseen_from: None,
    }
}

/// What the caller knows of a file with this content that it was shown so much of, with what it knew before.
pub(super) fn shown(context: &ToolContext, name: &str, bytes: &[u8], shown: &ShownLines) -> SeenFile {
    let unseen_from = match unseen_from(context, name, bytes) {
        Some(line) if shown.first <= line => shown.next.map(|next| next.max(line)),
        other => other,
    };
    SeenFile {
        unseen_from,
        ..content(name, bytes)
    }
}

/// What the caller knows of a file once it has edited it at that line: no more than before.
pub(crate) fn edited(
    context: &ToolContext,
    name: &str,
    before: &[u8],
    after: &[u8],
    line: usize,
) -> SeenFile {
    SeenFile {
        // The lines after it may have other numbers now.
        unseen_from: unseen_from(context, name, before).map(|unseen| unseen.min(line)),
        ..content(name, after)
    }
}

/// The first line that the caller has not seen of a file with this content.
fn unseen_from(context: &ToolContext, name: &str, bytes: &[u8]) -> Option<usize> {
    let known = context.seen.as_ref().and_then(|seen| seen.get(name));
    match known.filter(|known| matches_digest(known, bytes)) {
        Some(known) => known.unseen_from,
        None => Some(1),
    }
}

/// That there is no such file, as far as the caller thought that there was.
pub(crate) fn absence(context: &ToolContext, name: &str) -> Option<SeenFile> {
    let known = context.seen.as_ref()?.get(name)?;
    known.digest.as_ref().map(|_| absent(name))
}

fn absent(name: &str) -> SeenFile {
    SeenFile {
        path: name.to_owned(),
        digest: None,
        unseen_from: None,
    }
}

/// What the caller knew of a file, or of those in a folder, it knows by the new name.
pub(crate) fn moved(context: &ToolContext, from: &str, to: &str) -> Vec<SeenFile> {
    let known = |seen: &SeenFiles| -> Vec<SeenFile> {
        seen.iter()
            .filter(|(_, file)| file.digest.is_some())
            .filter_map(|(path, file)| Some((path, path.strip_prefix(from)?, file)))
            .filter(|(_, below, _)| below.is_empty() || below.starts_with('/'))
            .flat_map(|(path, below, file)| {
                let there = SeenFile {
                    path: format!("{to}{below}"),
                    ..file.clone()
                };
                [absent(path), there]
            })
            .collect()
    };
    context.seen.as_deref().map(known).unwrap_or_default()
}

impl Stale {
    /// A file that somebody else changed between the look at it and the change.
    pub(crate) fn changed_meanwhile(path: String) -> Self {
        let reason = StaleReason::Changed;
        Stale { path, reason }
    }

    /// A file that somebody else made where there was none.
    pub(crate) fn created_meanwhile(path: String) -> Self {
        let reason = StaleReason::Unseen;
        Stale { path, reason }
    }

    /// The result of a call that is refused for it: it has the present content, and lets the next call through where that is all of it.
    pub(crate) fn refusal(&self, context: &ToolContext, workspace: &Workspace) -> ToolResult {
        let first = match self.reason {
            StaleReason::UnseenFrom(line) => line,
            StaleReason::Changed | StaleReason::Unseen | StaleReason::Gone => 1,
        };
        let name = workspace
            .canonical(&self.path)
            .unwrap_or_else(|_| self.path.clone());
        let (tail, output, seen) = match workspace.read(&name) {
            Ok(bytes) => match read::show(&name, &bytes, Range::from(first), MAX_SHOWN_BYTES) {
                Ok(part) => (
                    part_shown(&part),
                    part.output.clone(),
                    Some(shown(context, &name, &bytes, &part)),
                ),
                Err(_) => (
                    "it is no text: call again if you mean it all the same".to_owned(),
                    Value::Null,
                    Some(content(&name, &bytes)),
                ),
            },
            Err(FileError::NotFound { .. }) => (
                "call again if it is to be made anew".to_owned(),
                Value::Null,
                Some(absent(&name)),
            ),
            Err(_) => ("it cannot be read now".to_owned(), Value::Null, None),
        };
        let error = format!("{self}; {tail}");
        ToolResult::failure(error)
            .with_code(code::STALE)
            .with_output(output)
            .with_seen(seen.into_iter().collect())
    }
}

fn part_shown(part: &ShownLines) -> String {
    match (part.first, part.next) {
        (1, None) => "its present content is in `output`: work from that and call again".to_owned(),
        (_, None) => "the rest is in `output`: work from that and call again".to_owned(),
        (_, Some(next)) => format!(
            "a part of its present content is in `output`: `read` the rest, from `start_line` {next} on, before you replace, \
             delete or move it"
        ),
    }
}
