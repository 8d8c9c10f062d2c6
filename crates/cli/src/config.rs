//! `config check`: all settings with their sources, and connection tests. Also loads the configuration for other commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use console::style;
use dirigent::approval_rules::ApprovalRule;
use dirigent::config::{ApiKey, ConnectionSettings, ModelSettings, ProbeOutcome, Sources};
use dirigent::services::{RegisteredService, ServiceList, configured_services};
use dirigent::system_prompts::DEFAULT_PROMPT;
use dirigent::{
    AgentLimits, Agents, Config, Confinement, ConnectionCheck, Dirigent, DirigentError, OfflineModel,
    Sandbox, render,
};
use serde_json::{Value, json};

use crate::approvals;
use crate::args::CheckCommand;
use crate::exit::Exit;
use crate::mcp_text::{endpoint_of, skipped_line};
use crate::open::{build, open_if_exists};
use crate::output::{Output, sanitize};
use crate::serve::usable_webhooks;

/// Loads the configuration, overridden by the file of `--config` and the model of `--model`.
pub(crate) fn load(file: Option<PathBuf>, model: Option<String>) -> Result<Config, DirigentError> {
    let mut sources = Sources::from_environment();
    if let Some(file) = file {
        sources = sources.file(file);
    }
    if let Some(model) = model {
        sources = sources.model(model);
    }
    Ok(Config::load(&sources)?)
}

/// Warns about configuration files in these folders. Such files are read only with `--config`, because somebody else may have written them.
pub(crate) fn warn_unread_config(config: &Config, folders: &[&Path], output: &Output) {
    for note in unread_configs(config, folders) {
        output.note(&sanitize(&format!("note: {note}")));
    }
}

/// Warns that commands run without a sandbox.
pub(crate) fn warn_unconfined(config: &Config, output: &Output) {
    match config.sandbox().confinement {
        Confinement::Required => {}
        Confinement::Off => output
            .note("note: commands are not confined: they can do whatever you can ([sandbox] commands = \"unconfined\")"),
    }
}

fn unread_configs(config: &Config, folders: &[&Path]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut seen = Vec::new();
    for path in folders.iter().filter_map(|folder| config.unread_file(folder)) {
        let real = path.canonicalize().ok();
        if !seen.contains(&real) {
            seen.push(real);
            let path = path.display();
            notes.push(format!(
                "{path} is not read: its author could redirect your API keys to another server. If you trust it, use --config {path}"
            ));
        }
    }
    notes
}

pub(crate) async fn check(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: CheckCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let config = load(file, command.model.model)?;
    let report = CheckReport::examine(db, config, command.offline).await?;
    let text = if command.json {
        report.json()?.to_string()
    } else {
        report.text()?
    };
    output.print(&text);
    Ok(if report.all_passed() {
        Exit::Success
    } else {
        Exit::Configuration
    })
}

/// The entries of `[base_prompts]` whose prompts do not exist.
async fn missing_base_prompts(db: Option<PathBuf>, config: &Config) -> anyhow::Result<Vec<String>> {
    let known: Vec<String> = match open_if_exists(db).await? {
        Some(dirigent) => {
            let prompts = dirigent.system_prompts().list().await?;
            prompts.into_iter().map(|prompt| prompt.name).collect()
        }
        None => vec![DEFAULT_PROMPT.to_owned()],
    };
    let missing = config
        .base_prompts()
        .filter(|(_, name)| known.iter().all(|known| known != name));
    let described = |(agent, name): (&str, &str)| {
        let known = known.join(", ");
        format!(
            "`[base_prompts]` assigns the system prompt `{name}`, which does not exist, to `{agent}`; available system prompts: {known}"
        )
    };
    Ok(missing.map(described).collect())
}

/// The result of a connection test: a description of the success or of the problem.
pub(crate) type TestResult = Result<&'static str, String>;

/// Tests the connection to a model.
async fn test_model(config: &Config, reference: &str, offline: bool) -> TestResult {
    if offline {
        return match config.model(reference).map(|model| model.api_key) {
            Ok(ApiKey::NotSet { how }) => Err(format!("it needs an API key: {how}")),
            Ok(ApiKey::None | ApiKey::Set { .. }) => Ok("not tested"),
            Err(error) => Err(error.to_string()),
        };
    }
    match config.probe(reference).await {
        Ok(ProbeOutcome::BuiltIn) => Ok("built in"),
        Ok(ProbeOutcome::Listed) => Ok("offered by its provider"),
        Ok(ProbeOutcome::Responded) => Ok("it responds"),
        Err(error) => Err(sanitize(&error.to_string())),
    }
}

