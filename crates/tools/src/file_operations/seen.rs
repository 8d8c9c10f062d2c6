//! What the calling agent last saw of a file against what is there now (PAOR-5): what others have changed since is left as it is, and
//! shown to the agent, so that it can do its work anew.
//!
//! It never decides by who changed a file: only by what the agent saw.

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{SeenFile, SeenFiles, ToolOutcome, ToolResult};
use serde_json::Value;

use crate::ToolContext;
use crate::workspace::{FileFault, Workspace};

use super::read::{self, Range};

/// The most text of a file that is shown with a refusal, in bytes; `read` shows the rest.
const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// How much of a file a change takes the place of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent {
    /// A part that the agent names word for word, or only the file's name: it may do without having seen the file.
    Part,
    /// Whatever is in it.
    Whole,
}

/// A file that is not as the agent last saw it.
#[derive(Debug, thiserror::Error)]
#[error("{}", why.text(path))]
pub(super) struct Stale {
    path: String,
    why: Why,
}

#[derive(Clone, Copy, Debug)]
enum Why {
    Changed,
    Unseen,
    Gone,
}

impl Why {
    fn text(self, path: &str) -> String {
        match self {
            Why::Changed => format!(
                "`{path}` has changed since you last saw it, by another agent, a command or a person, and is left as it is"
            ),
            Why::Unseen => {
                format!("`{path}` exists and you have not seen what is in it, so it is left as it is")
            }
            Why::Gone => format!(
                "`{path}` is gone since you last saw it: another agent, a command or a person deleted or moved it"
            ),
        }
    }
}

/// Whether the caller may change a file of which this is the present content; none where there is no such file.
pub(super) fn check(
    context: &ToolContext,
    name: &str,
    present: Option<&[u8]>,
    extent: Extent,
) -> Result<(), Stale> {
    let Some(seen) = &context.seen else {
        return Ok(());
    };
    let why = match (seen.get(name), present) {
        (None | Some(None), None) => return Ok(()),
        (None, Some(_)) => match extent {
            Extent::Part => return Ok(()),
            Extent::Whole => Why::Unseen,
        },
        (Some(None), Some(_)) => Why::Unseen,
        (Some(Some(_)), None) => Why::Gone,
        (Some(Some(known)), Some(bytes)) if *known == sha256_hex(bytes) => return Ok(()),
        (Some(Some(_)), Some(_)) => Why::Changed,
    };
    let path = name.to_owned();
    Err(Stale { path, why })
}

/// What the caller knows of a file by having read or written this.
pub(super) fn content(name: &str, bytes: &[u8]) -> SeenFile {
    SeenFile {
        path: name.to_owned(),
        digest: Some(sha256_hex(bytes)),
    }
}

/// That there is no such file, as far as the caller thought that there was.
pub(super) fn absence(context: &ToolContext, name: &str) -> Option<SeenFile> {
    let known = context.seen.as_ref()?.get(name)?;
    known.as_ref().map(|_| nothing(name))
}

fn nothing(name: &str) -> SeenFile {
    SeenFile {
        path: name.to_owned(),
        digest: None,
    }
}

/// What the caller knew of a file, or of those in a folder, it knows by the new name.
pub(super) fn moved(context: &ToolContext, from: &str, to: &str) -> Vec<SeenFile> {
    let known = |seen: &SeenFiles| -> Vec<SeenFile> {
        seen.iter()
            .filter_map(|(path, digest)| Some((path, path.strip_prefix(from)?, digest.as_ref()?)))
            .filter(|(_, below, _)| below.is_empty() || below.starts_with('/'))
            .flat_map(|(path, below, digest)| {
                let there = SeenFile {
                    path: format!("{to}{below}"),
                    digest: Some(digest.clone()),
                };
                [nothing(path), there]
            })
            .collect()
    };
    context.seen.as_deref().map(known).unwrap_or_default()
}

impl Stale {
    /// A file that somebody else changed between the look at it and the change.
    pub(super) fn overtaken(path: String) -> Self {
        let why = Why::Changed;
        Stale { path, why }
    }

    /// A file that somebody else made where there was none.
    pub(super) fn made_meanwhile(path: String) -> Self {
        let why = Why::Unseen;
        Stale { path, why }
    }

    /// The result of a call that is refused for it: it has the present content, and lets the next call through.
    pub(super) fn refusal(&self, workspace: &Workspace) -> ToolResult {
        let name = workspace
            .canonical(&self.path)
            .unwrap_or_else(|_| self.path.clone());
        let (tail, output, seen) = match workspace.read(&name) {
            Ok(bytes) => match read::show(&name, &bytes, Range::ALL, MAX_SHOWN_BYTES) {
                Ok(output) => (
                    "its present content is in `output`: work from that and call again",
                    output,
                    Some(content(&name, &bytes)),
                ),
                Err(_) => (
                    "it is no text: call again if you mean it all the same",
                    Value::Null,
                    Some(content(&name, &bytes)),
                ),
            },
            Err(FileFault::NotFound { .. }) => (
                "call again if it is to be made anew",
                Value::Null,
                Some(nothing(&name)),
            ),
            Err(_) => ("it cannot be read now", Value::Null, None),
        };
        let error = format!("{self}; {tail}");
        ToolResult {
            outcome: ToolOutcome::Failure { error, output },
            ..ToolResult::success(Value::Null)
        }
        .with_seen(seen.into_iter().collect())
    }
}
