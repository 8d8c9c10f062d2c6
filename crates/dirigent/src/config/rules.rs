//! `[approvals]`: which calls run without asking, which a person must approve, and which are never made (APPROVE-1).

use std::collections::BTreeSet;

use dirigent_core::policy::{CallPattern, Policy, Rule, Ruling};
use dirigent_core::tool::ToolSpec;

use super::value::Value;
use super::{Config, ConfigError, Origin};
use crate::agents::nearest;

impl Config {
    /// The rules about calls, of all files together.
    pub fn policy(&self) -> Policy {
        let rule = |(ruling, _, calls, _): (Ruling, _, &CallPattern, _)| Rule {
            ruling,
            calls: calls.clone(),
        };
        Policy {
            rules: self.rules().map(rule).collect(),
        }
    }

    fn rules(&self) -> impl Iterator<Item = (Ruling, &'static str, &CallPattern, &Origin)> {
        let lists = [
            (Ruling::Allow, "allow"),
            (Ruling::Ask, "ask"),
            (Ruling::Deny, "deny"),
        ];
        lists.into_iter().flat_map(|(ruling, name)| {
            let rules = match self
                .shared
                .settings
                .get(&["approvals", name])
                .map(|found| &found.value)
            {
                Some(Value::Rules(rules)) => rules.as_slice(),
                Some(_) | None => &[],
            };
            rules
                .iter()
                .map(move |(calls, origin)| (ruling, name, calls, origin))
        })
    }

    /// Looks whether there are the tools and the parameters that the rules name: a rule that never fits protects nobody. `known` are the
    /// names of all tools, `specs` what is known of those of the registry.
    pub(crate) fn check_rules(
        &self,
        known: &BTreeSet<String>,
        specs: &[ToolSpec],
    ) -> Result<(), ConfigError> {
        for (_, list, calls, origin) in self.rules() {
            let wrong = |problem: String| ConfigError::Value {
                origin: origin.clone(),
                key: format!("approvals.{list}"),
                problem,
            };
            // One that names several may be about tools that come later.
            if calls.tool.contains('*') {
                continue;
            }
            if !known.contains(&calls.tool) {
                let names = known.iter().map(String::as_str);
                let what = format!("names the tool `{}`, which there is not", calls.tool);
                return Err(wrong(format!("{what}; {}", hint(&calls.tool, names))));
            }
            let Some(properties) = properties(specs, &calls.tool) else {
                continue;
            };
            if let Some(name) = calls
                .parameters
                .keys()
                .find(|name| !properties.contains(&name.as_str()))
            {
                let what = format!("names `{name}`, which `{}` has not as a parameter", calls.tool);
                return Err(wrong(format!("{what}; {}", hint(name, properties))));
            }
        }
        Ok(())
    }
}

/// The parameters of a tool that takes no others.
fn properties<'a>(specs: &'a [ToolSpec], tool: &str) -> Option<Vec<&'a str>> {
    let schema = &specs.iter().find(|spec| spec.name == tool)?.parameters;
    if schema.get("additionalProperties") != Some(&serde_json::Value::Bool(false)) {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    Some(properties.keys().map(String::as_str).collect())
}

fn hint<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(wrong, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", names.into_iter().collect::<Vec<_>>().join(", ")),
    }
}
