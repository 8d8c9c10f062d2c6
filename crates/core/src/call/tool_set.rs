//! Whether a call may run: its tool exists, the agent may call it, its parameters keep to the tool's schema (CALL-6).
//! Nothing is repaired here: what is wrong goes back to the model.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::ValidationError;
use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::ToolCall;
use crate::name::{did_you_mean, json_type, nearest, quoted, quoted_list};
use crate::tool::{Access, ToolResult, ToolSpec, code};

/// Why a call cannot run. The message is for the model: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallError {
    /// There is no tool of that name.
    #[error("there is no tool {}{}: the tools are {}", quoted(tool), did_you_mean(nearest.as_deref()), quoted_list(allowed.iter().map(String::as_str)))]
    UnknownTool {
        /// The name that was called.
        tool: String,
        /// The most similar of the allowed tools, where one is similar.
        nearest: Option<String>,
        /// The tools that may be called.
        allowed: Vec<String>,
    },
    /// The tool exists, but not for this agent.
    #[error("the tool {} exists, but you may not call it: your tools are {}", quoted(tool), quoted_list(allowed.iter().map(String::as_str)))]
    NotAllowed {
        /// The tool.
        tool: String,
        /// The tools that may be called.
        allowed: Vec<String>,
    },
    /// The tool is among the agent's, but needs more than the agent is allowed.
    #[error(
        "the tool {} needs {needs} access, and you have {has} access: do it with other tools, or finish and say what you may not do",
        quoted(tool)
    )]
    AccessDenied {
        /// The tool.
        tool: String,
        /// What the tool needs at the least.
        needs: Access,
        /// What the agent is allowed.
        has: Access,
    },
    /// The parameters break the tool's schema.
    #[error("the parameters of {} are wrong: {}", quoted(tool), list_problems(problems))]
    BadParameters {
        /// The tool.
        tool: String,
        /// Everything that is wrong with them.
        problems: Vec<ParameterProblem>,
    },
    /// The tool's own schema is broken, so that no call of it can be checked. Not the model's mistake.
    #[error(
        "the tool {} cannot be called, as the schema of its parameters is invalid: {error}. Use another tool",
        quoted(tool)
    )]
    InvalidSchema {
        /// The tool.
        tool: String,
        /// What is wrong with the schema.
        error: String,
    },
}

impl CallError {
    /// What kind of failure it is ([`crate::tool::code`]).
    pub fn code(&self) -> &'static str {
        match self {
            CallError::UnknownTool { .. } => code::UNKNOWN_TOOL,
            CallError::NotAllowed { .. } | CallError::AccessDenied { .. } => code::ACCESS_DENIED,
            CallError::BadParameters { .. } => code::BAD_PARAMETERS,
            CallError::InvalidSchema { .. } => code::BROKE_DOWN,
        }
    }

    /// The result of a call that did not run for it.
    pub(crate) fn result(&self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }
}

/// One thing that is wrong with a call's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterProblem {
    /// Where: `parameters.files[0].path`.
    pub path: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for ParameterProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.path, self.problem)
    }
}

fn list_problems(problems: &[ParameterProblem]) -> String {
    const SHOWN: usize = 20;
    let mut shown: Vec<String> = problems.iter().take(SHOWN).map(ToString::to_string).collect();
    if problems.len() > SHOWN {
        shown.push(format!("and {} more", problems.len() - SHOWN));
    }
    shown.join("; ")
}

/// The tools that there are, with the validators of their schemas. Clones share them.
#[derive(Clone)]
pub struct ToolSet {
    inner: Arc<SharedTools>,
}

struct SharedTools {
    specs: Vec<ToolSpec>,
    by_name: BTreeMap<String, usize>,
    validators: Vec<OnceLock<Result<Validator, String>>>,
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolSet").field(&self.inner.specs).finish()
    }
}

/// All else follows from the specs.
impl PartialEq for ToolSet {
    fn eq(&self, other: &Self) -> bool {
        self.inner.specs == other.inner.specs
    }
}

/// Which tools a call may be of.
#[derive(Clone, Copy)]
enum Allowed<'a> {
    All,
    /// Of these, those that need no more than that.
    Only(&'a [String], Access),
}

impl ToolSet {
    /// The tools; of several of one name, the first counts. A schema is compiled when its tool is first called.
    pub fn new(specs: Vec<ToolSpec>) -> ToolSet {
        let mut by_name = BTreeMap::new();
        for (index, spec) in specs.iter().enumerate() {
            by_name.entry(spec.name.clone()).or_insert(index);
        }
        let validators = specs.iter().map(|_| OnceLock::new()).collect();
        ToolSet {
            inner: Arc::new(SharedTools {
                specs,
                by_name,
                validators,
            }),
        }
    }

