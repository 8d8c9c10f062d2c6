//! All settings by key, each with where it comes from; and how layers of them are laid over each other.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use dirigent_core::time::Millis;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::schema::{self, SchemaNode};
use super::value::Value;

/// A setting's key: `model.name`, `prices.openai."gpt-4.1"`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Vec<String>);

impl Key {
    pub(super) fn new(parts: &[&str]) -> Self {
        Key(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    pub(super) fn parts(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    fn is_in(&self, table: &[String]) -> bool {
        self.0.starts_with(table)
    }

    /// The table of a model or a connection, and the name of the setting in it.
    fn split_named_table(&self) -> Option<(&[String], &str)> {
        let (name, table) = self.0.split_last()?;
        matches!(table.first()?.as_str(), "model" | "models" | "connections").then_some((table, name))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(".")?;
            }
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !part.is_empty() && part.chars().all(bare) {
                f.write_str(part)?;
            } else {
                write!(f, "{part:?}")?;
            }
        }
        Ok(())
    }
}

/// A value with where it comes from.
#[derive(Clone, Debug)]
pub(super) struct SettingValue {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Settings by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(BTreeMap<Key, SettingValue>);

impl Settings {
    /// The settings of a TOML text. Those of a file of prices stand `under` a table that the file does not name.
    pub(super) fn read(
        text: &str,
        under: &[&str],
        origin: impl Fn(usize) -> Origin,
    ) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let line = |at: usize| {
            1 + text
                .as_bytes()
                .iter()
                .take(at)
                .filter(|byte| **byte == b'\n')
                .count()
        };
        let document = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            origin: origin(line(error.span().map_or(0, |span| span.start))),
            // Not the whole message: it quotes the line, which may hold a key.
            problem: format!("this is not TOML: {}", error.message()),
        })?;
        let mut settings = Settings::default();
        let origin = |at: usize| origin(line(at));
        settings.walk(document.get_ref(), &Key::new(under), &origin)?;
        Ok(settings)
    }

    fn walk(
        &mut self,
        table: &DeTable<'_>,
        above: &Key,
        origin: &dyn Fn(usize) -> Origin,
    ) -> Result<(), ConfigError> {
        for (name, value) in table {
            let mut key = above.clone();
            key.0.push(name.get_ref().to_string());
            let origin_here = origin(name.span().start);
            let wrong = |problem: String| ConfigError::Value {
                origin: origin_here.clone(),
                key: key.to_string(),
                problem,
            };
            match (schema::lookup(&key.parts(), value.get_ref()), value.get_ref()) {
                (Some(SchemaNode::Setting(kind)), value) => {
                    let value = kind.read(value, origin).map_err(wrong)?;
                    let found = SettingValue {
                        value,
                        origin: origin_here,
                    };
                    self.0.insert(key, found);
                }
                (Some(SchemaNode::Table), DeValue::Table(inner)) => self.walk(inner, &key, origin)?,
                (Some(SchemaNode::Table), _) => return Err(wrong("must be a table".to_owned())),
                (None, _) => {
                    return Err(ConfigError::UnknownKey {
                        origin: origin_here,
                        hint: schema::hint(&key.parts()),
                        key: key.to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Lays others over these. A model that names its provider there is another model: nothing of the one below shows through. And
    /// one that names its address there has no key of the one below. So a key never goes to an address that it was not set for. The
    /// same goes for a connection that names its database, and for where that is. Rules come beside those below: none that denies is
    /// lost. Any other list takes the place of the one below, so that a later file can narrow what an earlier one allows.
    pub(super) fn merge(&mut self, above: Settings) {
        for (table, name) in above.0.keys().filter_map(Key::split_named_table) {
            let is_replaced = |key: &Key| {
                let beside = |names: &[&str]| {
                    key.split_named_table()
                        .is_some_and(|(of, other)| of == table && names.contains(&other))
                };
                match name {
                    "provider" | "database" => key.is_in(table),
                    "base_url" => beside(&["api_key", "api_key_env"]),
                    "url" | "url_env" => beside(&["url", "url_env"]),
                    _ => false,
                }
            };
            self.0.retain(|key, _| !is_replaced(key));
        }
        for (key, found) in above.0 {
            let below = self.0.get_mut(&key).map(|below| &mut below.value);
            if let (Some(Value::Rules(below)), Value::Rules(rules)) = (below, &found.value) {
                below.extend(rules.iter().cloned());
            } else {
                self.0.insert(key, found);
            }
        }
    }

    pub(super) fn get(&self, key: &[&str]) -> Option<&SettingValue> {
        self.0.get(&Key::new(key))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &SettingValue)> {
        self.0.iter()
    }

    /// The settings right in that table, by their own names.
    pub(super) fn table<'a>(&'a self, table: &[&str]) -> Table<'a> {
        let table = Key::new(table);
        let own = self.0.iter().filter_map(|(key, found)| {
            let (name, above) = key.0.split_last()?;
            (above == table.0).then_some((name.as_str(), found))
        });
        Table {
            settings: own.collect(),
            key: table,
        }
    }
}

/// The settings of one table.
pub(super) struct Table<'a> {
    key: Key,
    settings: BTreeMap<&'a str, &'a SettingValue>,
}

impl<'a> Table<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a SettingValue)> + '_ {
        self.settings.iter().map(|(name, found)| (*name, *found))
    }

    pub(super) fn origin(&self, name: &str) -> Option<&'a Origin> {
        self.settings.get(name).map(|found| &found.origin)
    }

    /// Where the table stands: the place of its first setting.
    pub(super) fn table_origin(&self) -> Origin {
        let first = self.settings.values().min_by_key(|found| match &found.origin {
            Origin::File { line, .. } => *line,
            Origin::BuiltIn | Origin::Variable(_) | Origin::Flag(_) => 0,
        });
        first.map_or(Origin::BuiltIn, |found| found.origin.clone())
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            Some(_) | None => None,
        }
    }

    pub(super) fn count(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Count(count)) => Some(*count),
            Some(_) | None => None,
        }
    }

    pub(super) fn texts(&self, name: &str) -> &'a [String] {
        match self.value(name) {
            Some(Value::Texts(texts)) => texts,
            Some(_) | None => &[],
        }
    }

    pub(super) fn bytes(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Bytes(bytes)) => Some(*bytes),
            Some(_) | None => None,
        }
    }

    pub(super) fn boolean(&self, name: &str) -> Option<bool> {
        match self.value(name) {
            Some(Value::Bool(boolean)) => Some(*boolean),
            Some(_) | None => None,
        }
    }

    /// A count that the schema keeps below 2^32.
    pub(super) fn count_u32(&self, name: &str) -> Option<u32> {
        self.count(name).and_then(|count| u32::try_from(count).ok())
    }

    pub(super) fn duration(&self, name: &str) -> Option<Millis> {
        match self.value(name) {
            Some(Value::Duration(span)) => Some(*span),
            Some(_) | None => None,
        }
    }

    /// The value, which is of the kind that the schema gives it.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.settings.get(name).map(|found| &found.value)
    }

    /// An error about one of its settings, or about the table where that is not set.
    pub(super) fn invalid(&self, name: &str, problem: impl Into<String>) -> ConfigError {
        let mut key = self.key.clone();
        key.0.push(name.to_owned());
        ConfigError::Value {
            origin: self.origin(name).cloned().unwrap_or_else(|| self.table_origin()),
            key: key.to_string(),
            problem: problem.into(),
        }
    }
}

/// A file's settings.
pub(super) fn read_file(path: &Path, under: &[&str]) -> Result<Settings, ConfigError> {
    parse(path, under, std::fs::read_to_string(path))
}

/// A file's settings, if there is such a file.
pub(super) fn read_file_if_exists(path: &Path, under: &[&str]) -> Result<Option<Settings>, ConfigError> {
    match std::fs::read_to_string(path) {
        // A home that is no folder, such as /dev/null, holds no file.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        text => parse(path, under, text).map(Some),
    }
}

fn parse(path: &Path, under: &[&str], text: std::io::Result<String>) -> Result<Settings, ConfigError> {
    let path: Arc<Path> = path.into();
    let text = text.map_err(|error| ConfigError::Unreadable {
        path: path.clone(),
        problem: match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_owned(),
            ErrorKind::PermissionDenied => "it may not be read; check its permissions".to_owned(),
            ErrorKind::IsADirectory => "it is a folder".to_owned(),
            ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
            _ => error.to_string(),
        },
    })?;
    Settings::read(&text, under, |line| Origin::File {
        path: path.clone(),
        line,
    })
}
