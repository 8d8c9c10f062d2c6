//! Which settings there are. Whatever is not here is refused, with the nearest that is.

use dirigent_core::limits::{AgentLimit, AgentLimitSetting};
use dirigent_model::provider::{ANTHROPIC, GEMINI, OPENAI, PROVIDERS, Provider};
use toml::de::DeValue;

use super::value::Kind;

/// What a path of the files leads to.
pub(super) enum SchemaNode {
    /// More settings.
    Table,
    Setting(Kind),
}

/// The provider and the reference of the offline model.
pub(super) const OFFLINE: &str = "offline";

const SECTIONS: [&str; 10] = [
    "model",
    "models",
    "roles",
    "agents",
    "approvals",
    "sandbox",
    "connections",
    "http",
    "limits",
    "prices",
];

const COUNT: Kind = Kind::Count {
    most: i64::MAX as u64,
};
const COUNT_U32: Kind = Kind::Count {
    most: u32::MAX as u64,
};

/// The settings of a model.
const MODEL: [(&str, Kind); 16] = [
    (
        "provider",
        Kind::OneOf(&[OFFLINE, OPENAI.name, ANTHROPIC.name, GEMINI.name]),
    ),
    ("name", Kind::Text),
    ("base_url", Kind::Address),
    ("api_key_env", Kind::Variable),
    ("api_key", Kind::Secret),
    (
        "calls",
        Kind::OneOf(&["auto", "json", "json_schema", "native", "tool_call"]),
    ),
    ("context_window", COUNT),
    ("max_output_tokens", COUNT),
    ("delivery", Kind::OneOf(&["streamed", "whole"])),
    ("timeout", Kind::Duration),
    ("concurrent", COUNT_U32),
    ("tokens_per_minute", COUNT),
    ("attempts", COUNT_U32),
    ("price", Kind::Price),
    ("extra", Kind::Fields),
    ("fallback", Kind::Texts),
];

const LIMITS: [(&str, Kind); 11] = [
    ("max_iterations", COUNT_U32),
    ("max_parallel", COUNT_U32),
    ("max_subtasks", COUNT_U32),
    ("max_agents", COUNT_U32),
    ("max_depth", COUNT_U32),
    ("approval_timeout", Kind::Duration),
    ("call_timeout", Kind::Duration),
    ("timeout", Kind::Duration),
    ("max_tokens", COUNT),
    ("max_cost", Kind::Dollars),
    ("max_model_calls", COUNT_U32),
];

const AGENTS: [(&str, Kind); 1] = [("project", Kind::OneOf(&["off", "read-only", "read-write"]))];

const APPROVALS: [(&str, Kind); 3] = [
    ("allow", Kind::Rules),
    ("ask", Kind::Rules),
    ("deny", Kind::Rules),
];

const SANDBOX: [(&str, Kind); 8] = [
    ("commands", Kind::OneOf(&["confined", "unconfined"])),
    ("network", Kind::Bool),
    ("read", Kind::Paths),
    ("write", Kind::Paths),
    ("environment", Kind::Variables),
    ("max_memory", Kind::Bytes),
    ("max_file", Kind::Bytes),
    ("max_processes", COUNT),
];

const CONNECTION: [(&str, Kind); 7] = [
    ("database", Kind::OneOf(&["sqlite", "postgres", "mysql"])),
    ("path", Kind::InWorkspace),
    ("url", Kind::Secret),
    ("url_env", Kind::Variable),
    ("access", Kind::OneOf(&["read-only", "read-write"])),
    ("max_rows", COUNT_U32),
    ("timeout", Kind::Duration),
];

const HTTP: [(&str, Kind); 3] = [
    ("allow", Kind::Hosts),
    ("timeout", Kind::Duration),
    ("max_bytes", Kind::Bytes),
];

