//! Types of the values in configuration files. Each type defines how its values are parsed and, as its serialized form, how they are
//! displayed; a secret is serialized as `null`. An error describes the valid values and never repeats the invalid value, which may be a
//! secret.

use std::path::{Component, Path, PathBuf};

use dirigent_core::call::CallForm;
use dirigent_core::policy::CallPattern;
use dirigent_core::price::{Cost, Price};
use dirigent_core::time::Millis;
use dirigent_core::tool::Access;
use dirigent_model::openai::Delivery;
use dirigent_model::provider::{ANTHROPIC, GEMINI, OPENAI, Provider};
use dirigent_tools::{Confinement, HttpRules};
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value as Json};
use url::{ParseError, Url};

use super::ProjectAgents;
use super::webhooks::WebhookEvent;
use crate::limit_text::{dollar_limit, parse_duration};

/// The provider and the reference of the offline model.
pub(super) const OFFLINE: &str = "offline";

/// A string. A number is accepted too, so that the error can ask for its unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a string in quotes")]
enum Quantity {
    Text(String),
    Number(f64),
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Text(text) => text,
            Quantity::Number(number) => number.to_string(),
        }
    }
}

/// Declares types that are parsed from text: each with its inner type, its parse function, and the function that formats it for display.
macro_rules! text_values {
    ($source:ident $source_name:literal: $($(#[$about:meta])+ $name:ident($inner:ty) = $parse:expr, $display:expr;)+) => {$(
        $(#[$about])+
        #[derive(Clone, Debug, Deserialize)]
        #[serde(try_from = $source_name)]
        pub(super) struct $name(pub(super) $inner);

        impl TryFrom<$source> for $name {
            type Error = String;

            fn try_from(text: $source) -> Result<Self, String> {
                let text = String::from(text);
                let parse: fn(&str) -> Result<$inner, String> = $parse;
                match text.trim() {
                    "" => Err("is empty: set a value, or remove it".to_owned()),
                    text => parse(text).map($name),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let display: fn(&$inner) -> Option<String> = $display;
                display(&self.0).serialize(serializer)
            }
        }
    )+};
}

/// Declares types whose value is one of several words. Each type has its inner type, and its words with their meanings.
macro_rules! word_values {
    ($($(#[$about:meta])+ $name:ident($inner:ty) = $words:expr;)+) => {
        text_values! { String "String": $(
            $(#[$about])+
            $name($inner) = |text| parse_word(text, &$words), |value| word_of(value, &$words);
        )+ }
    };
}

text_values! { Quantity "Quantity":
    /// A number of bytes.
    Bytes(u64) = parse_bytes, |bytes| Some(format_bytes(*bytes));
    /// A positive duration.
    Duration(Millis) = parse_duration, |duration| Some(duration.to_string());
}

text_values! { String "String":
    /// A non-empty text.
    Text(String) = |text| Ok(text.to_owned()), |text| Some(without_query(text).to_owned());
    /// A string that is never shown.
    Secret(SecretString) = |text| Ok(text.into()), |_| None;
    /// The name of the environment variable that contains a key or an address.
    SecretVariable(String) = parse_secret_variable, |name| Some(name.clone());
    /// The environment variable with a secret, written `${NAME}`.
    SecretReference(String) = parse_secret_reference, |name| Some(format!("${{{name}}}"));
    /// The name of an environment variable that commands receive.
    Variable(String) = parse_variable, |name| Some(name.clone());
    /// The base URL of an API.
    Address(String) = parse_address, |url| Some(without_query(url).to_owned());
    /// An absolute path, or a path from the user's home (`~/`).
    AbsolutePath(PathBuf) = parse_absolute_path, |path| Some(path.display().to_string());
    /// The path of a file, relative to the workspace.
    WorkspaceFile(String) = parse_workspace_file, |path| Some(path.clone());
    /// A host, with or without a port.
    Host(String) = parse_host, |host| Some(host.clone());
    /// A rule's call pattern.
    CallRule(CallPattern) = |text| text.parse().map_err(|error| format!("can't be read: {error}")), |rule| Some(rule.to_string());
}

word_values! {
    /// The provider of a model; `None` for the offline model.
    ModelProvider(Option<&'static Provider>) = {
        let hosted = [OPENAI, ANTHROPIC, GEMINI].map(|provider| (provider.name, Provider::named(provider.name)));
        [[(OFFLINE, None)].as_slice(), &hosted].concat()
    };
    /// How a model calls tools; `None` to choose the form that suits its server.
    Calls(Option<CallForm>) = [
        ("auto", None),
        ("json", Some(CallForm::Json)),
        ("json_schema", Some(CallForm::JsonSchema)),
        ("native", Some(CallForm::Native)),
        ("tool_call", Some(CallForm::ToolCall)),
    ];
    /// What a webhook is called for.
    WebhookEventName(WebhookEvent) = [("finished", WebhookEvent::Finished), ("waiting", WebhookEvent::Waiting)];
    /// Whether replies are streamed.
    ReplyDelivery(Delivery) = [("streamed", Delivery::Streamed), ("whole", Delivery::Whole)];
    /// The access of a project's agents.
    ProjectAgentsMode(ProjectAgents) = [
        ("off", ProjectAgents::Off),
        ("read-only", ProjectAgents::ReadOnly),
        ("read-write", ProjectAgents::ReadWrite),
    ];
    /// Whether agents receive the project's instructions.
    InstructionsMode(bool) = [("read", true), ("off", false)];
    /// Whether commands are confined.
    CommandConfinement(Confinement) = [("confined", Confinement::Required), ("unconfined", Confinement::Off)];
    /// The kind of a database.
    Database(DatabaseKind) = DatabaseKind::ALL.map(|kind| (kind.name(), kind));
    /// The access to a database.
    DatabaseAccess(Access) = [("read-only", Access::ReadOnly), ("read-write", Access::ReadWrite)];
}

/// The fields that are added to each request to a model. Only their names are displayed, because their values may be secrets.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Extra(pub(super) Map<String, Json>);

impl Serialize for Extra {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.keys())
    }
}

/// A provider with a table in `[prices]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PricedProvider(pub(super) &'static Provider);

/// The kind of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatabaseKind {
    Sqlite,
    Postgres,
    Mysql,
}

impl DatabaseKind {
    const ALL: [DatabaseKind; 3] = [DatabaseKind::Sqlite, DatabaseKind::Postgres, DatabaseKind::Mysql];

    pub(super) fn name(self) -> &'static str {
        match self {
            DatabaseKind::Sqlite => "sqlite",
            DatabaseKind::Postgres => "postgres",
            DatabaseKind::Mysql => "mysql",
        }
    }
}

/// An amount of US dollars.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Dollars(pub(super) Cost);

impl TryFrom<f64> for Dollars {
    type Error = &'static str;

    fn try_from(dollars: f64) -> Result<Self, Self::Error> {
        let cost = Cost::from_dollars(dollars).map(Dollars);
        cost.ok_or("must be an amount of US dollars, such as 2.50")
    }
}

/// A positive amount of US dollars.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct DollarLimit(pub(super) Cost);

impl TryFrom<f64> for DollarLimit {
    type Error = &'static str;

    fn try_from(dollars: f64) -> Result<Self, Self::Error> {
        dollar_limit(dollars).map(DollarLimit)
    }
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a price, such as { input = 0.40, cached_input = 0.10, output = 1.60 }"
)]
pub(super) struct TokenPrice {
    input: Dollars,
    cached_input: Option<Dollars>,
    output: Dollars,
}

impl From<TokenPrice> for Price {
    fn from(price: TokenPrice) -> Self {
        Price {
            input: price.input.0,
            cached_input: price.cached_input.unwrap_or(price.input).0,
            output: price.output.0,
        }
    }
}

impl Serialize for TokenPrice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Price::from(*self))
    }
}

