//! What a setting can be, and how it is read from TOML. Problems are told without the value where it may be a secret.

use std::fmt;

use dirigent_core::policy::CallPattern;
use dirigent_core::price::{Cost, Price};
use dirigent_core::time::Millis;
use dirigent_tools::HttpRules;
use secrecy::SecretString;
use serde_json::{Map, Number};
use toml::de::{DeTable, DeValue};
use url::{ParseError, Url};

use super::error::Origin;

/// What kind of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A text that nobody is shown.
    Secret,
    /// The name of an environment variable.
    Variable,
    /// Where an API begins.
    Address,
    /// Several texts.
    Texts,
    /// The names of several environment variables.
    Variables,
    /// Several files or folders, from the root or from the user's home.
    Paths,
    /// A file, relative to the folder that is worked in.
    InWorkspace,
    /// Several hosts, each with a port or without.
    Hosts,
    /// True or false.
    Bool,
    /// An amount of memory, such as `512 MiB`.
    Bytes,
    /// Several patterns of calls. Read with the place of each by [`super::settings`].
    Rules,
    /// A whole number, from 1.
    Count {
        most: u64,
    },
    /// An amount of money, more than nothing.
    Dollars,
    /// A span of time, such as `90s`.
    Duration,
    OneOf(&'static [&'static str]),
    /// What a million tokens cost.
    Price,
    /// A table of whatever a provider takes.
    Fields,
}

/// A setting's value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Secret(SecretString),
    Texts(Vec<String>),
    /// Each with where it stands.
    Rules(Vec<(CallPattern, Origin)>),
    Count(u64),
    Bool(bool),
    Bytes(u64),
    Dollars(Cost),
    Duration(Millis),
    Price(Price),
    Fields(Map<String, serde_json::Value>),
}

impl Kind {
    /// The value, or what is wrong with it and which it could be. `origin` tells of a place in the text where it is in the file.
    pub(super) fn read(self, value: &DeValue<'_>, origin: &dyn Fn(usize) -> Origin) -> Result<Value, String> {
        match self {
            Kind::Text => text(value).map(Value::Text),
            Kind::Secret => text(value).map(|key| Value::Secret(key.into())),
            Kind::Variable => variable(text(value)?).map(Value::Text),
            Kind::Address => address(&text(value)?).map(Value::Text),
            Kind::Texts => texts(value, "such as [\"local\"]", |_| true).map(Value::Texts),
            Kind::Variables => {
                texts(value, "which are names of environment variables", is_variable).map(Value::Texts)
            }
            Kind::Paths => {
                texts(value, "which are paths that begin with / or ~/", is_absolute).map(Value::Texts)
            }
            Kind::InWorkspace => in_workspace(text(value)?).map(Value::Text),
            Kind::Hosts => texts(
                value,
                "which are hosts, such as [\"localhost:8080\", \"10.0.0.5\"]",
                HttpRules::is_host,
            )
            .map(Value::Texts),
            Kind::Bool => boolean(value).map(Value::Bool),
            Kind::Bytes => bytes(value).map(Value::Bytes),
            Kind::Rules => rules(value, origin).map(Value::Rules),
            Kind::Count { most } => count(value, most).map(Value::Count),
            Kind::Dollars => some_dollars(value).map(Value::Dollars),
            Kind::Duration => parse_duration(&text(value)?).map(Value::Duration),
            Kind::OneOf(words) => one_of(text(value)?, words).map(Value::Text),
            Kind::Price => price(value).map(Value::Price),
            Kind::Fields => fields(value).map(Value::Fields),
        }
    }
}

/// For people. No secret, and nothing that may hold one.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(without_query(text)),
            Value::Secret(_) => f.write_str("set (not shown)"),
            Value::Texts(texts) => f.write_str(&texts.join(", ")),
            Value::Rules(rules) => {
                let rules: Vec<String> = rules.iter().map(|(rule, _)| rule.to_string()).collect();
                f.write_str(&rules.join(", "))
            }
            Value::Count(count) => count.fmt(f),
            Value::Bool(boolean) => boolean.fmt(f),
            Value::Bytes(bytes) => f.write_str(&shown_bytes(*bytes)),
            Value::Dollars(cost) => cost.fmt(f),
            Value::Duration(span) => span.fmt(f),
            Value::Price(price) => f.write_str(&shown_price(price)),
            Value::Fields(fields) => {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// An amount of memory for people, in the largest unit of which it is a whole number.
fn shown_bytes(bytes: u64) -> String {
    let whole = UNITS
        .iter()
        .find(|(_, power)| bytes > 0 && bytes.trailing_zeros() >= *power);
    match whole {
        Some((unit, power)) => format!("{} {unit}", bytes >> power),
        None => format!("{bytes} bytes"),
    }
}

/// A price for people.
pub(super) fn shown_price(price: &Price) -> String {
    format!(
        "{} in, {} cached, {} out per million tokens",
        price.input, price.cached_input, price.output
    )
}

/// An address without what may hold a key.
pub(super) fn without_query(text: &str) -> &str {
    if text.starts_with("http://") || text.starts_with("https://") {
        text.split(['?', '#']).next().unwrap_or_default()
    } else {
        text
    }
}

fn is_a(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str() {
        Some(text) if text.trim().is_empty() => Err("is empty: leave it out, or write something".to_owned()),
        Some(text) => Ok(text.trim().to_owned()),
        None => Err(format!("must be a text in quotes, but is {}", is_a(value))),
    }
}

/// What is no name of a variable may be a key in the wrong place, so it is not shown.
fn variable(name: String) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.chars().all(fits) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        Ok(name)
    } else {
        Err(
            "must be the name of an environment variable, such as OPENAI_API_KEY, in capitals (a key itself goes into api_key)"
                .to_owned(),
        )
    }
}

