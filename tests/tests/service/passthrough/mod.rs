//! PROMPT-3, HOST-7: `/v1/chat/completions` and `/v1/models` for OpenAI clients.

mod errors;
mod hosted;
mod limits;
mod replies;
mod requests;

use dirigent::config::{Config, Sources};
use dirigent::{Dirigent, OfflineModel};
use dirigent_model_server::{ModelServer, Script};
use dirigent_tests::http_client::{EventSource, Reply};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};

/// The address of chat completions.
const COMPLETIONS: &str = "/v1/chat/completions";

/// The key of the scripted model server.
const KEY: &str = "sk-upstream-0123456789abcdef";

/// A service whose model `small` is at a scripted model server.
struct Door {
    upstream: ModelServer,
    server: TestServer,
}

impl Door {
    /// The model asks once.
    async fn open(script: Script) -> Door {
        Door::with_settings(script, "attempts = 1").await
    }

    /// The table of the model has these additional lines.
    async fn with_settings(script: Script, settings: &str) -> Door {
        let upstream = ModelServer::start(script.with_api_key(KEY)).await.unwrap();
        let table = format!(
            "[models.small]\nprovider = \"openai\"\nname = \"served-name\"\nbase_url = \"{}\"\napi_key = \"{KEY}\"\n{settings}\n",
            upstream.url()
        );
        let server = serve(&table).await;
        Door { upstream, server }
    }

    async fn post(&self, body: &Value) -> Reply {
        self.server.client.post(COMPLETIONS, body).await
    }

    async fn stream(&self, body: &Value) -> EventSource {
        self.server
            .client
            .stream("POST", COMPLETIONS, &[], Some(body))
            .await
    }

    /// Ends the service. Every request was valid for the strictest model servers.
    async fn close(self) {
        assert_eq!(self.upstream.violations(), []);
        self.server.stop().await;
    }
}

/// Starts a service with a configuration.
pub async fn serve(settings: &str) -> TestServer {
    let stage = Stage::new();
    let file = stage.journal().with_extension("toml");
    std::fs::write(&file, settings).unwrap();
    let config = Config::load(&Sources::none().file(file)).unwrap();
    let builder = Dirigent::builder().journal(stage.journal()).config(&config);
    let dirigent = builder.build().await.unwrap();
    TestServer::serve(stage, dirigent, |options| options).await
}

/// A request with one message of the user.
fn says(text: &str) -> Value {
    json!({"model": "small", "messages": [{"role": "user", "content": text}]})
}

/// The same request with more fields.
fn with(mut request: Value, fields: Value) -> Value {
    let fields = fields.as_object().unwrap().clone();
    request.as_object_mut().unwrap().extend(fields);
    request
}

/// The texts of a stream's events, joined.
fn text_of(events: &[Value]) -> String {
    let texts = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    texts.collect()
}

/// The data of all events until the end of the stream.
async fn events(mut source: EventSource) -> Vec<Value> {
    source.rest().await.into_iter().map(|event| event.data).collect()
}

/// The status and the error of a response.
#[track_caller]
fn error(reply: &Reply) -> (u16, Value) {
    assert_eq!(reply.header("content-type"), "application/json", "{reply:?}");
    let error = reply.json()["error"].clone();
    assert!(
        error["message"].as_str().is_some_and(|text| !text.is_empty()),
        "{reply:?}"
    );
    assert!(error["type"].is_string(), "{reply:?}");
    assert!(!reply.body.contains(KEY), "the key was passed on: {reply:?}");
    (reply.status, error)
}

async fn offline() -> TestServer {
    TestServer::start(Stage::new(), OfflineModel).await
}
