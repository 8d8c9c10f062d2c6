//! Validation of calls: the tool exists, the agent may call it, and the parameters conform to the tool's schema (CALL-6). Errors go back to
//! the model. Nothing is corrected, except that optional fields with the value `null` are removed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::ValidationError;
use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SUBMIT_PLAN;
use crate::message::ToolCall;
use crate::name::{did_you_mean, json_type, nearest, quoted, quoted_list};
use crate::tool::{Access, MissingParameter, ToolResult, ToolSpec, code};

/// The reason why a call cannot run. The message tells the model what the problem is, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallError {
    /// The tool does not exist.
    #[error("there is no tool {}{}: the tools are {}", quoted(tool), did_you_mean(nearest.as_deref()), quoted_list(allowed.iter().map(String::as_str)))]
    UnknownTool {
        /// The unknown name.
        tool: String,
        /// The most similar allowed tool, if any.
        nearest: Option<String>,
        /// The tools that may be called.
        allowed: Vec<String>,
    },
    /// The tool exists, but the agent may not call it.
    #[error("the tool {} exists, but you may not call it: your tools are {}", quoted(tool), quoted_list(allowed.iter().map(String::as_str)))]
    NotAllowed {
        /// The name of the tool.
        tool: String,
        /// The tools that may be called.
        allowed: Vec<String>,
    },
    /// The agent has the tool, but less access than the tool needs.
    #[error(
        "this call of {} needs {needs} access, but you have {has} access: use other tools, or finish and report what you may not do",
        quoted(tool)
    )]
    AccessDenied {
        /// The name of the tool.
        tool: String,
        /// The minimum access for the tool.
        needs: Access,
        /// The agent's access.
        has: Access,
    },
    /// The parameters do not conform to the tool's schema.
    #[error("the parameters of {} are wrong: {}", quoted(tool), list_problems(problems))]
    BadParameters {
        /// The name of the tool.
        tool: String,
        /// All problems with the parameters.
        problems: Vec<ParameterProblem>,
    },
    /// A rule of the tool refuses the call ([`CallRule`](crate::tool::CallRule)).
    #[error("this call of {} is refused: {reason}", quoted(tool))]
    Refused {
        /// The name of the tool.
        tool: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The tool's schema is invalid, so its calls cannot be validated. This is not the model's mistake.
    #[error(
        "the tool {} cannot be called, because the schema of its parameters is invalid: {error}. Use another tool",
        quoted(tool)
    )]
    InvalidSchema {
        /// The name of the tool.
        tool: String,
        /// The problem with the schema.
        error: String,
    },
}

impl CallError {
    /// The code of the failure ([`crate::tool::code`]).
    pub fn code(&self) -> &'static str {
        match self {
            CallError::UnknownTool { .. } => code::UNKNOWN_TOOL,
            CallError::NotAllowed { .. } | CallError::AccessDenied { .. } | CallError::Refused { .. } => {
                code::ACCESS_DENIED
            }
            CallError::BadParameters { .. } => code::BAD_PARAMETERS,
            CallError::InvalidSchema { .. } => code::BROKE_DOWN,
        }
    }

    /// Like [`CallError::result`], but for a lead that may not make the call itself but may include it in a plan (LEAD-2).
    pub(crate) fn result_with_plan(&self) -> ToolResult {
        let reason = match self {
            CallError::NotAllowed { tool, .. } => format!("you may not call {} yourself", quoted(tool)),
            CallError::AccessDenied { tool, needs, has } => format!(
                "this call of {} needs {needs} access, but you have {has} access",
                quoted(tool)
            ),
            CallError::UnknownTool { .. }
            | CallError::BadParameters { .. }
            | CallError::Refused { .. }
            | CallError::InvalidSchema { .. } => return self.result(),
        };
        let error =
            format!("{reason}: put it into the `calls` of a plan, and submit that with `{SUBMIT_PLAN}`");
        ToolResult::failure(error).with_code(self.code())
    }

    /// Adds the agent's terminating tool, which is not part of any tool set, to the tools that the error lists.
    pub(crate) fn with_submission(mut self, submission: &str) -> Self {
        match &mut self {
            CallError::UnknownTool {
                tool,
                nearest,
                allowed,
            } => {
                let similar = || nearest_tool(tool, &[submission]).map(str::to_owned);
                *nearest = nearest.take().or_else(similar);
                allowed.push(submission.to_owned());
            }
            CallError::NotAllowed { allowed, .. } => allowed.push(submission.to_owned()),
            CallError::AccessDenied { .. }
            | CallError::BadParameters { .. }
            | CallError::Refused { .. }
            | CallError::InvalidSchema { .. } => {}
        }
        self
    }

    /// The result of a call with this error.
    pub(crate) fn result(&self) -> ToolResult {
        ToolResult::failure(self.to_string()).with_code(self.code())
    }
}