/// Tests the connections to all configured databases at the same time.
async fn test_databases(
    config: &Config,
    folder: &Path,
    offline: bool,
) -> anyhow::Result<Vec<(ConnectionSettings, TestResult)>> {
    let tests = config.connections()?.into_iter().map(|settings| {
        let folder = folder.to_owned();
        tokio::spawn(async move {
            let result = test_database(&settings, &folder, offline).await;
            (settings, result)
        })
    });
    let mut tested = Vec::new();
    for test in tests.collect::<Vec<_>>() {
        tested.push(test.await?);
    }
    Ok(tested)
}

/// The MCP services for runs in a folder. Starts none, and creates no journal.
async fn services(db: Option<PathBuf>, config: &Config, folder: &Path) -> anyhow::Result<ServiceList> {
    if open_if_exists(db.clone()).await?.is_none() {
        return Ok(configured_services(config)?);
    }
    let builder = Dirigent::builder().config(config).model(OfflineModel);
    let dirigent = build(builder.read_only_journal(), db).await?;
    Ok(dirigent.services(Some(folder)).await?)
}

/// What a service is and where it is configured, as pairs of title and value.
fn service_facts(service: &RegisteredService) -> Vec<(&'static str, String)> {
    let settings = &service.settings;
    let kind = if settings.url.is_some() { "url" } else { "command" };
    let mut facts = vec![
        (kind, endpoint_of(settings)),
        ("from", service.origin.to_string()),
    ];
    let names = |values: &BTreeMap<String, String>| values.keys().cloned().collect::<Vec<_>>().join(", ");
    if !settings.env.is_empty() {
        facts.push(("variables", names(&settings.env)));
    }
    if !settings.headers.is_empty() {
        facts.push(("headers", names(&settings.headers)));
    }
    if let Some(variable) = &settings.bearer_token_env {
        facts.push(("token from", variable.clone()));
    }
    let enabled = if settings.enabled { "yes" } else { "no" };
    let trust = match settings.trust {
        true => "what it says about its tools is believed",
        false => "each call asks, unless a rule allows it",
    };
    facts.push(("enabled", enabled.to_owned()));
    facts.push(("trust", trust.to_owned()));
    facts
}

/// Tests the connection to a database.
async fn test_database(settings: &ConnectionSettings, folder: &Path, offline: bool) -> TestResult {
    let connection = settings.connection.as_ref();
    let connection = connection.map_err(|error| sanitize(&error.to_string()))?;
    if offline {
        return Ok("not tested");
    }
    match connection.check(folder).await {
        Ok(ConnectionCheck::Connected) => Ok("it responds"),
        Ok(ConnectionCheck::FileNotCreated) => Ok("its file does not exist yet; the first write creates it"),
        Err(problem) => Err(sanitize(&problem)),
    }
}

/// What runs in the current folder use, and whether it works: the result of `config check`.
pub(crate) struct CheckReport {
    pub(crate) config: Config,
    used: Vec<String>,
    pub(crate) results: BTreeMap<String, TestResult>,
    pub(crate) connections: Vec<(ConnectionSettings, TestResult)>,
    pub(crate) services: ServiceList,
    agents: Agents,
    pub(crate) notes: Vec<String>,
    rules: Vec<ApprovalRule>,
    /// The problems that prevent runs or the service from starting, except those of models and databases.
    pub(crate) problems: Vec<String>,
}

impl CheckReport {
    /// Reads what runs in the current folder would use, and tests the connections, unless `offline`.
    pub(crate) async fn examine(db: Option<PathBuf>, config: Config, offline: bool) -> anyhow::Result<Self> {
        let folder = Path::new(".").canonicalize()?;
        let mut builder = Dirigent::builder().config(&config);
        if let Some(path) = &db {
            // Agent files may name the tools of services that are stored in the journal.
            builder = builder.journal(path);
        }
        let agents = builder.agents(Some(&folder)).await?;
        let used = config.used_models();
        let mut results = BTreeMap::new();
        for reference in &used {
            results.insert(reference.clone(), test_model(&config, reference, offline).await);
        }
        let connections = test_databases(&config, &folder, offline).await?;
        let mut problems = missing_base_prompts(db.clone(), &config)
            .await
            .unwrap_or_default();
        // In the words in which `serve` refuses to start.
        problems.extend(usable_webhooks(&config).err().map(|error| format!("{error:#}")));
        let (services, unlisted) = match services(db.clone(), &config, &folder).await {
            Ok(services) => (services, None),
            Err(error) => (
                ServiceList::default(),
                Some(format!("the MCP services cannot be listed: {error:#}")),
            ),
        };
        let (rules, unread) = match approvals::rules(db).await {
            Ok(rules) => (rules, None),
            Err(error) => (
                Vec::new(),
                Some(format!("the approval rules cannot be read: {error:#}")),
            ),
        };
        let notes = config.notes().into_iter();
        let notes = notes
            .chain(unread_configs(&config, &[Path::new(".")]))
            .chain(agents.refused.iter().map(ToString::to_string))
            .chain(unread)
            .chain(unlisted);
        Ok(CheckReport {
            notes: notes.collect(),
            connections,
            services,
            config,
            used,
            results,
            agents,
            rules,
            problems,
        })
    }

