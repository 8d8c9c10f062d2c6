//! The answers to requests that the offline model does not understand.

/// Returns the answer to a conversation without a goal or a task.
pub(crate) fn introduction() -> String {
    format!(
        "This is Dirigent's offline model: it works without a network and cannot hold a conversation. {}",
        capabilities()
    )
}

/// Returns the message for a goal that belongs to none of the supported families.
pub(crate) fn unsupported_goal() -> String {
    format!("this goal is beyond the offline model. {}", capabilities())
}

/// Lists the supported goals with examples.
pub(crate) fn capabilities() -> String {
    "It can:\n\
     - rename a symbol: Find all usages of function `parse_amount` and rename it to `parse_money`\n\
     - find usages: Find all usages of `parse_amount` in src\n\
     - replace a text: Replace \"old text\" with \"new text\" in docs/\n\
     - create a project: Create a minimal Rust project `my-app`; create a minimal Python project `my-app`\n\
     - run a check: Run the tests; make sure that `cargo clippy` passes\n\
     - count or list: Count the lines in src; list the files ending in .rs\n\
     For anything else choose a language model: set DIRIGENT_MODEL, such as openai/gpt-4.1-mini, or [model] in dirigent.toml; from \
     Rust, `Dirigent::builder().config(…)` or `.model(…)`."
        .to_owned()
}
