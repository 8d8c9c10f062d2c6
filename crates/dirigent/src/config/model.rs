//! One model as the configuration has it: what its settings, its provider and the environment say together.

use std::fmt;

use dirigent_core::call::CallForm;
use dirigent_core::price::Price;
use dirigent_core::time::Millis;
use dirigent_model::RetryPolicy;
use dirigent_model::openai::Delivery;
use dirigent_model::provider::{self, Protocol, Provider};
use secrecy::SecretString;
use serde_json::{Map, Value as Json};
use url::Url;

use super::error::{ConfigError, Origin};
use super::schema::OFFLINE;
use super::settings::{Settings, Table};
use super::sources::Sources;
use super::value::{self, Value};

/// A key to a provider. `Debug` does not show it.
#[derive(Clone, Debug)]
pub enum ApiKey {
    /// None is sent.
    None,
    /// It is needed, but not set.
    NotSet {
        /// How to set it.
        how: String,
    },
    /// It is set.
    Set {
        /// It.
        key: SecretString,
        /// Where it comes from.
        origin: Origin,
    },
}

/// A model of the configuration.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// Its name in the configuration, and in journals: `default`, a name of `[models.NAME]`, `offline`, or `provider/name`.
    pub reference: String,
    /// Its provider; `None` for the offline model.
    pub provider: Option<&'static Provider>,
    /// The provider's name for it; empty for the offline model.
    pub name: String,
    /// Where the API begins; empty for the offline model.
    pub base_url: String,
    /// The key.
    pub api_key: ApiKey,
    /// How it calls tools (CALL-4).
    pub calls: CallForm,
    /// Tokens that it can read and write in one request.
    pub context_window: Option<u64>,
    /// Tokens that a reply may have.
    pub max_output_tokens: Option<u64>,
    /// How replies come.
    pub delivery: Delivery,
    /// How long one reply may take.
    pub timeout: Option<Millis>,
    /// Concurrent requests (HOST-7).
    pub concurrent: Option<u32>,
    /// Tokens a minute (HOST-7).
    pub tokens_per_minute: Option<u64>,
    /// How often it is asked when it is unavailable, the first time included (HOST-7).
    pub attempts: Option<u32>,
    /// What it costs, where that is known.
    pub price: Option<Price>,
    /// Further fields of its requests.
    pub extra: Map<String, Json>,
    /// The models to ask when it can't answer, in order.
    pub fallback: Vec<String>,
}

/// Who is asked, for people: `openai gpt-4.1-mini at https://api.openai.com/v1`, or `the offline model`.
impl fmt::Display for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.provider {
            None => f.write_str("the offline model"),
            Some(provider) => write!(f, "{provider} {} at {}", self.name, self.display_url()),
        }
    }
}

impl ModelSettings {
    /// The offline model.
    fn offline() -> Self {
        ModelSettings {
            reference: OFFLINE.to_owned(),
            provider: None,
            name: String::new(),
            base_url: String::new(),
            api_key: ApiKey::None,
            calls: CallForm::Json,
            context_window: None,
            max_output_tokens: None,
            delivery: Delivery::Streamed,
            timeout: None,
            concurrent: None,
            tokens_per_minute: None,
            attempts: None,
            price: None,
            extra: Map::new(),
            fallback: Vec::new(),
        }
    }

    /// How it is asked again when it is unavailable (HOST-7).
    pub fn retries(&self) -> RetryPolicy {
        let default = RetryPolicy::default();
        RetryPolicy {
            attempts: self.attempts.unwrap_or(default.attempts),
            ..default
        }
    }

    /// The provider's name in configurations; `offline` for the offline model.
    pub fn provider_name(&self) -> &'static str {
        self.provider.map_or(OFFLINE, |provider| provider.name)
    }

    /// Whether the address is the provider's own.
    pub fn is_official_endpoint(&self) -> bool {
        self.provider
            .is_some_and(|provider| is_official_url(provider, &self.base_url))
    }

    /// The address, as far as it may be shown.
    pub fn display_url(&self) -> &str {
        value::without_query(&self.base_url)
    }
}

