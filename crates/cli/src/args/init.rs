//! Arguments of `init`.

use clap::Args;

pub(crate) const INIT_HELP: &str = "\
At a terminal, asks which provider or server you use; servers on the usual ports of this computer are found (Ollama, llama.cpp, LM Studio,
vLLM). Tests the model, then adds [model] to dirigent/dirigent.toml in your configuration folder, or to the file of --config. A key that
you type is stored there; only you can read the file. A key in a variable such as OPENAI_API_KEY stays there.

Examples:
  dirigent init
  dirigent init --provider openai --name gpt-4.1-mini
  dirigent init --provider openai --name qwen3:8b --base-url http://127.0.0.1:11434/v1";

#[derive(Args)]
pub(crate) struct InitCommand {
    /// The provider: openai (also for other servers with its API), anthropic or gemini [default: ask]
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// The model's name [default: the one that is suggested for the provider]
    #[arg(long, value_name = "MODEL", requires = "provider")]
    pub(crate) name: Option<String>,
    /// The address of another server with the provider's API
    #[arg(long, value_name = "URL", requires = "provider")]
    pub(crate) base_url: Option<String>,
    /// The environment variable with the API key [default: the provider's]
    #[arg(long, value_name = "VARIABLE", requires = "provider")]
    pub(crate) key_env: Option<String>,
    /// Write the configuration without testing the model
    #[arg(long)]
    pub(crate) no_test: bool,
}
