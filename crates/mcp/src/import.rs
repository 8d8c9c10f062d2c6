//! JSON files with services in the formats of other clients: `mcpServers` of Claude Desktop, Claude Code and Cursor, and `servers` of VS
//! Code, in whose files comments are allowed (MCP-1).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use crate::config::{CommandEndpoint, Endpoint, ServiceConfig, ServiceName, UrlEndpoint};
use crate::expand::expand_client;
use crate::text::clean_line;

/// Maximum length of a service's name in an error, in characters.
const MAX_SHOWN_NAME: usize = 60;

/// The services of a file.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The services, in the order of the file.
    pub services: Vec<ServiceConfig>,
    /// The services that cannot be used.
    pub skipped: Vec<SkippedService>,
    /// Notes about settings that were changed or left out, one sentence each.
    pub notes: Vec<String>,
}

/// A service of a file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedService {
    /// The service's name in the file.
    pub name: String,
    /// Why the service cannot be used, and what to do.
    pub reason: String,
}

/// Why a file's services cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file is not JSON.
    #[error("line {line}, column {column} is not valid JSON: {problem}")]
    Json {
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// The parser's message.
        problem: String,
    },
    /// The file has no table of services.
    #[error(
        "the file has neither `mcpServers` nor `servers`, one of which must have an entry for each service"
    )]
    NoServices,
}

/// Reads the services of a file. In its settings, `${workspaceFolder}` stands for `workspace`, in which relative folders are.
///
/// ```
/// let file = r#"{"mcpServers": {"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}}}"#;
/// let import = dirigent_mcp::import(file, "/home/me/shop".as_ref())?;
/// assert_eq!(import.services[0].name.as_str(), "memory");
/// # Ok::<(), dirigent_mcp::ImportError>(())
/// ```
///
/// # Errors
/// [`ImportError`] if the file as a whole cannot be read. A single service that cannot be used is in [`Import::skipped`].
pub fn import(text: &str, workspace: &Path) -> Result<Import, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: Value = serde_json::from_str(&without_comments(text)).map_err(|error| ImportError::Json {
        line: error.line(),
        column: error.column(),
        problem: problem_of(&error),
    })?;
    let tables = [&file["mcpServers"], &file["servers"], &file["mcp"]["servers"]];
    let mut found = tables.into_iter().filter_map(Value::as_object).peekable();
    if found.peek().is_none() {
        return Err(ImportError::NoServices);
    }
    let mut import = Import::default();
    let mut names = BTreeSet::new();
    for (name, entry) in found.flatten() {
        import.add(name, entry, workspace, &mut names);
    }
    Ok(import)
}

/// Returns the message of a JSON error without the line and column, which are reported separately.
fn problem_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((problem, _)) => problem.to_owned(),
        None => text,
    }
}

impl Import {
    fn add(&mut self, name: &str, entry: &Value, workspace: &Path, names: &mut BTreeSet<ServiceName>) {
        let shown = clean_line(name, MAX_SHOWN_NAME);
        match read(name, entry, workspace, names) {
            Ok((config, notes)) => {
                if config.name.as_str() != name {
                    self.notes
                        .push(format!("the service `{shown}` is called {} here", config.name));
                }
                let notes = notes.into_iter().map(|note| format!("{}: {note}", config.name));
                self.notes.extend(notes);
                names.insert(config.name.clone());
                self.services.push(config);
            }
            Err(reason) => self.skipped.push(SkippedService { name: shown, reason }),
        }
    }
}

/// The settings of one service, in all spellings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, Scalar>,
    #[serde(alias = "workingDirectory")]
    cwd: Option<PathBuf>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Scalar>,
    #[serde(alias = "transport")]
    r#type: Option<String>,
    #[serde(default)]
    disabled: bool,
    description: Option<String>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// A value that some clients write without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Flag(bool),
    Number(serde_json::Number),
}

impl From<Scalar> for SecretString {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Text(text) => text,
            Scalar::Flag(flag) => flag.to_string(),
            Scalar::Number(number) => number.to_string(),
        }
        .into()
    }
}

