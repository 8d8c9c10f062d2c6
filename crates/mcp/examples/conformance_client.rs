//! The client that the conformance suite of the Model Context Protocol tests: a service behind the given URL, whose tools are called once
//! each. Every question of the service is answered with `skip`, which takes the defaults of its form.
//!
//! ```text
//! cargo run --package dirigent-mcp --example conformance_client -- URL
//! ```

use std::error::Error;
use std::sync::Arc;

use dirigent_core::question::Question;
use dirigent_core::tool::{Access, ToolOutcome};
use dirigent_mcp::{Endpoint, McpServices, ServiceConfig, ServiceName, Supervision, UrlEndpoint};
use dirigent_tools::{AskUser, ToolContext, ToolSource as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// A user who takes the defaults.
#[derive(Debug)]
struct TakesDefaults;

impl AskUser for TakesDefaults {
    fn ask(&self, _: Question) -> BoxFuture<'static, Option<String>> {
        async { Some("skip".to_owned()) }.boxed()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("the URL of a service is missing")?;
    let endpoint = Endpoint::Url(UrlEndpoint {
        url: url.parse()?,
        headers: [].into(),
        bearer_token_env: None,
    });
    let config = ServiceConfig::new(ServiceName::new("suite")?, endpoint);
    let services = McpServices::start_up(vec![config], Supervision::default()).await?;
    services.start("suite").await?;
    for spec in services.specs() {
        let tool = services.get(&spec.name).ok_or("the tool is gone")?.tool;
        match tool.call(context()?, arguments(&spec.parameters)).await.outcome {
            ToolOutcome::Success { output } => println!("{}: {output}", spec.name),
            ToolOutcome::Failure { error, .. } => return Err(format!("{}: {error}", spec.name).into()),
        }
    }
    services.shutdown().await;
    Ok(())
}

fn context() -> Result<ToolContext, Box<dyn Error>> {
    Ok(ToolContext {
        workspace: std::env::current_dir()?,
        access: Access::ReadWrite,
        run: "01890000-0000-7000-8000-000000000001".parse()?,
        effect: "a1.1".parse()?,
        seen: None,
        content_store: None,
        deadline: None,
        user: Some(Arc::new(TakesDefaults)),
        service_endpoints: Arc::default(),
        cancel: CancellationToken::new(),
    })
}

/// Returns a value of each parameter's type.
fn arguments(schema: &Value) -> Value {
    let parameters = schema["properties"].as_object().into_iter().flatten();
    let arguments = parameters.map(|(name, schema)| {
        let value = match schema["type"].as_str() {
            Some("number" | "integer") => json!(5),
            Some("boolean") => json!(true),
            Some(_) | None => json!("text"),
        };
        (name.clone(), value)
    });
    Value::Object(arguments.collect::<Map<_, _>>())
}
