//! Runs the blocking work of tools on tokio's blocking threads, so that actors never block.

use dirigent_core::tool::{ToolResult, code};

use crate::tool::ToolContext;

/// Runs `work` on one of tokio's blocking threads, unless the call is cancelled before the work begins. Dropping the returned future also
/// cancels the token in the context that is passed to `work`. Long work must check this token regularly, and before it changes anything.
pub(crate) async fn blocking(
    context: ToolContext,
    work: impl FnOnce(&ToolContext) -> ToolResult + Send + 'static,
) -> ToolResult {
    let cancel = context.cancel.child_token();
    let _cancels_when_dropped = cancel.clone().drop_guard();
    let context = ToolContext { cancel, ..context };
    let task = tokio::task::spawn_blocking(move || {
        if context.cancel.is_cancelled() {
            return cancelled();
        }
        work(&context)
    });
    match task.await {
        Ok(result) => result,
        Err(error) => ToolResult::failure(format!("the tool crashed: {error}; try another way"))
            .with_code(code::BROKE_DOWN),
    }
}

/// Returns the result of a call that was cancelled before it changed anything.
pub(crate) fn cancelled() -> ToolResult {
    ToolResult::failure("cancelled before anything was changed").with_code(code::CANCELLED)
}
