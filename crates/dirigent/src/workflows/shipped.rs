//! The workflows that ship with Dirigent.

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../config/workflows/", $name)))),*]
    };
}

/// The shipped workflow files.
pub(super) const SHIPPED: [(&str, &str); 10] = shipped!(
    "create_project.md",
    "explain.md",
    "find_usages.md",
    "fix_failing_tests.md",
    "rename_symbol.md",
    "replace_text.md",
    "review_changes.md",
    "run_checks.md",
    "update_dependency.md",
    "write_tests.md",
);
