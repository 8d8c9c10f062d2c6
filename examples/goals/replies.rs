//! The script of a goal: the replies of its models, by role and order, never by the exact text of a request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dirigent_model_server::{Fault, Reply, Request, Script, ToolCall, Turn};
use regex::{Captures, Regex};
use serde::Deserialize;
use serde_json::Value;

/// A `replies.toml`.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Replies {
    /// The replies of the lead.
    lead: Vec<ScriptedReply>,
    /// The sub-agents.
    agents: Vec<ScriptedAgent>,
    /// The replies of the reflector, over all iterations.
    reflector: Vec<ScriptedReply>,
}

/// A sub-agent.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedAgent {
    /// A part of its task, by which it is recognised.
    task: String,
    replies: Vec<ScriptedReply>,
}

/// A scripted reply. In each of its strings, `<<REGEX>>` is replaced by the last match of the regular expression's group in the request, so
/// that a reply can contain values such as the handle of an earlier call.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptedReply {
    text: Option<String>,
    calls: Vec<ScriptedCall>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    parameters: Value,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The lead.
    Lead,
    /// A sub-agent.
    Agent,
    /// The reflector.
    Reflector,
}

impl Role {
    /// Returns the role of the agent that sent a request: lead and reflector have the tools by which they submit.
    pub fn from_request(request: &Request) -> Role {
        let tools = request.tool_names();
        if tools.contains(&"submit_plan") {
            Role::Lead
        } else if tools.contains(&"submit_reflection") {
            Role::Reflector
        } else {
            Role::Agent
        }
    }
}

/// The problems that the script met, one text for each.
pub type Problems = Arc<Mutex<Vec<String>>>;

impl Replies {
    /// Returns the script for a server. A request without a reply is refused, and added to the problems.
    pub fn script(&self, problems: &Problems) -> Script {
        let (replies, problems) = (self.clone(), problems.clone());
        let given: Mutex<BTreeMap<String, usize>> = Mutex::default();
        Script::from_fn(move |request| {
            let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
            replies.turn(request, &mut given).unwrap_or_else(|problem| {
                let mut problems = problems.lock().unwrap_or_else(PoisonError::into_inner);
                problems.push(problem);
                Fault::Status(400, "The script has no reply.").into()
            })
        })
    }

    /// Returns the number of replies that the script has.
    pub fn count(&self) -> usize {
        let agents: usize = self.agents.iter().map(|agent| agent.replies.len()).sum();
        self.lead.len() + agents + self.reflector.len()
    }

    fn turn(&self, request: &Request, given: &mut BTreeMap<String, usize>) -> Result<Turn, String> {
        let (who, replies) = self.of_asker(request)?;
        let number = given.entry(who.clone()).or_default();
        *number += 1;
        let reply = replies.get(*number - 1).ok_or_else(|| {
            let new = request.messages().iter().rev();
            let new: Vec<String> = new
                .take_while(|message| message["role"] != "assistant" && message["role"] != "system")
                .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
                .collect();
            let new: Vec<String> = new.into_iter().rev().collect();
            format!("{who} has no reply {number} to:\n{}", new.join("\n"))
        })?;
        reply
            .turn(request)
            .map_err(|problem| format!("{who}, reply {number}: {problem}"))
    }

    /// Returns the name and the replies of the agent that asks.
    fn of_asker(&self, request: &Request) -> Result<(String, &[ScriptedReply]), String> {
        match Role::from_request(request) {
            Role::Lead => Ok(("the lead".to_owned(), &self.lead)),
            Role::Reflector => Ok(("the reflector".to_owned(), &self.reflector)),
            Role::Agent => {
                let task = request
                    .messages()
                    .iter()
                    .find(|message| message["role"] == "user")
                    .and_then(|message| message["content"].as_str())
                    .unwrap_or_default();
                let agent = self.agents.iter().find(|agent| task.contains(&agent.task));
                let agent = agent.ok_or_else(|| format!("no agent has this task:\n{task}"))?;
                Ok((format!("the agent for {:?}", agent.task), &agent.replies))
            }
        }
    }
}

impl ScriptedReply {
    fn turn(&self, request: &Request) -> Result<Turn, String> {
        let texts = request
            .messages()
            .iter()
            .filter_map(|message| message["content"].as_str());
        let seen: Vec<&str> = texts.collect();
        let seen = seen.join("\n");
        let mut calls = Vec::new();
        for call in &self.calls {
            let mut parameters = call.parameters.clone();
            fill_value(&mut parameters, &seen)?;
            calls.push(ToolCall::new(&call.tool, &parameters));
        }
        let mut reply = Reply::calls(calls);
        if let Some(text) = &self.text {
            reply = reply.with_text(fill(text.trim(), &seen)?);
        }
        Ok(reply.into())
    }
}

fn fill_value(value: &mut Value, seen: &str) -> Result<(), String> {
    match value {
        Value::String(text) => *text = fill(text, seen)?,
        Value::Array(values) => values.iter_mut().try_for_each(|value| fill_value(value, seen))?,
        Value::Object(fields) => fields
            .values_mut()
            .try_for_each(|value| fill_value(value, seen))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// Replaces each `<<REGEX>>` by what its group matched last.
fn fill(text: &str, seen: &str) -> Result<String, String> {
    let placeholder = Regex::new("<<(.+?)>>").map_err(|error| error.to_string())?;
    let mut problem = None;
    let filled = placeholder.replace_all(text, |found: &Captures<'_>| {
        let matched = Regex::new(&found[1]).map(|regex| {
            let last = regex.captures_iter(seen).last();
            last.and_then(|found| Some(found.get(1)?.as_str().to_owned()))
        });
        match matched {
            Ok(Some(matched)) => matched,
            Ok(None) => {
                problem = Some(format!("nothing in the request matches {}", &found[1]));
                String::new()
            }
            Err(error) => {
                problem = Some(error.to_string());
                String::new()
            }
        }
    });
    problem.map_or(Ok(filled.into_owned()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_replaced_by_the_last_match_in_the_request() {
        let seen = r#"{"tool":"search","handle":"a1.2"} {"tool":"search","handle":"a1.5"}"#;
        let filled = fill(r#"see <<"search","handle":"([^"]+)">>."#, seen);
        assert_eq!(filled, Ok("see a1.5.".to_owned()));
        let filled = fill("see <<handle (a2.*)>>", seen);
        assert_eq!(
            filled,
            Err("nothing in the request matches handle (a2.*)".to_owned())
        );
    }
}
