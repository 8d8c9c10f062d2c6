//! PROMPT-3: OpenAI clients that nobody here wrote. `tests/clients/run` installs them.

use std::path::PathBuf;
use std::process::Stdio;

use dirigent_model_server::{
    Fault, Flaw, Gate, ModelServer, Reply, Request, RetryAfter, Script, ToolCall, Turn,
};
use dirigent_tests::service::TestServer;
use serde_json::json;
use tokio::process::Command;

use super::passthrough::serve;

/// The cases of the scripts in `tests/clients`.
const CASES: [&str; 9] = [
    "models",
    "plain",
    "streaming",
    "tools",
    "streamed_tools",
    "system_prompt",
    "errors",
    "broken_stream",
    "cancelled",
];

/// The service and the model that the clients ask.
struct Scene {
    upstream: ModelServer,
    server: TestServer,
}

impl Scene {
    async fn new() -> Scene {
        let upstream = ModelServer::start(Script::from_fn(answer)).await.unwrap();
        let model = |name: &str| {
            let url = upstream.url();
            format!(
                "[models.{name}]\nprovider = \"openai\"\nname = \"{name}\"\nbase_url = \"{url}\"\nattempts = 1\n"
            )
        };
        let server = serve(&format!("{}{}", model("small"), model("busy"))).await;
        let prompts = server.dirigent.system_prompts();
        prompts.create("bakery", "You sell bread.").await.unwrap();
        Scene { upstream, server }
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.server.client.address)
    }

    /// A program that knows the service, with nothing else in its environment.
    fn command(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("DIRIGENT_TEST_CLIENTS", packages())
            .env("DIRIGENT_URL", self.url())
            .env("DIRIGENT_TOKEN", self.server.client.token.clone().unwrap())
            .current_dir(self.server.stage.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn close(self) {
        assert_eq!(self.upstream.violations(), []);
        self.server.stop().await;
    }
}

fn packages() -> PathBuf {
    let folder = std::env::var_os("DIRIGENT_TEST_CLIENTS");
    folder
        .expect("DIRIGENT_TEST_CLIENTS names the folder of the packages")
        .into()
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(name)
}

/// What the model answers.
fn answer(request: &Request) -> Turn {
    if request.model() == "busy" {
        let retry_after = Some(RetryAfter::Seconds(300));
        return Fault::RateLimited { retry_after }.into();
    }
    match request.last_user_message().as_str() {
        "plain" => Turn::text("Hello from the model."),
        "which prompt" => Turn::text(request.system_prompt()),
        "weather" if request.tool_results().is_empty() => {
            assert_eq!(request.tool_names(), ["get_weather"]);
            Turn::calls([ToolCall::new("get_weather", &json!({"city": "Rome"}))])
        }
        "weather" => Turn::text(format!("It is {} in Rome.", request.tool_results()[0].1)),
        "reject" => Fault::Status(400, "This request is refused.").into(),
        "broken" => Reply::text("A reply of several events.")
            .with_flaw(Flaw::CutBetweenEvents)
            .into(),
        "endless" => Turn::text("A reply of several events.").wait_in_body(&Gate::new()),
        "silent" => Turn::text("Never.").wait_before_headers(&Gate::new()),
        other => panic!("unexpected message: {other}"),
    }
}

/// Runs a script, and checks that it went through all cases, and that the requests that it cancelled were cancelled at the model.
async fn run_all_cases(scene: Scene, mut command: Command) {
    let output = command.output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        printed.lines().collect::<Vec<_>>(),
        CASES,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success());
    scene.upstream.wait_for_hang_ups(2).await;
    scene.close().await;
}

#[tokio::test]
#[ignore = "needs packages from pip and npm: tests/clients/run"]
async fn prompt_3_openai_python_works() {
    let scene = Scene::new().await;
    let mut command = scene.command(packages().join("python/bin/python"));
    command.arg(script("openai_python.py"));
    run_all_cases(scene, command).await;
}

#[tokio::test]
#[ignore = "needs packages from pip and npm: tests/clients/run"]
async fn prompt_3_openai_node_works() {
    let scene = Scene::new().await;
    let mut command = scene.command("node".into());
    command.arg(script("openai_node.mjs"));
    run_all_cases(scene, command).await;
}

#[tokio::test]
#[ignore = "needs packages from pip and npm: tests/clients/run"]
async fn prompt_3_llm_works() {
    let scene = Scene::new().await;
    let home = tempfile::tempdir().unwrap();
    let models = format!(
        "- model_id: dirigent\n  model_name: small\n  api_base: {}\n  api_key_name: dirigent\n  supports_tools: true\n",
        scene.url()
    );
    std::fs::write(home.path().join("extra-openai-models.yaml"), models).unwrap();
    let token = scene.server.client.token.clone().unwrap();
    let llm = |arguments: &[&str]| {
        let mut command = scene.command(packages().join("python/bin/llm"));
        command.env("LLM_USER_PATH", home.path()).env("HOME", home.path());
        command
            .args(["prompt", "-m", "dirigent", "--no-log"])
            .args(arguments);
        command
    };
    let said = async |arguments: &[&str]| {
        let output = llm(arguments).args(["--key", &token]).output().await.unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(said(&["plain", "--no-stream"]).await, "Hello from the model.");
    assert_eq!(said(&["plain"]).await, "Hello from the model.");
    assert_eq!(said(&["which prompt", "-s", "Be brief."]).await, "Be brief.");
    let function = "def get_weather(city: str) -> str:\n    return 'sunny'\n";
    assert_eq!(
        said(&["weather", "--functions", function]).await,
        "It is sunny in Rome."
    );

    let refused = llm(&["plain", "--key", "wrong"])
        .stderr(Stdio::piped())
        .output()
        .await
        .unwrap();
    let problem = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && problem.contains("token"),
        "{problem}"
    );
    let broken = llm(&["broken", "--key", &token])
        .stderr(Stdio::piped())
        .output()
        .await
        .unwrap();
    assert!(
        !broken.status.success(),
        "a stream that broke off seemed complete"
    );

    let before = scene.upstream.requests().len();
    let mut endless = llm(&["endless", "--key", &token]).spawn().unwrap();
    scene.upstream.wait_for_requests(before + 1).await;
    endless.kill().await.unwrap();
    scene.upstream.wait_for_hang_ups(1).await;
    scene.close().await;
}