    pub(crate) fn all_passed(&self) -> bool {
        let databases = self.connections.iter().map(|(_, result)| result);
        self.problems.is_empty() && self.results.values().chain(databases).all(Result::is_ok)
    }

    /// Returns the models that runs use by default, then all other configured models.
    fn models(&self) -> Result<Vec<ModelSettings>, DirigentError> {
        let others = self.config.names();
        let others = others
            .into_iter()
            .filter(|name| !self.used.iter().any(|used| used == name));
        let all = self.used.iter().map(String::as_str).chain(others);
        Ok(all
            .map(|name| self.config.model(name))
            .collect::<Result<_, _>>()?)
    }

    /// Returns each role with its model.
    fn roles(&self) -> Vec<(&str, &str)> {
        let mut roles: Vec<(&str, &str)> = ["lead", "reflector", "agents"]
            .into_iter()
            .map(|role| {
                (
                    role,
                    self.config.role(role).unwrap_or(self.config.default_model()),
                )
            })
            .collect();
        for (name, model, _) in self.config.roles() {
            if !roles.iter().any(|(known, _)| *known == name) {
                roles.push((name, model));
            }
        }
        roles
    }

    /// The limits of the lead, the reflector and each sub-agent.
    fn agent_limits(&self) -> impl Iterator<Item = (&str, &AgentLimits)> {
        let agents = &self.agents;
        let own = [("lead", &agents.lead), ("reflector", &agents.reflector)];
        let subs = agents
            .agents
            .iter()
            .map(|agent| (agent.name.as_str(), &agent.limits));
        own.into_iter().chain(subs)
    }

    fn text(&self) -> Result<String, DirigentError> {
        let config = &self.config;
        let mut text = String::new();
        self.write_sources(&mut text);
        let _ = writeln!(text, "\n{}", style("Models").bold());
        for model in self.models()? {
            let _ = writeln!(text, "  {}", title(&model));
            for (name, value) in self.facts(&model) {
                let _ = writeln!(text, "    {name:<11} {value}");
            }
            let _ = match self.results.get(&model.reference) {
                Some(Ok(success)) => writeln!(text, "    {:<11} {}", "connection", style(success).green()),
                Some(Err(problem)) => {
                    writeln!(text, "    {:<11} {}", "connection", style(problem).red())
                }
                None => writeln!(text, "    {:<11} no role", "used by"),
            };
        }
        let _ = writeln!(text, "\n{}", style("Models by role").bold());
        for (role, model) in self.roles() {
            let _ = writeln!(text, "  {role:<11} {model}");
        }
        self.write_tools(&mut text);
        self.write_services(&mut text);
        if !self.rules.is_empty() {
            let _ = writeln!(text, "\n{}", style("Calls that you always allow").bold());
        }
        for rule in &self.rules {
            let _ = writeln!(text, "  {}", approvals::line(rule));
        }
        let _ = writeln!(text, "\n{}", style("Limits of a run").bold());
        let _ = writeln!(text, "  {}", limits(config));
        let _ = writeln!(text, "\n{}", style("Limits of its agents").bold());
        for (name, limits) in self.agent_limits() {
            let _ = writeln!(
                text,
                "  {:<11} {}, {}",
                sanitize(name),
                count(limits.max_turns.into(), "turn"),
                limits.timeout
            );
        }
        for problem in &self.problems {
            let _ = writeln!(text, "\n{} {}", style("error:").red().bold(), sanitize(problem));
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{} {}", style("note:").yellow().bold(), sanitize(note));
        }
        Ok(text)
    }

