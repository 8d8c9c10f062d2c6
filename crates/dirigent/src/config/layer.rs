//! Layers of configuration files. Each file is parsed and checked separately and then merged over the earlier files. Every setting keeps
//! its origin.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use figment::value::{Dict, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::key::{Key, Places};
use super::read_error::config_error;
use super::settings::Settings;

/// The settings of one file, or of several merged files.
pub(super) struct Layer {
    table: Dict,
    places: Places,
}

impl Layer {
    /// Parses and checks TOML. If `under` is given, the TOML is the content of that table.
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
            // The parser's complete message would quote the line, which may contain an API key.
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
        let settings = Settings::deserialize(&Value::from(self.table.clone()));
        let settings = settings.map_err(|error| config_error(error, &self.places))?;
        let mut origins = Origins(Vec::new());
        origins.insert(&Key::default(), &self.table, &display(&settings), &self.places);
        Ok((settings, origins))
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
/// If the later table sets a model's `provider`, a connection's `database`, or the `command` or `url` of a service, or the `url` of a webhook, it
/// replaces the earlier table as a whole. If it sets a model's `base_url`, the earlier API key is dropped, so that it is never sent to an address for
/// which it was not set. If it sets a connection's address, the earlier address is dropped. Rules of `[approvals]` accumulate, so that no
/// denial is lost. Any other list replaces the earlier list, so that a later file can narrow what an earlier file allows.
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
    if let ["mcp", _] = table.parts()[..]
        && (above.contains_key("command") || above.contains_key("url"))
    {
        below.clear();
    }
    // The secret of one address is never used for another one.
    if let ["webhooks", _] = table.parts()[..]
        && above.contains_key("url")
    {
        below.clear();
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
    /// The value for display; `None` for a secret.
    pub(super) text: Option<String>,
    pub(super) origin: Origin,
}

impl Origins {
    /// Adds the settings of a table. `display` is the same table in the form of [`display`].
    fn insert(&mut self, above: &Key, table: &Dict, display: &Json, places: &Places) {
        for (name, value) in table {
            let key = above.join(name);
            let shown = &display[name];
            let own = places.get(&key).map_or(&[][..], Vec::as_slice);
            let shown: Vec<(&Json, &Origin)> = match (value, shown) {
                (Value::Dict(_, inner), _) if key.is_section() => {
                    self.insert(&key, inner, shown, places);
                    continue;
                }
                (_, Json::Array(entries)) if key.adds_up() => {
                    entries.iter().zip(own.iter().skip(1)).collect()
                }
                (_, shown) => [shown].into_iter().zip(own).collect(),
            };
            self.0
                .extend(shown.into_iter().map(|(shown, origin)| SettingOrigin {
                    key: key.clone(),
                    text: text(shown),
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

/// Returns the settings as JSON for display. The type of a setting determines its form: a secret is `null`.
fn display(settings: &Settings) -> Json {
    serde_json::to_value(settings).unwrap_or_default()
}

/// Returns the text of a setting for display; `None` for a secret.
fn text(shown: &Json) -> Option<String> {
    match shown {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Array(entries) => Some(entries.iter().filter_map(text).collect::<Vec<_>>().join(", ")),
        Json::Bool(_) | Json::Number(_) | Json::Object(_) => Some(shown.to_string()),
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
        // If the home folder is not a folder, such as /dev/null, the file counts as missing.
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
