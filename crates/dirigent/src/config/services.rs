//! `[mcp.NAME]`: services of the Model Context Protocol (MCP-1).

use dirigent_mcp::{
    CommandEndpoint, DEFAULT_CALL_TIMEOUT, DEFAULT_START_TIMEOUT, Endpoint, ServiceConfig, ServiceName,
    UrlEndpoint,
};
use url::Url;

use super::layer::TableOrigins;
use super::settings::ServiceTable;
use super::{Config, ConfigError};
use crate::services::{ServiceAccess, access_of};

impl Config {
    /// Returns the MCP services, sorted by name.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn services(&self) -> Result<Vec<ServiceConfig>, ConfigError> {
        let tables = self.shared.settings.mcp.iter();
        tables.map(|(name, table)| self.service(name, table)).collect()
    }

    /// Returns the services whose tools agents may have, each with the access that its tools need. Services with invalid settings are left
    /// out.
    pub(crate) fn service_access(&self) -> ServiceAccess {
        let tables = self.shared.settings.mcp.iter();
        let services = tables.filter_map(|(name, table)| self.service(name, table).ok());
        services.filter_map(|service| access_of(&service)).collect()
    }

    fn service(&self, name: &str, table: &ServiceTable) -> Result<ServiceConfig, ConfigError> {
        let origins = self.shared.origins.table(&["mcp", name]);
        let name = ServiceName::new(name).map_err(|error| ConfigError::Value {
            origin: origins.table_origin(),
            key: format!("mcp.{name:?}"),
            problem: error.problem,
        })?;
        let config = ServiceConfig {
            call_timeout: table
                .timeout
                .as_ref()
                .map_or(DEFAULT_CALL_TIMEOUT, |time| time.0.into()),
            start_timeout: table
                .start_timeout
                .as_ref()
                .map_or(DEFAULT_START_TIMEOUT, |time| time.0.into()),
            description: table.description.as_ref().map(|text| text.0.clone()),
            trigger_keywords: table.trigger_keywords.iter().map(|word| word.0.clone()).collect(),
            enabled: table.enabled.unwrap_or(true),
            trust: table.trust,
            ..ServiceConfig::new(name, endpoint(table, &origins)?)
        };
        config
            .check()
            .map_err(|error| origins.invalid(error.setting, error.problem))?;
        Ok(config)
    }
}

/// Returns how a service is reached: by a command or by a URL. Settings that belong to the other kind are an error.
fn endpoint(table: &ServiceTable, origins: &TableOrigins<'_>) -> Result<Endpoint, ConfigError> {
    let other_settings = |names: &[&'static str], of: &str, set: &str| {
        let other = names
            .iter()
            .copied()
            .find(|name| origins.names().any(|set| set == *name));
        other.map_or(Ok(()), |name| {
            Err(origins.invalid(
                name,
                format!("applies only to a service with `{of}`, and this one has `{set}`: remove it"),
            ))
        })
    };
    match (&table.command, &table.url) {
        (Some(_), Some(_)) => Err(origins.invalid("url", "and `command` can't both be set: remove one")),
        (None, None) => Err(origins.invalid(
            "command",
            "is not set: set it to the program of the service, or set `url` to its address",
        )),
        (Some(command), None) => {
            other_settings(&["headers", "bearer_token_env"], "url", "command")?;
            Ok(Endpoint::Command(CommandEndpoint {
                command: command.0.clone(),
                args: table.args.clone(),
                env: table
                    .env
                    .iter()
                    .map(|(name, value)| (name.clone(), value.0.clone()))
                    .collect(),
                cwd: table.cwd.as_ref().map(|folder| folder.0.clone()),
            }))
        }
        (None, Some(url)) => {
            other_settings(&["args", "env", "cwd"], "command", "url")?;
            let parsed = Url::parse(&url.0).map_err(|_| {
                origins.invalid(
                    "url",
                    "is not an address: it must look like https://example.com/mcp",
                )
            })?;
            Ok(Endpoint::Url(UrlEndpoint {
                url: parsed,
                headers: table
                    .headers
                    .iter()
                    .map(|(name, value)| (name.clone(), value.0.clone()))
                    .collect(),
                bearer_token_env: table.bearer_token_env.as_ref().map(|variable| variable.0.clone()),
            }))
        }
    }
}