    /// Appends the access of commands, and the database connections.
    fn write_tools(&self, text: &mut String) {
        let sandbox = self.config.sandbox();
        let network = if sandbox.network { "with" } else { "without" };
        let commands = match sandbox.confinement {
            Confinement::Required => match Sandbox::check() {
                Ok(()) => format!("confined, {network} network"),
                Err(why) => format!("unavailable: this system cannot confine commands: {why}"),
            },
            Confinement::Off => "not confined: they can do whatever you can".to_owned(),
        };
        let _ = writeln!(text, "\n{}\n  {commands}", style("Commands").bold());
        if self.connections.is_empty() {
            return;
        }
        let _ = writeln!(text, "\n{}", style("Databases").bold());
        for (connection, result) in &self.connections {
            let (name, address) = (sanitize(&connection.name), sanitize(&connection.address));
            let (kind, access) = (&connection.database, connection.access);
            let _ = writeln!(text, "  {}: {kind}, {access}", style(name).bold());
            let _ = writeln!(text, "    {:<11} {address}", "address");
            let _ = match result {
                Ok(success) => writeln!(text, "    {:<11} {}", "connection", style(success).green()),
                Err(problem) => writeln!(text, "    {:<11} {}", "connection", style(problem).red()),
            };
        }
    }

    /// Appends the MCP services, without values of variables.
    fn write_services(&self, text: &mut String) {
        let listed = &self.services;
        if listed.services.is_empty() && listed.untrusted.is_none() && listed.skipped.is_empty() {
            return;
        }
        let _ = writeln!(text, "\n{}", style("MCP services").bold());
        for service in &listed.services {
            let _ = writeln!(text, "  {}", style(&service.name).bold());
            for (name, value) in service_facts(service) {
                let _ = writeln!(text, "    {name:<11} {}", sanitize(&value));
            }
        }
        if let Some(file) = &listed.untrusted {
            let (path, names) = (file.path.display().to_string(), file.services.join(", "));
            let _ = writeln!(text, "  {}", sanitize(&format!("not trusted: {path}: {names}")));
        }
        for skipped in &listed.skipped {
            let line = format!("cannot be used: {}", skipped_line(skipped));
            let _ = writeln!(text, "  {}", style(line).red());
        }
    }

    fn write_sources(&self, text: &mut String) {
        let config = &self.config;
        let _ = writeln!(text, "{}", style("Files").bold());
        for file in config.files() {
            let _ = writeln!(text, "  {}", sanitize(&file.display().to_string()));
        }
        if config.files().is_empty() {
            let yours = config.user_file().map(|file| {
                format!(
                    "; to add settings, create {}",
                    sanitize(&file.display().to_string())
                )
            });
            let _ = writeln!(text, "  none{}", yours.unwrap_or_default());
        }
        let _ = writeln!(text, "\n{}", style("Settings").bold());
        let settings = config.settings();
        let chosen = format!("default model = {}", config.default_model());
        let lines: Vec<(String, String)> = [(chosen, config.default_model_origin().to_string())]
            .into_iter()
            .chain(settings.iter().map(|setting| {
                (
                    format!("{} = {}", setting.key, setting.value),
                    setting.origin.to_string(),
                )
            }))
            .collect();
        let width = lines
            .iter()
            .map(|(setting, _)| setting.chars().count())
            .max()
            .unwrap_or(0)
            .min(60);
        for (setting, origin) in lines {
            let _ = writeln!(
                text,
                "  {:<width$}  {}",
                sanitize(&setting),
                style(sanitize(&origin)).dim()
            );
        }
    }

    fn json(&self) -> Result<Value, DirigentError> {
        let config = &self.config;
        let settings: Vec<Value> = config
            .settings()
            .into_iter()
            .map(|setting| json!({"key": setting.key, "value": setting.value, "from": setting.origin.to_string()}))
            .collect();
        let models: Vec<Value> = self
            .models()?
            .iter()
            .map(|model| self.model_json(model))
            .collect();
        let roles: serde_json::Map<String, Value> = self
            .roles()
            .into_iter()
            .map(|(role, model)| (role.to_owned(), model.into()))
            .collect();
        Ok(json!({
            "ok": self.all_passed(),
            "files": config.files(),
            "settings": settings,
            "default_model": {"model": config.default_model(), "from": config.default_model_origin().to_string()},
            "models": models,
            "roles": roles,
            "commands": commands_json(config),
            "problems": self.problems,
            "approval_rules": self.rules.iter().map(render::approval_rule).collect::<Vec<_>>(),
            "connections": self.connections.iter().map(connection_json).collect::<Vec<_>>(),
            "services": render::services(&self.services),
            "limits": config.limits(),
            "agent_limits": self.agent_limits().collect::<BTreeMap<_, _>>(),
            "notes": self.notes,
        }))
    }

