//! Finds servers with OpenAI's API on the usual ports of this computer.

use std::io::Write as _;
use std::time::Duration;

use dirigent::Config;
use dirigent::config::Sources;

/// The servers that people run on their computer, with their usual addresses.
const USUAL: [(&str, &str); 4] = [
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
];
/// The longest time to wait for a server on this computer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A server that answers.
pub(super) struct LocalServer {
    pub(super) name: &'static str,
    pub(super) base_url: &'static str,
    pub(super) models: Vec<String>,
}

/// Asks all usual addresses at the same time.
pub(super) async fn find() -> Vec<LocalServer> {
    let asked = USUAL.map(|(name, base_url)| tokio::spawn(ask(name, base_url)));
    let mut found = Vec::new();
    for server in asked {
        found.extend(server.await.ok().flatten());
    }
    found
}

async fn ask(name: &'static str, base_url: &'static str) -> Option<LocalServer> {
    let listing = models_of("openai", base_url, None);
    let models = tokio::time::timeout(TIMEOUT, listing).await.ok()?.ok()?;
    (!models.is_empty()).then_some(LocalServer {
        name,
        base_url,
        models,
    })
}

/// The models that a server lists.
pub(super) async fn models_of(
    provider: &str,
    base_url: &str,
    key: Option<&str>,
) -> anyhow::Result<Vec<String>> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    let value = |text: &str| serde_json::Value::from(text).to_string();
    write!(
        file,
        "[models.asked]\nprovider = {}\nname = \"any\"\n",
        value(provider)
    )?;
    if !base_url.is_empty() {
        writeln!(file, "base_url = {}", value(base_url))?;
    }
    if let Some(key) = key {
        writeln!(file, "api_key = {}", value(key))?;
    }
    file.flush()?;
    let config = Config::load(&Sources::from_environment().file(file.path()))?;
    Ok(config.list_models("asked").await?)
}
