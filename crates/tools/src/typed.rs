//! Creates tools from an async function and its parameter type. The JSON Schema that models see is derived from the type, so the two always
//! agree.
//!
//! A typed tool never runs its function with parameters that do not fit the type.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use dirigent_core::tool::{
    Access, CallDemand, CallRule, ParameterValues, ReadOnlyForm, Repeat, ToolCategory, ToolResult, ToolSpec,
    code,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tool::{Tool, ToolContext};

/// Creates a tool from a function that takes the call's context and parameters. The doc comments on the fields of `P` become the
/// descriptions in the schema; `#[serde(deny_unknown_fields)]` on `P` makes a misspelt parameter an error.
///
/// The first sentence of the description must stand alone; see [`ToolSpec::description`].
///
/// The defaults are the safest ones: the tool needs [`Access::ReadWrite`], so read-only agents cannot call it, and it is not safe to
/// repeat. [`TypedTool::access`] and [`TypedTool::repeat`] change these defaults.
///
/// ```
/// use dirigent_core::tool::{Access, Repeat};
/// use dirigent_tools::{Tool, ToolContext, typed};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Order {
///     /// The order's number.
///     number: u32,
/// }
///
/// #[derive(Serialize)]
/// struct Status {
///     delivered: bool,
/// }
///
/// async fn order_status(_: ToolContext, order: Order) -> Result<Status, String> {
///     match order.number {
///         17 => Ok(Status { delivered: true }),
///         other => Err(format!("there is no order {other}; orders have the numbers of their invoices")),
///     }
/// }
///
/// let tool = typed("order_status", "Says whether an order was delivered.", order_status)
///     .access(Access::ReadOnly)
///     .repeat(Repeat::Safe);
/// assert_eq!(tool.spec().parameters["required"], serde_json::json!(["number"]));
/// ```
pub fn typed<P, F, Fut>(name: impl Into<String>, description: impl Into<String>, run: F) -> TypedTool
where
    P: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(ToolContext, P) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoToolResult> + Send + 'static,
{
    TypedTool {
        spec: ToolSpec {
            category: ToolCategory::Other,
            changes_where: None,
            read_only: None,
            name: name.into(),
            description: description.into(),
            parameters: parameters_schema::<P>(),
            repeat: Repeat::Unsafe,
            access: Access::ReadWrite,
            requires_approval: false,
            approval_where: None,
            rules: Vec::new(),
            example: Value::Null,
        },
        body: Arc::new(TypedFunction {
            run,
            parameters: PhantomData::<fn() -> P>,
        }),
    }
}

/// The return type of a tool's function: a `Result` or a [`ToolResult`].
///
/// `Ok` becomes a success with the value as JSON. `Err` becomes a failure with the error's text (all causes of an `anyhow` error), which
/// should say what was wrong and what to do. Return a `ToolResult`, also inside `Ok`, to add a failure [code], state changes, or metadata
/// for operators that models never see.
pub trait IntoToolResult {
    /// Converts the value to the result of the call.
    fn into_tool_result(self) -> ToolResult;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl<T: Serialize + 'static, E: Display> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> ToolResult {
        let value = match self {
            Ok(value) => value,
            Err(error) => return ToolResult::failure(format!("{error:#}")),
        };
        if let Some(result) = (&value as &dyn Any).downcast_ref::<ToolResult>() {
            return result.clone();
        }
        match serde_json::to_value(value) {
            Ok(output) => ToolResult::success(output),
            Err(error) => ToolResult::failure(format!(
                "the tool ran, but its result cannot be serialized to JSON: {error}"
            ))
            .with_code(code::BROKE_DOWN),
        }
    }
}

/// A tool created by [`typed`].
#[derive(Clone)]
pub struct TypedTool {
    spec: ToolSpec,
    body: Arc<dyn ErasedFunction>,
}

impl TypedTool {
    /// Sets the parameters of an example call, for prompts.
    pub fn example(mut self, parameters: Value) -> Self {
        self.spec.example = parameters;
        self
    }

    /// Sets the tool's category; [`ToolCategory::Other`] by default.
    pub fn category(mut self, category: ToolCategory) -> Self {
        self.spec.category = category;
        self
    }

    /// Sets the access that an agent needs to call the tool; [`Access::ReadOnly`] for a tool that changes nothing.
    pub fn access(mut self, access: Access) -> Self {
        self.spec.access = access;
        self
    }

    /// Requires [`Access::ReadWrite`] for calls in which the parameter has one of the values. Such a call by
    /// an agent without this access is refused before anyone is asked for approval.
    pub fn changes_where(mut self, parameter: &str, values: &[&str]) -> Self {
        self.spec.changes_where = Some(parameter_values(parameter, values));
        self
    }

    /// Sets which calls may be repeated after an interruption (HOST-2).
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.spec.repeat = repeat;
        self
    }

    /// Sets the form of the tool for agents without [`Access::ReadWrite`]: this description, only these parameters, only these values of
    /// the parameter `operation` or `method` (if there is one), and this example. Such agents cannot use the rest.
    pub fn read_only(
        mut self,
        description: impl Into<String>,
        parameters: &[&str],
        operations: &[&str],
        example: Value,
    ) -> Self {
        self.spec.read_only = Some(Box::new(ReadOnlyForm {
            description: description.into(),
            parameters: restricted_schema(&self.spec.parameters, parameters, operations),
            example,
        }));
        self
    }

    /// Requires a person's approval for every call, unless a rule of the run's policy says otherwise
    /// (APPROVE-1).
    pub fn requires_approval(mut self) -> Self {
        self.spec.requires_approval = true;
        self
    }

    /// Requires a person's approval for calls in which the parameter has one of the values, unless a rule of
    /// the run's policy says otherwise (APPROVE-1).
    pub fn requires_approval_where(mut self, parameter: &str, values: &[&str]) -> Self {
        self.spec.approval_where = Some(parameter_values(parameter, values));
        self
    }
}

