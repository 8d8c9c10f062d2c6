//! Parses workflow files, and Claude Code's command files.

use std::path::Path;

use dirigent_core::mode::Mode;
use dirigent_core::policy::{CallPattern, Rule, Ruling};

use super::claude_template::ClaudeTemplate;
use super::definition::{ALL_ARGUMENTS, Body, Workflow, WorkflowSource};
use super::parameter::{Parameter, ParameterKind};
use super::parameter_fields;
use super::template::Template;
use crate::known_tools::{KnownTools, OPTIONAL_TOOLS};
use crate::markdown::front_matter::{self, Nested};
use crate::markdown::{Document, Field, Fields, FileError, Value, hyphenated, truncated};
use crate::suggest;

/// Maximum length of a name.
const MAX_NAME: usize = 64;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 1_000;
/// Maximum size of a body, in bytes. It becomes a goal, which is part of many requests.
const MAX_BODY: usize = 64 * 1024;
/// Maximum number of rules.
const MAX_RULES: usize = 50;
/// The default category of workflows.
const DEFAULT_CATEGORY: &str = "general";

/// The fields of Dirigent's workflow files.
const OWN: [&str; 8] = [
    "name",
    "description",
    "category",
    "parameters",
    "agent",
    "mode",
    "tools",
    "approval",
];

/// The fields of Claude Code's command files.
const CLAUDE: [&str; 7] = [
    "name",
    "description",
    "argument-hint",
    "allowed-tools",
    "model",
    "disable-model-invocation",
    "category",
];

/// The format of a workflow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Dirigent,
    /// Parsed leniently: unsupported fields are skipped, with a note if they matter.
    ClaudeCode,
}

/// The names that a workflow file may use.
#[derive(Clone, Copy)]
pub(crate) struct KnownNames<'a> {
    pub(crate) tools: &'a KnownTools,
    /// The sub-agents of runs.
    pub(crate) agents: &'a [String],
}

/// Parses a workflow file. Without a `name` field, the workflow is named after the file at `path`.
pub(super) fn read(
    text: &str,
    path: &Path,
    dialect: Dialect,
    source: WorkflowSource,
    known: KnownNames<'_>,
) -> Result<Workflow, FileError> {
    match dialect {
        Dialect::Dirigent => parse_dirigent(text, path, source, known),
        Dialect::ClaudeCode => parse_claude(text, path, source),
    }
}

fn parse_dirigent(
    text: &str,
    path: &Path,
    source: WorkflowSource,
    known: KnownNames<'_>,
) -> Result<Workflow, FileError> {
    let document = front_matter::strict(text, Nested::Tables)?;
    if let Some(field) = document
        .fields
        .iter()
        .find(|field| !OWN.contains(&field.key.as_str()))
    {
        let key = truncated(&field.key);
        let hint = suggest::hint(&key, OWN);
        return Err(FileError::new(
            field.line,
            format!("there is no field `{key}`; {hint}"),
        ));
    }
    let fields = Fields::new(&document.fields);
    let parameters = parameter_fields::parameters(fields.get("parameters"))?;
    let names: Vec<&str> = parameters
        .iter()
        .map(|parameter| parameter.name.as_str())
        .collect();
    let first_line = body_line(text, &document);
    let body = checked_body(&document.body)?;
    let mut notes = Vec::new();
    Ok(Workflow {
        name: name(fields.text("name")?, path)?,
        description: match fields.text("description")? {
            Some((text, _)) => description(text, &mut notes),
            None => {
                let problem = "it has no `description`: describe for users what the workflow does";
                return Err(FileError::new(None, problem));
            }
        },
        category: category(fields.text("category")?)?,
        agent: agent(fields.text("agent")?, known.agents)?,
        mode: mode(fields.text("mode")?)?,
        tools: fields
            .get("tools")
            .map(|field| tools(field, known.tools))
            .transpose()?,
        rules: rules(fields.get("approval"), known.tools)?,
        template: body.trim_start_matches('\n').to_owned(),
        body: Body::Template(Template::parse(body, first_line, &names)?),
        parameters,
        source,
        notes,
        argument_hint: None,
    })
}

