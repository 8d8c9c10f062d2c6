//! The settings of a service in the form in which they are stored and shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dirigent_core::digest::sha256_hex;
use dirigent_core::time::Millis;
use dirigent_mcp::{
    CommandEndpoint, DEFAULT_CALL_TIMEOUT, DEFAULT_START_TIMEOUT, Endpoint, InvalidService, ServiceConfig,
    ServiceName, UrlEndpoint,
};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

/// The settings of a service (MCP-1). Either `command` or `url` is set. JSON: an object with these field names; a missing field has its
/// default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSettings {
    /// The program to start: a path, or a name that is looked up in `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The program's arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables of the program. In a value, `${NAME}` stands for a variable of Dirigent's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The absolute path of the folder in which the program runs. `None` for Dirigent's own folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The URL of a server that Dirigent does not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each request to `url`. `${NAME}` stands for variables, as in `env`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The name of the environment variable that contains the bearer token for `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer_token_env: Option<String>,
    /// The timeout of a call, in milliseconds.
    pub timeout: Millis,
    /// The time within which the service must be ready after it is started, in milliseconds.
    pub start_timeout: Millis,
    /// The purpose of the service, for models. `None` for the service's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words in a message that refer to this service (MCP-3).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trigger_keywords: Vec<String>,
    /// If false, the service is never started and its tools are not offered.
    pub enabled: bool,
    /// If true, the service's statements about its tools are trusted: tools that it declares read-only run without approval.
    pub trust: bool,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        ServiceSettings {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            bearer_token_env: None,
            timeout: DEFAULT_CALL_TIMEOUT.into(),
            start_timeout: DEFAULT_START_TIMEOUT.into(),
            description: None,
            trigger_keywords: Vec::new(),
            enabled: true,
            trust: false,
        }
    }
}

impl From<&ServiceConfig> for ServiceSettings {
    /// Returns all settings, including the values of environment variables and headers, which may be secrets.
    fn from(config: &ServiceConfig) -> Self {
        let plain = |values: &BTreeMap<String, secrecy::SecretString>| {
            let values = values.iter();
            values
                .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
                .collect()
        };
        let settings = ServiceSettings {
            timeout: config.call_timeout.into(),
            start_timeout: config.start_timeout.into(),
            description: config.description.clone(),
            trigger_keywords: config.trigger_keywords.clone(),
            enabled: config.enabled,
            trust: config.trust,
            ..ServiceSettings::default()
        };
        match &config.endpoint {
            Endpoint::Command(endpoint) => ServiceSettings {
                command: Some(endpoint.command.clone()),
                args: endpoint.args.clone(),
                env: plain(&endpoint.env),
                cwd: endpoint.cwd.clone(),
                ..settings
            },
            Endpoint::Url(endpoint) => ServiceSettings {
                url: Some(endpoint.url.to_string()),
                headers: plain(&endpoint.headers),
                bearer_token_env: endpoint.bearer_token_env.clone(),
                ..settings
            },
        }
    }
}

impl ServiceSettings {
    /// Returns the configuration of a service with these settings.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn config(&self, name: ServiceName) -> Result<ServiceConfig, InvalidService> {
        let config = ServiceConfig {
            call_timeout: self.timeout.into(),
            start_timeout: self.start_timeout.into(),
            description: self.description.clone(),
            trigger_keywords: self.trigger_keywords.clone(),
            enabled: self.enabled,
            trust: self.trust,
            ..ServiceConfig::new(name, self.endpoint()?)
        };
        config.check()?;
        Ok(config)
    }

    fn endpoint(&self) -> Result<Endpoint, InvalidService> {
        let invalid = |setting, problem: &str| InvalidService {
            setting,
            problem: problem.to_owned(),
        };
        let secret = |values: &BTreeMap<String, String>| {
            let values = values.iter();
            values
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect()
        };
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => Err(invalid("url", "and `command` can't both be set: remove one")),
            (None, None) => Err(invalid(
                "command",
                "is not set: set it to the program of the service, or set `url` to its address",
            )),
            (Some(_), None) if !self.headers.is_empty() || self.bearer_token_env.is_some() => Err(invalid(
                "headers",
                "and `bearer_token_env` apply only to a service with `url`: remove them",
            )),
            (None, Some(_)) if !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some() => {
                Err(invalid(
                    "args",
                    "`env` and `cwd` apply only to a service with `command`: remove them",
                ))
            }
            (Some(command), None) => Ok(Endpoint::Command(CommandEndpoint {
                command: command.clone(),
                args: self.args.clone(),
                env: secret(&self.env),
                cwd: self.cwd.clone(),
            })),
            (None, Some(url)) => Ok(Endpoint::Url(UrlEndpoint {
                url: Url::parse(url).map_err(|_| {
                    invalid(
                        "url",
                        "is not an address: it must look like https://example.com/mcp",
                    )
                })?,
                headers: secret(&self.headers),
                bearer_token_env: self.bearer_token_env.clone(),
            })),
        }
    }
}

/// Returns a digest of all settings, which detects changes within this process. It is never stored, because secrets could be guessed from
/// it.
pub(super) fn identity(config: &ServiceConfig) -> String {
    sha256_hex(json!(ServiceSettings::from(config)).to_string().as_bytes())
}

/// Returns a digest of the settings that decide which tools a service has. The values of the environment and of headers, which may be
/// secrets, are not part of it.
pub(super) fn digest(config: &ServiceConfig) -> String {
    let ServiceSettings {
        command,
        args,
        env,
        cwd,
        url,
        headers,
        trust,
        ..
    } = ServiceSettings::from(config);
    let names = |values: BTreeMap<String, String>| values.into_keys().collect::<Vec<_>>();
    let settings = json!([
        config.name.as_str(),
        command,
        args,
        names(env),
        cwd,
        url,
        names(headers),
        trust
    ]);
    sha256_hex(settings.to_string().as_bytes())
}
