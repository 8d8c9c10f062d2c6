//! HOST-3: webhooks, which tell another program that a run has ended or waits for its user.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dirigent::config::{Config, Sources};
use dirigent::{Goal, OfflineModel, UserPresence};
use dirigent_server::{Webhook, WebhookError, WebhookOptions};
use dirigent_tests::scripted::{Scripted, call, says};
use dirigent_tests::service::TestServer;
use dirigent_tests::stage::Stage;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const SECRET: &str = "a secret of the test";

/// A request that the receiver got.
#[derive(Debug)]
struct Received {
    head: String,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        values
            .next()
            .unwrap_or_else(|| panic!("no {name}: {}", self.head))
            .1
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver that answers with these responses in order, and then with 200.
struct Receiver {
    url: String,
    received: mpsc::UnboundedReceiver<Received>,
}

impl Receiver {
    async fn start(responses: &[&str]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let responses: VecDeque<String> = responses.iter().map(|&line| line.to_owned()).collect();
        let responses = Arc::new(Mutex::new(responses));
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, responses.clone(), sender.clone()));
            }
        });
        Receiver { url, received }
    }

    async fn next(&mut self) -> Received {
        self.received.recv().await.unwrap()
    }

    fn is_idle(&mut self) -> bool {
        self.received.try_recv().is_err()
    }
}

async fn answer(
    mut stream: TcpStream,
    responses: Arc<Mutex<VecDeque<String>>>,
    sender: mpsc::UnboundedSender<Received>,
) {
    let mut bytes = Vec::new();
    let (head, mut body) = loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "a whole request");
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8(bytes.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            break (head.to_owned(), body.to_owned());
        }
    };
    let mut received = Received {
        head,
        body: String::new(),
    };
    let length: usize = received.header("content-length").parse().unwrap();
    while body.len() < length {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        body.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    received.body = body;
    let response = responses.lock().unwrap().pop_front();
    let status = response.unwrap_or_else(|| "200 OK".to_owned());
    sender.send(received).unwrap();
    let reply = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let _ = stream.write_all(reply.as_bytes()).await;
}

/// A receiver that accepts connections, and never answers.
async fn silent() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    (url, task)
}

fn configured(url: &str, more: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let settings = format!("[webhooks.test]\nurl = {url:?}\nsecret = \"${{HOOK_SECRET}}\"\n{more}\n");
    std::fs::write(folder.path().join("dirigent.toml"), settings).unwrap();
    Config::load(&Sources::none().folder(folder.path())).unwrap()
}

fn options(url: &str, more: &str, progress_file: Option<PathBuf>) -> WebhookOptions {
    let variable = |name: &str| (name == "HOOK_SECRET").then(|| SECRET.to_owned());
    let hooks = configured(url, more).webhooks().unwrap();
    WebhookOptions {
        hooks: hooks
            .iter()
            .map(|hook| Webhook::new(hook, variable).unwrap())
            .collect(),
        progress_file,
        pauses: vec![Duration::from_millis(10); 3],
        ..WebhookOptions::default()
    }
}

async fn server(
    stage: Stage,
    model: impl dirigent::model::ChatModel,
    webhooks: WebhookOptions,
) -> TestServer {
    TestServer::with_options(stage, model, |mut options| {
        options.webhooks = webhooks;
        options
    })
    .await
}

#[tokio::test]
async fn host_3_a_finished_run_calls_a_webhook_with_a_signature() {
    let mut receiver = Receiver::start(&[]).await;
    let stage = Stage::new().file("notes.txt", "one\ntwo\n");
    let server = server(stage, OfflineModel, options(&receiver.url, "", None)).await;
    let run = server
        .start_run(&json!({"goal": "Count the lines in notes.txt"}))
        .await;
    let got = receiver.next().await;
    assert!(got.head.starts_with("POST /hook HTTP/1.1"), "{}", got.head);
    let message = got.json();
    assert_eq!(message["type"], "run.finished");
    assert!(run.ends_with(message["data"]["run"].as_str().unwrap()));
    assert_eq!(message["data"]["state"], "goal_achieved");
    assert!(
        message["data"]["summary"].as_str().unwrap().contains("2 lines"),
        "{message}"
    );
    let (id, time) = (got.header("webhook-id"), got.header("webhook-timestamp"));
    assert!(!id.contains('.'), "{id}");
    let signed = format!("{id}.{time}.{}", got.body);
    assert_eq!(
        got.header("webhook-signature"),
        format!("v1,{}", base64_hmac(&signed))
    );
    server.stop().await;
    assert!(receiver.is_idle());
}