    /// Returns true if a call that may have run already can run again ([`ToolSpec::repeat`]).
    pub(crate) fn is_safe_to_repeat(&self, call: &ToolCall) -> bool {
        self.get(&call.tool)
            .is_some_and(|tool| tool.repeat.is_safe(&call.parameters))
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.inner
            .by_name
            .get(name)
            .map(|index| &self.inner.specs[*index])
    }

    /// The tools, as they were given.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.inner.specs
    }

    /// The tools' names in alphabetical order, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.by_name.keys().map(String::as_str)
    }

    /// Checks a call of an agent with these tools and this access (CALL-6).
    ///
    /// Returns the parameters to run the tool with: an optional field that is `null` counts as left out, unless the schema allows `null`.
    pub fn check(&self, call: &ToolCall, allowed: &[String], access: Access) -> Result<Value, CallError> {
        self.check_parts(&call.tool, &call.parameters, Allowed::Only(allowed, access))
    }

    /// [`Self::check`] with every tool allowed.
    pub(crate) fn check_any(&self, tool: &str, parameters: &Value) -> Result<Value, CallError> {
        self.check_parts(tool, parameters, Allowed::All)
    }

    fn check_parts(&self, tool: &str, parameters: &Value, allowed: Allowed<'_>) -> Result<Value, CallError> {
        let index = self.find(tool, allowed)?;
        let spec = &self.inner.specs[index];
        let bad = |problems| CallError::BadParameters {
            tool: tool.to_owned(),
            problems,
        };
        if !parameters.is_object() {
            return Err(bad(vec![ParameterProblem {
                path: "parameters".to_owned(),
                problem: format!("must be an object, and is {}", json_type(parameters)),
            }]));
        }
        let validator = self.inner.validators[index].get_or_init(|| compile(&spec.parameters));
        let validator = validator.as_ref().map_err(|error| CallError::InvalidSchema {
            tool: tool.to_owned(),
            error: error.clone(),
        })?;
        if validator.is_valid(parameters) {
            return Ok(parameters.clone());
        }
        let reduced = without_invalid_nulls(validator, parameters);
        if validator.is_valid(&reduced) {
            return Ok(reduced);
        }
        let problems = validator
            .iter_errors(&reduced)
            .flat_map(|error| problems(&error, &spec.parameters, parameters))
            .collect();
        Err(bad(problems))
    }

    fn find(&self, tool: &str, allowed: Allowed<'_>) -> Result<usize, CallError> {
        let found = self.inner.by_name.get(tool).copied();
        let allowed: Vec<&str> = match (found, allowed) {
            (Some(index), Allowed::All) => return Ok(index),
            (Some(index), Allowed::Only(names, has)) if names.iter().any(|name| name == tool) => {
                let needs = self.inner.specs[index].access;
                let tool = || tool.to_owned();
                return (needs <= has)
                    .then_some(index)
                    .ok_or_else(|| CallError::AccessDenied {
                        tool: tool(),
                        needs,
                        has,
                    });
            }
            (_, Allowed::Only(names, _)) => names.iter().map(String::as_str).collect(),
            (None, Allowed::All) => self.names().collect(),
        };
        let names = allowed.iter().map(|name| (*name).to_owned()).collect();
        Err(match found {
            Some(_) => CallError::NotAllowed {
                tool: tool.to_owned(),
                allowed: names,
            },
            None => CallError::UnknownTool {
                tool: tool.to_owned(),
                nearest: nearest(tool, allowed).map(str::to_owned),
                allowed: names,
            },
        })
    }
}

/// A schema may refer to its own parts, never to a file or an address.
fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .offline()
        .build(schema)
        .map_err(|error| match error.instance_path().as_str() {
            "" => error.masked_with("it").to_string(),
            place => format!("at `{place}`, {}", error.masked_with("the value")),
        })
}

/// The parameters without the fields that are `null` where the schema does not allow `null`.
fn without_invalid_nulls(validator: &Validator, parameters: &Value) -> Value {
    let mut reduced = parameters.clone();
    for error in validator.iter_errors(parameters) {
        remove_nulls(&error, &mut reduced);
    }
    reduced
}

/// Removes the fields whose `null` causes the error or, where the schema offers alternatives, keeps one of them from matching.
fn remove_nulls(error: &ValidationError<'_>, parameters: &mut Value) {
    if error.instance().is_null() {
        remove_field(parameters, error.instance_path());
    }
    if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } =
        error.kind()
    {
        for error in context.iter().flatten() {
            remove_nulls(error, parameters);
        }
    }
}

