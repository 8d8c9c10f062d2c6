//! A custom tool with typed parameters, a custom sub-agent that may use it, and a custom chat model.
//!
//! The model is scripted, so that the example needs no key. A real model sends the conversation to a server.

use dirigent::model::{ChatModel, ChatRequest, Message, ModelFailure, ModelReply};
use dirigent::tools::{Access, Repeat, typed};
use dirigent::{AgentDefinition, Detail, Dirigent, Goal, render};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The parameters of the tool. The JSON Schema that models receive is generated from this type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Order {
    /// The order's number.
    number: u32,
}

/// A scripted model. As the lead, it plans one sub-task for the clerk; as the clerk, it looks up the order; as the reflector, it judges
/// the goal by the clerk's answer.
struct Desk;

impl Desk {
    fn reply(messages: &[Message]) -> String {
        let system = messages[0].content();
        let call = |tool: &str, parameters: serde_json::Value| {
            json!({"tool": tool, "parameters": parameters, "terminate": false}).to_string()
        };
        match messages.last() {
            _ if system.contains("You lead") => call(
                "submit_plan",
                json!({"summary": "Ask the clerk.", "subtasks": [
                    {"id": "ask", "title": "Look up order 17", "agent": "clerk", "task": "Where is order 17?"}
                ]}),
            ),
            Some(last) if system.contains("You judge") => {
                let found = last.content().contains("on its way");
                let verdict = if found { "achieved" } else { "failed" };
                call(
                    "submit_reflection",
                    json!({"verdict": verdict, "summary": "Order 17 is on its way."}),
                )
            }
            // The clerk, after its call: the last message is the tool's result.
            Some(Message::Tool { content, .. }) => format!("Status of the order: {content}"),
            Some(_) | None => call("order_status", json!({"number": 17})),
        }
    }
}

impl ChatModel for Desk {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ModelReply, ModelFailure>> + Send>> {
        let reply = ModelReply::text(Self::reply(&request.messages));
        Box::pin(std::future::ready(Ok(reply)))
    }
}

#[tokio::main]
async fn main() -> Result<(), dirigent::DirigentError> {
    let order_status = typed(
        "order_status",
        "Returns the status of an order.",
        |_context, Order { number }| async move {
            if number == 17 {
                Ok(json!({"order": number, "status": "on its way"}))
            } else {
                Err(format!("there is no order {number}; the only order is 17"))
            }
        },
    )
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly);
    let clerk = AgentDefinition::new(
        "clerk",
        "Knows about orders.",
        "You answer questions about orders.",
    )
    .tools(["order_status"]);
    let dirigent = Dirigent::builder()
        .journal(std::env::temp_dir().join(format!("dirigent-own-tool-{}.db", std::process::id())))
        .model(Desk)
        .tool(order_status)
        .agent(clerk)
        .build()
        .await?;

    let run = dirigent.start(Goal::new("Where is order 17?")).await?;
    let report = run.outcome().await?;
    println!("{}", render::report(&report, Detail::Verbose));
    Ok(())
}
