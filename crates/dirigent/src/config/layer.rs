//! Configuration files, each read and checked by itself and then laid over those before it. Every setting keeps its origin.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use figment::value::{Dict, Value};
use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::read_error::config_error;
use super::settings::{SECRETS, Settings};
use super::value::without_query;

/// A setting's key: `model.name`, `prices.openai."gpt-4.1"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) Vec<String>);

impl Key {
    pub(super) fn new(parts: &[&str]) -> Self {
        Key(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    pub(super) fn join(&self, part: &str) -> Self {
        Key(self.0.iter().cloned().chain([part.to_owned()]).collect())
    }

    pub(super) fn parts(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    pub(super) fn name(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// Whether a table with this key holds settings; any other table is a value.
    fn is_section(&self) -> bool {
        matches!(
            self.parts()[..],
            [] | [_] | ["models" | "connections" | "limits" | "prices", _]
        )
    }

    /// Whether the entries of this list add up over files.
    fn adds_up(&self) -> bool {
        matches!(self.parts()[..], ["approvals", _])
    }

    pub(super) fn is_secret(&self) -> bool {
        SECRETS.contains(&self.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        for (index, part) in self.0.iter().enumerate() {
            let dot = if index > 0 { "." } else { "" };
            match !part.is_empty() && part.chars().all(bare) {
                true => write!(f, "{dot}{part}")?,
                false => write!(f, "{dot}{part:?}")?,
            }
        }
        Ok(())
    }
}

/// The settings of a file, or of several laid over each other.
pub(super) struct Layer {
    table: Dict,
    places: Places,
}

/// The origin of each key, followed by those of its entries if it is a list.
pub(super) type Places = BTreeMap<Key, Vec<Origin>>;

impl Layer {
    /// Reads and checks a TOML text. All of it stands in the table `under`, if one is given.
    pub(super) fn read(
        text: &str,
        under: Option<&str>,
        origin: impl Fn(usize) -> Origin,
    ) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let origin_at = |offset: usize| {
            let before = text.as_bytes().iter().take(offset);
            origin(1 + before.filter(|byte| **byte == b'\n').count())
        };
        let syntax_error = |error: toml::de::Error| ConfigError::Syntax {
            origin: origin_at(error.span().map_or(0, |span| span.start)),
            // The whole message would quote the line, which may hold a key.
            problem: format!("this is not TOML: {}", error.message()),
        };
        let spans = DeTable::parse(text).map_err(syntax_error)?;
        let mut table: Dict = toml::from_str(text).map_err(syntax_error)?;
        let mut root = Key::default();
        if let Some(under) = under {
            table = Dict::from([(under.to_owned(), table.into())]);
            root = root.join(under);
        }
        let mut places = Places::new();
        collect_places(&root, spans.get_ref(), &origin_at, &mut places);
        Settings::deserialize(&Value::from(table.clone())).map_err(|error| config_error(error, &places))?;
        Ok(Layer { table, places })
    }

    /// Lays a later layer over this one.
    pub(super) fn merge(&mut self, above: Layer) {
        for (key, places) in above.places {
            match self.places.get_mut(&key) {
                Some(below) if key.adds_up() => below.extend(places.into_iter().skip(1)),
                Some(_) | None => {
                    self.places.insert(key, places);
                }
            }
        }
        merge(&Key::default(), &mut self.table, above.table);
    }

    /// The settings of all layers, and the origin of each.
    pub(super) fn finish(self) -> Result<(Settings, Origins), ConfigError> {
        let mut origins = Origins(Vec::new());
        origins.insert(&Key::default(), &self.table, &self.places);
        let settings = Settings::deserialize(&Value::from(self.table));
        Ok((
            settings.map_err(|error| config_error(error, &self.places))?,
            origins,
        ))
    }
}

fn collect_places(
    above: &Key,
    table: &DeTable<'_>,
    origin_at: &dyn Fn(usize) -> Origin,
    places: &mut Places,
) {
    for (name, value) in table {
        let key = above.join(name.get_ref());
        let mut own = vec![origin_at(name.span().start)];
        match value.get_ref() {
            DeValue::Table(inner) => collect_places(&key, inner, origin_at, places),
            DeValue::Array(entries) => own.extend(entries.iter().map(|entry| origin_at(entry.span().start))),
            _ => {}
        }
        places.insert(key, own);
    }
}

/// Lays a later file's table over an earlier one.
///
/// A model that names its provider there, and a connection that names its database, replace the one below as a whole. A model that names
/// its address there loses the key of the one below, and a connection its address, so that a key never goes to an address that it was not
/// set for. Rules of `[approvals]` add up, so that no denial is lost. Any other list replaces the list below, so that a later file can
/// narrow what an earlier one allows.
fn merge(table: &Key, below: &mut Dict, above: Dict) {
    if let ["model"] | ["models" | "connections", _] = table.parts()[..] {
        let names = |name: &str| above.contains_key(name);
        if names("provider") || names("database") {
            below.clear();
        }
        if names("base_url") {
            below.retain(|name, _| !["api_key", "api_key_env"].contains(&name.as_str()));
        }
        if names("url") || names("url_env") {
            below.retain(|name, _| !["url", "url_env"].contains(&name.as_str()));
        }
    }
    for (name, value) in above {
        let key = table.join(&name);
        match (below.get_mut(&name), value) {
            (Some(Value::Dict(_, below)), Value::Dict(_, above)) if key.is_section() => {
                merge(&key, below, above)
            }
            (Some(Value::Array(_, below)), Value::Array(_, above)) if key.adds_up() => below.extend(above),
            (_, value) => {
                below.insert(name, value);
            }
        }
    }
}

/// The text and the origin of each setting, in the order of keys; for a list whose entries add up, of each entry.
#[derive(Debug)]
pub(super) struct Origins(Vec<SettingOrigin>);

#[derive(Debug)]
pub(super) struct SettingOrigin {
    pub(super) key: Key,
    /// The value for people; a secret is not shown.
    pub(super) text: String,
    pub(super) origin: Origin,
}

impl Origins {
    fn insert(&mut self, above: &Key, table: &Dict, places: &Places) {
        for (name, value) in table {
            let key = above.join(name);
            let own = places.get(&key).map_or(&[][..], Vec::as_slice);
            let shown: Vec<(&Value, &Origin)> = match value {
                Value::Dict(_, inner) if key.is_section() => {
                    self.insert(&key, inner, places);
                    continue;
                }
                Value::Array(_, entries) if key.adds_up() => entries.iter().zip(own.iter().skip(1)).collect(),
                value => [value].into_iter().zip(own).collect(),
            };
            self.0
                .extend(shown.into_iter().map(|(value, origin)| SettingOrigin {
                    key: key.clone(),
                    text: text(&key, value),
                    origin: origin.clone(),
                }));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SettingOrigin> {
        self.0.iter()
    }

    /// Where an entry of a list stands whose entries add up.
    pub(super) fn entry(&self, list: &[&str], index: usize) -> Origin {
        let list = Key::new(list);
        let entry = self.0.iter().filter(|setting| setting.key == list).nth(index);
        entry.map_or(Origin::BuiltIn, |setting| setting.origin.clone())
    }

    /// The origins of one table's settings.
    pub(super) fn table<'a>(&'a self, table: &[&str]) -> TableOrigins<'a> {
        TableOrigins {
            all: self,
            table: Key::new(table),
        }
    }
}

/// A value for people, as it stands in the file. Of a table of free fields only their names are shown.
fn text(key: &Key, value: &Value) -> String {
    let join = |texts: Vec<String>| texts.join(", ");
    match value {
        _ if key.is_secret() => "set (not shown)".to_owned(),
        Value::String(_, text) => without_query(text.trim()).to_owned(),
        Value::Array(_, entries) => join(entries.iter().map(|entry| text(key, entry)).collect()),
        Value::Dict(_, fields) if key.name() == "extra" => join(fields.keys().cloned().collect()),
        value => serde_json::to_string(value).unwrap_or_default(),
    }
}

/// The origins of one table's settings.
pub(super) struct TableOrigins<'a> {
    all: &'a Origins,
    table: Key,
}

impl<'a> TableOrigins<'a> {
    /// The settings of the table and of the tables in it, each with its name in this table.
    fn settings(&self) -> impl Iterator<Item = (&'a str, &'a Origin)> {
        let settings = self.all.iter();
        settings.filter_map(|SettingOrigin { key, origin, .. }| {
            let below = key.0.strip_prefix(self.table.0.as_slice())?;
            Some((below.first()?.as_str(), origin))
        })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.settings().map(|(name, _)| name)
    }

    /// Where a setting stands; of one that is not set, where its table begins.
    pub(super) fn origin(&self, name: &str) -> Origin {
        let own = self.settings().find(|(other, _)| *other == name);
        own.map_or_else(|| self.table_origin(), |(_, origin)| origin.clone())
    }

    /// Where the table begins: the place of its first setting.
    pub(super) fn table_origin(&self) -> Origin {
        let first = self.settings().min_by_key(|(_, origin)| match origin {
            Origin::File { line, .. } => *line,
            Origin::BuiltIn | Origin::Variable(_) | Origin::Flag(_) => 0,
        });
        first.map_or(Origin::BuiltIn, |(_, origin)| origin.clone())
    }

    /// An error about one of its settings.
    pub(super) fn invalid(&self, name: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::Value {
            origin: self.origin(name),
            key: self.table.join(name).to_string(),
            problem: problem.into(),
        }
    }
}

/// Reads a file; `None` if it does not exist.
pub(super) fn read_file(path: &Path, under: Option<&str>) -> Result<Option<Layer>, ConfigError> {
    let file: Arc<Path> = path.into();
    let problem = match std::fs::read_to_string(path) {
        Ok(text) => {
            let origin = |line| Origin::File {
                path: file.clone(),
                line,
            };
            return Layer::read(&text, under, origin).map(Some);
        }
        // A home that is no folder, such as /dev/null, holds no file.
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => return Ok(None),
            ErrorKind::PermissionDenied => "no permission to read it: check its permissions".to_owned(),
            ErrorKind::IsADirectory => "it is a folder".to_owned(),
            ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
            _ => error.to_string(),
        },
    };
    Err(ConfigError::Unreadable { path: file, problem })
}