/// Removes the field at this location; an element of an array stays.
fn remove_field(parameters: &mut Value, location: &Location) {
    let mut segments: Vec<_> = location.iter().collect();
    let Some(LocationSegment::Property(field)) = segments.pop() else {
        return;
    };
    let owner = segments
        .iter()
        .try_fold(parameters, |value, segment| match segment {
            LocationSegment::Property(field) => value.get_mut(field.as_ref()),
            LocationSegment::Index(index) => value.get_mut(index),
        });
    if let Some(Value::Object(fields)) = owner {
        fields.shift_remove(field.as_ref());
    }
}

/// Describes one error of the validator for a model. Values are never repeated: they may be very long.
fn problems(error: &ValidationError<'_>, schema: &Value, submitted: &Value) -> Vec<ParameterProblem> {
    let at = path(error.instance_path());
    let one = |problem: String| {
        vec![ParameterProblem {
            path: at.clone(),
            problem,
        }]
    };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let known = fields_beside(error.schema_path(), schema);
            unexpected
                .iter()
                .map(|field| ParameterProblem {
                    path: format!("{at}{}", field_step(field)),
                    problem: unknown_field(field, &known),
                })
                .collect()
        }
        ValidationErrorKind::Required { property } => {
            let field = property.as_str().unwrap_or_default();
            let owner = submitted.pointer(error.instance_path().as_str());
            let is_null = owner
                .and_then(|owner| owner.get(field))
                .is_some_and(Value::is_null);
            let problem = if is_null {
                "is required, and is null"
            } else {
                "is missing"
            };
            vec![ParameterProblem {
                path: format!("{at}{}", field_step(field)),
                problem: problem.to_owned(),
            }]
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            one(format!(
                "fits none of the forms that it may have: {}",
                alternatives(context)
            ))
        }
        other => one(describe(other, error)),
    }
}

fn describe(error_kind: &ValidationErrorKind, error: &ValidationError<'_>) -> String {
    let is = json_type(error.instance());
    match error_kind {
        ValidationErrorKind::Type {
            kind: TypeKind::Single(wanted),
        } => {
            format!("must be of type {wanted}, and is {is}")
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Multiple(wanted),
        } => {
            let wanted: Vec<String> = wanted.iter().map(|wanted| wanted.to_string()).collect();
            format!("must be of type {}, and is {is}", wanted.join(" or "))
        }
        ValidationErrorKind::Enum { options } => format!("must be one of {options}"),
        ValidationErrorKind::Constant { expected_value } => format!("must be {expected_value}"),
        ValidationErrorKind::Required { property } => format!("lacks the field {property}"),
        // The validator's own words for the rarer keywords.
        _ => format!("is wrong: {}", error.masked_with("the value")),
    }
}

/// What keeps a value from each of the forms that a schema offers, in short.
fn alternatives(context: &[Vec<ValidationError<'static>>]) -> String {
    const SHOWN: usize = 8;
    let forms: Vec<String> = context
        .iter()
        .take(SHOWN)
        .filter_map(|errors| errors.first())
        .map(|error| {
            format!(
                "`{}` {}",
                path(error.instance_path()),
                describe(error.kind(), error)
            )
        })
        .collect();
    forms.join(", or ")
}

fn unknown_field(field: &str, known: &[&str]) -> String {
    match nearest(field, known.iter().copied()) {
        Some(meant) => format!("is unknown: did you mean {}?", quoted(meant)),
        None if known.is_empty() => "is unknown: leave it out".to_owned(),
        None => format!(
            "is unknown: the fields are {}",
            quoted_list(known.iter().copied())
        ),
    }
}

/// The fields that the schema knows where it refuses others.
fn fields_beside<'s>(keyword: &Location, schema: &'s Value) -> Vec<&'s str> {
    let object = keyword.as_str().rsplit_once('/').map_or("", |(object, _)| object);
    schema
        .pointer(object)
        .and_then(|object| object.get("properties"))
        .and_then(Value::as_object)
        .map(|fields| fields.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

fn path(location: &Location) -> String {
    let mut path = String::from("parameters");
    for segment in location {
        match segment {
            LocationSegment::Property(field) => path.push_str(&field_step(&field)),
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

fn field_step(field: &str) -> String {
    let plain = !field.is_empty() && field.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    if plain && field.len() <= 64 {
        format!(".{field}")
    } else {
        format!("[{}]", Value::from(field.chars().take(64).collect::<String>()))
    }
}
