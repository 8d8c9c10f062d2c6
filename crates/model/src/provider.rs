//! The table of model providers. Everything that is specific to a provider is in its row.
//!
//! For another server with one of these protocols, choose the provider with the same protocol and set the server's base URL.

use std::fmt;

use crate::genai::HostedApi;

/// A provider of hosted models. `Display` shows its name in configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provider {
    /// Name in configurations and references: `openai` in `openai/gpt-4.1-mini`.
    pub name: &'static str,
    /// Protocol of the provider's API.
    pub protocol: Protocol,
    /// Base URL of the provider's API.
    pub base_url: &'static str,
    /// Environment variables that may contain the API key, the preferred one first.
    pub key_variables: &'static [&'static str],
    /// Environment variable that overrides `base_url`; `None` if the provider has no such convention.
    pub base_url_variable: Option<&'static str>,
    /// Model to suggest to a user who has a key but has not chosen a model.
    pub suggested_model: &'static str,
}

/// The protocol of a provider's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// OpenAI's chat completions API. Its client is [`OpenAiModel`](crate::OpenAiModel).
    OpenAi,
    /// A provider's own API. Its client is [`HostedModel`](crate::HostedModel).
    Hosted(HostedApi),
}

/// OpenAI, and any server with OpenAI's chat completions API.
pub const OPENAI: Provider = Provider {
    name: "openai",
    protocol: Protocol::OpenAi,
    base_url: "https://api.openai.com/v1",
    key_variables: &["OPENAI_API_KEY"],
    base_url_variable: Some("OPENAI_BASE_URL"),
    suggested_model: "gpt-4.1-mini",
};

/// Anthropic, with its own API.
pub const ANTHROPIC: Provider = Provider {
    name: "anthropic",
    protocol: Protocol::Hosted(HostedApi::Anthropic),
    base_url: "https://api.anthropic.com/v1",
    key_variables: &["ANTHROPIC_API_KEY"],
    base_url_variable: Some("ANTHROPIC_BASE_URL"),
    suggested_model: "claude-sonnet-4-5",
};

/// Google's Gemini, with its own API.
pub const GEMINI: Provider = Provider {
    name: "gemini",
    protocol: Protocol::Hosted(HostedApi::Gemini),
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    base_url_variable: None,
    suggested_model: "gemini-2.5-flash",
};

/// All providers of hosted models.
pub static PROVIDERS: [Provider; 3] = [OPENAI, ANTHROPIC, GEMINI];

impl Provider {
    /// Returns the provider with this configuration name; `None` for an unknown name.
    pub fn named(name: &str) -> Option<&'static Provider> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