    fn model_json(&self, model: &ModelSettings) -> Value {
        let result = self.results.get(&model.reference);
        let remote = model.provider.map(|_| model);
        let limits = remote.map(|model| self.config.model_limits(model));
        json!({
            "model": model.reference,
            "provider": model.provider_name(),
            "name": model.name,
            "base_url": model.display_url(),
            "api_key": key(&model.api_key),
            "calls": model.calls,
            "context_window": model.context_window,
            "max_output_tokens": model.max_output_tokens,
            "concurrent": limits.and_then(|limits| limits.concurrent),
            "tokens_per_minute": limits.and_then(|limits| limits.tokens_per_minute),
            "attempts": remote.map(|model| model.retries().attempts),
            "price": model.price.map(|price| json!({
                "input": price.input.dollars(),
                "cached_input": price.cached_input.dollars(),
                "output": price.output.dollars(),
            })),
            "fallback": model.fallback,
            "connection": result.and_then(|result| result.as_ref().ok()),
            "problem": result.and_then(|result| result.as_ref().err()),
        })
    }

    /// The settings of a model on a server, by name; empty for the offline model.
    fn facts(&self, model: &ModelSettings) -> Vec<(&'static str, String)> {
        if model.provider.is_none() {
            return Vec::new();
        }
        let tokens = |count: Option<u64>| {
            count.map_or_else(|| "not set".to_owned(), |count| format!("{count} tokens"))
        };
        let calls = serde_json::to_value(model.calls).unwrap_or_default();
        let mut facts = vec![
            ("key", key(&model.api_key)),
            ("calls", calls.as_str().unwrap_or_default().to_owned()),
            ("context", tokens(model.context_window)),
            ("replies", tokens(model.max_output_tokens)),
            ("requests", self.request_limits(model)),
            (
                "price",
                model.price.map_or_else(
                    || "unknown".to_owned(),
                    |price| format!("{price}, per million tokens"),
                ),
            ),
        ];
        if !model.fallback.is_empty() {
            facts.push(("fallback", sanitize(&model.fallback.join(", "))));
        }
        facts
    }

    /// The limits of requests to a model, such as `8 at once, 5 attempts`.
    fn request_limits(&self, model: &ModelSettings) -> String {
        let limits = self.config.model_limits(model);
        let mut parts = Vec::new();
        parts.extend(limits.concurrent.map(|count| format!("{count} at once")));
        parts.extend(
            limits
                .tokens_per_minute
                .map(|count| format!("{count} tokens per minute")),
        );
        parts.push(match model.retries().attempts {
            1 => "1 attempt".to_owned(),
            attempts => format!("{attempts} attempts"),
        });
        parts.join(", ")
    }
}

fn commands_json(config: &Config) -> Value {
    let sandbox = config.sandbox();
    let (confined, problem) = match sandbox.confinement {
        Confinement::Required => (true, Sandbox::check().err()),
        Confinement::Off => (false, None),
    };
    let mut commands = json!({"confined": confined, "network": sandbox.network});
    if let Some(problem) = problem {
        commands["not_possible_here"] = Value::from(problem);
    }
    commands
}

fn connection_json((settings, result): &(ConnectionSettings, TestResult)) -> Value {
    json!({
        "name": settings.name,
        "database": settings.database,
        "access": settings.access.to_string(),
        "address": settings.address,
        "connection": result.as_ref().ok(),
        "problem": result.as_ref().err(),
    })
}

fn title(model: &ModelSettings) -> String {
    let reference = style(sanitize(&model.reference)).bold();
    match model.provider {
        None if model.reference == "offline" => reference.to_string(),
        None => format!("{reference}: the offline model"),
        Some(provider) => format!(
            "{reference}: {provider} {} at {}",
            sanitize(&model.name),
            sanitize(model.display_url())
        ),
    }
}

/// The source of an API key, without any part of the key.
fn key(key: &ApiKey) -> String {
    match key {
        ApiKey::None => "none".to_owned(),
        ApiKey::NotSet { how } => format!("not set: {how}"),
        ApiKey::Set { origin, .. } => format!("set, from {origin}"),
    }
}

fn limits(config: &Config) -> String {
    let limits = config.limits();
    let mut parts = vec![
        count(limits.max_iterations.into(), "planning iteration"),
        format!("{} in parallel", count(limits.max_parallel.into(), "sub-task")),
        count(limits.max_agents.into(), "agent"),
    ];
    parts.extend(limits.timeout.map(|timeout| timeout.to_string()));
    parts.extend(limits.max_tokens.map(|tokens| count(tokens, "token")));
    parts.extend(limits.max_cost.map(|cost| cost.to_string()));
    parts.extend(
        limits
            .max_model_calls
            .map(|calls| count(calls.into(), "model call")),
    );
    parts.join(", ")
}

/// A number with its noun, such as `1 token` or `2 tokens`.
fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
