//! What may be called without asking, what must be asked, and what is never done: decided by tool and by parameters (APPROVE-1).
//! It is the user's, is journaled with the run, and holds for every agent and for the calls of a plan.
//!
//! A policy saves questions and catches what nobody wants done by mistake. It is no sandbox: it reads what a call says and knows
//! nothing of what a program does, so a command that is denied by its name can be run by another's, nor where a link leads.

mod matching;
mod pattern;
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

/// The rules of a run. Of those that fit a call, one that denies comes first, whatever else fits; then one that names parameters
/// before one that names a tool alone; and of such equals one that asks before one that allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    /// In the order of the configuration, which says nothing of their precedence.
    pub rules: Vec<Rule>,
}

/// One rule: what is to become of calls that fit it. JSON: `{"ruling": "deny", "tool": "execute_command", "parameters":
/// {"command": "rm *"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// What is to become of them.
    pub ruling: Ruling,
    /// Which they are.
    #[serde(flatten)]
    pub calls: CallPattern,
}

/// Which calls a rule is about. As text `execute_command` for all calls of a tool, or
/// `execute_command(command: cargo test*, working_directory: docs)` for those with such parameters. A pattern that has a comma and
/// a space in it, begins with `"`, is empty, or begins or ends with white space stands there as a JSON string.
///
/// What a parameter is compared as: a string as it is; a list of strings, numbers and the like as its elements with a space between,
/// each that is empty or has white space or quotes in it in single quotes, so that `cargo test*` fits `["cargo", "test", "--quiet"]`;
/// anything else as JSON on one line, the fields of its objects in the order of their names. A parameter that a call does not have
/// fits no pattern, not even `*`. How a rule reads it beyond that: [`Rule::fits`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPattern {
    /// The tool's name; `*` in it stands for any text.
    pub tool: String,
    /// By parameter, what its text must be like; `*` in it stands for any text. Empty for any call of the tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// What is to become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It runs.
    Allow,
    /// It runs once a person has approved it.
    Ask,
    /// It does not run, and its model is told so.
    Deny,
}

/// What a policy says of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// It runs.
    Allow,
    /// A person is asked before.
    Ask,
    /// It does not run; this is the rule that denies it, in words for models and people.
    Deny(String),
}

/// A text that is no [`CallPattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no rule: {problem}; write a tool's name, such as `execute_command`, or also parameters, such as \
         `execute_command(command: cargo test*)`"
)]
pub struct PatternError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Policy {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What is to become of a call of that tool with those parameters, in the workspace at that absolute path. Where no rule fits, the tool's own `requires_approval` decides.
    pub fn decide(&self, tool: &ToolSpec, parameters: &Value, workspace: &str) -> PolicyDecision {
        match self.rule(&tool.name, parameters, workspace) {
            Some(rule) => match rule.ruling {
                Ruling::Allow => PolicyDecision::Allow,
                Ruling::Ask => PolicyDecision::Ask,
                Ruling::Deny => PolicyDecision::Deny(rule.to_string()),
            },
            None if tool.requires_approval => PolicyDecision::Ask,
            None => PolicyDecision::Allow,
        }
    }

    /// The rule that decides about a call; none where no rule fits.
    pub fn rule(&self, tool: &str, parameters: &Value, workspace: &str) -> Option<&Rule> {
        self.rules
            .iter()
            .filter(|rule| rule.fits(tool, parameters, workspace))
            .max_by_key(|rule| rule.precedence())
    }
}

impl Rule {
    /// Whether a call of that tool with those parameters fits it, in the workspace at that absolute path.
    ///
    /// One that asks or denies also looks at the simple commands in a string and in what follows a `-c` in a list, without words such
    /// as `then`, `sudo` or `NAME=value` before them, at a string for `command` as `sh -c` with it, and at paths without `.`, `..` and the
    /// workspace's own: it may fit too much. One that allows does not, and its `*` stands for no `..` and for nothing that begins another command.
    ///
    /// Addresses of the web are compared as they would be asked, whatever their spelling. In a pattern that allows and begins with
    /// `https://` or `http://`, in capitals or with a `*` in it as well, a `*` does not reach out of the host or into it:
    /// `https://docs.rs/*` and `https://docs.rs*` both fit that host alone.
    pub fn fits(&self, tool: &str, parameters: &Value, workspace: &str) -> bool {
        let fits = |(name, pattern): (&String, &String)| {
            parameters.get(name).is_some_and(|value| match self.ruling {
                Ruling::Allow => allow_rule_matches(pattern, value),
                Ruling::Ask | Ruling::Deny => restrict_rule_matches(pattern, name, value, workspace),
            })
        };
        matches(&self.calls.tool, tool) && self.calls.parameters.iter().all(fits)
    }

    fn precedence(&self) -> (bool, bool, bool) {
        (
            self.ruling == Ruling::Deny,
            !self.calls.parameters.is_empty(),
            self.ruling == Ruling::Ask,
        )
    }
}

/// For models and people: ``the user's policy denies `execute_command` with command `rm *` ``.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = match self.ruling {
            Ruling::Allow => "allows",
            Ruling::Ask => "asks before",
            Ruling::Deny => "denies",
        };
        write!(f, "the user's policy {does} `{}`", self.calls.tool)?;
        for (place, (name, pattern)) in self.calls.parameters.iter().enumerate() {
            let before = if place == 0 { "with" } else { "and" };
            write!(f, " {before} {name} `{pattern}`")?;
        }
        Ok(())
    }
}

impl fmt::Display for CallPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool)?;
        for (place, (name, pattern)) in self.parameters.iter().enumerate() {
            let before = if place == 0 { "(" } else { ", " };
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
            write!(f, "{before}{name}: {pattern}")?;
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
        let wrong = |problem: String| PatternError {
            text: text.to_owned(),
            problem,
        };
        let (tool, parameters) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((tool, rest)) => {
                let inside = rest.strip_suffix(')');
                let inside = inside.ok_or_else(|| wrong("its `(` is not closed at its end".to_owned()))?;
                (tool.trim(), Some(inside.trim()))
            }
        };
        if tool.is_empty() {
            return Err(wrong("it names no tool".to_owned()));
        }
        if tool.contains(|c: char| c.is_whitespace() || c == ')') {
            return Err(wrong(format!("`{tool}` is no tool's name")));
        }
        Ok(CallPattern {
            tool: tool.to_owned(),
            parameters: parameters
                .map_or_else(|| Ok(BTreeMap::new()), parse_parameters)
                .map_err(wrong)?,
        })
    }
}

fn parse_parameters(mut rest: &str) -> Result<BTreeMap<String, String>, String> {
    let mut parameters = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once(':').ok_or_else(|| {
            format!("`{rest}` is no parameter with a pattern, such as `command: cargo test*`")
        })?;
        let name = name.trim();
        let (pattern, after) = parse_pattern(after.trim_start())?;
        if name.is_empty() {
            return Err(format!("the pattern `{pattern}` is of no parameter"));
        }
        if parameters.insert(name.to_owned(), pattern).is_some() {
            return Err(format!("it has `{name}` twice"));
        }
        match after {
            Some(after) => rest = after,
            None => return Ok(parameters),
        }
    }
}

/// A pattern and what follows its comma.
fn parse_pattern(text: &str) -> Result<(String, Option<&str>), String> {
    if !text.starts_with('"') {
        let (pattern, after) = match text.split_once(", ") {
            Some((pattern, after)) => (pattern, Some(after)),
            None => (text, None),
        };
        return match pattern.trim() {
            "" => Err("a pattern is empty; write `*` for any text".to_owned()),
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
