//! Parses agent files. [`super::registry`] decides which of the requested tools, access and limits an agent gets.

use std::collections::BTreeSet;
use std::path::Path;

use dirigent_core::limits::{AgentLimitSettings, AgentLimits, LimitSettings};
use dirigent_core::tool::Access;

use super::tool_selection::{self, ClaudeToolSelection, ToolSelection};
use crate::known_tools::{KnownTools, OPTIONAL_TOOLS, tools_beyond_access};
use crate::limit_text::set_limit;
use crate::markdown::front_matter::{self, Nested};
use crate::markdown::{Document, Field, Fields, FileError, Value, hyphenated, join_names, truncated};
use crate::suggest;

/// Maximum length of a description, in characters. Descriptions are part of every lead's prompt.
const MAX_DESCRIPTION: usize = 1_000;
/// Maximum size of a role, in bytes. The role is part of every request of the agent.
const MAX_ROLE: usize = 64 * 1024;
/// Maximum length of a name.
const MAX_NAME: usize = 64;
/// Default `max_turns` of agents from Claude Code files. Claude Code itself does not limit turns by default.
const CLAUDE_TURNS: u32 = 50;

/// The fields of Dirigent's agent files, except the limits.
const OWN: [&str; 5] = ["name", "description", "tools", "model", "access"];

fn known_fields() -> impl Iterator<Item = &'static str> + Clone {
    OWN.into_iter()
        .chain(AgentLimitSettings::ALL.iter().map(|limit| limit.name))
}

/// The fields of Claude Code's agent files.
const CLAUDE: [&str; 17] = [
    "name",
    "description",
    "tools",
    "disallowedTools",
    "model",
    "permissionMode",
    "maxTurns",
    "color",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "background",
    "effort",
    "isolation",
    "initialPrompt",
    "version",
];

/// The format of an agent file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Dirigent,
    /// Parsed leniently: fields that Dirigent does not use are skipped, with a note if they matter.
    ClaudeCode,
}

/// The content of an agent file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParsedAgentFile {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) role: String,
    pub(super) tools: ToolSelection,
    /// Tools that the agent must not have.
    pub(super) excluded: BTreeSet<String>,
    pub(super) access: Access,
    /// The model and the line that names it.
    pub(super) model: Option<(String, usize)>,
    pub(super) limits: AgentLimitSettings,
    /// The limits that apply if no other source sets them.
    pub(super) default_limits: AgentLimits,
    /// Notes for display about fields that Dirigent interprets differently or ignores.
    pub(super) notes: Vec<String>,
}

/// Parses the text of an agent file. An agent without a name gets the name of the file at `path`. `known` lists all known tools.
pub(super) fn read(
    text: &str,
    path: &Path,
    dialect: Dialect,
    known: &KnownTools,
) -> Result<ParsedAgentFile, FileError> {
    match dialect {
        Dialect::Dirigent => parse_dirigent(front_matter::strict(text, Nested::Skipped)?, path, known),
        Dialect::ClaudeCode => parse_claude(front_matter::lenient(text, &CLAUDE)?, path, known),
    }
}