/// What is at that path of the files, where that value stands; `None` where nothing can be.
pub(super) fn lookup(path: &[&str], value: &DeValue<'_>) -> Option<SchemaNode> {
    let among = |settings: &[(&str, Kind)], key: &str| {
        settings
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, kind)| SchemaNode::Setting(*kind))
    };
    match *path {
        [section] => SECTIONS.contains(&section).then_some(SchemaNode::Table),
        ["models" | "connections", _] => Some(SchemaNode::Table),
        ["model", key] | ["models", _, key] => among(&MODEL, key),
        ["roles", _] => Some(SchemaNode::Setting(Kind::Text)),
        ["agents", key] => among(&AGENTS, key),
        ["approvals", key] => among(&APPROVALS, key),
        ["sandbox", key] => among(&SANDBOX, key),
        ["connections", _, key] => among(&CONNECTION, key),
        ["http", key] => among(&HTTP, key),
        // A table is an agent's, by its name.
        ["limits", key] => among(&LIMITS, key).or(value.is_table().then_some(SchemaNode::Table)),
        ["limits", _, key] => agent_limit(key).map(SchemaNode::Setting),
        ["prices", provider] => Provider::named(provider).map(|_| SchemaNode::Table),
        ["prices", _, _] => Some(SchemaNode::Setting(Kind::Price)),
        _ => None,
    }
}

/// How the limit of an agent is written.
fn agent_limit(name: &str) -> Option<Kind> {
    let limit = AgentLimit::ALL.iter().find(|limit| limit.name == name)?;
    Some(match limit.setting {
        AgentLimitSetting::Count(_) => COUNT_U32,
        AgentLimitSetting::Time(_) => Kind::Duration,
    })
}

/// What could stand instead of the last part of a path that leads nowhere: the nearest, or all there are.
pub(super) fn hint(path: &[&str]) -> String {
    let Some((wrong, above)) = path.split_last() else {
        return String::new();
    };
    let names = |settings: &[(&str, Kind)]| -> Vec<String> {
        settings.iter().map(|(name, _)| (*name).to_owned()).collect()
    };
    let limits = || AgentLimit::ALL.iter().map(|limit| limit.name);
    let known: Vec<String> = match *above {
        [] => SECTIONS.map(str::to_owned).into(),
        ["model"] | ["models", _] => names(&MODEL),
        ["agents"] => names(&AGENTS),
        ["approvals"] => names(&APPROVALS),
        ["sandbox"] => names(&SANDBOX),
        ["connections", _] => names(&CONNECTION),
        ["http"] => names(&HTTP),
        ["limits"] if agent_limit(wrong).is_some() => {
            return format!(
                "`{wrong}` is a limit of each agent: write it in [limits.planner], [limits.reflector], [limits.agents] or [limits.NAME]"
            );
        }
        ["limits"] => {
            let of_agents = limits().map(|limit| format!("agents.{limit}"));
            names(&LIMITS).into_iter().chain(of_agents).collect()
        }
        ["limits", _] => limits().map(str::to_owned).collect(),
        ["prices"] => PROVIDERS
            .iter()
            .map(|provider| provider.name.to_owned())
            .collect(),
        _ => Vec::new(),
    };
    // A setting that stands in the wrong table is found again.
    let elsewhere = [("model", &MODEL[..]), ("limits", &LIMITS[..])]
        .into_iter()
        .find(|(_, settings)| settings.iter().any(|(name, _)| name == wrong));
    let likeness = |name: &str| strsim::jaro_winkler(wrong, name);
    let nearest = known
        .iter()
        .map(String::as_str)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|name| likeness(name) > 0.75);
    match (nearest, elsewhere) {
        (Some(name), _) => {
            let above: String = above.iter().map(|part| format!("{part}.")).collect();
            format!("did you mean `{above}{name}`?")
        }
        (None, Some((section, _))) => format!("did you mean `{wrong}` in [{section}]?"),
        (None, None) if known.is_empty() => "leave it out".to_owned(),
        (None, None) => format!("there are {}", known.join(", ")),
    }
}