impl Serialize for PricedProvider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for PricedProvider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        static NAMES: [&str; 3] = [OPENAI.name, ANTHROPIC.name, GEMINI.name];
        let name = String::deserialize(deserializer)?;
        let provider = Provider::named(&name).map(PricedProvider);
        provider.ok_or_else(|| de::Error::unknown_field(&name, &NAMES))
    }
}

/// Returns the value of the word `text`. The error lists all words.
fn parse_word<T: Clone>(text: &str, words: &[(&'static str, T)]) -> Result<T, String> {
    let value = words.iter().find(|(word, _)| *word == text);
    value.map(|(_, value)| value.clone()).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("must be one of {}", words.join(", "))
    })
}

/// Returns the word for `value`.
fn word_of<T: PartialEq>(value: &T, words: &[(&'static str, T)]) -> Option<String> {
    let (word, _) = words.iter().find(|(_, other)| other == value)?;
    Some((*word).to_owned())
}

/// Removes the query and the fragment of an address, which may contain a key.
pub(super) fn without_query(text: &str) -> &str {
    if text.starts_with("http://") || text.starts_with("https://") {
        text.split(['?', '#']).next().unwrap_or_default()
    } else {
        text
    }
}

/// Parses the name of a variable. The error does not repeat the text, which may be a key that the user wrote in place of the name.
fn parse_secret_variable(name: &str) -> Result<String, String> {
    if is_variable(name) && !name.contains(|c: char| c.is_ascii_lowercase()) {
        Ok(name.to_owned())
    } else {
        Err(
            "must be the name of an environment variable, such as OPENAI_API_KEY, in capitals (a key itself goes into api_key)"
                .to_owned(),
        )
    }
}

fn parse_secret_reference(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match name {
        Some(name) if !name.is_empty() && is_variable(name) => Ok(name.to_owned()),
        Some(_) | None => Err(
            "must name an environment variable, such as \"${WEBHOOK_SECRET}\": the secret itself does not belong into a file".to_owned(),
        ),
    }
}

fn parse_variable(name: &str) -> Result<String, String> {
    match is_variable(name) {
        true => Ok(name.to_owned()),
        false => Err("must be the name of an environment variable".to_owned()),
    }
}

fn is_variable(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(fits) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Parses the address of a model's API, from a setting or a variable.
pub(super) fn parse_address(text: &str) -> Result<String, String> {
    let text = text.trim();
    let expected = "it must look like https://api.openai.com/v1 or http://127.0.0.1:8080/v1";
    let is_web = ["https://", "http://"]
        .iter()
        .any(|scheme| text.starts_with(scheme));
    match Url::parse(text) {
        _ if !is_web => Err(format!("is not an address: {expected}")),
        _ if text.chars().any(char::is_whitespace) => Err(format!("contains a space: {expected}")),
        Err(ParseError::EmptyHost) => Err(format!("has no host: {expected}")),
        Err(_) => Err(format!("is not an address: {expected}")),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Err(
            "contains a user name or a password: remove them, and set the key with api_key_env".to_owned(),
        ),
        Ok(_) => Ok(text.trim_end_matches('/').to_owned()),
    }
}

fn parse_absolute_path(path: &str) -> Result<PathBuf, String> {
    match path.starts_with('/') || path == "~" || path.starts_with("~/") {
        true => Ok(path.into()),
        false => Err("must be a path that begins with / or ~/".to_owned()),
    }
}

fn parse_workspace_file(path: &str) -> Result<String, String> {
    let mut components = Path::new(path).components();
    let is_inside = components.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match is_inside && !path.contains("://") {
        true => Ok(path.to_owned()),
        false => Err("must be a file in the workspace, such as \"data/app.db\"".to_owned()),
    }
}

fn parse_host(host: &str) -> Result<String, String> {
    match HttpRules::is_host(host) {
        true => Ok(host.to_owned()),
        false => Err("must be a host, such as \"localhost:8080\" or \"10.0.0.5\"".to_owned()),
    }
}

/// The units of memory, each with its power of two.
const MEMORY_UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

fn parse_bytes(text: &str) -> Result<u64, String> {
    let expected = "must be an amount of memory, such as \"512 MiB\" or \"8 GiB\"";
    let (number, power) = MEMORY_UNITS
        .into_iter()
        .find_map(|(unit, power)| Some((text.strip_suffix(unit)?, power)))
        .ok_or_else(|| format!("{expected}: its unit must be KiB, MiB, GiB or TiB"))?;
    let number: Option<u64> = number.trim().parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << power))
        .filter(|bytes| (1..=i64::MAX as u64).contains(bytes))
        .ok_or_else(|| format!("{expected}: a whole number of at least 1"))
}

/// Formats a number of bytes in the largest unit that makes it a whole number: `2 GiB`.
fn format_bytes(bytes: u64) -> String {
    let mut units = MEMORY_UNITS.into_iter();
    let unit = units.find(|(_, power)| bytes.is_multiple_of(1 << power));
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, power)| format!("{} {unit}", bytes >> power),
    )
}
