//! Approval rules as JSON, the same in every interface.

use serde_json::{Value, json};

use crate::approval_rules::{ApprovalRule, RuleScope};

/// `{"id": 3, "calls": "execute_command(command: cargo test *)", "scope": "workspace", "subject": "/home/me/shop", "at": 1764150000000}`;
/// `subject` is `null` for a rule that applies everywhere.
pub fn approval_rule(rule: &ApprovalRule) -> Value {
    let (scope, subject) = match &rule.scope {
        RuleScope::Run(run) => ("run", Some(run.to_string())),
        RuleScope::Conversation(conversation) => ("conversation", Some(conversation.to_string())),
        RuleScope::Workspace(folder) => ("workspace", Some(folder.clone())),
        RuleScope::Everywhere => ("everywhere", None),
    };
    json!({
        "id": rule.id,
        "calls": rule.calls.to_string(),
        "scope": scope,
        "subject": subject,
        "at": rule.at,
    })
}
