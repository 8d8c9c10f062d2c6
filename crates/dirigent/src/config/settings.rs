//! The settings of configuration files. An unknown key is an error that suggests the most similar key.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

use dirigent_core::limits::{AgentLimitSettings, LimitSetting, LimitSettings, RunLimitSettings};
use figment::error::Kind;
use figment::value::{Dict, Empty, Value};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::value::{
    AbsolutePath, Address, Bytes, CallRule, Calls, CommandConfinement, Database, DatabaseAccess, DollarLimit,
    Duration, Extra, Host, InstructionsMode, ModelProvider, PricedProvider, ProjectAgentsMode, ReplyDelivery,
    Secret, SecretReference, SecretVariable, Text, TokenPrice, Variable, WebhookEventName, WorkspaceFile,
};

/// The expected type of an agent's table in `[limits]`.
pub(super) const AGENT_TABLE: &str = "a table of an agent's limits";

/// All settings. They are serialized only for display, in the form that each value's type defines.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct Settings {
    pub(super) model: ModelTable,
    pub(super) models: BTreeMap<String, ModelTable>,
    pub(super) roles: BTreeMap<String, Text>,
    pub(super) base_prompts: BTreeMap<String, Text>,
    pub(super) agents: AgentsTable,
    pub(super) approvals: ApprovalsTable,
    pub(super) sandbox: SandboxTable,
    pub(super) connections: BTreeMap<String, ConnectionTable>,
    pub(super) http: HttpTable,
    pub(super) mcp: BTreeMap<String, ServiceTable>,
    pub(super) webhooks: BTreeMap<String, WebhookTable>,
    pub(super) limits: LimitsTable,
    pub(super) serve: ServeTable,
    pub(super) prices: BTreeMap<PricedProvider, BTreeMap<String, TokenPrice>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct ModelTable {
    pub(super) provider: Option<ModelProvider>,
    pub(super) name: Option<Text>,
    pub(super) base_url: Option<Address>,
    pub(super) api_key_env: Option<SecretVariable>,
    pub(super) api_key: Option<Secret>,
    pub(super) calls: Option<Calls>,
    pub(super) context_window: Option<NonZeroU64>,
    pub(super) max_output_tokens: Option<NonZeroU64>,
    pub(super) delivery: Option<ReplyDelivery>,
    pub(super) timeout: Option<Duration>,
    pub(super) concurrent: Option<NonZeroU32>,
    pub(super) tokens_per_minute: Option<NonZeroU64>,
    pub(super) attempts: Option<NonZeroU32>,
    pub(super) price: Option<TokenPrice>,
    pub(super) extra: Option<Extra>,
    pub(super) fallback: Vec<Text>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct WebhookTable {
    pub(super) url: Option<Address>,
    pub(super) secret: Option<SecretReference>,
    pub(super) events: Option<Vec<WebhookEventName>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct AgentsTable {
    pub(super) project: Option<ProjectAgentsMode>,
    pub(super) instructions: Option<InstructionsMode>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct ApprovalsTable {
    pub(super) allow: Vec<CallRule>,
    pub(super) ask: Vec<CallRule>,
    pub(super) deny: Vec<CallRule>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct SandboxTable {
    pub(super) commands: Option<CommandConfinement>,
    pub(super) network: bool,
    pub(super) read: Vec<AbsolutePath>,
    pub(super) write: Vec<AbsolutePath>,
    pub(super) environment: Vec<Variable>,
    pub(super) max_memory: Option<Bytes>,
    pub(super) max_file: Option<Bytes>,
    pub(super) max_processes: Option<NonZeroU64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct ConnectionTable {
    pub(super) database: Option<Database>,
    pub(super) path: Option<WorkspaceFile>,
    pub(super) url: Option<Secret>,
    pub(super) url_env: Option<SecretVariable>,
    pub(super) access: Option<DatabaseAccess>,
    pub(super) max_rows: Option<NonZeroU32>,
    pub(super) timeout: Option<Duration>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct HttpTable {
    pub(super) allow: Vec<Host>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_bytes: Option<Bytes>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct ServiceTable {
    pub(super) command: Option<Text>,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, Secret>,
    pub(super) cwd: Option<AbsolutePath>,
    pub(super) url: Option<Text>,
    pub(super) headers: BTreeMap<String, Secret>,
    pub(super) bearer_token_env: Option<SecretVariable>,
    pub(super) timeout: Option<Duration>,
    pub(super) start_timeout: Option<Duration>,
    pub(super) description: Option<Text>,
    pub(super) trigger_keywords: Vec<Text>,
    pub(super) enabled: Option<bool>,
    pub(super) trust: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct ServeTable {
    pub(super) max_body: Option<Bytes>,
    pub(super) max_requests: Option<NonZeroU32>,
    pub(super) max_runs: Option<NonZeroU32>,
    pub(super) max_connections: Option<NonZeroU32>,
    pub(super) max_mcp_sessions: Option<NonZeroU32>,
    pub(super) mcp_idle_time: Option<Duration>,
}

/// The limits of the run, and a table of limits for each agent.
#[derive(Debug, Default)]
pub(super) struct LimitsTable {
    pub(super) run: RunLimitSettings,
    pub(super) agents: BTreeMap<String, AgentLimitSettings>,
}

/// The limits of one agent.
struct AgentTable(AgentLimitSettings);

impl<'de> Deserialize<'de> for LimitsTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = LimitsTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitsTable, A::Error> {
                let mut limits = LimitsTable::default();
                while let Some(name) = map.next_key::<String>()? {
                    if !read_limit(&name, &mut limits.run, &mut map)? {
                        let AgentTable(agent) = map.next_value()?;
                        limits.agents.insert(name, agent);
                    }
                }
                Ok(limits)
            }
        }

        deserializer.deserialize_map(Table)
    }
}

impl Serialize for LimitsTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in limit_texts(&self.run) {
            map.serialize_entry(name, &value)?;
        }
        for (agent, limits) in &self.agents {
            map.serialize_entry(agent, &limit_texts(limits))?;
        }
        map.end()
    }
}

/// Returns the names of all limits that are set, and their values for display.
fn limit_texts<S: LimitSettings>(settings: &S) -> BTreeMap<&'static str, String> {
    let mut settings = settings.clone();
    let limits = S::ALL.iter();
    limits
        .filter_map(|limit| Some((limit.name, limit.value(&mut settings)?)))
        .collect()
}

impl<'de> Deserialize<'de> for AgentTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = AgentTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(AGENT_TABLE)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AgentTable, A::Error> {
                let mut limits = AgentLimitSettings::default();
                while let Some(name) = map.next_key::<String>()? {
                    if !read_limit(&name, &mut limits, &mut map)? {
                        return Err(A::Error::unknown_field(&name, &[]));
                    }
                }
                Ok(AgentTable(limits))
            }
        }

        deserializer.deserialize_map(Table)
    }
}

