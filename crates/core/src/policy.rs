//! The policy of a run: the user's rules that decide, by tool and parameters, which calls run, need approval or are denied (APPROVE-1). The
//! policy is journaled with the run and applies to all agents and to the calls of plans.
//!
//! A policy reduces the number of approvals and prevents mistakes, but it is not a sandbox. It matches the parameters of a call, and does
//! not know what a program does or where a symbolic link leads. A command that is denied by name can still be run through another program.

mod matching;
mod pattern;
mod restrictions;
mod suggestions;
mod web;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::ToolSpec;

use self::matching::{allow_rule_matches, restrict_rule_matches};
use self::pattern::matches;

/// The rules of a run.
///
/// If several rules match a call, a rule that denies takes precedence over all others. Otherwise, a rule with parameter patterns takes
/// precedence over a rule for the tool only. Between equally specific rules, one that asks takes precedence over one that allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    /// The rules in the order of the configuration. The order does not affect precedence.
    pub rules: Vec<Rule>,
}

/// A rule: a ruling on the calls that match a pattern. JSON: `{"ruling": "deny", "tool": "execute_command", "parameters":
/// {"command": "rm *"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The ruling on matching calls.
    pub ruling: Ruling,
    /// The pattern that calls must match.
    #[serde(flatten)]
    pub calls: CallPattern,
}

/// A pattern that matches tool calls. Text form: `execute_command` for all calls of a tool, or
/// `execute_command(command: cargo test*, working_directory: docs)` for calls with matching parameters. A parameter pattern is written as a
/// JSON string if it is empty, contains a comma followed by a space, begins with `"`, ends with a comma, or begins
/// or ends with white space.
///
/// Parameter patterns are matched against the text form of a parameter:
///
/// - a string is used unchanged;
/// - a list of scalars (strings, numbers, booleans, null) is converted to its elements separated by spaces. An element that is empty or
///   contains white space or quotes is enclosed in single quotes. So `cargo test*` matches `["cargo", "test", "--quiet"]`;
/// - any other value is converted to JSON on one line, with the fields of objects sorted by name.
///
/// A missing parameter matches no pattern, not even `*`. Rules may also match other interpretations of a parameter: see [`Rule::matches`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPattern {
    /// The tool's name; `*` matches any text.
    pub tool: String,
    /// A pattern for the text of each named parameter; `*` matches any text. Empty for all calls of the tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// A rule's decision on the calls that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The call runs.
    Allow,
    /// The call runs only after the user approves it.
    Ask,
    /// The call does not run, and the model receives an error.
    Deny,
}

/// A policy's decision on one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// The call runs.
    Allow,
    /// The call needs the user's approval.
    Ask,
    /// The call does not run. Contains a description of the rule that denies it, for the model and the user.
    Deny(String),
}

/// An error from parsing a [`CallPattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a valid rule: {problem}; write a tool's name, such as `execute_command`, or a name with parameters, such as \
         `execute_command(command: cargo test*)`"
)]
pub struct PatternError {
    /// The text that is not a valid pattern.
    pub text: String,
    /// A description of the error.
    pub problem: String,
}

impl Policy {
    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Decides whether a call runs, needs approval or is denied. `workspace` is an absolute path. If no rule matches, the tool's
    /// spec decides ([`ToolSpec::asks`]).
    pub fn decide(&self, tool: &ToolSpec, parameters: &Value, workspace: &str) -> PolicyDecision {
        match self.rule(&tool.name, parameters, workspace) {
            Some(rule) => match rule.ruling {
                Ruling::Allow => PolicyDecision::Allow,
                Ruling::Ask => PolicyDecision::Ask,
                Ruling::Deny => PolicyDecision::Deny(rule.to_string()),
            },
            None if tool.asks(parameters) => PolicyDecision::Ask,
            None => PolicyDecision::Allow,
        }
    }

    /// Returns the policy with rules that allow these calls, in addition to its own.
    pub fn allowing(&self, calls: &[CallPattern]) -> Cow<'_, Policy> {
        if calls.is_empty() {
            return Cow::Borrowed(self);
        }
        let allow = |calls: &CallPattern| Rule {
            ruling: Ruling::Allow,
            calls: calls.clone(),
        };
        Cow::Owned(Policy {
            rules: self
                .rules
                .iter()
                .cloned()
                .chain(calls.iter().map(allow))
                .collect(),
        })
    }

    /// Returns true if the call would run without approval if the policy also had a rule that allows `calls`.
    pub fn allows_with(&self, calls: &CallPattern, tool: &str, parameters: &Value, workspace: &str) -> bool {
        let allow = Rule {
            ruling: Ruling::Allow,
            calls: calls.clone(),
        };
        let present = self.rule(tool, parameters, workspace);
        allow.matches(tool, parameters, workspace)
            && present.is_none_or(|rule| rule.precedence() <= allow.precedence())
    }

    /// Returns the rule that denies the call; `None` if no rule does. Rules that are added later cannot change this.
    pub fn denial(&self, tool: &str, parameters: &Value, workspace: &str) -> Option<&Rule> {
        self.rule(tool, parameters, workspace)
            .filter(|rule| rule.ruling == Ruling::Deny)
    }

    /// Returns the matching rule with the highest precedence; `None` if no rule matches.
    pub fn rule(&self, tool: &str, parameters: &Value, workspace: &str) -> Option<&Rule> {
        self.rules
            .iter()
            .filter(|rule| rule.matches(tool, parameters, workspace))
            .max_by_key(|rule| rule.precedence())
    }
}

