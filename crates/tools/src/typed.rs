//! Tools made from an async function and the type of its parameters, so that the JSON Schema that models see and the
//! values that the function gets cannot drift apart.
//!
//! A typed tool never runs its function with parameters that do not fit the type.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use dirigent_core::tool::{Access, Repeat, ToolResult, ToolSpec, code};
use futures::FutureExt;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Tool, ToolContext};

/// A tool from a function of the call's context and its parameters. The doc comments of `P` and of its fields become
/// the descriptions in the schema; `#[serde(deny_unknown_fields)]` on `P` makes a misspelt parameter an error.
///
/// The description's first sentence must stand alone; see [`ToolSpec::description`].
///
/// What it may do is declared next to it. Until something else is said, the safest is taken: it changes things, so that agents that
/// only look cannot call it, and it is not safe to repeat.
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
            name: name.into(),
            description: description.into(),
            parameters: parameters_schema::<P>(),
            repeat: Repeat::Unsafe,
            access: Access::ReadWrite,
            requires_approval: false,
            example: Value::Null,
        },
        body: Arc::new(TypedFunction {
            run,
            parameters: PhantomData::<fn() -> P>,
        }),
    }
}

/// What the function of a tool returns: a [`ToolResult`], where it has more to say than what came of it, or a `Result`.
///
/// `Ok` is a success, whose output is the value as JSON. `Err` is a failure with its text, which should say what was wrong and what to
/// do; of an `anyhow` error it has all the causes. For a failure with a [code], for what was changed, or for what operators see and
/// models never do, return a `ToolResult`, or one in `Ok`, which stays what it is.
pub trait IntoToolResult {
    /// As the result of the call.
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
                "it ran, but its result cannot be serialized to JSON: {error}"
            ))
            .with_code(code::BROKE_DOWN),
        }
    }
}

/// A tool made by [`typed`].
#[derive(Clone)]
pub struct TypedTool {
    spec: ToolSpec,
    body: Arc<dyn ErasedFunction>,
}

impl TypedTool {
    /// The same with a call's parameters as an example for prompts.
    pub fn example(mut self, parameters: Value) -> Self {
        self.spec.example = parameters;
        self
    }

    /// The same, for agents that are allowed that much; [`Access::ReadOnly`] for a tool that changes nothing.
    pub fn access(mut self, access: Access) -> Self {
        self.spec.access = access;
        self
    }

    /// The same, where a call that may have happened can be made once more (HOST-2).
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.spec.repeat = repeat;
        self
    }

    /// The same, but a person must approve each call where no rule of the run's policy says otherwise (APPROVE-1).
    pub fn requires_approval(mut self) -> Self {
        self.spec.requires_approval = true;
        self
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

/// The function of a tool with its types hidden.
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

/// Names the field, as "expected u32" alone helps nobody.
fn describe(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    let what = error.inner();
    if path == "." {
        format!("bad parameters: {what}")
    } else {
        format!("bad parameter `{path}`: {what}")
    }
}

/// The JSON Schema (2020-12) of `P`, without what only adds length to a prompt: the dialect, titles, number formats
/// and references.
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

fn remove_noise(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // Under `properties` the keys are names of parameters, which may well be `title` or `format`.
            object.retain(|key, value| !matches!(key.as_str(), "title" | "format") || !value.is_string());
            if let Some(Value::String(description)) = object.get_mut("description") {
                // Doc comments are wrapped for editors, not for models.
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