fn parse_dirigent(document: Document, path: &Path, known: &KnownTools) -> Result<ParsedAgentFile, FileError> {
    if let Some(field) = document
        .fields
        .iter()
        .find(|field| !known_fields().any(|known| known == field.key))
    {
        return Err(unknown_field(field));
    }
    let fields = Fields::new(&document.fields);
    let name = name(fields.text("name")?, path)?;
    let (tools, line) = match fields.get("tools") {
        None => (ToolSelection::All, None),
        Some(field) => {
            let mut tools = field.names()?;
            tools.retain(|tool| known.contains_key(tool) || !OPTIONAL_TOOLS.contains(&tool.as_str()));
            if let Some(tool) = tools.iter().find(|tool| !known.contains_key(tool)) {
                return Err(FileError::new(field.line, unknown_tool(tool, known)));
            }
            (
                ToolSelection::Named(tools.into_iter().collect()),
                Some(field.line),
            )
        }
    };
    let needed = match &tools {
        ToolSelection::All => Access::ReadOnly,
        ToolSelection::Named(tools) => tool_selection::required_access(tools, known),
    };
    let access = match fields.text("access")? {
        None => needed,
        Some((text, line)) => access(&text, line)?,
    };
    if let ToolSelection::Named(tools) = &tools
        && let Some((tool, needs)) = tools_beyond_access(access, tools, known).next()
    {
        let problem = format!("`{tool}` needs `access: {needs}`, but `access` is {access}");
        return Err(FileError::new(line, problem));
    }
    let mut limits = AgentLimitSettings::default();
    for limit in AgentLimitSettings::ALL {
        if let Some((text, line)) = fields.text(limit.name)? {
            set_limit(limit, &mut limits, &text)
                .map_err(|problem| FileError::new(line, format!("`{}` {problem}", limit.name)))?;
        }
    }
    let mut notes = Vec::new();
    Ok(ParsedAgentFile {
        description: description(fields.text("description")?, &mut notes)?,
        role: role(&document.body)?,
        tools,
        excluded: BTreeSet::new(),
        access,
        model: fields.text("model")?,
        limits,
        default_limits: AgentLimits::default(),
        notes,
        name,
    })
}

fn parse_claude(document: Document, path: &Path, known: &KnownTools) -> Result<ParsedAgentFile, FileError> {
    let fields = Fields::new(&document.fields);
    let mut notes = Vec::new();
    let name = match fields.text("name")? {
        Some((text, line)) => {
            let plain = hyphenated(&text);
            if plain != text {
                notes.push(format!("its name in Dirigent is `{}`", truncated(&plain)));
            }
            name(Some((plain, line)), path)?
        }
        None => name(None, path)?,
    };
    let names = |key| fields.get(key).map(Field::names).transpose();
    // An empty list counts as a missing field.
    let allowed = names("tools")?.filter(|names| !names.is_empty());
    let selection = ClaudeToolSelection::new(
        allowed.as_deref(),
        &names("disallowedTools")?.unwrap_or_default(),
        known,
    );
    for (names, why) in [
        (&selection.unknown, "Dirigent does not have them"),
        (
            &selection.per_call_only,
            "Dirigent cannot restrict them to certain calls",
        ),
    ] {
        if !names.is_empty() {
            notes.push(format!("tools left out, because {why}: {}", join_names(names)));
        }
    }
    let plans = fields
        .text("permissionMode")?
        .is_some_and(|(mode, _)| mode == "plan");
    let limits = AgentLimitSettings {
        max_turns: fields.count("maxTurns")?,
        ..AgentLimitSettings::default()
    };
    let default_limits = AgentLimits {
        max_turns: CLAUDE_TURNS,
        ..AgentLimits::default()
    };
    let described = fields.text("description")?;
    let described = described.map(|(text, line)| (without_examples(&text.replace("\\n", "\n")), line));
    let described = described.filter(|(text, _)| !text.is_empty());
    Ok(ParsedAgentFile {
        description: description(described, &mut notes)?,
        role: role(&document.body)?,
        tools: selection.tools,
        excluded: selection.excluded,
        access: if plans { Access::ReadOnly } else { selection.access },
        model: fields.text("model")?.filter(|(model, _)| model != "inherit"),
        limits,
        default_limits,
        notes,
        name,
    })
}

fn access(text: &str, line: usize) -> Result<Access, FileError> {
    let all = [Access::ReadOnly, Access::Execute, Access::ReadWrite];
    let found = all.into_iter().find(|access| access.to_string() == text);
    found.ok_or_else(|| FileError::new(line, "`access` must be one of read-only, execute, read-write"))
}

fn unknown_field(field: &Field) -> FileError {
    let key = truncated(&field.key);
    let hint = suggest::hint(&key, known_fields());
    FileError::new(field.line, format!("there is no field `{key}`; {hint}"))
}