/// HMAC-SHA256 as Python computes it, so that the signature is not checked by the code that made it.
fn base64_hmac(signed: &str) -> String {
    let code = "import base64,hashlib,hmac,sys; print(base64.b64encode(hmac.new(sys.argv[1].encode(), sys.argv[2].encode(), hashlib.sha256).digest()).decode())";
    let output = std::process::Command::new("/usr/bin/python3")
        .args(["-c", code, SECRET, signed])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn host_3_a_webhook_is_called_again_while_its_receiver_is_out_of_order() {
    let mut receiver = Receiver::start(&["500 No", "429 Later"]).await;
    let stage = Stage::new().file("notes.txt", "one\n");
    let server = server(stage, OfflineModel, options(&receiver.url, "", None)).await;
    server
        .start_run(&json!({"goal": "Count the lines in notes.txt"}))
        .await;
    let (first, second, third) = (
        receiver.next().await,
        receiver.next().await,
        receiver.next().await,
    );
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!(first.body, third.body);
    server.stop().await;
    assert!(receiver.is_idle());
}

#[tokio::test]
async fn host_3_a_slow_webhook_delays_no_other_one() {
    const RUNS: usize = 20;
    let (silent_url, silent) = silent().await;
    let mut receiver = Receiver::start(&[]).await;
    let mut webhooks = options(&silent_url, "", None);
    webhooks.hooks.extend(options(&receiver.url, "", None).hooks);
    let stage = Stage::new().file("notes.txt", "one\n");
    let server = server(stage, OfflineModel, webhooks).await;
    // More than fit into all requests that could be under way together.
    for number in 0..RUNS {
        let goal = json!({"goal": format!("Count the lines in notes.txt, {number}")});
        server.start_run(&goal).await;
    }
    for _ in 0..RUNS {
        receiver.next().await;
    }
    server.stop().await;
    silent.abort();
}

#[tokio::test]
async fn host_3_messages_to_a_webhook_come_in_order_even_if_one_is_sent_again() {
    let mut receiver = Receiver::start(&["500 No", "500 No"]).await;
    let question = json!({"question": "Which town?", "choices": ["Ulm", "Bonn"]});
    let model = Scripted::new().lead([call("ask_user", question), says("It is decided.")]);
    let mut webhooks = options(&receiver.url, "", None);
    let gone = Duration::from_millis(500);
    webhooks.pauses = vec![gone; 3];
    let server = server(Stage::new(), model, webhooks).await;
    let run = server.start_run(&json!({"goal": "Choose a town"})).await;
    let first = receiver.next().await;
    assert_eq!(first.json()["type"], "run.waiting");
    // The run ends while the first message waits to be sent again.
    server
        .client
        .post(&format!("{run}/answers"), &json!({"answer": "1"}))
        .await
        .with_status(200);
    server.until_ended(&run).await;
    let mut types = Vec::new();
    for _ in 0..3 {
        types.push(receiver.next().await.json()["type"].clone());
    }
    assert_eq!(types, ["run.waiting", "run.waiting", "run.finished"]);
    server.stop().await;
    assert!(receiver.is_idle());
}

#[tokio::test]
async fn host_3_a_redirect_is_not_followed() {
    let mut elsewhere = Receiver::start(&[]).await;
    let redirect = format!("307 Elsewhere\r\nlocation: {}", elsewhere.url);
    let mut receiver = Receiver::start(&[&redirect]).await;
    let stage = Stage::new().file("notes.txt", "one\n");
    let server = server(stage, OfflineModel, options(&receiver.url, "", None)).await;
    let run = server
        .start_run(&json!({"goal": "Count the lines in notes.txt"}))
        .await;
    receiver.next().await;
    // Another run's message comes after what a redirect would have caused.
    server.until_ended(&run).await;
    server
        .start_run(&json!({"goal": "Count the words in notes.txt"}))
        .await;
    receiver.next().await;
    assert!(elsewhere.is_idle());
    server.stop().await;
}

#[tokio::test]
async fn host_3_a_run_that_waits_calls_a_webhook_which_wants_only_that() {
    let mut receiver = Receiver::start(&[]).await;
    let question = json!({"question": "Which town?", "choices": ["Ulm", "Bonn"]});
    let model = Scripted::new().lead([call("ask_user", question), says("It is decided.")]);
    let webhooks = options(&receiver.url, "events = [\"waiting\"]", None);
    let server = server(Stage::new(), model, webhooks).await;
    let run = server.start_run(&json!({"goal": "Choose a town"})).await;
    let message = receiver.next().await.json();
    assert_eq!(message["type"], "run.waiting");
    let data = &message["data"];
    assert_eq!(
        (&data["waits_for"], &data["text"]),
        (&json!("answer"), &json!("Which town?"))
    );
    server
        .client
        .post(&format!("{run}/answers"), &json!({"answer": "1"}))
        .await
        .with_status(200);
    server.until_ended(&run).await;
    server.stop().await;
    assert!(receiver.is_idle());
}

#[tokio::test]
async fn host_2_what_happened_while_the_server_was_down_is_delivered_after_its_start() {
    let mut receiver = Receiver::start(&[]).await;
    let stage = Stage::new().file("notes.txt", "one\n");
    let file = stage.journal().with_extension("webhooks");
    let first = server(
        stage,
        OfflineModel,
        options(&receiver.url, "", Some(file.clone())),
    )
    .await;
    first
        .start_run(&json!({"goal": "Count the lines in notes.txt"}))
        .await;
    receiver.next().await;
    let stage = first.stop().await;

    let alone = stage.builder(OfflineModel).build().await.unwrap();
    let goal: Goal = stage
        .goal("Count the words in notes.txt")
        .user(UserPresence::Absent);
    let run = alone.start(goal).await.unwrap();
    run.outcome().await.unwrap();
    alone.shutdown().await.unwrap();

    let second = server(stage, OfflineModel, options(&receiver.url, "", Some(file))).await;
    loop {
        // The last seconds before the end may be delivered twice.
        let message = receiver.next().await.json();
        if message["data"]["run"] == json!(run.id()) {
            break;
        }
    }
    second.stop().await;
}

#[test]
fn host_3_a_webhook_needs_a_secret_from_the_environment() {
    let hook = configured("https://example.com/hook", "")
        .webhooks()
        .unwrap()
        .remove(0);
    for variable in [None, Some("short".to_owned())] {
        let refused = Webhook::new(&hook, |_| variable.clone()).unwrap_err();
        assert!(matches!(refused, WebhookError::NoSecret { .. }), "{refused}");
        assert!(refused.to_string().contains("HOOK_SECRET"), "{refused}");
    }
    let folder = tempfile::tempdir().unwrap();
    for (settings, expected) in [
        (
            "[webhooks.a]\nurl = \"https://example.com\"\nsecret = \"hunter2-hunter2\"\n",
            "must name an environment variable",
        ),
        (
            "[webhooks.a]\nurl = \"ftp://example.com\"\nsecret = \"${A}\"\n",
            "is not an address",
        ),
        (
            "[webhooks.a]\nurl = \"https://example.com\"\nsecret = \"${A}\"\nevents = [\"all\"]\n",
            "finished",
        ),
    ] {
        std::fs::write(folder.path().join("dirigent.toml"), settings).unwrap();
        let error = Config::load(&Sources::none().folder(folder.path()))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hunter2-hunter2"), "{error}");
    }
    std::fs::write(
        folder.path().join("dirigent.toml"),
        "[webhooks.a]\nurl = \"https://example.com\"\n",
    )
    .unwrap();
    let config = Config::load(&Sources::none().folder(folder.path())).unwrap();
    assert!(config.webhooks().unwrap_err().to_string().contains("is not set"));
}
