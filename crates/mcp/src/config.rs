//! The configuration of a service: its endpoint and its settings (MCP-1).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use dirigent_core::digest::sha256_hex;
use secrecy::SecretString;
use serde_json::json;
use url::Url;

/// Maximum length of a service's name, in characters. With a name of this length, 25 characters of a tool's full name remain for the
/// tool.
pub const MAX_NAME: usize = 32;

/// Default timeout of a call.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Default time within which a service must be ready. Package runners such as `npx` may have to download the service first.
pub const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(60);

/// The name of a service: 1 to [`MAX_NAME`] characters of `[A-Za-z0-9_-]`. It neither begins nor ends with `_` nor contains `__`, so that
/// the names of tools, `mcp__SERVICE__TOOL`, always show which service a tool belongs to, and a rule about `mcp__SERVICE__*` never covers
/// another service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(String);

/// A service's setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct InvalidService {
    /// The setting: `command`, `url`, `env`.
    pub setting: &'static str,
    /// The error in the setting, and what to do.
    pub problem: String,
}

impl InvalidService {
    fn new(setting: &'static str, problem: impl Into<String>) -> Self {
        InvalidService {
            setting,
            problem: problem.into(),
        }
    }
}

impl ServiceName {
    /// Checks the name of a service.
    ///
    /// # Errors
    /// [`InvalidService`] if the name cannot be part of tool names.
    pub fn new(name: &str) -> Result<Self, InvalidService> {
        let is_valid = (1..=MAX_NAME).contains(&name.len())
            && name.chars().all(is_name_char)
            && !name.starts_with('_')
            && !name.ends_with('_')
            && !name.contains("__");
        if is_valid {
            return Ok(ServiceName(name.to_owned()));
        }
        Err(InvalidService::new(
            "name",
            format!(
                "`{}` is not a service name: use 1 to {MAX_NAME} letters, digits, `-` and single `_`, with no `_` at the ends",
                name.escape_debug()
            ),
        ))
    }

    /// Converts any text to a name: invalid characters become `-`, and a long text is cut. `None` if the text has no valid character.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut name = String::new();
        for c in text.chars() {
            let c = if is_name_char(c) { c } else { '-' };
            let repeats = matches!(c, '-' | '_') && name.ends_with(['-', '_']);
            if !repeats && name.len() < MAX_NAME {
                name.push(c);
            }
        }
        Self::new(name.trim_matches(['-', '_'])).ok()
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns true for the characters that names of services and tools may have.
pub(crate) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The configuration of one service.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The name.
    pub name: ServiceName,
    /// How the service is reached.
    pub endpoint: Endpoint,
    /// The timeout of a call. The service continues to run after a timeout.
    pub call_timeout: Duration,
    /// The time within which the service must be ready after it is started.
    pub start_timeout: Duration,
    /// The purpose of the service, for models. If there is no description, models see the service's name.
    pub description: Option<String>,
    /// Words in a message that refer to this service (MCP-3).
    pub trigger_keywords: Vec<String>,
    /// If false, the service is configured, but never started, and its tools are not offered.
    pub enabled: bool,
    /// If true, the annotations of the service's tools are trusted: read-only tools then run without approval. Without trust, each call
    /// that no rule covers needs approval, and no call is repeated after an interruption.
    pub trust: bool,
}

/// How a service is reached.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A program that is started, and speaks the protocol on its standard input and output.
    Command(CommandEndpoint),
    /// A server that Dirigent does not start. Dirigent reaches the server over Streamable HTTP.
    Url(UrlEndpoint),
}

/// A program that is a service. The command, its arguments and the values of its environment may contain `${NAME}`, `${NAME:-default}` and
/// `${env:NAME}`, which stand for variables of Dirigent's own environment.
#[derive(Clone, Debug, Default)]
pub struct CommandEndpoint {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub command: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Environment variables in addition to the few that every command gets.
    pub env: BTreeMap<String, SecretString>,
    /// The absolute path of the folder in which the program runs. `None` for Dirigent's own folder.
    pub cwd: Option<PathBuf>,
}

/// A service behind a URL. Header values may refer to variables, like the values of [`CommandEndpoint::env`].
#[derive(Clone, Debug)]
pub struct UrlEndpoint {
    /// The URL, with `http` or `https`.
    pub url: Url,
    /// Headers of each request.
    pub headers: BTreeMap<String, SecretString>,
    /// The name of the environment variable that contains the bearer token.
    pub bearer_token_env: Option<String>,
}

impl ServiceConfig {
    /// Creates the configuration of a service with the default timeouts, enabled and without trust.
    pub fn new(name: ServiceName, endpoint: Endpoint) -> Self {
        ServiceConfig {
            name,
            endpoint,
            call_timeout: DEFAULT_CALL_TIMEOUT,
            start_timeout: DEFAULT_START_TIMEOUT,
            description: None,
            trigger_keywords: Vec::new(),
            enabled: true,
            trust: false,
        }
    }

    /// Returns the service's description, or its name if there is no description.
    pub fn description(&self) -> &str {
        self.description.as_deref().unwrap_or(self.name.as_str())
    }

    /// Returns a digest of the program or the address of the service: what the user allowed calls of. The other settings may change without
    /// a new decision.
    pub fn endpoint_digest(&self) -> String {
        let endpoint = match &self.endpoint {
            Endpoint::Command(program) => {
                let folder = program.cwd.as_ref().map(|folder| folder.to_string_lossy());
                json!([program.command, program.args, folder, null])
            }
            Endpoint::Url(server) => json!([null, [], null, server.url.as_str()]),
        };
        sha256_hex(endpoint.to_string().as_bytes())
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn check(&self) -> Result<(), InvalidService> {
        match &self.endpoint {
            Endpoint::Command(command) => command.check()?,
            Endpoint::Url(url) => url.check()?,
        }
        for (setting, timeout) in [
            ("timeout", self.call_timeout),
            ("start_timeout", self.start_timeout),
        ] {
            if timeout.is_zero() {
                return Err(InvalidService::new(setting, "is 0: use a longer time"));
            }
        }
        if self.trigger_keywords.iter().any(|word| word.trim().is_empty()) {
            return Err(InvalidService::new(
                "trigger_keywords",
                "contains an empty word, which would be in every message: remove it",
            ));
        }
        Ok(())
    }
}

impl CommandEndpoint {
    fn check(&self) -> Result<(), InvalidService> {
        if self.command.trim().is_empty() {
            return Err(InvalidService::new("command", "is empty: name a program"));
        }
        if [&self.command]
            .into_iter()
            .chain(&self.args)
            .any(|part| part.contains('\0'))
        {
            return Err(InvalidService::new(
                "command",
                "contains a NUL character: remove it",
            ));
        }
        for name in self.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let problem = format!("`{}` is not a variable name", name.escape_debug());
                return Err(InvalidService::new("env", problem));
            }
        }
        match &self.cwd {
            Some(folder) if !folder.is_absolute() => Err(InvalidService::new(
                "cwd",
                format!("{} is not an absolute path: begin it with `/`", folder.display()),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl UrlEndpoint {
    fn check(&self) -> Result<(), InvalidService> {
        if !matches!(self.url.scheme(), "http" | "https") || !self.url.has_host() {
            let problem = format!(
                "{} is not an address of a server: use http:// or https://",
                self.url
            );
            return Err(InvalidService::new("url", problem));
        }
        for name in self.headers.keys() {
            if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
                let problem = format!("`{}` is not a header name", name.escape_debug());
                return Err(InvalidService::new("headers", problem));
            }
        }
        Ok(())
    }
}