/// One problem with a call's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterProblem {
    /// Location, such as `parameters.files[0].path`.
    pub path: String,
    /// The problem, and how to correct it.
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

/// A set of tools with validators of their schemas. Cloning is cheap.
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

/// Compares only the specs, from which everything else is derived.
impl PartialEq for ToolSet {
    fn eq(&self, other: &Self) -> bool {
        self.inner.specs == other.inner.specs
    }
}

/// The tools that may be called.
#[derive(Clone, Copy)]
enum Allowed<'a> {
    All,
    /// The tools with these names, unless they need more than this access.
    Only(&'a [String], Access),
}

impl ToolSet {
    /// Creates a set of tools. Of several tools with the same name, only the first is used. Schemas are compiled on first use.
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

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.inner
            .by_name
            .get(name)
            .map(|index| &self.inner.specs[*index])
    }

    /// All tools in their original order.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.inner.specs
    }

    /// The names of the tools in alphabetical order, without duplicates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.by_name.keys().map(String::as_str)
    }

    /// Checks a call of an agent with these tools and this access (CALL-6).
    ///
    /// Returns the parameters to run the tool with: an optional field that is `null` counts as left out, unless the schema allows `null`.
    pub fn check(&self, call: &ToolCall, allowed: &[String], access: Access) -> Result<Value, CallError> {
        self.check_parts(&call.tool, &call.parameters, Allowed::Only(allowed, access))
    }

    /// Like [`Self::check`], with every tool allowed.
    pub(crate) fn check_any(&self, tool: &str, parameters: &Value) -> Result<Value, CallError> {
        self.check_parts(tool, parameters, Allowed::All)
    }

    fn check_parts(&self, tool: &str, parameters: &Value, allowed: Allowed<'_>) -> Result<Value, CallError> {
        let index = self.find(tool, parameters, allowed)?;
        let spec = &self.inner.specs[index];
        let bad = |problems| CallError::BadParameters {
            tool: tool.to_owned(),
            problems,
        };
        if !parameters.is_object() {
            return Err(bad(vec![ParameterProblem {
                path: "parameters".to_owned(),
                problem: format!("must be an object, but is {}", json_type(parameters)),
            }]));
        }
        let validator = self.inner.validators[index].get_or_init(|| compile(&spec.parameters));
        let validator = validator.as_ref().map_err(|error| CallError::InvalidSchema {
            tool: tool.to_owned(),
            error: error.clone(),
        })?;
        let accepted = if validator.is_valid(parameters) {
            parameters.clone()
        } else {
            without_invalid_nulls(validator, parameters)
        };
        let against_schema = validator
            .iter_errors(&accepted)
            .flat_map(|error| problems(&error, &spec.parameters, parameters));
        let missing = spec.missing_parameters(&accepted).into_iter();
        let problems: Vec<ParameterProblem> = against_schema.chain(missing.map(missing_parameter)).collect();
        if !problems.is_empty() {
            return Err(bad(problems));
        }
        match spec.refused_by_rule(&accepted) {
            Some(reason) => Err(CallError::Refused {
                tool: tool.to_owned(),
                reason: reason.to_owned(),
            }),
            None => Ok(accepted),
        }
    }

    fn find(&self, tool: &str, parameters: &Value, allowed: Allowed<'_>) -> Result<usize, CallError> {
        let found = self.inner.by_name.get(tool).copied();
        let allowed: Vec<&str> = match (found, allowed) {
            (Some(index), Allowed::All) => return Ok(index),
            (Some(index), Allowed::Only(names, has)) if names.iter().any(|name| name == tool) => {
                let needs = self.inner.specs[index].access_for(parameters);
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
                nearest: nearest_tool(tool, &allowed).map(str::to_owned),
                allowed: names,
            },
        })
    }
}

