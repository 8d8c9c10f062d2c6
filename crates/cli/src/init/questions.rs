//! The questions of `init` at a terminal.

use console::style;
use dirigent::config::{PROVIDERS, Provider};

use super::local_servers::{self, LocalServer, models_of};
use super::table::ModelTable;
use crate::output::{Output, sanitize};

/// The number of models that are listed at most.
const LISTED: usize = 20;

/// Asks for a model; `None` if the input ends.
pub(super) async fn ask(output: &Output) -> anyhow::Result<Option<ModelTable>> {
    Output::end_on_interrupt();
    output.note("Looking for model servers on this computer …");
    let found = local_servers::find().await;
    let mut choices: Vec<String> = PROVIDERS.iter().map(provider_line).collect();
    choices.extend(found.iter().map(|server| {
        let count = server.models.len();
        format!(
            "{} on this computer, {} ({count} models)",
            server.name, server.base_url
        )
    }));
    choices.push("another server with OpenAI's API".to_owned());
    output.print(&style("Which models do you use?").bold().to_string());
    let Some(chosen) = choose(&choices, output) else {
        return Ok(None);
    };
    if let Some(provider) = PROVIDERS.get(chosen) {
        return Ok(hosted(provider, output).await);
    }
    match found.get(chosen - PROVIDERS.len()) {
        Some(server) => Ok(local(server, output)),
        None => Ok(other(output).await),
    }
}

/// Asks whether a model that failed its test is written.
pub(super) fn write_anyway(output: &Output) -> bool {
    output
        .ask("Write the configuration anyway? [y/N] ")
        .is_some_and(|line| line.trim().eq_ignore_ascii_case("y"))
}

fn provider_line(provider: &Provider) -> String {
    match set_variable(provider) {
        Some(variable) => format!("{}: its key is in {variable}", provider.name),
        None => provider.name.to_owned(),
    }
}

/// The variable with the provider's key, if one is set.
fn set_variable(provider: &Provider) -> Option<&'static str> {
    let set = |name: &&&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    provider.key_variables.iter().find(set).copied()
}

/// Asks for the number of a choice until it is one; returns its index.
fn choose(choices: &[String], output: &Output) -> Option<usize> {
    for (number, choice) in (1..).zip(choices) {
        output.print(&format!("  {number:>2}  {}", sanitize(choice)));
    }
    loop {
        let line = output.ask("Number: ")?;
        match line.trim().parse::<usize>() {
            Ok(number) if (1..=choices.len()).contains(&number) => return Some(number - 1),
            _ => output.note(&format!("type a number from 1 to {}", choices.len())),
        }
    }
}

async fn hosted(provider: &Provider, output: &Output) -> Option<ModelTable> {
    let key = match set_variable(provider) {
        Some(_) => None,
        None => Some(key_of(provider, output)?),
    };
    let models = models_of(provider.name, "", key.as_deref())
        .await
        .unwrap_or_default();
    Some(ModelTable {
        provider: provider.name,
        name: model_name(&models, Some(provider.suggested_model), output)?,
        base_url: None,
        api_key_env: None,
        api_key: key,
    })
}

fn local(server: &LocalServer, output: &Output) -> Option<ModelTable> {
    Some(ModelTable {
        provider: "openai",
        name: model_name(&server.models, None, output)?,
        base_url: Some(server.base_url.to_owned()),
        api_key_env: None,
        api_key: None,
    })
}

async fn other(output: &Output) -> Option<ModelTable> {
    let address = line("Address, such as https://openrouter.ai/api/v1: ", output)?;
    output.note("Press Enter if the server needs no key.");
    let key = output.ask_secret("API key: ")?;
    let key = Some(key.trim().to_owned()).filter(|key| !key.is_empty());
    let models = models_of("openai", &address, key.as_deref())
        .await
        .unwrap_or_default();
    Some(ModelTable {
        provider: "openai",
        name: model_name(&models, None, output)?,
        base_url: Some(address),
        api_key_env: None,
        api_key: key,
    })
}

/// Asks for a model by its number in the list or by its name.
fn model_name(models: &[String], suggested: Option<&str>, output: &Output) -> Option<String> {
    for (number, model) in (1..).zip(models.iter().take(LISTED)) {
        output.print(&format!("  {number:>2}  {}", sanitize(model)));
    }
    if models.len() > LISTED {
        output.print(&format!("      and {} more, by name", models.len() - LISTED));
    }
    let default = suggested.map(str::to_owned).or_else(|| match models {
        [only] => Some(only.clone()),
        _ => None,
    });
    let question = match &default {
        Some(default) => format!("Model, a name or a number [{}]: ", sanitize(default)),
        None => "Model, a name or a number: ".to_owned(),
    };
    loop {
        let answer = output.ask(&question)?;
        let answer = answer.trim();
        let numbered = answer
            .parse::<usize>()
            .ok()
            .and_then(|number| models.get(number.checked_sub(1)?));
        match (answer, numbered, &default) {
            (_, Some(model), _) => return Some(model.clone()),
            ("", None, Some(default)) => return Some(default.clone()),
            ("", None, None) => {}
            (name, None, _) => return Some(name.to_owned()),
        }
    }
}

/// Asks for the key of a provider until it is not empty.
fn key_of(provider: &Provider, output: &Output) -> Option<String> {
    loop {
        let key = output.ask_secret(&format!("API key of {}: ", provider.name))?;
        if !key.trim().is_empty() {
            return Some(key.trim().to_owned());
        }
        output.note("type or paste the key, or press Ctrl-C to leave");
    }
}

/// Asks for a line until it is not empty.
fn line(question: &str, output: &Output) -> Option<String> {
    loop {
        let answer = output.ask(question)?;
        if !answer.trim().is_empty() {
            return Some(answer.trim().to_owned());
        }
    }
}