fn unknown_tool(tool: &str, known: &KnownTools) -> String {
    let hint = match tool_selection::equivalent_tool(tool) {
        Some(name) => format!("did you mean `{name}`?"),
        None => suggest::hint(tool, known.keys().map(String::as_str)),
    };
    format!("there is no tool `{}`; {hint}", truncated(tool))
}

/// Checks the name of an agent: its `name` field or, if it has none, the name of its file.
fn name(value: Option<(String, usize)>, path: &Path) -> Result<String, FileError> {
    let (name, line) = match value {
        Some((name, line)) => (name, Some(line)),
        None => (default_name(path), None),
    };
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let well = name.len() <= MAX_NAME
        && name.chars().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match name.as_str() {
        "lead" | "reflector" => Err(FileError::new(
            line,
            format!("`{name}` is the name of a built-in agent: give the agent another name"),
        )),
        "agents" => Err(FileError::new(
            line,
            "`agents` means all sub-agents in [roles]: give the agent another name",
        )),
        _ if well => Ok(name),
        _ => Err(FileError::new(
            line,
            format!(
                "`{}` is not a valid name: use up to {MAX_NAME} letters a to z, digits, `-` and `_`, such as `api-expert`",
                truncated(&name)
            ),
        )),
    }
}

/// Returns the names that an invalid file may have intended for its agent: from its fields, if they can be parsed, and from all lines that
/// begin with `name:`.
pub(super) fn claimed_names(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("name:"));
    let fields = front_matter::lenient(text, &OWN).map(|document| document.fields);
    let said = fields
        .unwrap_or_default()
        .into_iter()
        .filter(|field| field.key == "name");
    let said = said.filter_map(|field| match field.value {
        Value::Text(text) => Some(text),
        Value::List(_) | Value::Table(_) | Value::Nested => None,
    });
    lines
        .map(str::to_owned)
        .chain(said)
        .map(|name| hyphenated(name.trim().trim_matches(['"', '\''])))
        .collect()
}

/// Returns the default name of an agent, if its file does not set a name: the file's name without its extension.
pub(super) fn default_name(path: &Path) -> String {
    hyphenated(&path.file_stem().unwrap_or_default().to_string_lossy())
}

fn description(value: Option<(String, usize)>, notes: &mut Vec<String>) -> Result<String, FileError> {
    let Some((text, _)) = value else {
        return Err(FileError::new(
            None,
            "it has no `description`: describe what the agent is good for, so that plans can choose it",
        ));
    };
    match text.char_indices().nth(MAX_DESCRIPTION) {
        None => Ok(text),
        Some((end, _)) => {
            notes.push(format!(
                "its description is cut after {MAX_DESCRIPTION} characters"
            ));
            Ok(format!("{}…", text[..end].trim_end()))
        }
    }
}

/// Removes the `<example>` dialogues of a description, which are written for Claude Code, and the heading before them.
fn without_examples(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<example>") {
        kept.push_str(before);
        rest = after.split_once("</example>").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    let kept = kept.trim();
    let heading = |text: &'_ str| {
        let last = text.rsplit('\n').next().unwrap_or(text);
        ["Examples:", "Example:"].iter().find_map(|word| {
            last.trim_end()
                .strip_suffix(word)
                .map(|before| text.len() - last.len() + before.len())
        })
    };
    let kept = heading(kept).map_or(kept, |end| kept[..end].trim_end());
    kept.to_owned()
}

fn role(body: &str) -> Result<String, FileError> {
    let body = body.trim();
    if body.is_empty() {
        let problem =
            "there is nothing below its front matter: describe there what the agent is and how it works";
        return Err(FileError::new(None, problem));
    }
    if body.len() > MAX_ROLE {
        let problem = format!(
            "the text below its front matter is longer than {} KiB: shorten it, or have the agent read the rest from a file",
            MAX_ROLE / 1024
        );
        return Err(FileError::new(None, problem));
    }
    Ok(body.to_owned())
}