/// The model that a reference means, if it means one.
pub(super) fn find(
    reference: &str,
    settings: &Settings,
    sources: &Sources,
) -> Result<Option<ModelSettings>, ConfigError> {
    let named = |name| settings.table(&["models", name]);
    match reference {
        OFFLINE => Ok(Some(ModelSettings::offline())),
        "default" => read(reference, &settings.table(&["model"]), settings, sources).map(Some),
        name if !named(name).is_empty() => read(name, &named(name), settings, sources).map(Some),
        other => match other.split_once('/') {
            Some((provider, name)) if !name.is_empty() => {
                let table = settings.table(&["models", other]);
                Provider::named(provider)
                    .map(|provider| complete(other, provider, name, &table, settings, sources))
                    .transpose()
            }
            Some(_) | None => Ok(None),
        },
    }
}

/// A model that has a table.
fn read(
    reference: &str,
    table: &Table<'_>,
    settings: &Settings,
    sources: &Sources,
) -> Result<ModelSettings, ConfigError> {
    if table.text("provider") == Some(OFFLINE) {
        return match table.iter().find(|(name, _)| *name != "provider") {
            None => Ok(ModelSettings {
                reference: reference.to_owned(),
                ..ModelSettings::offline()
            }),
            Some((name, _)) => Err(table.invalid(
                name,
                format!(
                    "means nothing for the offline model: set `provider` of the same table to one of {}, or leave it out",
                    provider_names()
                ),
            )),
        };
    }
    let Some(provider) = table.text("provider").and_then(Provider::named) else {
        return Err(table.invalid(
            "provider",
            format!("is not set: say one of {OFFLINE}, {}", provider_names()),
        ));
    };
    let Some(name) = table.text("name") else {
        return Err(table.invalid(
            "name",
            format!("is not set: say what {provider} calls the model; `dirigent models --model {provider}/any` lists what there is"),
        ));
    };
    let foreign = ["extra", "delivery"]
        .into_iter()
        .find(|name| table.value(name).is_some());
    if let (Protocol::Hosted(_), Some(name)) = (provider.protocol, foreign) {
        return Err(table.invalid(name, "is for provider \"openai\" alone: leave it out"));
    }
    complete(reference, provider, name, table, settings, sources)
}

fn provider_names() -> String {
    provider::PROVIDERS
        .each_ref()
        .map(|provider| provider.name)
        .join(", ")
}

fn complete(
    reference: &str,
    provider: &'static Provider,
    name: &str,
    table: &Table<'_>,
    settings: &Settings,
    sources: &Sources,
) -> Result<ModelSettings, ConfigError> {
    let base_url = base_url(provider, table, sources)?;
    let is_own = is_official_url(provider, &base_url);
    let offline = ModelSettings::offline();
    Ok(ModelSettings {
        reference: reference.to_owned(),
        provider: Some(provider),
        name: name.to_owned(),
        api_key: api_key(provider, is_own, table, sources)?,
        base_url,
        calls: calls(
            table.text("calls"),
            is_own || provider.protocol != Protocol::OpenAi,
        ),
        context_window: table.count("context_window"),
        max_output_tokens: table.count("max_output_tokens"),
        delivery: match table.text("delivery") {
            Some("whole") => Delivery::Whole,
            Some(_) | None => Delivery::Streamed,
        },
        timeout: table.duration("timeout"),
        concurrent: table.count_u32("concurrent"),
        tokens_per_minute: table.count("tokens_per_minute"),
        attempts: table.count_u32("attempts"),
        price: match table.value("price") {
            Some(Value::Price(price)) => Some(*price),
            Some(_) | None => listed_price(provider, name, settings).filter(|_| is_own),
        },
        extra: match table.value("extra") {
            Some(Value::Fields(fields)) => fields.clone(),
            Some(_) | None => offline.extra,
        },
        fallback: match table.value("fallback") {
            Some(Value::Texts(references)) => references.clone(),
            Some(_) | None => offline.fallback,
        },
    })
}

