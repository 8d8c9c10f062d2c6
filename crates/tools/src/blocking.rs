//! Running a tool's blocking work without blocking the actors.
//!
//! Work that has not begun when nobody waits for it any more is not begun.

use dirigent_core::tool::ToolResult;

use crate::ToolContext;

/// Runs `work` on a thread for blocking work. Its context's token is cancelled as well when the returned future is
/// dropped: long work looks at it from time to time, and before it changes anything.
pub(crate) async fn blocking(
    context: ToolContext,
    work: impl FnOnce(&ToolContext) -> ToolResult + Send + 'static,
) -> ToolResult {
    let cancel = context.cancel.child_token();
    let _cancels_when_dropped = cancel.clone().drop_guard();
    let context = ToolContext { cancel, ..context };
    let done = tokio::task::spawn_blocking(move || {
        if context.cancel.is_cancelled() {
            return cancelled();
        }
        work(&context)
    });
    match done.await {
        Ok(result) => result,
        Err(error) => ToolResult::failure(format!("the tool itself broke: {error}; try another way"))
            .with_code("broken"),
    }
}

/// The result of a call that nobody waits for any more.
pub(crate) fn cancelled() -> ToolResult {
    ToolResult::failure("cancelled before anything was changed").with_code("cancelled")
}
