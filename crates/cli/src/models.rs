//! `models`: the models of the configured servers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use console::style;
use dirigent::Config;
use dirigent::config::ModelSettings;
use serde_json::json;

use crate::args::ModelsCommand;
use crate::config;
use crate::exit::Exit;
use crate::output::{Output, sanitize};

pub(crate) async fn list(
    file: Option<PathBuf>,
    command: ModelsCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let config = config::load(file, command.model.model.clone())?;
    let references = match &command.model.model {
        Some(model) => vec![model.clone()],
        None => config.used_models(),
    };
    let mut exit = Exit::Success;
    let mut seen = BTreeSet::new();
    for reference in &references {
        let model = config.model(reference).map_err(dirigent::DirigentError::from)?;
        if !seen.insert((model.provider, model.base_url.clone())) {
            continue;
        }
        match config.list_models(reference).await {
            Ok(names) => print_models(&config, &references, &model, &names, &command, output),
            Err(error) => {
                output.error(&sanitize(&format!("{reference}: {error}")));
                exit = Exit::Configuration;
            }
        }
    }
    Ok(exit)
}

fn print_models(
    config: &Config,
    references: &[String],
    model: &ModelSettings,
    names: &[String],
    command: &ModelsCommand,
    output: &Output,
) {
    // The names of the configured models on this server.
    let configured: BTreeSet<String> = references
        .iter()
        .filter_map(|reference| config.model(reference).ok())
        .filter(|other| other.provider == model.provider && other.base_url == model.base_url)
        .map(|other| other.name)
        .collect();
    if command.json {
        for name in names {
            let line = json!({
                "provider": model.provider_name(),
                "base_url": model.display_url(),
                "model": name,
                "configured": configured.contains(name),
            });
            output.print(&line.to_string());
        }
        return;
    }
    match model.provider {
        None => output.print(
            "offline: one built-in model without a server. Choose another with --model, DIRIGENT_MODEL or [model] in dirigent.toml.",
        ),
        Some(provider) => {
            let title = format!("{provider} at {}", sanitize(model.display_url()));
            output.print(&style(title).bold().to_string());
            for name in names {
                let mark = if configured.contains(name) { "*" } else { " " };
                output.print(&format!("{mark} {}", sanitize(name)));
            }
            for name in configured.iter().filter(|name| !names.contains(name)) {
                output.note(&sanitize(&format!("note: `{name}` is configured, but the server does not list it")));
            }
        }
    }
}
