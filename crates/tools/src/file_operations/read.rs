//! Reads a file or some of its lines.

use dirigent_core::tool::ToolResult;

use super::error::FileOperationError;
use crate::excerpt::{Excerpt, LineNumbers, LineRange, MAX_READ_BYTES};
use crate::seen;
use crate::tool::ToolContext;
use crate::workspace::Workspace;

pub(super) fn read(
    context: &ToolContext,
    workspace: &Workspace,
    path: &str,
    range: LineRange,
    numbers: LineNumbers,
) -> Result<ToolResult, FileOperationError> {
    let bytes = workspace.read(path)?;
    let name = workspace.canonical(path)?;
    let excerpt = Excerpt::new(&name, &bytes, range, numbers, MAX_READ_BYTES)?;
    let seen = vec![seen::excerpt(context, &name, &bytes, &excerpt)];
    Ok(ToolResult::success(excerpt.text.into()).with_seen(seen))
}