/// An address that a model may be at, as a setting or a variable has it.
pub(super) fn address(text: &str) -> Result<String, String> {
    let text = text.trim();
    let wanted = "it must look like https://api.openai.com/v1 or http://127.0.0.1:8080/v1";
    let is_web = ["https://", "http://"]
        .iter()
        .any(|scheme| text.starts_with(scheme));
    match Url::parse(text) {
        _ if !is_web => Err(format!("is not an address: {wanted}")),
        _ if text.chars().any(char::is_whitespace) => Err(format!("has a blank in it: {wanted}")),
        Err(ParseError::EmptyHost) => Err(format!("names no host: {wanted}")),
        Err(_) => Err(format!("is not an address: {wanted}")),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Err(
            "holds a user's name or a password: leave them out, and give the key as api_key_env".to_owned(),
        ),
        Ok(_) => Ok(text.trim_end_matches('/').to_owned()),
    }
}

/// Several texts of which each `fits`. One that does not is named by its place: it may be a secret that stands in the wrong one.
fn texts(value: &DeValue<'_>, which: &str, fits: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let wanted = format!("must be a list of texts, {which}");
    let items = value
        .as_array()
        .ok_or_else(|| format!("{wanted}, but is {}", is_a(value)))?;
    let one = |(place, item): (usize, &toml::Spanned<DeValue<'_>>)| {
        let text = text(item.get_ref()).map_err(|_| wanted.clone())?;
        match fits(&text) {
            true => Ok(text),
            false => Err(format!("{wanted}; its entry {} is none", place + 1)),
        }
    };
    items.iter().enumerate().map(one).collect()
}

/// Whether a program can have a variable of that name.
fn is_variable(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(fits) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path == "~" || path.starts_with("~/")
}

fn in_workspace(path: String) -> Result<String, String> {
    let leaves = std::path::Path::new(&path).components().any(|part| {
        !matches!(
            part,
            std::path::Component::Normal(_) | std::path::Component::CurDir
        )
    });
    if leaves || path.contains("://") {
        return Err("must be a file in the folder that is worked in, such as \"data/app.db\"".to_owned());
    }
    Ok(path)
}

fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    match value {
        DeValue::Boolean(boolean) => Ok(*boolean),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => Err(format!(
            "must be true or false, without quotes, but is {}",
            is_a(value)
        )),
    }
}

/// So many bytes: a whole number with one of [`UNITS`].
fn bytes(value: &DeValue<'_>) -> Result<u64, String> {
    let wanted = "must be an amount of memory, such as \"512 MiB\" or \"8 GiB\"";
    let Some(text) = value.as_str().map(str::trim) else {
        return Err(format!("{wanted}, in quotes, but is {}", is_a(value)));
    };
    let (unit, power) = *UNITS
        .iter()
        .find(|(unit, _)| text.ends_with(unit))
        .ok_or_else(|| format!("{wanted}: its unit must be KiB, MiB, GiB or TiB"))?;
    let number: Option<u64> = text
        .strip_suffix(unit)
        .and_then(|number| number.trim().parse().ok());
    let bytes = number.and_then(|number| number.checked_mul(1 << power));
    bytes
        .filter(|bytes| (1..=i64::MAX as u64).contains(bytes))
        .ok_or_else(|| format!("{wanted}: a whole number, from 1"))
}

