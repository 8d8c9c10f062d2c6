//! Removes a server's address and Dirigent's credentials from messages for models.

use std::fmt;

use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

/// Replacement for a secret.
const REDACTED: &str = "***";

/// The secrets of one server.
#[derive(Clone)]
pub(super) struct Secrets {
    /// Secrets that are removed everywhere, longest first.
    anywhere: Vec<String>,
    /// Secrets that are removed only as whole words, because the name of a table may contain the name of a user or host.
    whole_words: Vec<String>,
}

impl Secrets {
    /// Collects the secrets in a URL. If the URL is invalid, its text as a whole is the only secret.
    pub(super) fn from_url(url: &SecretString) -> Self {
        let whole = url.expose_secret();
        let (mut anywhere, mut whole_words) = (vec![whole.to_owned()], Vec::new());
        if let Ok(url) = Url::parse(whole) {
            let password = url.password().unwrap_or_default();
            anywhere.extend([password.to_owned(), decoded(password)]);
            whole_words.extend([url.username().to_owned(), decoded(url.username())]);
            whole_words.extend(url.host_str().map(str::to_owned));
        }
        anywhere.retain(|secret| !secret.is_empty());
        anywhere.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        whole_words.retain(|word| !word.is_empty());
        Secrets {
            anywhere,
            whole_words,
        }
    }

    /// Replaces the secrets in the text.
    pub(super) fn redact(&self, text: &str) -> String {
        let text = self
            .anywhere
            .iter()
            .fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED));
        self.whole_words
            .iter()
            .fold(text, |text, word| redact_word(&text, word))
    }
}

/// Hides the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

fn redact_word(text: &str, word: &str) -> String {
    let is_word_character = |c: char| c.is_alphanumeric() || c == '_';
    let (mut rest, mut result) = (text, String::with_capacity(text.len()));
    while let Some((before, after)) = rest.split_once(word) {
        let alone = !before.ends_with(is_word_character) && !after.starts_with(is_word_character);
        result.push_str(before);
        result.push_str(if alone { REDACTED } else { word });
        rest = after;
    }
    result + rest
}

/// Decodes percent-encoding: `%41` becomes `A`.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
