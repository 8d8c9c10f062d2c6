//! Rules on the calls of a tool that the JSON Schema of its parameters does not express (CALL-6).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ParameterValues, ToolSpec};

/// A rule on some calls of a tool. It is checked together with the schema of the parameters: when a plan is submitted, and before a call
/// runs or a person is asked to approve it. The schema that models receive does not include the rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRule {
    /// The calls to which the rule applies: those that match all of these conditions. An omitted parameter counts as having its default
    /// from the schema.
    pub calls: Vec<ParameterValues>,
    /// What the rule requires of these calls.
    #[serde(flatten)]
    pub demand: CallDemand,
}

/// What a [`CallRule`] requires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallDemand {
    /// A parameter must be given.
    Requires {
        /// The parameter's name.
        parameter: String,
        /// Another parameter that may be given instead; `None` if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        or: Option<String>,
        /// What the parameter is for, in words that complete "is missing: ".
        purpose: String,
    },
    /// The call is refused.
    Refuses {
        /// Why, and what to do.
        reason: String,
    },
}

/// A parameter that a call lacks.
pub(crate) struct MissingParameter<'a> {
    pub(crate) parameter: &'a str,
    pub(crate) purpose: &'a str,
}

impl ToolSpec {
    /// Returns the parameters that the rules require and the call lacks.
    pub(crate) fn missing_parameters(&self, parameters: &Value) -> Vec<MissingParameter<'_>> {
        let is_given = |name: &String| parameters.get(name).is_some_and(|value| !value.is_null());
        let missing = self.rules_for(parameters).filter_map(|rule| match &rule.demand {
            CallDemand::Requires {
                parameter,
                or,
                purpose,
            } if !is_given(parameter) && !or.as_ref().is_some_and(is_given) => {
                Some(MissingParameter { parameter, purpose })
            }
            CallDemand::Requires { .. } | CallDemand::Refuses { .. } => None,
        });
        missing.collect()
    }

    /// Returns why a rule refuses the call; `None` if no rule does.
    pub(crate) fn refused_by_rule(&self, parameters: &Value) -> Option<&str> {
        self.rules_for(parameters).find_map(|rule| match &rule.demand {
            CallDemand::Refuses { reason } => Some(reason.as_str()),
            CallDemand::Requires { .. } => None,
        })
    }

    fn rules_for(&self, parameters: &Value) -> impl Iterator<Item = &CallRule> {
        let matches = move |of: &ParameterValues| {
            let given = parameters.get(&of.parameter).filter(|value| !value.is_null());
            given
                .or_else(|| self.parameters["properties"][&of.parameter].get("default"))
                .is_some_and(|value| of.contains(value))
        };
        self.rules
            .iter()
            .filter(move |rule| rule.calls.iter().all(&matches))
    }
}
