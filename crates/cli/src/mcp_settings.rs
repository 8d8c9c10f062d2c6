//! The settings of a service as options of the `mcp` commands.

use anyhow::Context as _;
use dirigent::DirigentError;
use dirigent::services::{ServiceError, ServiceSettings};

use crate::args::ServiceOptions;
use crate::exit::UsageError;

/// Returns the settings with those that the options give.
pub(crate) fn changed(settings: ServiceSettings, options: ServiceOptions) -> anyhow::Result<ServiceSettings> {
    let mut settings = settings;
    if let Some((command, args)) = options.command.split_first() {
        settings.command = Some(command.clone());
        settings.args = args.to_vec();
        settings.url = None;
        settings.headers.clear();
        settings.bearer_token_env = None;
    }
    if let Some(url) = options.url {
        settings.url = Some(url);
        settings.command = None;
        settings.args.clear();
        settings.env.clear();
        settings.cwd = None;
    }
    settings.env.extend(options.env);
    settings.headers.extend(options.headers);
    if let Some(folder) = options.cwd {
        settings.cwd =
            Some(std::path::absolute(&folder).with_context(|| format!("--cwd {}", folder.display()))?);
    }
    if !options.keywords.is_empty() {
        settings.trigger_keywords = options.keywords;
    }
    settings.bearer_token_env = options.bearer_token_env.or(settings.bearer_token_env);
    settings.timeout = options.timeout.unwrap_or(settings.timeout);
    settings.start_timeout = options.start_timeout.unwrap_or(settings.start_timeout);
    settings.description = options.description.or(settings.description);
    settings.trust = options.trust.unwrap_or(settings.trust);
    Ok(settings)
}

/// Names, in an error about a setting, the option that sets it.
pub(crate) fn as_options(error: DirigentError) -> anyhow::Error {
    match error {
        DirigentError::Service(ServiceError::Invalid { name, problem }) => {
            let option = option_of(problem.setting).unwrap_or(problem.setting);
            UsageError(format!(
                "the service {name} was not saved: {option} {}",
                with_options(&problem.problem)
            ))
            .into()
        }
        error => error.into(),
    }
}

/// The settings that the commands set by options, and the options.
const OPTIONS: [(&str, &str); 9] = [
    ("command", "the command after `--`"),
    ("start_timeout", "--start-timeout"),
    ("timeout", "--timeout"),
    ("bearer_token_env", "--bearer-token-env"),
    ("headers", "--header"),
    ("env", "--env"),
    ("cwd", "--cwd"),
    ("url", "--url"),
    ("trigger_keywords", "--keyword"),
];

fn option_of(setting: &str) -> Option<&'static str> {
    let option = OPTIONS.iter().find(|(name, _)| *name == setting);
    option.map(|(_, option)| *option)
}

/// Replaces the settings that a text names by the options that set them.
pub(crate) fn with_options(text: &str) -> String {
    OPTIONS.iter().fold(text.to_owned(), |text, (setting, option)| {
        text.replace(&format!("`{setting}`"), option)
    })
}
