//! The facts that the user asked to be remembered, as a section of a conversation's first message (INTENT-1).

use serde_json::json;

use super::render;
use crate::text::one_line;

/// Renders facts as the user's notes, which are information and not instructions; `None` if there are none.
pub fn user_notes<'a>(facts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let notes: Vec<String> = facts.into_iter().map(|fact| one_line(fact.trim())).collect();
    if notes.is_empty() {
        return None;
    }
    Some(render("user_notes", json!({"notes": notes})))
}
