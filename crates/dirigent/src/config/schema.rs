//! Which settings there are. Whatever is not here is refused, with the nearest that is.

use dirigent_core::limits::{AgentLimit, AgentLimitSetting};
use toml::de::DeValue;

use super::value::Kind;

/// What a path of the files leads to.
pub(super) enum Place {
    /// More settings.
    Table,
    Setting(Kind),
}

/// Providers whose models can be named as `provider/name`.
pub(super) const PROVIDERS: [&str; 3] = ["openai", "anthropic", "gemini"];

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

const ANY: Kind = Kind::Count {
    most: i64::MAX as u64,
};
const SMALL: Kind = Kind::Count {
    most: u32::MAX as u64,
};

/// The settings of a model.
const MODEL: [(&str, Kind); 16] = [
    (
        "provider",
        Kind::OneOf(&["offline", "openai", "anthropic", "gemini"]),
    ),
    ("name", Kind::Text),
    ("base_url", Kind::Address),
    ("api_key_env", Kind::Variable),
    ("api_key", Kind::Secret),
    (
        "calls",
        Kind::OneOf(&["auto", "json", "json_schema", "native", "tool_call"]),
    ),
    ("context_window", ANY),
    ("max_output_tokens", ANY),
    ("delivery", Kind::OneOf(&["streamed", "whole"])),
    ("timeout", Kind::Span),
    ("concurrent", SMALL),
    ("tokens_per_minute", ANY),
    ("attempts", SMALL),
    ("price", Kind::Price),
    ("extra", Kind::Fields),
    ("fallback", Kind::Texts),
];

const LIMITS: [(&str, Kind); 11] = [
    ("max_iterations", SMALL),
    ("max_parallel", SMALL),
    ("max_subtasks", SMALL),
    ("max_agents", SMALL),
    ("max_depth", SMALL),
    ("approval_timeout", Kind::Span),
    ("call_timeout", Kind::Span),
    ("timeout", Kind::Span),
    ("max_tokens", ANY),
    ("max_cost", Kind::Dollars),
    ("max_model_calls", SMALL),
];

const AGENTS: [(&str, Kind); 1] = [("project", Kind::OneOf(&["off", "read-only", "read-write"]))];

const APPROVALS: [(&str, Kind); 3] = [
    ("allow", Kind::Rules),
    ("ask", Kind::Rules),
    ("deny", Kind::Rules),
];

const SANDBOX: [(&str, Kind); 8] = [
    ("commands", Kind::OneOf(&["confined", "unconfined"])),
    ("network", Kind::Truth),
    ("read", Kind::Paths),
    ("write", Kind::Paths),
    ("environment", Kind::Variables),
    ("max_memory", Kind::Bytes),
    ("max_file", Kind::Bytes),
    ("max_processes", ANY),
];

const CONNECTION: [(&str, Kind); 7] = [
    ("database", Kind::OneOf(&["sqlite", "postgres", "mysql"])),
    ("path", Kind::InWorkspace),
    ("url", Kind::Secret),
    ("url_env", Kind::Variable),
    ("access", Kind::OneOf(&["read-only", "read-write"])),
    ("max_rows", SMALL),
    ("timeout", Kind::Span),
];

const HTTP: [(&str, Kind); 3] = [
    ("allow", Kind::Hosts),
    ("timeout", Kind::Span),
    ("max_bytes", Kind::Bytes),
];

/// What is at that path of the files, where that value stands; `None` where nothing can be.
pub(super) fn place(path: &[&str], value: &DeValue<'_>) -> Option<Place> {
    let among = |settings: &[(&str, Kind)], key: &str| {
        settings
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, kind)| Place::Setting(*kind))
    };
    match *path {
        [section] => SECTIONS.contains(&section).then_some(Place::Table),
        ["models" | "connections", _] => Some(Place::Table),
        ["model", key] | ["models", _, key] => among(&MODEL, key),
        ["roles", _] => Some(Place::Setting(Kind::Text)),
        ["agents", key] => among(&AGENTS, key),
        ["approvals", key] => among(&APPROVALS, key),
        ["sandbox", key] => among(&SANDBOX, key),
        ["connections", _, key] => among(&CONNECTION, key),
        ["http", key] => among(&HTTP, key),
        // A table is an agent's, by its name.
        ["limits", key] => among(&LIMITS, key).or(value.is_table().then_some(Place::Table)),
        ["limits", _, key] => agent_limit(key).map(Place::Setting),
        ["prices", provider] => PROVIDERS.contains(&provider).then_some(Place::Table),
        ["prices", _, _] => Some(Place::Setting(Kind::Price)),
        _ => None,
    }
}

/// How the limit of an agent is written.
fn agent_limit(name: &str) -> Option<Kind> {
    let limit = AgentLimit::ALL.iter().find(|limit| limit.name == name)?;
    Some(match limit.setting {
        AgentLimitSetting::Count(_) => SMALL,
        AgentLimitSetting::Time(_) => Kind::Span,
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
        ["prices"] => PROVIDERS.map(str::to_owned).into(),
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