impl TypedTool {
    /// Makes `parameter` required in calls in which the parameter `by` has one of the values. `purpose`
    /// completes the error "is missing: ".
    pub fn requires_where(self, (by, values): (&str, &[&str]), parameter: &str, purpose: &str) -> Self {
        self.requires_either_where((by, values), parameter, None, purpose)
    }

    /// Like [`TypedTool::requires_where`]; the parameter `or` may be given instead of `parameter`.
    pub(crate) fn requires_either_where(
        self,
        (by, values): (&str, &[&str]),
        parameter: &str,
        or: Option<&str>,
        purpose: &str,
    ) -> Self {
        self.rule(CallRule {
            calls: vec![parameter_values(by, values)],
            demand: CallDemand::Requires {
                parameter: parameter.to_owned(),
                or: or.map(str::to_owned),
                purpose: purpose.to_owned(),
            },
        })
    }

    /// Adds a rule on calls (CALL-6).
    pub fn rule(mut self, rule: CallRule) -> Self {
        self.spec.rules.push(rule);
        self
    }
}

/// Returns the schema with only these properties, and with only these values of the property `operation`.
fn restricted_schema(schema: &Value, parameters: &[&str], operations: &[&str]) -> Value {
    let mut restricted = schema.clone();
    if let Some(properties) = restricted["properties"].as_object_mut() {
        properties.retain(|name, _| parameters.contains(&name.as_str()));
        for name in ["operation", "method"] {
            let values = properties.get_mut(name).and_then(|it| it.get_mut("enum"));
            if let Some(Value::Array(values)) = values {
                values.retain(|value| value.as_str().is_some_and(|value| operations.contains(&value)));
            }
        }
    }
    if let Some(Value::Array(required)) = restricted.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| parameters.contains(&name)));
    }
    restricted
}

pub(crate) fn parameter_values(parameter: &str, values: &[&str]) -> ParameterValues {
    ParameterValues {
        parameter: parameter.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}

impl Tool for TypedTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        self.body.call(context, parameters)
    }
}

impl std::fmt::Debug for TypedTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TypedTool").field(&self.spec.name).finish()
    }
}

/// A tool's function with its types erased.
trait ErasedFunction: Send + Sync {
    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult>;
}

struct TypedFunction<F, P> {
    run: F,
    parameters: PhantomData<fn() -> P>,
}

impl<P, F, Fut> ErasedFunction for TypedFunction<F, P>
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(ToolContext, P) -> Fut + Send + Sync,
    Fut: Future<Output: IntoToolResult> + Send + 'static,
{
    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        match serde_path_to_error::deserialize::<_, P>(parameters) {
            Ok(parameters) => (self.run)(context, parameters)
                .map(IntoToolResult::into_tool_result)
                .boxed(),
            Err(error) => {
                let failure = ToolResult::failure(describe(&error)).with_code(code::BAD_PARAMETERS);
                std::future::ready(failure).boxed()
            }
        }
    }
}

/// Describes the error with the field's name, because "expected u32" alone does not help.
fn describe(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    let cause = error.inner();
    if path == "." {
        format!("bad parameters: {cause}")
    } else {
        format!("bad parameter `{path}`: {cause}")
    }
}

/// Returns the JSON Schema (2020-12) of `P`. The dialect, titles, number formats and references are left out,
/// because they only make prompts longer.
fn parameters_schema<P: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator()
        .into_root_schema_for::<P>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        // The type's own doc comment would repeat the tool's description.
        root.remove("description");
    }
    remove_noise(&mut schema);
    schema
}

/// Returns true for a default that only states that the field may be omitted.
fn is_plain_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Removes `null` from the types, enumerations and defaults of fields that may be omitted, because `null`
/// counts as omitted for these fields (CALL-6).
fn remove_null_of_optional_fields(object: &mut Map<String, Value>) {
    let required = object.get("required").cloned().unwrap_or_default();
    let is_required = |name: &String| {
        let names = required.as_array().map_or(&[][..], Vec::as_slice);
        names.iter().any(|required| required == name)
    };
    let Some(Value::Object(properties)) = object.get_mut("properties") else {
        return;
    };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
        let Some(property) = property.as_object_mut() else {
            continue;
        };
        if let Some(Value::Array(values)) = property.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        property.retain(|key, value| key != "default" || !is_plain_default(value));
        if let Some(types) = property.get_mut("type")
            && let Value::Array(names) = types
        {
            names.retain(|name| name != "null");
            if let [only] = &names[..] {
                *types = only.clone();
            }
        }
    }
}

fn remove_noise(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // Under `properties`, `title` and `format` can be names of parameters.
            object.retain(|key, value| !matches!(key.as_str(), "title" | "format") || !value.is_string());
            remove_null_of_optional_fields(object);
            if let Some(Value::String(description)) = object.get_mut("description") {
                // Undo the line wrapping of doc comments.
                *description = description.replace('\n', " ");
            }
            object
                .iter_mut()
                .filter(|(key, _)| !matches!(key.as_str(), "default" | "const" | "enum" | "examples"))
                .for_each(|(_, value)| remove_noise(value));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_noise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