fn parse_claude(text: &str, path: &Path, source: WorkflowSource) -> Result<Workflow, FileError> {
    let plain = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    let document = match plain.lines().next().map(str::trim_end) {
        Some("---") => front_matter::lenient(&plain, &CLAUDE)?,
        Some(_) | None => Document {
            fields: Vec::new(),
            body: plain,
        },
    };
    let fields = Fields::new(&document.fields);
    let body = checked_body(&document.body)?;
    let template = ClaudeTemplate::parse(body);
    let mut notes = Vec::new();
    if fields.get("allowed-tools").is_some() {
        notes.push(
            "`allowed-tools` is ignored: a workflow cannot allow calls; only your approval rules can"
                .to_owned(),
        );
    }
    if fields.get("model").is_some() {
        notes.push("`model` is ignored: the configuration chooses the models".to_owned());
    }
    if template.has_commands() {
        notes.push("its commands written as !`…` are not run before it starts".to_owned());
    }
    // A list such as `argument-hint: [file] [line]` is read as text.
    let hint = match fields.get("argument-hint").map(|field| &field.value) {
        Some(Value::Text(text)) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Some(Value::List(items)) => Some(format!("[{}]", items.join(", "))),
        Some(Value::Text(_) | Value::Table(_) | Value::Nested) | None => None,
    };
    let described = fields.text("description").ok().flatten().map(|(text, _)| text);
    let first_line = body.lines().find(|line| !line.trim().is_empty());
    let described =
        described.or_else(|| first_line.map(|line| line.trim_start_matches(['#', ' ']).to_owned()));
    Ok(Workflow {
        name: name(None, path)?,
        description: description(described.unwrap_or_default(), &mut notes),
        category: match fields.text("category") {
            Ok(value) => category(value)?,
            Err(_) => DEFAULT_CATEGORY.to_owned(),
        },
        parameters: vec![Parameter {
            name: ALL_ARGUMENTS.to_owned(),
            kind: ParameterKind::String,
            required: false,
            default: None,
            pattern: None,
            description: hint.clone().unwrap_or_default(),
        }],
        agent: None,
        mode: Mode::Auto,
        tools: None,
        rules: Vec::new(),
        source,
        notes,
        argument_hint: hint.map(|hint| truncated(&hint)),
        template: body.trim_start_matches('\n').to_owned(),
        body: Body::ClaudeCode(template),
    })
}

/// Returns the name for an invalid workflow file, derived from its path.
pub(super) fn default_name(path: &Path) -> String {
    hyphenated(&path.file_stem().unwrap_or_default().to_string_lossy())
}

/// Checks a workflow's name: the `name` field or, without one, the name of the file.
fn name(value: Option<(String, usize)>, path: &Path) -> Result<String, FileError> {
    let (name, line) = match value {
        Some((name, line)) => (name, Some(line)),
        None => (default_name(path), None),
    };
    if is_workflow_name(&name) {
        return Ok(name);
    }
    let problem = format!(
        "`{}` is not a valid name: use up to {MAX_NAME} letters a to z, digits, `-` and `_`, such as `create_project`",
        truncated(&name)
    );
    Err(FileError::new(line, problem))
}

/// Returns true if this is a valid name of a workflow or a category.
pub(super) fn is_workflow_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    name.len() <= MAX_NAME && name.chars().all(fits) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns true if this is a valid name of a parameter.
pub(super) fn is_parameter_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.len() <= MAX_NAME && name.chars().all(fits) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn description(text: String, notes: &mut Vec<String>) -> String {
    match text.char_indices().nth(MAX_DESCRIPTION) {
        None => text,
        Some((end, _)) => {
            notes.push(format!(
                "its description is cut after {MAX_DESCRIPTION} characters"
            ));
            format!("{}…", text[..end].trim_end())
        }
    }
}

fn category(value: Option<(String, usize)>) -> Result<String, FileError> {
    match value {
        None => Ok(DEFAULT_CATEGORY.to_owned()),
        Some((category, _)) if is_workflow_name(&category) => Ok(category),
        Some((category, line)) => Err(FileError::new(
            line,
            format!(
                "`{}` is not a valid category: use letters a to z, digits, `-` and `_`, such as `code`",
                truncated(&category)
            ),
        )),
    }
}

