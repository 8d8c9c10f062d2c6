//! `[approvals]`: which calls run without approval, which need a person's approval, and which are denied (APPROVE-1).

use std::collections::{BTreeMap, BTreeSet};

use dirigent_core::agent_spec::DELEGATE;
use dirigent_core::policy::{CallPattern, Policy, Rule, Ruling};
use dirigent_core::prompt::READ_OUTPUT;
use dirigent_core::tool::ToolSpec;
use dirigent_mcp::service_of;

use super::{Config, ConfigError};
use crate::known_tools::KnownTools;
use crate::suggest::hint;

impl Config {
    /// Returns the rules of all files.
    pub fn policy(&self) -> Policy {
        let rule = |(ruling, _, _, calls): (Ruling, _, _, &CallPattern)| Rule {
            ruling,
            calls: calls.clone(),
        };
        Policy {
            rules: self.rules().map(rule).collect(),
        }
    }

    /// Returns the rules, each with the name of its list and its index in the list.
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

    /// Checks that the tools and parameters named by the rules exist, because a rule that never matches gives no protection. `known`
    /// contains the names of all tools, and `specs` the specs of the registry's tools.
    pub(crate) fn check_rules(&self, known: &KnownTools, specs: &[ToolSpec]) -> Result<(), ConfigError> {
        for (ruling, list, index, calls) in self.rules() {
            let error = |problem: String| ConfigError::Value {
                origin: self.shared.origins.entry(&["approvals", list], index),
                key: format!("approvals.{list}"),
                problem,
            };
            if service_of(&calls.tool).is_some() {
                // A service may be added later, or be that of another project. Its tools and their parameters are known only while it runs.
                continue;
            }
            let runtime = runtime_tools().map(|(name, _)| name);
            let fitting: BTreeSet<&str> = known
                .keys()
                .map(String::as_str)
                .chain(runtime)
                .filter(|tool| fits_tool(&calls.tool, tool))
                .collect();
            if fitting.is_empty() {
                let names = known.keys().map(String::as_str);
                let what = match calls.tool.contains('*') {
                    true => format!("has the pattern `{}`, which matches no tool", calls.tool),
                    false => format!("names the tool `{}`, which does not exist", calls.tool),
                };
                return Err(error(format!("{what}; {}", hint(&calls.tool, names))));
            }
            let schemas: Option<Vec<Schema>> = fitting.iter().map(|tool| schema(specs, tool)).collect();
            // A tool whose schema allows additional parameters may have these parameters.
            let Some(schemas) = schemas else { continue };
            check_parameters(ruling, calls, &schemas).map_err(error)?;
        }
        Ok(())
    }
}

/// The schemas of a tool's parameters, by name.
type Schema = serde_json::Map<String, serde_json::Value>;

/// Tools that runs can have in addition to the registry's tools, with their parameters. `execute_sql` exists only if a connection is
/// configured, but rules may name it without one.
fn runtime_tools() -> [(&'static str, serde_json::Value); 3] {
    [
        (
            "execute_sql",
            serde_json::json!({"operation": {}, "connection": {}, "sql": {}, "parameters": {}}),
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

/// Returns the schemas of a tool's parameters; `None` if the tool may accept other parameters, too.
fn schema(specs: &[ToolSpec], tool: &str) -> Option<Schema> {
    let Some(spec) = specs.iter().find(|spec| spec.name == tool) else {
        let runtime = runtime_tools().into_iter().find(|(name, _)| *name == tool);
        return runtime.and_then(|(_, parameters)| parameters.as_object().cloned());
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

/// Checks that one of the tools has all the parameters of the pattern, with possible values.
fn check_parameters(ruling: Ruling, calls: &CallPattern, tools: &[Schema]) -> Result<(), String> {
    let missing_from = match calls.tool.contains('*') {
        true => format!("no tool that matches `{}` has", calls.tool),
        false => format!("`{}` does not have", calls.tool),
    };
    let named = |tool: &&Schema| calls.parameters.keys().all(|name| tool.contains_key(name));
    let tools_with_all: Vec<&Schema> = tools.iter().filter(named).collect();
    if tools_with_all.is_empty() {
        let nowhere = |name: &&String| !tools.iter().any(|tool| tool.contains_key(*name));
        let Some(name) = calls.parameters.keys().find(nowhere) else {
            let names: Vec<&str> = calls.parameters.keys().map(String::as_str).collect();
            return Err(format!(
                "names {}, but no single tool has all of them",
                names.join(", ")
            ));
        };
        let properties: BTreeSet<&str> = tools
            .iter()
            .flat_map(|tool| tool.keys())
            .map(String::as_str)
            .collect();
        let what = format!("names `{name}`, which {missing_from} as a parameter");
        return Err(format!("{what}; {}", hint(name, properties)));
    }
    for (name, pattern) in &calls.parameters {
        let values: Option<Vec<&[serde_json::Value]>> =
            tools_with_all.iter().map(|tool| choices(&tool[name])).collect();
        // One of the tools accepts values that its schema does not list.
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
            let what = format!("has the pattern `{pattern}` for `{name}`, which matches none of its values");
            return Err(format!("{what}; {}", hint(pattern, values)));
        }
    }
    Ok(())
}

/// Returns the values that a parameter's schema lists, if all of them are strings.
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
