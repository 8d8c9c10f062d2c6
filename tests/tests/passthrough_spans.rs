//! HOST-10, SEC-5: the span of a passed on request, as a subscriber receives it. The test runs in its own process: `tracing` caches for each span
//! whether any subscriber wants it, and other tests have no subscriber.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use dirigent::config::{Config, Sources};
use dirigent_model_server::{Fault, ModelServer, Reply, Script, Usage};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

const KEY: &str = "sk-upstream-0123456789abcdef";
const TEXT_OF_USER: &str = "the text of the user";
const TEXT_OF_MODEL: &str = "the text of the model";

/// The fields of all spans and events, and those of the spans of passed on requests.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(String, Spans)>>);

/// The open spans.
type Spans = Vec<(Id, Fields)>;

#[derive(Clone, Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut seen = self.0.lock().unwrap();
        seen.0 += &format!("{:?}\n", fields.0);
        if fields.0.contains_key("dirigent.passthrough") {
            seen.1.push((id.clone(), fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut seen = self.0.lock().unwrap();
        if let Some((_, fields)) = seen.1.iter_mut().rev().find(|(other, _)| other == id) {
            values.record(fields);
        }
        let mut fields = Fields::default();
        values.record(&mut fields);
        seen.0 += &format!("{:?}\n", fields.0);
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        // What libraries log at the levels for their developers is not shown by any program of ours.
        if *event.metadata().level() <= tracing::Level::INFO {
            let mut fields = Fields::default();
            event.record(&mut fields);
            self.0.lock().unwrap().0 += &format!("{:?}\n", fields.0);
        }
    }
}

#[tokio::test]
async fn host_10_a_passed_on_request_has_a_span_with_its_model_status_and_duration_and_without_secrets() {
    let seen = Seen::default();
    let _subscriber = tracing::subscriber::set_default(Registry::default().with(seen.clone()));
    let reply = |text: &str| {
        Reply::text(text).with_usage(Usage::Tokens {
            prompt: 7,
            completion: 3,
        })
    };
    let script = Script::turns([
        reply(TEXT_OF_MODEL).into(),
        reply(TEXT_OF_MODEL).into(),
        Fault::InvalidApiKey.into(),
    ]);
    let upstream = ModelServer::start(script.with_api_key(KEY)).await.unwrap();
    let server = serve(&upstream.url()).await;
    let request = |stream: bool| {
        json!({
            "model": "small", "stream": stream,
            "messages": [{"role": "user", "content": TEXT_OF_USER}],
        })
    };
    let (client, address) = (&server.client, "/v1/chat/completions");
    client.post(address, &request(false)).await.with_status(200);
    let mut stream = client.stream("POST", address, &[], Some(&request(true))).await;
    stream.rest().await;
    assert_eq!(client.post(address, &request(false)).await.status, 502);

    let (all, spans) = seen.0.lock().unwrap().clone();
    let spans: Vec<_> = spans.into_iter().map(|(_, fields)| fields.0).collect();
    assert_eq!(spans.len(), 3, "{spans:?}");
    let field = |index: usize, name: &str| spans[index].get(name).cloned().unwrap_or_default();
    for (index, status) in ["200", "200", "502"].into_iter().enumerate() {
        assert_eq!(field(index, "otel.name"), "chat small");
        assert_eq!(field(index, "gen_ai.request.model"), "small");
        assert_eq!(field(index, "http.response.status_code"), status, "{spans:?}");
        assert!(
            field(index, "dirigent.duration_ms").parse::<u64>().is_ok(),
            "{spans:?}"
        );
    }
    assert_eq!(field(0, "gen_ai.usage.input_tokens"), "7");
    assert_eq!(field(2, "error.type"), "upstream_misconfigured", "{spans:?}");
    let token = client.token.clone().unwrap();
    for secret in [KEY, &token, TEXT_OF_USER, TEXT_OF_MODEL] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    server.stop().await;
}

async fn serve(upstream: &str) -> TestServer {
    let folder = tempfile::tempdir().unwrap();
    let model: Value = json!({"provider": "openai", "name": "served-name", "base_url": upstream, "api_key": KEY, "attempts": 1});
    let lines = model.as_object().unwrap().iter();
    let lines: String = lines.map(|(name, value)| format!("{name} = {value}\n")).collect();
    std::fs::write(
        folder.path().join("dirigent.toml"),
        format!("[models.small]\n{lines}"),
    )
    .unwrap();
    let config = Config::load(&Sources::none().folder(folder.path())).unwrap();
    let stage = Stage::new();
    let builder = dirigent::Dirigent::builder()
        .journal(stage.journal())
        .config(&config);
    let dirigent = builder.build().await.unwrap();
    TestServer::serve(stage, dirigent, |options| options).await
}