fn rules(
    value: &DeValue<'_>,
    origin: &dyn Fn(usize) -> Origin,
) -> Result<Vec<(CallPattern, Origin)>, String> {
    let wanted = "must be a list of rules, such as [\"execute_command(command: cargo test*)\"]";
    let items = value
        .as_array()
        .ok_or_else(|| format!("{wanted}, but is {}", is_a(value)))?;
    items
        .iter()
        .map(|item| {
            let place = origin(item.span().start);
            let text = text(item.get_ref()).map_err(|_| wanted.to_owned())?;
            match text.parse::<CallPattern>() {
                Ok(pattern) => Ok((pattern, place)),
                Err(error) => Err(format!("has a rule that can't be read ({place}): {error}")),
            }
        })
        .collect()
}

fn whole(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn count(value: &DeValue<'_>, most: u64) -> Result<u64, String> {
    if !value.is_integer() {
        return Err(format!(
            "must be a whole number without quotes, but is {}",
            is_a(value)
        ));
    }
    match whole(value).and_then(|number| u64::try_from(number).ok()) {
        Some(number) if (1..=most).contains(&number) => Ok(number),
        Some(_) | None => Err(format!("must be a whole number from 1 to {most}")),
    }
}

fn dollars(value: &DeValue<'_>) -> Result<Cost, String> {
    let wanted = "must be an amount of US dollars, such as 2.50";
    let number = match (value.as_float(), whole(value)) {
        (Some(float), _) => float.as_str().parse::<f64>().ok(),
        // Beyond 2^53 dollars one more or less does not matter.
        (None, Some(number)) => Some(number as f64),
        (None, None) => return Err(format!("{wanted}, but is {}", is_a(value))),
    };
    number
        .and_then(Cost::from_dollars)
        .ok_or_else(|| wanted.to_owned())
}

fn some_dollars(value: &DeValue<'_>) -> Result<Cost, String> {
    let cost = dollars(value)?;
    if cost.is_zero() {
        return Err("must be more than nothing, such as 2.50".to_owned());
    }
    Ok(cost)
}

/// A span of time as people write it, or what is wrong with the text: `must be a time, …`.
pub(crate) fn parse_duration(text: &str) -> Result<Millis, String> {
    let wanted = "must be a time, such as \"90s\", \"10m\" or \"2h\"";
    let span: jiff::SignedDuration = text.parse().map_err(|_| wanted.to_owned())?;
    match std::time::Duration::try_from(span) {
        Ok(duration) if !duration.is_zero() => Ok(duration.into()),
        Ok(_) | Err(_) => Err(format!("{wanted}, and more than nothing")),
    }
}

fn one_of(text: String, words: &[&str]) -> Result<String, String> {
    if words.contains(&text.as_str()) {
        Ok(text)
    } else {
        Err(format!("must be one of {}", words.join(", ")))
    }
}

fn price(value: &DeValue<'_>) -> Result<Price, String> {
    let wanted = "must be a price, such as { input = 0.40, cached_input = 0.10, output = 1.60 }";
    let table = value
        .as_table()
        .ok_or_else(|| format!("{wanted}, but is {}", is_a(value)))?;
    let known = ["input", "cached_input", "output"];
    if table.keys().any(|key| !known.contains(&key.get_ref().as_ref())) {
        return Err(format!("{wanted}: it has no other field"));
    }
    let field = |name: &str| {
        table
            .get(name)
            .map(|value| dollars(value.get_ref()))
            .transpose()
            .map_err(|problem| format!("{wanted}: `{name}` {problem}"))
    };
    match (field("input")?, field("cached_input")?, field("output")?) {
        (Some(input), cached, Some(output)) => Ok(Price {
            input,
            cached_input: cached.unwrap_or(input),
            output,
        }),
        _ => Err(format!("{wanted}: it lacks `input` or `output`")),
    }
}

fn fields(value: &DeValue<'_>) -> Result<Map<String, serde_json::Value>, String> {
    match value.as_table() {
        Some(table) => json_table(table),
        None => Err(format!(
            "must be a table, such as {{ temperature = 0.2 }}, but is {}",
            is_a(value)
        )),
    }
}

fn json_table(table: &DeTable<'_>) -> Result<Map<String, serde_json::Value>, String> {
    table
        .iter()
        .map(|(key, value)| Ok((key.get_ref().to_string(), json(value.get_ref())?)))
        .collect()
}

fn json(value: &DeValue<'_>) -> Result<serde_json::Value, String> {
    Ok(match value {
        DeValue::String(text) => text.to_string().into(),
        DeValue::Integer(_) => whole(value).ok_or("has a number that is too large")?.into(),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .and_then(Number::from_f64)
            .ok_or("has a number that JSON can't hold")?
            .into(),
        DeValue::Boolean(boolean) => (*boolean).into(),
        DeValue::Datetime(_) => return Err("has a date, which JSON can't hold: write a text".to_owned()),
        DeValue::Array(items) => items
            .iter()
            .map(|item| json(item.get_ref()))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        DeValue::Table(table) => json_table(table)?.into(),
    })
}
