//! Descriptions of a tool's restrictions for models, so that a model knows which calls are denied or asked about before it makes them.

use super::pattern::matches;
use super::{Policy, Rule, Ruling};

/// Maximum length of a description, in bytes. It is part of each request.
const MAX_BYTES: usize = 300;

impl Policy {
    /// Describes the calls of a tool that the rules deny or that need approval; `None` if there are none. A long description is replaced by
    /// a statement that there are such rules.
    ///
    /// ```
    /// use dirigent_core::policy::{Policy, Rule, Ruling};
    ///
    /// let rule = |ruling, calls: &str| Rule { ruling, calls: calls.parse().unwrap() };
    /// let policy = Policy {
    ///     rules: vec![rule(Ruling::Deny, "execute_command(command: rm *)"), rule(Ruling::Ask, "execute_command")],
    /// };
    /// assert_eq!(
    ///     policy.restrictions("execute_command").as_deref(),
    ///     Some("This run's rules deny command `rm *`, and require approval for all other calls.")
    /// );
    /// assert_eq!(policy.restrictions("search"), None);
    /// ```
    pub fn restrictions(&self, tool: &str) -> Option<String> {
        let denied = self.calls(tool, Ruling::Deny);
        let asked = self.calls(tool, Ruling::Ask);
        let text = match (denied, asked) {
            (None, None) => return None,
            (Some(denied), None) => format!("This run's rules deny {denied}."),
            (None, Some(asked)) => format!("This run's rules require approval for {asked}."),
            (Some(denied), Some(asked)) => {
                format!("This run's rules deny {denied}, and require approval for {asked}.")
            }
        };
        Some(if text.len() > MAX_BYTES {
            "This run's rules deny some calls, or require approval for them.".to_owned()
        } else {
            text
        })
    }

    /// Describes in words the calls of a tool to which the rules give this ruling, such as `all other calls`; `None` if there are none.
    fn calls(&self, tool: &str, ruling: Ruling) -> Option<String> {
        let rules: Vec<&Rule> = self
            .rules
            .iter()
            .filter(|rule| rule.ruling == ruling && matches(&rule.calls.tool, tool))
            .collect();
        if rules.iter().any(|rule| rule.calls.parameters.is_empty()) {
            // A rule that denies takes precedence over all others. A rule that requires approval takes precedence only over rules that are
            // no more specific.
            let has_exceptions = self.rules.iter().any(|rule| {
                matches(&rule.calls.tool, tool) && rule.ruling != ruling && !rule.calls.parameters.is_empty()
            });
            return Some(match (ruling, has_exceptions) {
                (Ruling::Ask, true) => "all other calls".to_owned(),
                (Ruling::Ask, false) | (Ruling::Allow | Ruling::Deny, _) => "all calls".to_owned(),
            });
        }
        // Rules about the same parameter name it once, with all their patterns.
        let mut described: Vec<String> = Vec::new();
        let mut last = None;
        for rule in rules {
            let mut parameters = rule.calls.parameters.iter();
            let (text, name) = match (parameters.next(), parameters.len()) {
                (Some((name, pattern)), 0) if last == Some(name) => (format!("`{pattern}`"), Some(name)),
                (Some((name, pattern)), 0) => (format!("{name} `{pattern}`"), Some(name)),
                (_, _) => (every_parameter(rule), None),
            };
            last = name;
            if !described.contains(&text) {
                described.push(text);
            }
        }
        (!described.is_empty()).then(|| described.join(", "))
    }
}

fn every_parameter(rule: &Rule) -> String {
    let parameters = rule.calls.parameters.iter();
    let parameters: Vec<String> = parameters
        .map(|(name, pattern)| format!("{name} `{pattern}`"))
        .collect();
    parameters.join(" with ")
}
