//! `[approvals]`: which calls run without asking, which a person must approve, and which are never made (APPROVE-1).

use std::collections::{BTreeMap, BTreeSet};

use dirigent_core::policy::{CallPattern, Policy, Rule, Ruling};
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::spec::DELEGATE;
use dirigent_core::tool::ToolSpec;

use super::{Config, ConfigError};
use crate::agents::KnownTools;
use crate::suggest::hint;

impl Config {
    /// The rules about calls, of all files together.
    pub fn policy(&self) -> Policy {
        let rule = |(ruling, _, _, calls): (Ruling, _, _, &CallPattern)| Rule {
            ruling,
            calls: calls.clone(),
        };
        Policy {
            rules: self.rules().map(rule).collect(),
        }
    }

    /// The rules, each with the name of its list and its place in it.
    fn rules(&self) -> impl Iterator<Item = (Ruling, &'static str, usize, &CallPattern)> {
        let table = &self.shared.settings.approvals;
        let lists = [
            (Ruling::Allow, "allow", &table.allow),
            (Ruling::Ask, "ask", &table.ask),
            (Ruling::Deny, "deny", &table.deny),
        ];
        lists.into_iter().flat_map(|(ruling, list, rules)| {
            let rules = rules.iter().enumerate();
            rules.map(move |(index, rule)| (ruling, list, index, &rule.0))
        })
    }

    /// Looks whether there are the tools and the parameters that the rules name: a rule that never fits protects nobody. `known` are the
    /// names of all tools, `specs` what is known of those of the registry.
    pub(crate) fn check_rules(&self, known: &KnownTools, specs: &[ToolSpec]) -> Result<(), ConfigError> {
        for (ruling, list, index, calls) in self.rules() {
            let wrong = |problem: String| ConfigError::Value {
                origin: self.shared.origins.entry(&["approvals", list], index),
                key: format!("approvals.{list}"),
                problem,
            };
            let own = runtime_tools().map(|(name, _)| name);
            let fitting: BTreeSet<&str> = known
                .keys()
                .map(String::as_str)
                .chain(own)
                .filter(|tool| fits_tool(&calls.tool, tool))
                .collect();
            if fitting.is_empty() {
                let names = known.keys().map(String::as_str);
                let what = match calls.tool.contains('*') {
                    true => format!("names tools by `{}`, which fits none that there is", calls.tool),
                    false => format!("names the tool `{}`, which there is not", calls.tool),
                };
                return Err(wrong(format!("{what}; {}", hint(&calls.tool, names))));
            }
            let schemas: Option<Vec<Schema>> = fitting.iter().map(|tool| schema(specs, tool)).collect();
            // A tool that takes anything may take these parameters.
            let Some(schemas) = schemas else { continue };
            check_parameters(ruling, calls, &schemas).map_err(wrong)?;
        }
        Ok(())
    }
}

/// The parameters of a tool, each with its schema.
type Schema = serde_json::Map<String, serde_json::Value>;

/// What the tools take that runs have besides those of the registry, or may have: there is none for databases without a connection, and
/// rules about it can wait for one.
fn runtime_tools() -> [(&'static str, serde_json::Value); 3] {
    [
        (
            "execute_sql",
            serde_json::json!({"connection": {}, "sql": {}, "parameters": {}}),
        ),
        (DELEGATE, serde_json::json!({"agent": {}, "task": {}})),
        (
            READ_OUTPUT,
            serde_json::json!({
                "handle": {}, "offset": {}, "length": {}, "start_line": {}, "end_line": {}, "pattern": {}
            }),
        ),
    ]
}

/// The parameters of a tool that takes no others.
fn schema(specs: &[ToolSpec], tool: &str) -> Option<Schema> {
    let Some(spec) = specs.iter().find(|spec| spec.name == tool) else {
        let own = runtime_tools().into_iter().find(|(name, _)| *name == tool);
        return own.and_then(|(_, parameters)| parameters.as_object().cloned());
    };
    let schema = &spec.parameters;
    if schema.get("additionalProperties") != Some(&serde_json::Value::Bool(false)) {
        return None;
    }
    schema.get("properties")?.as_object().cloned()
}

fn fits_tool(pattern: &str, tool: &str) -> bool {
    let rule = Rule {
        ruling: Ruling::Deny,
        calls: CallPattern {
            tool: pattern.to_owned(),
            parameters: BTreeMap::new(),
        },
    };
    rule.matches(tool, &serde_json::Value::Null, "")
}

/// Looks whether one of the tools has all the parameters, with values that the patterns can fit.
fn check_parameters(ruling: Ruling, calls: &CallPattern, tools: &[Schema]) -> Result<(), String> {
    let whose = match calls.tool.contains('*') {
        true => format!("no tool that `{}` fits has", calls.tool),
        false => format!("`{}` has not", calls.tool),
    };
    let named = |tool: &&Schema| calls.parameters.keys().all(|name| tool.contains_key(name));
    let tools_with_all: Vec<&Schema> = tools.iter().filter(named).collect();
    if tools_with_all.is_empty() {
        let nowhere = |name: &&String| !tools.iter().any(|tool| tool.contains_key(*name));
        let Some(name) = calls.parameters.keys().find(nowhere) else {
            let names: Vec<&str> = calls.parameters.keys().map(String::as_str).collect();
            return Err(format!(
                "names {}, which no one tool has together",
                names.join(", ")
            ));
        };
        let properties: BTreeSet<&str> = tools
            .iter()
            .flat_map(|tool| tool.keys())
            .map(String::as_str)
            .collect();
        let what = format!("names `{name}`, which {whose} as a parameter");
        return Err(format!("{what}; {}", hint(name, properties)));
    }
    for (name, pattern) in &calls.parameters {
        let values: Option<Vec<&[serde_json::Value]>> =
            tools_with_all.iter().map(|tool| choices(&tool[name])).collect();
        // One of them takes more than a few values.
        let Some(values) = values else { continue };
        let values: BTreeSet<&str> = values
            .into_iter()
            .flatten()
            .filter_map(|value| value.as_str())
            .collect();
        if !values
            .iter()
            .any(|value| fits_value(ruling, name, pattern, value))
        {
            let what = format!("asks for {name} `{pattern}`, which fits no value that it can have");
            return Err(format!("{what}; {}", hint(pattern, values)));
        }
    }
    Ok(())
}

/// The texts among which a parameter's value is, where its schema lists them.
fn choices(parameter: &serde_json::Value) -> Option<&[serde_json::Value]> {
    let values = parameter.get("enum")?.as_array()?;
    values.iter().all(serde_json::Value::is_string).then_some(values)
}

fn fits_value(ruling: Ruling, name: &str, pattern: &str, value: &str) -> bool {
    let rule = Rule {
        ruling,
        calls: CallPattern {
            tool: "*".to_owned(),
            parameters: BTreeMap::from([(name.to_owned(), pattern.to_owned())]),
        },
    };
    rule.matches("", &serde_json::json!({ name: value }), "")
}