/// Reads one service; the error says why it cannot be used.
fn read(
    name: &str,
    entry: &Value,
    workspace: &Path,
    names: &BTreeSet<ServiceName>,
) -> Result<(ServiceConfig, Vec<String>), String> {
    let name = free_name(name, names).ok_or("its name has no letter or digit: rename it")?;
    let mut entry = entry.clone();
    expand_in(&mut entry, workspace)?;
    let entry: Entry =
        serde_json::from_value(entry).map_err(|error| format!("its settings are malformed: {error}"))?;
    let ignored: Vec<&str> = entry.other.keys().map(String::as_str).collect();
    let notes = match ignored.is_empty() {
        true => Vec::new(),
        false => vec![format!("ignored settings: {}", ignored.join(", "))],
    };
    let secrets = |values: BTreeMap<String, Scalar>| {
        let values = values.into_iter();
        values.map(|(name, value)| (name, value.into())).collect()
    };
    let kind = entry.r#type.as_deref().unwrap_or_default();
    let endpoint = match (entry.command, entry.url) {
        (Some(command), _) => Endpoint::Command(CommandEndpoint {
            command,
            args: entry.args,
            env: secrets(entry.env),
            cwd: entry.cwd.map(|folder| workspace.join(folder)),
        }),
        (None, Some(_)) if kind == "sse" => {
            return Err(
                "the old transport SSE is not supported: use the service's address for Streamable HTTP"
                    .to_owned(),
            );
        }
        (None, Some(url)) => Endpoint::Url(UrlEndpoint {
            url: Url::parse(&url)
                .map_err(|error| format!("url: {} is not an address: {error}", clean_line(&url, 200)))?,
            headers: secrets(entry.headers),
            bearer_token_env: None,
        }),
        (None, None) => return Err("it has neither command nor url".to_owned()),
    };
    let config = ServiceConfig {
        enabled: !entry.disabled,
        description: entry.description,
        ..ServiceConfig::new(name, endpoint)
    };
    config.check().map_err(|error| error.to_string())?;
    Ok((config, notes))
}