fn agent(value: Option<(String, usize)>, agents: &[String]) -> Result<Option<String>, FileError> {
    match value {
        None => Ok(None),
        Some((agent, _)) if agents.contains(&agent) => Ok(Some(agent)),
        Some((agent, line)) => {
            let hint = suggest::hint(&agent, agents.iter().map(String::as_str));
            let problem = format!("there is no agent `{}`; {hint}", truncated(&agent));
            Err(FileError::new(line, problem))
        }
    }
}

fn mode(value: Option<(String, usize)>) -> Result<Mode, FileError> {
    match value {
        None => Ok(Mode::Auto),
        Some((mode, line)) => match mode.as_str() {
            "auto" => Ok(Mode::Auto),
            "plan" => Ok(Mode::Plan),
            _ => Err(FileError::new(line, "`mode` must be one of auto, plan")),
        },
    }
}

fn tools(field: &Field, known: &KnownTools) -> Result<Vec<String>, FileError> {
    let mut tools = field.names()?;
    tools.retain(|tool| known.contains_key(tool) || !OPTIONAL_TOOLS.contains(&tool.as_str()));
    match tools.iter().find(|tool| !known.contains_key(tool)) {
        Some(tool) => Err(FileError::new(field.line, unknown_tool(tool, known))),
        None => Ok(tools),
    }
}

fn unknown_tool(tool: &str, known: &KnownTools) -> String {
    let hint = suggest::hint(tool, known.keys().map(String::as_str));
    format!("there is no tool `{}`; {hint}", truncated(tool))
}

/// Reads the rules of `approval`. A workflow can require approval or deny, but never allow.
fn rules(field: Option<&Field>, known: &KnownTools) -> Result<Vec<Rule>, FileError> {
    let Some(field) = field else {
        return Ok(Vec::new());
    };
    let Value::Table(lists) = &field.value else {
        let problem = "`approval` must be a table, such as `{ask: [execute_command]}`";
        return Err(FileError::new(field.line, problem));
    };
    let mut rules = Vec::new();
    for list in lists {
        let ruling = match list.key.as_str() {
            "ask" => Ruling::Ask,
            "deny" => Ruling::Deny,
            "allow" => {
                let problem = "a workflow cannot allow calls, only restrict them: remove `allow`, and allow the calls in your configuration";
                return Err(FileError::new(list.line, problem));
            }
            _ => {
                let hint = suggest::hint(&list.key, ["ask", "deny"]);
                let problem = format!("`approval` has no field `{}`; {hint}", truncated(&list.key));
                return Err(FileError::new(list.line, problem));
            }
        };
        for text in list.names()? {
            let calls: CallPattern = text
                .parse()
                .map_err(|error| FileError::new(list.line, format!("{error}")))?;
            if !calls.tool.contains('*')
                && !known.contains_key(&calls.tool)
                && !OPTIONAL_TOOLS.contains(&calls.tool.as_str())
            {
                return Err(FileError::new(list.line, unknown_tool(&calls.tool, known)));
            }
            rules.push(Rule { ruling, calls });
        }
    }
    if rules.len() > MAX_RULES {
        let problem = format!("there are more than {MAX_RULES} rules: remove some");
        return Err(FileError::new(field.line, problem));
    }
    Ok(rules)
}

fn checked_body(body: &str) -> Result<&str, FileError> {
    let body = body.trim_end();
    if body.trim().is_empty() {
        let problem = "there is nothing below its front matter: write the goal there";
        return Err(FileError::new(None, problem));
    }
    if body.len() > MAX_BODY {
        let problem = format!(
            "the text below its front matter is longer than {} KiB: shorten it, or refer to a file to read",
            MAX_BODY / 1024
        );
        return Err(FileError::new(None, problem));
    }
    Ok(body)
}

/// Returns the line in which the file's body begins.
fn body_line(text: &str, document: &Document) -> usize {
    let lines = |text: &str| text.matches('\n').count();
    lines(text) - lines(&document.body) + 1
}