impl Rule {
    /// Returns true if the rule matches the call. `workspace` is the absolute path of the workspace.
    ///
    /// A rule that asks or denies also matches the following interpretations of a parameter, so it may match more calls than intended:
    ///
    /// - each simple command in a string, or in the argument of `-c` in a list, without leading words such as `then`, `sudo` or
    ///   `NAME=value`;
    /// - a string parameter named `command`, as the argument of `sh -c` and `bash -c`;
    /// - a path without `.` and `..` components, and the same path relative to the workspace.
    ///
    /// A rule that allows matches none of these interpretations, and its `*` matches neither `..` nor the start of another command.
    ///
    /// URLs are compared in normalised form. A URL pattern is a pattern whose scheme, which may contain `*`, matches `http` or `https` in
    /// any letter case. In the URL pattern of an `allow` rule, a `*` does not match across the end of the host: `https://docs.rs/*` and
    /// `https://docs.rs*` both match only the host `docs.rs`.
    pub fn matches(&self, tool: &str, parameters: &Value, workspace: &str) -> bool {
        let parameter_matches = |(name, pattern): (&String, &String)| {
            parameters.get(name).is_some_and(|value| match self.ruling {
                Ruling::Allow => allow_rule_matches(pattern, value),
                Ruling::Ask | Ruling::Deny => restrict_rule_matches(pattern, name, value, workspace),
            })
        };
        matches(&self.calls.tool, tool) && self.calls.parameters.iter().all(parameter_matches)
    }

    fn precedence(&self) -> (bool, bool, bool) {
        (
            self.ruling == Ruling::Deny,
            !self.calls.parameters.is_empty(),
            self.ruling == Ruling::Ask,
        )
    }
}

/// Formats the rule as text for models and users: ``this run's rules deny `execute_command` with command `rm *` ``.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.ruling {
            Ruling::Allow => "allow",
            Ruling::Ask => "ask before",
            Ruling::Deny => "deny",
        };
        write!(f, "this run's rules {verb} `{}`", self.calls.tool)?;
        for (index, (name, pattern)) in self.calls.parameters.iter().enumerate() {
            let conjunction = if index == 0 { "with" } else { "and" };
            write!(f, " {conjunction} {name} `{pattern}`")?;
        }
        Ok(())
    }
}

impl fmt::Display for CallPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool)?;
        for (index, (name, pattern)) in self.parameters.iter().enumerate() {
            let separator = if index == 0 { "(" } else { ", " };
            let plain = !pattern.is_empty()
                && pattern.trim() == pattern
                && !pattern.starts_with('"')
                && !pattern.ends_with(',')
                && !pattern.contains(", ");
            let pattern = if plain {
                Cow::Borrowed(pattern.as_str())
            } else {
                Cow::Owned(Value::from(pattern.as_str()).to_string())
            };
            write!(f, "{separator}{name}: {pattern}")?;
        }
        if !self.parameters.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl FromStr for CallPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem: String| PatternError {
            text: text.to_owned(),
            problem,
        };
        let (tool, parameters) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((tool, rest)) => {
                let inner = rest.strip_suffix(')');
                let inner = inner.ok_or_else(|| error("the closing `)` at the end is missing".to_owned()))?;
                (tool.trim(), Some(inner.trim()))
            }
        };
        if tool.is_empty() {
            return Err(error("the tool's name is missing".to_owned()));
        }
        if tool.contains(|c: char| c.is_whitespace() || c == ')') {
            return Err(error(format!("`{tool}` is not a tool's name")));
        }
        Ok(CallPattern {
            tool: tool.to_owned(),
            parameters: parameters
                .map_or_else(|| Ok(BTreeMap::new()), parse_parameters)
                .map_err(error)?,
        })
    }
}

fn parse_parameters(mut rest: &str) -> Result<BTreeMap<String, String>, String> {
    let mut parameters = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once(':').ok_or_else(|| {
            format!(
                "expected a parameter and its pattern, such as `command: cargo test*`, but found `{rest}`"
            )
        })?;
        let name = name.trim();
        let (pattern, after) = parse_pattern(after.trim_start())?;
        if name.is_empty() {
            return Err(format!("the pattern `{pattern}` has no parameter name"));
        }
        if parameters.insert(name.to_owned(), pattern).is_some() {
            return Err(format!("the parameter `{name}` occurs twice"));
        }
        match after {
            Some(after) => rest = after,
            None => return Ok(parameters),
        }
    }
}

/// Splits off the first pattern. Returns it and, if a comma follows, the text after the comma.
fn parse_pattern(text: &str) -> Result<(String, Option<&str>), String> {
    if !text.starts_with('"') {
        let (pattern, after) = match text.split_once(", ") {
            Some((pattern, after)) => (pattern, Some(after)),
            None => (text, None),
        };
        return match pattern.trim() {
            "" => Err("a pattern is empty; use `*` to match any text".to_owned()),
            pattern => Ok((pattern.to_owned(), after)),
        };
    }
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let pattern = match strings.next() {
        Some(Ok(pattern)) => pattern,
        Some(Err(_)) | None => return Err(format!("`{text}` does not begin with a JSON string")),
    };
    let after = text[strings.byte_offset()..].trim_start();
    match after.strip_prefix(',') {
        Some(after) => Ok((pattern, Some(after))),
        None if after.is_empty() => Ok((pattern, None)),
        None => Err(format!("a comma is missing before `{after}`")),
    }
}