/// Replaces the references of other clients in all texts of a service's settings.
fn expand_in(settings: &mut Value, workspace: &Path) -> Result<(), String> {
    match settings {
        Value::String(text) => {
            *text = expand_client(text, workspace).map_err(|error| error.to_string())?;
            Ok(())
        }
        Value::Array(values) => values
            .iter_mut()
            .try_for_each(|value| expand_in(value, workspace)),
        Value::Object(values) => values
            .values_mut()
            .try_for_each(|value| expand_in(value, workspace)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Returns a name that no earlier service in the file has.
fn free_name(name: &str, names: &BTreeSet<ServiceName>) -> Option<ServiceName> {
    let first = ServiceName::new(name)
        .ok()
        .or_else(|| ServiceName::from_text(name))?;
    let base: String = first.as_str().chars().take(28).collect();
    let numbered = (2..=999).filter_map(|number| ServiceName::from_text(&format!("{base}-{number}")));
    [first]
        .into_iter()
        .chain(numbered)
        .find(|name| !names.contains(name))
}

/// Replaces comments with spaces, and removes commas before closing brackets, so that lines and columns stay the same.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => {
                plain.push(c);
                while let Some(c) = rest.next() {
                    plain.push(c);
                    match c {
                        '\\' => plain.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => {
                plain.push(' ');
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    plain.push(if c == '\r' { c } else { ' ' });
                }
            }
            ('/', Some('*')) => {
                plain.push(' ');
                let mut before = ' ';
                for c in rest.by_ref() {
                    plain.push(if c == '\n' { c } else { ' ' });
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            ('}' | ']', _) => {
                let end = plain.trim_end().len();
                if plain[..end].ends_with(',') {
                    plain.replace_range(end - 1..end, " ");
                }
                plain.push(c);
            }
            (c, _) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use secrecy::ExposeSecret as _;

    use super::*;

    fn import(text: &str) -> Result<Import, ImportError> {
        super::import(text, Path::new("/home/me/shop"))
    }

    fn summary(import: &Import) -> Vec<String> {
        let service = |config: &ServiceConfig| {
            let enabled = if config.enabled { "" } else { " (disabled)" };
            match &config.endpoint {
                Endpoint::Command(command) => {
                    let env = command.env.iter();
                    let env: Vec<String> = env
                        .map(|(name, value)| format!(" {name}={}", value.expose_secret()))
                        .collect();
                    format!(
                        "{}: {} {}{}{enabled}",
                        config.name,
                        command.command,
                        command.args.join(" "),
                        env.concat()
                    )
                }
                Endpoint::Url(url) => {
                    let headers: Vec<&str> = url.headers.keys().map(String::as_str).collect();
                    format!("{}: {} {}{enabled}", config.name, url.url, headers.join(" "))
                }
            }
        };
        import.services.iter().map(service).collect()
    }

    #[test]
    fn mcp_1_a_file_of_claude_desktop_is_read_unchanged() {
        let import = import(
            r#"{"globalShortcut": "", "mcpServers": {
                "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]},
                "My Notes (old)": {"command": "notes", "env": {"PORT": 8080, "DEBUG": true}, "disabled": true}
            }}"#,
        )
        .unwrap();
        assert_eq!(
            summary(&import),
            [
                "filesystem: npx -y @modelcontextprotocol/server-filesystem /tmp",
                "My-Notes-old: notes  DEBUG=true PORT=8080 (disabled)",
            ]
        );
        assert_eq!(
            import.notes,
            ["the service `My Notes (old)` is called My-Notes-old here"]
        );
        assert_eq!(import.skipped, []);
    }

    #[test]
    fn mcp_1_files_of_claude_code_and_cursor_have_urls_and_variables() {
        let import = import(
            r#"{"mcpServers": {
                "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp/", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                "db": {"type": "stdio", "command": "${HOME}/bin/db", "args": ["${DB:-main}"], "alwaysAllow": ["query"]},
                "old": {"type": "sse", "url": "http://localhost:3000/sse"},
                "nothing": {},
                "wrong": {"command": 7},
                "far": {"url": "ftp://example.com"}
            }}"#,
        )
        .unwrap();
        assert_eq!(
            summary(&import),
            [
                "github: https://api.githubcopilot.com/mcp/ Authorization",
                "db: ${HOME}/bin/db ${DB:-main}",
            ]
        );
        assert_eq!(import.notes, ["db: ignored settings: alwaysAllow"]);
        let skipped: Vec<String> = import
            .skipped
            .iter()
            .map(|skipped| format!("{}: {}", skipped.name, skipped.reason))
            .collect();
        assert_eq!(
            skipped,
            [
                "old: the old transport SSE is not supported: use the service's address for Streamable HTTP",
                "nothing: it has neither command nor url",
                "wrong: its settings are malformed: invalid type: integer `7`, expected a string",
                "far: url: ftp://example.com/ is not an address of a server: use http:// or https://",
            ]
        );
    }

    #[test]
    fn mcp_1_a_file_of_vs_code_may_have_comments() {
        let import = import(
            "{\n  // our servers\n  \"servers\": {\n    \"web\": {\"command\": \"web\", \"args\": [\"http://x/*\", \"\\\"//\",],}, /* two\n lines */\n  },\n}",
        )
        .unwrap();
        assert_eq!(summary(&import), ["web: web http://x/* \"//"]);
    }

    #[test]
    fn mcp_1_references_of_vs_code_stand_for_the_workspace_and_variables() {
        let import = import(
            r#"{"servers": {
                "files": {"command": "${workspaceFolder}/bin/files", "args": ["${workspaceFolder}", "${userHome}", "${env:SHOP}"], "cwd": "data"},
                "secret": {"command": "x", "env": {"KEY": "${input:api-key}"}}
            }}"#,
        )
        .unwrap();
        assert_eq!(
            summary(&import),
            ["files: /home/me/shop/bin/files /home/me/shop ${HOME} ${SHOP}"]
        );
        let Endpoint::Command(command) = &import.services[0].endpoint else {
            panic!("a program was imported as a URL");
        };
        assert_eq!(command.cwd.as_deref(), Some(Path::new("/home/me/shop/data")));
        assert_eq!(
            import.skipped[0].reason,
            "${input:api-key} asks for the input `api-key`, which Dirigent cannot ask for: put its value into an environment variable, and \
             write ${API_KEY} in its place"
        );
    }

    #[test]
    fn mcp_1_names_are_made_unique() {
        let import = import(r#"{"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "y"}, "a/b": {"command": "z"}, "…": {"command": "w"}}}"#)
            .unwrap();
        assert_eq!(summary(&import), ["a-b: x ", "a-b-2: y ", "a-b-3: z "]);
        assert_eq!(
            import.skipped[0].reason,
            "its name has no letter or digit: rename it"
        );
    }

    #[test]
    fn mcp_1_the_error_for_a_broken_file_names_the_place() {
        let error = import("{\n  \"mcpServers\": {\n    \"a\": }\n}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 3, column 10 is not valid JSON: expected value"
        );
        assert_eq!(
            import("{}").unwrap_err().to_string(),
            "the file has neither `mcpServers` nor `servers`, one of which must have an entry for each service"
        );
        assert_eq!(import("[]").unwrap_err(), ImportError::NoServices);
    }
}
