//! HOST-10: the spans of a run, as a subscriber receives them. The test runs in its own process: `tracing` caches for each span whether
//! any subscriber wants it, and other tests have no subscriber.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[allow(dead_code)]
#[path = "runs/fragile.rs"]
mod fragile;
#[path = "runs/script.rs"]
mod script;
#[path = "runs/world.rs"]
mod world;

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use dirigent_core::tool::{Repeat, ToolResult};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, SpanRef};
use tracing_subscriber::{Layer, Registry};

use crate::script::{Asked, Reply, Scripted, Scriptool, achieved, plan_call, tools};
use crate::world::World;

/// Collects all spans in the order of their creation.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

struct Seen {
    id: Id,
    depth: usize,
    text: Fields,
}

/// ` name=value` for each field with a value.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() != "gen_ai.conversation.id" {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let is_ours = |span: &SpanRef<'_, S>| span.metadata().target().starts_with("dirigent");
        if !is_ours(&span) {
            return;
        }
        let mut text = Fields(span.name().to_owned());
        attributes.record(&mut text);
        let (id, depth) = (id.clone(), span.scope().filter(is_ours).count() - 1);
        self.0.lock().unwrap().push(Seen { id, depth, text });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // The id of a closed span is reused for later spans.
        if let Some(seen) = spans.iter_mut().rev().find(|seen| seen.id == *id) {
            values.record(&mut seen.text);
        }
    }
}

impl Spans {
    fn tree(&self) -> String {
        let spans = self.0.lock().unwrap();
        let lines = spans
            .iter()
            .map(|seen| format!("{}{}\n", "  ".repeat(seen.depth), seen.text.0));
        lines.collect()
    }
}

async fn call_then_reflect(asked: Asked) -> Reply {
    match asked.who() {
        "lead" => plan_call("note"),
        _ => achieved(),
    }
}

#[tokio::test]
async fn host_10_a_run_has_spans_for_iterations_agents_requests_and_calls() {
    let note = Scriptool::new("note", Repeat::Safe, |_, _| {
        std::future::ready(ToolResult::failure("no paper").with_code("io"))
    });
    let spans = Spans::default();
    let subscriber = tracing::subscriber::set_default(Registry::default().with(spans.clone()));
    let world = World::new(Scripted::new(call_then_reflect), tools([note])).await;

    world.run().await;
    world.all_tasks_end().await;
    drop(subscriber);

    assert_eq!(spans.tree(), TREE);
}

const TREE: &str = "\
invoke_workflow gen_ai.operation.name=invoke_workflow gen_ai.workflow.name=dirigent dirigent.outcome=goal_achieved gen_ai.usage.input_tokens=20 \
gen_ai.usage.output_tokens=10 dirigent.cost=$0
  iteration dirigent.iteration=1
    invoke_agent otel.name=invoke_agent lead gen_ai.operation.name=invoke_agent gen_ai.agent.name=lead gen_ai.agent.id=a1 \
gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5 dirigent.cost=$0
      chat otel.name=chat default otel.kind=client gen_ai.operation.name=chat gen_ai.request.model=default dirigent.effect=a1.1 \
gen_ai.response.finish_reasons=tool_calls gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5 dirigent.cost=$0
    execute_tool otel.name=execute_tool note gen_ai.operation.name=execute_tool gen_ai.tool.name=note gen_ai.tool.type=function \
gen_ai.tool.call.id=run.2 error.type=io
    invoke_agent otel.name=invoke_agent reflector gen_ai.operation.name=invoke_agent gen_ai.agent.name=reflector gen_ai.agent.id=a2 \
gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5 dirigent.cost=$0
      chat otel.name=chat default otel.kind=client gen_ai.operation.name=chat gen_ai.request.model=default dirigent.effect=a2.1 \
gen_ai.response.finish_reasons=tool_calls gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5 dirigent.cost=$0
";
