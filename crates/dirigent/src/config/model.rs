//! The settings of one model, from its table, its provider and the environment.

use std::fmt;
use std::num::NonZero;

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
use super::layer::{Origins, TableOrigins};
use super::settings::{ModelTable, Settings};
use super::sources::Sources;
use super::value::{self, ModelProvider, OFFLINE, PricedProvider};

/// The API key of a model. `Debug` does not show it.
#[derive(Clone, Debug)]
pub enum ApiKey {
    /// No key is sent.
    None,
    /// A key is required but not set.
    NotSet {
        /// How to set the key.
        how: String,
    },
    /// The key is set.
    Set {
        /// The key.
        key: SecretString,
        /// The origin of the key.
        origin: Origin,
    },
}

/// The settings of a model.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// The reference in the configuration and in journals: `default`, a name of `[models.NAME]`, `offline`, or `provider/name`.
    pub reference: String,
    /// The provider; `None` for the offline model.
    pub provider: Option<&'static Provider>,
    /// The provider's name for the model; empty for the offline model.
    pub name: String,
    /// The address at which the API begins; empty for the offline model.
    pub base_url: String,
    /// The API key for requests, or why there is none.
    pub api_key: ApiKey,
    /// The form in which the model calls tools (CALL-4).
    pub calls: CallForm,
    /// Maximum number of tokens of a request and its reply together.
    pub context_window: Option<u64>,
    /// Maximum number of tokens of a reply.
    pub max_output_tokens: Option<u64>,
    /// Whether replies are streamed.
    pub delivery: Delivery,
    /// Maximum duration of a reply.
    pub timeout: Option<Millis>,
    /// Maximum number of concurrent requests (HOST-7).
    pub concurrent: Option<u32>,
    /// Maximum number of tokens per minute (HOST-7).
    pub tokens_per_minute: Option<u64>,
    /// Maximum number of attempts at a request while the model is unavailable, including the first (HOST-7).
    pub attempts: Option<u32>,
    /// The price, if known.
    pub price: Option<Price>,
    /// Additional fields of each request.
    pub extra: Map<String, Json>,
    /// References of the models to ask when this model can't answer, in order.
    pub fallback: Vec<String>,
}

/// Display format: `openai gpt-4.1-mini at https://api.openai.com/v1`, or `the offline model`.
impl fmt::Display for ModelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.provider {
            None => f.write_str("the offline model"),
            Some(provider) => write!(f, "{provider} {} at {}", self.name, self.display_url()),
        }
    }
}

impl ModelSettings {
    /// Returns the settings of the offline model.
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

    /// Returns the policy for retrying requests while the model is unavailable (HOST-7).
    pub fn retries(&self) -> RetryPolicy {
        let default = RetryPolicy::default();
        RetryPolicy {
            attempts: self.attempts.unwrap_or(default.attempts),
            ..default
        }
    }

    /// Returns the provider's name in configurations; `offline` for the offline model.
    pub fn provider_name(&self) -> &'static str {
        self.provider.map_or(OFFLINE, |provider| provider.name)
    }

    /// Returns true if the address is the provider's own.
    pub fn is_official_endpoint(&self) -> bool {
        self.provider
            .is_some_and(|provider| is_official_url(provider, &self.base_url))
    }

    /// Returns the address without its query, which may contain a key.
    pub fn display_url(&self) -> &str {
        value::without_query(&self.base_url)
    }
}

/// Returns the settings of the model that `reference` names; `None` if there is no such model.
pub(super) fn find(
    reference: &str,
    settings: &Settings,
    origins: &Origins,
    sources: &Sources,
) -> Result<Option<ModelSettings>, ConfigError> {
    let empty = ModelTable::default();
    let reader = |table, origins| Reader {
        reference,
        table,
        origins,
        settings,
        sources,
    };
    if reference == OFFLINE {
        return Ok(Some(ModelSettings::offline()));
    }
    if reference == "default" {
        return reader(&settings.model, origins.table(&["model"]))
            .read()
            .map(Some);
    }
    let own = origins.table(&["models", reference]);
    if let Some(table) = settings.models.get(reference) {
        return reader(table, own).read().map(Some);
    }
    match reference.split_once('/') {
        Some((provider, name)) if !name.is_empty() => Provider::named(provider)
            .map(|provider| reader(&empty, own).complete(provider, name))
            .transpose(),
        Some(_) | None => Ok(None),
    }
}

/// Reads the table of a model.
struct Reader<'a> {
    reference: &'a str,
    table: &'a ModelTable,
    origins: TableOrigins<'a>,
    settings: &'a Settings,
    sources: &'a Sources,
}

