//! Detects secrets in the settings of a service: which settings must not be stored, and which must be hidden for display.

use std::collections::BTreeMap;

use super::ServiceSettings;
use crate::memory::{Secret, find_secret};

/// The final words in the names of variables, headers and options whose values are secrets.
const SECRET_WORDS: &[&str] = &[
    "key",
    "pat",
    "pwd",
    "credential",
    "credentials",
    "auth",
    "authorization",
    "cookie",
];
/// Endings of such names, even within a word: `PGPASSWORD`.
const SECRET_ENDS: &[&str] = &["token", "secret", "password", "passwd", "passphrase", "apikey"];
/// The authentication schemes that precede a secret in a header.
const SCHEMES: &[&str] = &["bearer", "basic", "token"];
/// The placeholder for a value that may be a secret.
const HIDDEN: &str = "(hidden)";

/// Returns the first setting that seems to contain a secret, and the kind of secret. References to variables are not secrets.
pub(super) fn find(settings: &ServiceSettings) -> Option<(String, Secret)> {
    let in_text = |setting: &str, text: &str| Some((setting.to_owned(), find_secret(&literal(text))?));
    let in_values = |setting: &str, values: &BTreeMap<String, String>| {
        values.iter().find_map(|(name, value)| {
            let secret = secret_value(name, value)?;
            Some((format!("{setting}.{name}"), secret))
        })
    };
    let command = settings
        .command
        .as_deref()
        .and_then(|text| in_text("command", text));
    let in_optional = |setting: &str, text: &Option<String>| in_text(setting, text.as_deref()?);
    command
        .or_else(|| Some(("url".to_owned(), secret_in_url(settings.url.as_deref()?)?)))
        .or_else(|| in_optional("bearer_token_env", &settings.bearer_token_env))
        .or_else(|| in_optional("description", &settings.description))
        .or_else(|| in_values("env", &settings.env))
        .or_else(|| in_values("headers", &settings.headers))
        .or_else(|| {
            let places = 0..settings.args.len();
            let secret = places
                .into_iter()
                .find_map(|place| secret_argument(&settings.args, place))?;
            Some(("args".to_owned(), secret))
        })
}

/// Returns the settings as a person must see them before trusting them: without values that may be secrets, but with the other values of the
/// environment, because a variable such as `NODE_OPTIONS` can decide which code a program runs.
pub(super) fn hide_before_trust(settings: ServiceSettings) -> ServiceSettings {
    let mut env = settings.env.clone();
    for (name, value) in &mut env {
        if secret_value(name, value).is_some() {
            *value = HIDDEN.to_owned();
        }
    }
    ServiceSettings {
        env,
        ..hide(settings)
    }
}

/// Returns the settings without values that may be secrets. In the environment and the headers, only references to variables are kept.
pub(super) fn hide(mut settings: ServiceSettings) -> ServiceSettings {
    for value in settings.env.values_mut().chain(settings.headers.values_mut()) {
        if !is_reference(value) {
            *value = HIDDEN.to_owned();
        }
    }
    let places: Vec<usize> = (0..settings.args.len())
        .filter(|place| secret_argument(&settings.args, *place).is_some())
        .collect();
    for place in places {
        settings.args[place] = HIDDEN.to_owned();
    }
    if settings.url.as_deref().and_then(secret_in_url).is_some() {
        settings.url = Some(HIDDEN.to_owned());
    }
    settings
}

/// Returns the kind of secret in the value of a variable or header.
fn secret_value(name: &str, value: &str) -> Option<Secret> {
    let value = literal(value);
    find_secret(&value)
        .or_else(|| (is_secret_name(name) && may_be_secret(&value)).then_some(Secret::Password))
}

/// Returns the kind of secret in a URL: in its text, or in a query parameter whose name denotes a secret.
fn secret_in_url(url: &str) -> Option<Secret> {
    let parameters = url.split_once('?').map_or("", |(_, query)| query);
    let parameters = parameters.split('&').filter_map(|pair| pair.split_once('='));
    let in_parameters = || {
        parameters
            .into_iter()
            .find_map(|(name, value)| secret_value(name, value))
    };
    find_secret(&literal(url)).or_else(in_parameters)
}

/// Returns the kind of secret in an argument: `ghp_…`, `--api-key=…`, or the value after `--api-key`.
fn secret_argument(args: &[String], place: usize) -> Option<Secret> {
    let argument = literal(args.get(place)?);
    let of_option = || match argument.strip_prefix('-')?.split_once('=') {
        Some((name, value)) => secret_value(name, value),
        None => None,
    };
    let of_value = || {
        let option = args.get(place.checked_sub(1)?)?;
        let is_value = option.starts_with('-') && !option.contains('=') && !argument.starts_with('-');
        is_value.then(|| secret_value(option, &argument)).flatten()
    };
    find_secret(&argument).or_else(of_option).or_else(of_value)
}

fn is_secret_name(name: &str) -> bool {
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
    let last = last.unwrap_or_default();
    // The last word of `apiKey` is `Key`, and the last word of `API_KEY` is `KEY`.
    let starts_word = |(place, c): (usize, char)| {
        let after_small = last[..place].ends_with(|before: char| before.is_ascii_lowercase());
        c.is_ascii_uppercase() && after_small
    };
    let word = last.char_indices().rev().find(|it| starts_word(*it));
    let word = last[word.map_or(0, |(place, _)| place)..].to_ascii_lowercase();
    SECRET_WORDS.contains(&word.as_str())
        || SECRET_ENDS
            .iter()
            .any(|end| last.to_ascii_lowercase().ends_with(end))
}