/// Reads the value of the limit with this name; returns false if there is no such limit.
fn read_limit<'de, S: LimitSettings, A: MapAccess<'de>>(
    name: &str,
    settings: &mut S,
    map: &mut A,
) -> Result<bool, A::Error> {
    let Some(limit) = S::ALL.iter().find(|limit| limit.name == name) else {
        return Ok(false);
    };
    match limit.setting {
        LimitSetting::Count(setting) => *setting(settings) = Some(map.next_value::<NonZeroU32>()?.get()),
        LimitSetting::Tokens(setting) => *setting(settings) = Some(map.next_value::<NonZeroU64>()?.get()),
        LimitSetting::Time(setting) => *setting(settings) = Some(map.next_value::<Duration>()?.0),
        LimitSetting::Money(setting) => *setting(settings) = Some(map.next_value::<DollarLimit>()?.0),
    }
    Ok(true)
}

/// Returns true if `[model]` has a setting with this name.
pub(super) fn is_model_setting(name: &str) -> bool {
    let table = Dict::from([(name.to_owned(), Empty::None.into())]);
    let read = ModelTable::deserialize(&Value::from(table));
    !read.is_err_and(|error| matches!(error.kind, Kind::UnknownField(..)))
}

pub(super) fn limit_names<S: LimitSettings>() -> impl Iterator<Item = &'static str> {
    S::ALL.iter().map(|limit| limit.name)
}
