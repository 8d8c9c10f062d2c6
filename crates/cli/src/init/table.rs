//! The table `[model]` of a configuration file.

use std::fmt;

use serde_json::Value;

/// What `[model]` says; settings that are not here have their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelTable {
    pub(super) provider: &'static str,
    pub(super) name: String,
    pub(super) base_url: Option<String>,
    pub(super) api_key_env: Option<String>,
    pub(super) api_key: Option<String>,
}

impl fmt::Display for ModelTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[model]\nprovider = {}", quoted(self.provider))?;
        writeln!(f, "name = {}", quoted(&self.name))?;
        let optional = [
            ("base_url", &self.base_url),
            ("api_key_env", &self.api_key_env),
            ("api_key", &self.api_key),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                writeln!(f, "{key} = {}", quoted(value))?;
            }
        }
        Ok(())
    }
}

/// A string in TOML. Its escapes include those of JSON; in addition, TOML escapes the character "delete".
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_3_strings_with_quotes_and_line_breaks_stay_one_value() {
        let table = ModelTable {
            provider: "openai",
            name: "a \"b\"\n[model]\u{7f}\\".to_owned(),
            base_url: Some("http://127.0.0.1:1/v1".to_owned()),
            api_key_env: None,
            api_key: None,
        };
        assert_eq!(
            table.to_string(),
            "[model]\nprovider = \"openai\"\nname = \"a \\\"b\\\"\\n[model]\\u007f\\\\\"\nbase_url = \"http://127.0.0.1:1/v1\"\n"
        );
    }
}
