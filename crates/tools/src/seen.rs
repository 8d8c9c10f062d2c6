//! Comparing a file's current content with the version that the calling agent last saw (PAOR-5). If the file has changed since then, the
//! tool refuses to change it and shows the agent the new content.
//!
//! An agent's read state of a file ([`SeenFile`]) consists of the version that it last saw, and of how much of it the agent saw. The
//! decision depends only on the read state, never on who changed the file.

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{SeenFile, SeenFiles, ToolResult, code};
use serde_json::Value;

use crate::excerpt::{Excerpt, LineNumbers, LineRange};
use crate::tool::ToolContext;
use crate::workspace::{FileError, Workspace};

/// Maximum size of the content that a refusal shows, in bytes. The agent can `read` the rest.
const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// The extent of a change. It determines how much of the file the agent must have seen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// A part that the agent quotes word for word. The agent need not have seen the rest.
    Part,
    /// The file as a whole, identified only by its path, as for a move or a deletion. Allowed if the agent
    /// has read none or all of the file, but not if it has read only a part.
    Name,
    /// The whole content. The agent must have seen all of it.
    Whole,
}

/// The refusal of a change to a file that differs from the version that the agent last saw.
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
    /// The first unseen line.
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
                format!("`{path}` exists and you have not seen its content, so it is left as it is")
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

/// Checks that the agent has seen enough of a file to change it. `current` is the file's content; `None` if it does not exist.
pub(crate) fn check(
    context: &ToolContext,
    name: &str,
    current: Option<&[u8]>,
    extent: Extent,
) -> Result<(), Stale> {
    let Some(seen) = &context.seen else {
        return Ok(());
    };
    let reason = match (seen.get(name), current) {
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

/// Returns true if the agent has seen content of the file, or if it is not recorded what the agent has seen.
pub(crate) fn has_seen(context: &ToolContext, name: &str) -> bool {
    context.seen.as_ref().is_none_or(|seen| seen.contains_key(name))
}

fn matches_digest(known: &SeenFile, bytes: &[u8]) -> bool {
    known
        .digest
        .as_ref()
        .is_some_and(|digest| *digest == sha256_hex(bytes))
}

/// Returns the read state for an agent that has seen the whole file with this content.
pub(crate) fn content(name: &str, bytes: &[u8]) -> SeenFile {
    SeenFile {
        path: name.to_owned(),
        digest: Some(sha256_hex(bytes)),
        unseen_from: None,
    }
}

/// Returns the read state for an agent that now sees this excerpt of the file, in addition to earlier excerpts of the same content.
pub(crate) fn excerpt(context: &ToolContext, name: &str, bytes: &[u8], excerpt: &Excerpt) -> SeenFile {
    let unseen_from = match unseen_from(context, name, bytes) {
        Some(line) if excerpt.first <= line => excerpt.next.map(|next| next.max(line)),
        other => other,
    };
    SeenFile {
        unseen_from,
        ..content(name, bytes)
    }
}

/// Returns the agent's read state for the content after an edit at `line`.
pub(crate) fn edited(
    context: &ToolContext,
    name: &str,
    before: &[u8],
    after: &[u8],
    line: usize,
) -> SeenFile {
    SeenFile {
        // The edit may have shifted the lines after it.
        unseen_from: unseen_from(context, name, before).map(|unseen| unseen.min(line)),
        ..content(name, after)
    }
}

/// Returns the first line that the agent has not seen of a file with this content; `None` if it has seen all of it.
fn unseen_from(context: &ToolContext, name: &str, bytes: &[u8]) -> Option<usize> {
    let known = context.seen.as_ref().and_then(|seen| seen.get(name));
    match known.filter(|known| matches_digest(known, bytes)) {
        Some(known) => known.unseen_from,
        None => Some(1),
    }
}

/// Returns the read state for a file that does not exist any more; `None` if the agent never saw the file.
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

/// Returns the agent's read state after a file or folder was moved. Files that the agent had seen count as
/// absent at the old paths and as seen at the new paths.
pub(crate) fn moved(context: &ToolContext, from: &str, to: &str) -> Vec<SeenFile> {
    let move_all = |seen: &SeenFiles| -> Vec<SeenFile> {
        seen.iter()
            .filter(|(_, file)| file.digest.is_some())
            .filter_map(|(path, file)| Some((path, path.strip_prefix(from)?, file)))
            .filter(|(_, below, _)| below.is_empty() || below.starts_with('/'))
            .flat_map(|(path, below, file)| {
                let moved = SeenFile {
                    path: format!("{to}{below}"),
                    ..file.clone()
                };
                [absent(path), moved]
            })
            .collect()
    };
    context.seen.as_deref().map(move_all).unwrap_or_default()
}

impl Stale {
    /// Creates the refusal for a file that changed between the check and the write.
    pub(crate) fn changed_meanwhile(path: String) -> Self {
        let reason = StaleReason::Changed;
        Stale { path, reason }
    }

    /// Creates the refusal for a file that was created between the check and the write.
    pub(crate) fn created_meanwhile(path: String) -> Self {
        let reason = StaleReason::Unseen;
        Stale { path, reason }
    }

    /// Creates the result of the refused call. Its output shows the current content, which then counts as
    /// seen. If the output shows the whole content, the agent can repeat the call.
    pub(crate) fn refusal(&self, context: &ToolContext, workspace: &Workspace) -> ToolResult {
        let first = match self.reason {
            StaleReason::UnseenFrom(line) => line,
            StaleReason::Changed | StaleReason::Unseen | StaleReason::Gone => 1,
        };
        let name = workspace
            .canonical(&self.path)
            .unwrap_or_else(|_| self.path.clone());
        let range = LineRange::starting_at(first);
        let show = |bytes: &[u8]| Excerpt::new(&name, bytes, range, LineNumbers::Shown, MAX_SHOWN_BYTES);
        let (tail, output, seen) = match workspace.read(&name) {
            Ok(bytes) => match show(&bytes) {
                Ok(part) => (
                    next_step(&part),
                    Value::from(part.text.as_str()),
                    Some(excerpt(context, &name, &bytes, &part)),
                ),
                Err(_) => (
                    "it is not text, so it is not shown: repeat the call to change it anyway".to_owned(),
                    Value::Null,
                    Some(content(&name, &bytes)),
                ),
            },
            Err(FileError::NotFound { .. }) => (
                "call again to create it".to_owned(),
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

/// Returns the end of the error message, which tells the agent how to continue.
fn next_step(part: &Excerpt) -> String {
    match (part.first, part.next) {
        (1, None) => {
            "the output of this call is its current content: work from that and call again".to_owned()
        }
        (_, None) => "the output of this call is the rest: work from that and call again".to_owned(),
        (_, Some(next)) => format!(
            "the output of this call is a part of its current content: `read` the rest, from `start_line` {next} on, before \
             you replace, delete or move it"
        ),
    }
}