impl Reader<'_> {
    fn read(&self) -> Result<ModelSettings, ConfigError> {
        let names = || {
            provider::PROVIDERS
                .each_ref()
                .map(|provider| provider.name)
                .join(", ")
        };
        let provider = match self.table.provider {
            Some(ModelProvider(Some(provider))) => provider,
            Some(ModelProvider(None)) => {
                return match self.origins.names().find(|name| *name != "provider") {
                    None => Ok(ModelSettings {
                        reference: self.reference.to_owned(),
                        ..ModelSettings::offline()
                    }),
                    Some(name) => Err(self.origins.invalid(
                        name,
                        format!(
                            "has no effect for the offline model: set `provider` in the same table to one of {}, or remove it",
                            names()
                        ),
                    )),
                };
            }
            None => {
                let problem = format!("is not set: set it to one of {OFFLINE}, {}", names());
                return Err(self.origins.invalid("provider", problem));
            }
        };
        let Some(name) = &self.table.name else {
            let problem = format!("is not set: set it to {provider}'s name for the model");
            return Err(self.origins.invalid("name", problem));
        };
        if let Protocol::Hosted(_) = provider.protocol
            && let Some(name) = self
                .origins
                .names()
                .find(|name| ["extra", "delivery"].contains(name))
        {
            let problem = "applies only to provider \"openai\": remove it";
            return Err(self.origins.invalid(name, problem));
        }
        self.complete(provider, &name.0)
    }

    fn complete(&self, provider: &'static Provider, name: &str) -> Result<ModelSettings, ConfigError> {
        let table = self.table;
        let base_url = self.base_url(provider)?;
        let is_official = is_official_url(provider, &base_url);
        let price = match table.price {
            Some(price) => Some(price.into()),
            None => listed_price(provider, name, self.settings).filter(|_| is_official),
        };
        let native = is_official || provider.protocol != Protocol::OpenAi;
        let suitable = if native { CallForm::Native } else { CallForm::Auto };
        Ok(ModelSettings {
            reference: self.reference.to_owned(),
            provider: Some(provider),
            name: name.to_owned(),
            api_key: self.api_key(provider, is_official)?,
            base_url,
            calls: table.calls.as_ref().and_then(|calls| calls.0).unwrap_or(suitable),
            context_window: table.context_window.map(NonZero::get),
            max_output_tokens: table.max_output_tokens.map(NonZero::get),
            delivery: table
                .delivery
                .as_ref()
                .map_or(Delivery::Streamed, |delivery| delivery.0),
            timeout: table.timeout.as_ref().map(|timeout| timeout.0),
            concurrent: table.concurrent.map(NonZero::get),
            tokens_per_minute: table.tokens_per_minute.map(NonZero::get),
            attempts: table.attempts.map(NonZero::get),
            price,
            extra: table.extra.clone().map(|extra| extra.0).unwrap_or_default(),
            fallback: table
                .fallback
                .iter()
                .map(|reference| reference.0.clone())
                .collect(),
        })
    }

    /// Returns the address from the table, from the provider's variable, or else the provider's own. The variable does not apply if the
    /// table sets a key, because that key would then be sent to the variable's address.
    fn base_url(&self, provider: &Provider) -> Result<String, ConfigError> {
        if let Some(address) = &self.table.base_url {
            return Ok(address.0.clone());
        }
        let has_key = self.table.api_key.is_some() || self.table.api_key_env.is_some();
        let variable = provider.base_url_variable.filter(|_| !has_key);
        match variable.and_then(|name| Some((name, self.sources.variable(name)?))) {
            Some((name, address)) => value::parse_address(&address).map_err(|problem| ConfigError::Value {
                origin: Origin::Variable(name.to_owned()),
                key: name.to_owned(),
                problem,
            }),
            None => Ok(provider.base_url.to_owned()),
        }
    }

    /// Returns the key. The provider's key variable applies only if the address is the provider's own or also comes from the environment.
    /// So the key is never sent to another server.
    fn api_key(&self, provider: &Provider, is_official: bool) -> Result<ApiKey, ConfigError> {
        let from = |name: &str| {
            self.sources.variable(name).map(|key| ApiKey::Set {
                key: key.into(),
                origin: Origin::Variable(name.to_owned()),
            })
        };
        match (&self.table.api_key, &self.table.api_key_env) {
            (Some(_), Some(_)) => {
                let problem = "and `api_key_env` can't both be set: remove one";
                Err(self.origins.invalid("api_key", problem))
            }
            (Some(key), None) => Ok(ApiKey::Set {
                key: key.0.clone(),
                origin: self.origins.origin("api_key"),
            }),
            (None, Some(name)) => Ok(from(&name.0).unwrap_or_else(|| ApiKey::NotSet {
                how: format!("set {}, the variable that its api_key_env names", name.0),
            })),
            (None, None) if !is_official && self.table.base_url.is_some() => Ok(ApiKey::None),
            (None, None) => {
                let variables = provider.key_variables;
                Ok(match variables.iter().find_map(|name| from(name)) {
                    Some(key) => key,
                    None if is_official => ApiKey::NotSet {
                        how: format!(
                            "set {}, or set its api_key_env to another variable",
                            variables.join(" or ")
                        ),
                    },
                    None => ApiKey::None,
                })
            }
        }
    }
}

/// Returns true if an address is the provider's own.
fn is_official_url(provider: &Provider, base_url: &str) -> bool {
    let host = |address: &str| {
        let url = Url::parse(address).ok().filter(|url| url.scheme() == "https")?;
        url.host_str().map(str::to_owned)
    };
    let (Some(own), Some(host)) = (host(provider.base_url), host(base_url)) else {
        return false;
    };
    // The address of a region, such as eu.api.openai.com, is also the provider's own.
    host == own || host.ends_with(&format!(".{own}"))
}

/// Returns the listed price of a model. `name` may be a listed name with a version, such as `gpt-4.1-2025-04-14` for the listed
/// `gpt-4.1`; the longest matching name is used.
fn listed_price(provider: &'static Provider, name: &str, settings: &Settings) -> Option<Price> {
    let stands_for = |listed: &str| {
        name.strip_prefix(listed).is_some_and(|version| {
            let version = version.strip_prefix(['-', '@']).unwrap_or(version);
            name == listed
                || name.len() > listed.len() + version.len()
                    && (version.starts_with(|c: char| c.is_ascii_digit())
                        || ["latest", "preview"].iter().any(|word| version.starts_with(word)))
        })
    };
    let listed = settings.prices.get(&PricedProvider(provider))?.iter();
    let fitting = listed.filter(|(listed, _)| stands_for(listed));
    let (_, price) = fitting.max_by_key(|(listed, _)| listed.len())?;
    Some((*price).into())
}
