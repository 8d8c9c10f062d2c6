//! Notes about valid settings that may be mistakes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dirigent_model::provider::PROVIDERS;

use super::Config;
use super::error::Origin;
use super::model::ModelSettings;
use super::value;

/// Memory in bytes below which most interpreters do not start.
const LOW_MEMORY_LIMIT: u64 = 8 << 20;

impl Config {
    /// Returns notes for display about valid settings that may be mistakes.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.no_model_chosen());
        notes.extend(self.unused_roles());
        notes.extend(self.unused_addresses());
        notes.extend(self.exposed_secrets());
        notes.extend(self.writable_home());
        notes.extend(self.low_memory_limit());
        notes
    }

    /// Returns a note if an API key is set but no model is chosen: a key alone never replaces the offline model.
    pub fn no_model_chosen(&self) -> Option<String> {
        match self.default_model_origin() {
            Origin::BuiltIn | Origin::File { .. } => {}
            Origin::Variable(_) | Origin::Flag(_) => return None,
        }
        let used = self.used_models();
        let is_offline =
            |reference: &String| self.model(reference).is_ok_and(|model| model.provider.is_none());
        if !used.iter().all(is_offline) {
            return None;
        }
        PROVIDERS.iter().find_map(|provider| {
            let name = provider.suggested_model;
            let mut variables = provider.key_variables.iter().copied().chain(provider.base_url_variable);
            let set = variables.find(|name| self.shared.sources.variable(name).is_some())?;
            Some(format!(
                "{set} is set, but no model is chosen, so the offline model is used. Choose one: DIRIGENT_MODEL={provider}/{name}, \
                 --model {provider}/{name}, or [model] in a file"
            ))
        })
    }

    /// Returns notes about writable folders that contain the user's whole home.
    fn writable_home(&self) -> Vec<String> {
        let sandbox = self.sandbox();
        let home = self.shared.sources.variable("HOME").map(PathBuf::from);
        let Some(home) = home.filter(|home| home.is_absolute()) else {
            return Vec::new();
        };
        let has_home_in_it = |path: &&PathBuf| {
            let below = path.strip_prefix("~").map(|below| home.join(below));
            home.starts_with(below.as_ref().unwrap_or(path))
        };
        let wide = sandbox.write.iter().filter(has_home_in_it);
        wide.map(|path| {
            format!(
                "commands can change everything that you can change in {}: list only the folders that commands need in `write` of [sandbox]",
                path.display()
            )
        })
        .collect()
    }

    /// Returns a note if the memory limit is so low that most commands fail.
    fn low_memory_limit(&self) -> Option<String> {
        let max_memory = self
            .sandbox()
            .max_memory
            .filter(|bytes| *bytes < LOW_MEMORY_LIMIT)?;
        Some(format!(
            "with {} KiB of memory (`max_memory` of [sandbox]) many commands fail immediately: interpreters alone need about {} MiB",
            max_memory.div_ceil(1 << 10),
            LOW_MEMORY_LIMIT >> 20
        ))
    }

    /// Returns a note if `[roles]` does not apply because `--model` or `DIRIGENT_MODEL` chose the model for all agents.
    fn unused_roles(&self) -> Option<String> {
        let (_, _, said) = self.configured_roles().next()?;
        if self.roles().next().is_some() {
            return None;
        }
        let (model, origin) = &self.shared.default_model;
        Some(format!(
            "[roles] ({said}) has no effect: {origin} selects `{model}` for all agents"
        ))
    }

    /// Returns notes about addresses in the environment that no model uses.
    fn unused_addresses(&self) -> impl Iterator<Item = String> {
        let models: Vec<ModelSettings> = self
            .used_models()
            .iter()
            .filter_map(|name| self.model(name).ok())
            .collect();
        PROVIDERS.iter().filter_map(move |provider| {
            let variable = provider.base_url_variable?;
            let address = value::parse_address(&self.shared.sources.variable(variable)?).ok()?;
            let mut of_provider = models.iter().filter(|model| model.provider == Some(provider)).peekable();
            of_provider.peek()?;
            of_provider.all(|model| model.base_url != address).then(|| {
                format!("{variable} is not used: the models of provider `{provider}` have their own base_url or key")
            })
        })
    }

    /// Returns notes about files that contain a secret and that other users can read.
    fn exposed_secrets(&self) -> Vec<String> {
        let secrets = self
            .shared
            .origins
            .iter()
            .filter(|setting| setting.text.is_none());
        let holders: BTreeSet<&Path> = secrets
            .filter_map(|setting| match &setting.origin {
                Origin::File { path, .. } => Some(&**path),
                Origin::BuiltIn | Origin::Variable(_) | Origin::Flag(_) => None,
            })
            .collect();
        holders
            .into_iter()
            .filter(|path| is_readable_by_others(path))
            .map(|path| {
                let path = path.display();
                format!("{path} holds a key or a password, and other users of this computer can read it: chmod 600 {path}")
            })
            .collect()
    }
}

#[cfg(unix)]
fn is_readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_readable_by_others(_path: &Path) -> bool {
    false
}
