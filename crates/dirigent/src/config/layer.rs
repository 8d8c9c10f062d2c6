//! Layers of configuration files. Each file is parsed and checked separately and then merged over the earlier files. Every setting keeps
//! its origin.

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

    /// Returns true if a table with this key contains settings. Any other table is a value.
    fn is_section(&self) -> bool {
        matches!(
            self.parts()[..],
            [] | [_] | ["models" | "connections" | "limits" | "prices", _]
        )
    }

    /// Returns true if a later file adds its entries to this list instead of replacing the list.
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

/// The settings of one file, or of several merged files.
pub(super) struct Layer {
    table: Dict,
    places: Places,
}

/// The origin of each key, followed by the origins of its entries if it is a list.
pub(super) type Places = BTreeMap<Key, Vec<Origin>>;

impl Layer {
    /// Parses and checks a TOML text. If `under` is given, the text is the content of that table.
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
            // The whole message would quote the line, which may contain an API key.
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

    /// Merges a later layer, which takes precedence, into this one.
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

    /// Returns the merged settings, and the origin of each.
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

/// Merges a later file's table, `above`, into an earlier one, `below`.
///
/// If the later table sets a model's `provider` or a connection's `database`, it replaces the earlier table as a whole. If it sets a
/// model's `base_url`, the earlier API key is dropped, so that it is never sent to an address for which it was not set. If it sets a
/// connection's address, the earlier address is dropped. Rules of `[approvals]` accumulate, so that no denial is lost. Any other list
/// replaces the earlier list, so that a later file can narrow what an earlier file allows.
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

/// The text and the origin of each setting, sorted by key. A list that accumulates over files has one element per entry.
#[derive(Debug)]
pub(super) struct Origins(Vec<SettingOrigin>);

#[derive(Debug)]
pub(super) struct SettingOrigin {
    pub(super) key: Key,
    /// The value for display; a secret is not shown.
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

    /// Returns the origin of an entry of a list that accumulates over files.
    pub(super) fn entry(&self, list: &[&str], index: usize) -> Origin {
        let list = Key::new(list);
        let entry = self.0.iter().filter(|setting| setting.key == list).nth(index);
        entry.map_or(Origin::BuiltIn, |setting| setting.origin.clone())
    }

    /// The origins of the settings in one table.
    pub(super) fn table<'a>(&'a self, table: &[&str]) -> TableOrigins<'a> {
        TableOrigins {
            all: self,
            table: Key::new(table),
        }
    }
}

/// Formats a value for display, as written in the file. For `extra`, only the names of its fields are shown.
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

/// The origins of the settings in one table.
pub(super) struct TableOrigins<'a> {
    all: &'a Origins,
    table: Key,
}

impl<'a> TableOrigins<'a> {
    /// Returns the name and origin of each setting in the table. A setting in a nested table is returned under the nested table's name.
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

    /// Returns the origin of a setting; if it is not set, the origin of its table.
    pub(super) fn origin(&self, name: &str) -> Origin {
        let own = self.settings().find(|(other, _)| *other == name);
        own.map_or_else(|| self.table_origin(), |(_, origin)| origin.clone())
    }

    /// Returns the origin of the table, which is the origin of its first setting.
    pub(super) fn table_origin(&self) -> Origin {
        let first = self.settings().min_by_key(|(_, origin)| match origin {
            Origin::File { line, .. } => *line,
            Origin::BuiltIn | Origin::Variable(_) | Origin::Flag(_) => 0,
        });
        first.map_or(Origin::BuiltIn, |(_, origin)| origin.clone())
    }

    /// Creates an error about a setting of the table.
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
        // If the home folder is not a folder, such as /dev/null, the file does not exist.
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
