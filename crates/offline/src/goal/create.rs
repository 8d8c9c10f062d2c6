//! Goals that create a project.

use super::grammar::{Goal, NewProject, ProjectLanguage};
use super::phrase::Phrase;

/// Parses a goal such as "create a minimal Rust project `my-app`".
pub(super) fn project(mut phrase: Phrase<'_>) -> Option<Goal> {
    phrase.eat(&["create"]).then_some(())?;
    phrase.eat_all(&["a", "new", "small", "minimal"]);
    let language = if phrase.eat(&["rust", "cargo"]) {
        ProjectLanguage::Rust
    } else {
        phrase.eat(&["python"]).then_some(ProjectLanguage::Python)?
    };
    phrase.eat(&["project"]).then_some(())?;
    phrase.eat(&["named", "called"]);
    let name = phrase.take()?.text.clone();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(fits);
    (is_name && phrase.is_finished()).then_some(Goal::CreateProject(NewProject { name, language }))
}