/// The table's address, or the variable's, or the provider's own. A variable never moves a model that has an address or a key of its
/// own, as that one's key would go there.
fn base_url(provider: &Provider, table: &Table<'_>, sources: &Sources) -> Result<String, ConfigError> {
    if let Some(address) = table.text("base_url") {
        return Ok(address.to_owned());
    }
    let has_key = ["api_key", "api_key_env"]
        .iter()
        .any(|name| table.value(name).is_some());
    let set = provider
        .base_url_variable
        .filter(|_| !has_key)
        .and_then(|name| Some((name, sources.variable(name)?)));
    match set {
        Some((name, address)) => value::address(&address).map_err(|problem| ConfigError::Value {
            origin: Origin::Variable(name.to_owned()),
            key: name.to_owned(),
            problem,
        }),
        None => Ok(provider.base_url.to_owned()),
    }
}

fn is_official_url(provider: &Provider, base_url: &str) -> bool {
    let host = |address: &str| {
        let url = Url::parse(address).ok().filter(|url| url.scheme() == "https")?;
        url.host_str().map(str::to_owned)
    };
    let (Some(own), Some(host)) = (host(provider.base_url), host(base_url)) else {
        return false;
    };
    // A region's address, such as eu.api.openai.com, is the provider's own, too.
    host == own || host.ends_with(&format!(".{own}"))
}

/// A key goes only where it belongs: the provider's variable counts where the address is the provider's or came from the
/// environment, as the key did.
fn api_key(
    provider: &Provider,
    is_own: bool,
    table: &Table<'_>,
    sources: &Sources,
) -> Result<ApiKey, ConfigError> {
    let from = |name: &str| {
        sources.variable(name).map(|key| ApiKey::Set {
            key: key.into(),
            origin: Origin::Variable(name.to_owned()),
        })
    };
    let not_set = |how: String| Ok(ApiKey::NotSet { how });
    match (table.value("api_key"), table.text("api_key_env")) {
        (Some(_), Some(_)) => {
            Err(table.invalid("api_key", "and `api_key_env` can't both be set: leave one out"))
        }
        (Some(Value::Secret(key)), None) => Ok(ApiKey::Set {
            key: key.clone(),
            origin: table
                .origin("api_key")
                .cloned()
                .unwrap_or_else(|| table.table_origin()),
        }),
        (_, Some(name)) => match from(name) {
            Some(key) => Ok(key),
            None => not_set(format!("set {name}, which its api_key_env names")),
        },
        (Some(_) | None, None) if !is_own && table.text("base_url").is_some() => Ok(ApiKey::None),
        (Some(_) | None, None) => {
            let variables = provider.key_variables;
            match variables.iter().find_map(|name| from(name)) {
                Some(key) => Ok(key),
                None if is_own => not_set(format!(
                    "set {}, or name another variable as its api_key_env",
                    variables.join(" or ")
                )),
                None => Ok(ApiKey::None),
            }
        }
    }
}

/// `native_at_home` where `auto` means the provider's own calls.
fn calls(word: Option<&str>, native_at_home: bool) -> CallForm {
    match word {
        Some("json") => CallForm::Json,
        Some("json_schema") => CallForm::JsonSchema,
        Some("native") => CallForm::Native,
        Some("tool_call") => CallForm::ToolCall,
        // `auto`, as the schema allows no other word.
        Some(_) | None if native_at_home => CallForm::Native,
        Some(_) | None => CallForm::Auto,
    }
}

/// The price of the longest name in the table that stands for this one.
fn listed_price(provider: &Provider, name: &str, settings: &Settings) -> Option<Price> {
    let stands_for = |listed: &str| {
        name.strip_prefix(listed).is_some_and(|version| {
            let version = version.strip_prefix(['-', '@']).unwrap_or(version);
            name == listed
                || name.len() > listed.len() + version.len()
                    && (version.starts_with(|c: char| c.is_ascii_digit())
                        || ["latest", "preview"].iter().any(|word| version.starts_with(word)))
        })
    };
    let table = settings.table(&["prices", provider.name]);
    let (_, found) = table
        .iter()
        .filter(|(listed, _)| stands_for(listed))
        .max_by_key(|(listed, _)| listed.len())?;
    let Value::Price(price) = &found.value else {
        return None;
    };
    Some(*price)
}