/// The allowed tool that corresponds to another agent system's tool with the unknown name, or else the allowed tool with the most similar
/// name.
fn nearest_tool<'a>(unknown: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let wanted = unknown.to_lowercase().replace(['-', ' '], "_");
    let (_, own) = NAMES_ELSEWHERE
        .iter()
        .find(|(names, _)| names.contains(&wanted.as_str()))
        .copied()
        .unzip();
    let own = own.and_then(|own| allowed.iter().copied().find(|name| *name == own));
    own.or_else(|| nearest(unknown, allowed.iter().copied()))
}

/// Tool names of other agent systems, which models know from their training, each with the corresponding tool of Dirigent.
const NAMES_ELSEWHERE: [(&[&str], &str); 4] = [
    (
        &[
            "read_file",
            "read",
            "view",
            "cat",
            "open_file",
            "write_file",
            "write",
            "create_file",
            "edit_file",
            "edit",
            "str_replace",
            "str_replace_editor",
            "str_replace_based_edit_tool",
            "replace",
            "list_files",
            "list_dir",
            "list_directory",
            "ls",
            "glob",
            "move_file",
            "delete_file",
        ],
        "file_operations",
    ),
    (
        &[
            "grep",
            "grep_search",
            "rg",
            "ripgrep",
            "search_files",
            "codebase_search",
            "find",
        ],
        "search",
    ),
    (
        &[
            "bash",
            "shell",
            "sh",
            "run_command",
            "run_terminal_cmd",
            "terminal",
            "exec",
            "run",
        ],
        "execute_command",
    ),
    (&["sql", "query", "run_query"], "execute_sql"),
];

fn missing_parameter(missing: MissingParameter<'_>) -> ParameterProblem {
    ParameterProblem {
        path: format!("parameters{}", field_step(missing.parameter)),
        problem: format!("is missing: {}", missing.purpose),
    }
}

/// Compiles a schema. References to files or URLs are errors.
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

/// Removes the fields whose `null` causes the error, either directly or by preventing an alternative of the schema from matching.
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

/// Removes the field at this location. Elements of arrays are not removed.
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

/// Describes one error of the validator for a model. The description does not contain the value, which may be very long.
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
                "is required, but is null"
            } else {
                "is missing"
            };
            vec![ParameterProblem {
                path: format!("{at}{}", field_step(field)),
                problem: problem.to_owned(),
            }]
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => one(
            format!("matches none of its allowed forms: {}", alternatives(context)),
        ),
        other => one(describe(other, error)),
    }
}

fn describe(error_kind: &ValidationErrorKind, error: &ValidationError<'_>) -> String {
    let is = json_type(error.instance());
    match error_kind {
        ValidationErrorKind::Type {
            kind: TypeKind::Single(wanted),
        } => {
            format!("must be of type {wanted}, but is {is}")
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Multiple(wanted),
        } => {
            let wanted: Vec<String> = wanted.iter().map(|wanted| wanted.to_string()).collect();
            format!("must be of type {}, but is {is}", wanted.join(" or "))
        }
        ValidationErrorKind::Enum { options } => {
            let given = error.instance().as_str().unwrap_or_default();
            let names = options.as_array().into_iter().flatten().filter_map(Value::as_str);
            let hint = nearest(given, names)
                .map_or_else(String::new, |meant| format!(": did you mean {}?", quoted(meant)));
            format!("must be one of {options}{hint}")
        }
        ValidationErrorKind::Constant { expected_value } => format!("must be {expected_value}"),
        ValidationErrorKind::Required { property } => format!("lacks the field {property}"),
        // For rarer keywords, use the validator's own message.
        _ => format!("is wrong: {}", error.masked_with("the value")),
    }
}

/// Describes why a value matches none of a schema's alternatives.
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
        None if known.is_empty() => "is unknown: remove it".to_owned(),
        None => format!(
            "is unknown: the fields are {}",
            quoted_list(known.iter().copied())
        ),
    }
}

/// Returns the fields that the schema defines next to the failing keyword.
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