/// Returns false for values that are never secrets, whatever their name: flags and paths.
fn may_be_secret(value: &str) -> bool {
    let value = value.trim();
    let secret = match value.split_once(char::is_whitespace) {
        Some((scheme, rest)) if SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => rest.trim(),
        Some(_) | None => value,
    };
    let is_scheme = SCHEMES.contains(&secret.to_ascii_lowercase().as_str());
    let is_flag = ["", "true", "false", "0", "1"].contains(&secret.to_ascii_lowercase().as_str());
    // A random text in Base64 may begin like a path.
    let is_path = secret.starts_with(['/', '~', '.']) && !secret.contains(['+', '=']);
    !is_scheme && !is_flag && !is_path
}

/// Returns true for a value that refers to a variable and contains no secret besides the reference.
fn is_reference(value: &str) -> bool {
    let literal = literal(value);
    value.contains("${") && find_secret(&literal).is_none() && !may_be_secret(&literal)
}

/// Returns the text without its references to variables, but with the default values of the references.
fn literal(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((reference, behind)) = after.split_once('}') else {
            break;
        };
        plain.push_str(before);
        if let Some((_, default)) = reference.split_once(":-") {
            plain.push_str(default);
        }
        rest = behind;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl FnOnce(&mut ServiceSettings)) -> Option<String> {
        let mut settings = ServiceSettings {
            command: Some("server".to_owned()),
            ..ServiceSettings::default()
        };
        change(&mut settings);
        find(&settings).map(|(setting, _)| setting)
    }

    fn env(name: &str, value: &str) -> Option<String> {
        found(|settings| {
            settings.env.insert(name.to_owned(), value.to_owned());
        })
    }

    fn args(args: &[&str]) -> Option<String> {
        found(|settings| settings.args = args.iter().map(|arg| (*arg).to_owned()).collect())
    }

    #[test]
    fn mcp_1_values_that_look_like_secrets_are_found() {
        for (name, value) in [
            ("GITHUB_TOKEN", "abc"),
            ("X", "ghp_0123456789abcdefABCDEF0123456789abcd"),
            ("DB_PASSWORD", "${DB_PASSWORD:-letmein}"),
            ("DATABASE_URL", "postgres://app:s3cret@db.example.org/main"),
            ("api_key", "k"),
            ("apiKey", "k"),
            ("accessToken", "k"),
            ("PGPASSWORD", "k"),
            ("MYSQL_PWD", "k"),
            ("SIGNING_KEY", "/9j+4AAQSkZJRg=="),
        ] {
            assert_eq!(env(name, value), Some(format!("env.{name}")), "{name}={value}");
        }
        assert_eq!(args(&["--api-key", "abc"]).as_deref(), Some("args"));
        assert_eq!(args(&["--api-key=abc"]).as_deref(), Some("args"));
        assert_eq!(args(&["sk-proj-abcdefghijklmnop1234"]).as_deref(), Some("args"));
        let header = found(|settings| {
            settings
                .headers
                .insert("Authorization".to_owned(), "Bearer abc".to_owned());
        });
        assert_eq!(header.as_deref(), Some("headers.Authorization"));
        for url in [
            "https://me:pw@example.com/mcp",
            "https://example.com/mcp?v=1&api_key=abc",
        ] {
            let url = found(|settings| settings.url = Some(url.to_owned()));
            assert_eq!(url.as_deref(), Some("url"));
        }
        let token = Some("ghp_0123456789abcdefABCDEF0123456789abcd".to_owned());
        let variable = found(|settings| settings.bearer_token_env = token.clone());
        assert_eq!(variable.as_deref(), Some("bearer_token_env"));
        let description = found(|settings| settings.description = token.clone());
        assert_eq!(description.as_deref(), Some("description"));
    }

    #[test]
    fn mcp_1_references_and_ordinary_values_are_no_secrets() {
        for (name, value) in [
            ("GITHUB_TOKEN", "${GITHUB_TOKEN}"),
            ("AUTHORIZATION", "Bearer ${TOKEN}"),
            ("SSH_KEY", "/home/me/.ssh/id"),
            ("USE_TOKEN", "false"),
            ("MAX_TOKENS", "100"),
            ("PORT", "8080"),
            ("MONKEY", "banana"),
            ("PATH_TO_KEY", "~/.ssh/id"),
        ] {
            assert_eq!(env(name, value), None, "{name}={value}");
        }
        assert_eq!(
            args(&["-y", "@modelcontextprotocol/server-filesystem", "/srv/files"]),
            None
        );
        assert_eq!(args(&["--api-key", "${KEY}", "--verbose"]), None);
    }

    #[test]
    fn mcp_1_only_references_to_variables_are_shown() {
        let settings = ServiceSettings {
            args: vec!["--token".to_owned(), "abc".to_owned()],
            env: BTreeMap::from([
                ("A".to_owned(), "${A}".to_owned()),
                ("B".to_owned(), "plain".to_owned()),
            ]),
            ..ServiceSettings::default()
        };
        let hidden = hide(settings);
        assert_eq!(hidden.args, ["--token", HIDDEN]);
        assert_eq!(hidden.env.values().collect::<Vec<_>>(), ["${A}", HIDDEN]);
    }
}
