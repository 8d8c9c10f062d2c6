//! Redaction of secrets in everything that a server sends back.
//!
//! Servers may repeat parts of a request in errors, redirects and generated text. A secret is recognized in any encoding of its
//! characters: plain, or escaped for JSON (also JSON within JSON), URLs or HTML. The beginning of a secret is redacted, too, because
//! servers quote it to identify a wrong key; a beginning of fewer than [`REVEALING_PREFIX_CHARS`] characters is not redacted.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

/// Replacement of a secret.
const REDACTED: &str = "[secret]";

/// Smallest length of a secret. A shorter key is a placeholder for local servers, such as `ollama`, `lm-studio` or `not-needed`, which
/// may occur in ordinary text.
const MIN_SECRET_CHARS: usize = 16;

/// Smallest length of a secret's beginning that is redacted. A shorter beginning is not secret, because all keys of a provider share a
/// prefix, such as Anthropic's `sk-ant-api03-`.
const REVEALING_PREFIX_CHARS: usize = 20;

/// Secrets to redact. `Debug` output shows only their number.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<[Secret]>);

/// A secret: for each of its characters, the possible encodings.
struct Secret(Vec<Vec<String>>);

impl Secrets {
    /// Collects the secrets of at least [`MIN_SECRET_CHARS`] characters; shorter secrets are ignored.
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let long = |secret: &&SecretString| secret.expose_secret().chars().count() >= MIN_SECRET_CHARS;
        Secrets(secrets.into_iter().filter(long).map(Secret::new).collect())
    }

    /// Returns the text without secrets.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut redactor = Redactor::new(self);
        let mut clean = redactor.push(text);
        clean.push_str(&redactor.finish());
        clean
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// Redacts secrets in text that arrives in pieces, including secrets that are split between pieces.
#[derive(Debug)]
pub(crate) struct Redactor {
    secrets: Secrets,
    /// End of the received text, if it may be the beginning of a secret.
    buffer: String,
}

impl Redactor {
    pub(crate) fn new(secrets: &Secrets) -> Self {
        Redactor {
            secrets: secrets.clone(),
            buffer: String::new(),
        }
    }

    /// Adds a piece. Returns the redacted text, without an end that may be the beginning of a secret: the end is buffered.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.secrets.0.is_empty() {
            return piece.to_owned();
        }
        self.buffer.push_str(piece);
        let text = std::mem::take(&mut self.buffer);
        let (clean, rest) = self.redact_buffer(&text, MoreInput::Expected);
        self.buffer = rest.to_owned();
        clean
    }

    /// Ends the text: redacts and returns the buffered rest.
    pub(crate) fn finish(&mut self) -> String {
        let text = std::mem::take(&mut self.buffer);
        self.redact_buffer(&text, MoreInput::Ended).0
    }

    /// Number of buffered bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the redacted text, and the end of `text` that must stay buffered because it may be the beginning of a secret.
    fn redact_buffer<'a>(&self, text: &'a str, more_input: MoreInput) -> (String, &'a str) {
        let mut clean = String::with_capacity(text.len());
        let (mut from, mut at) = (0, 0);
        while let Some(rest) = text.get(at..)
            && let Some(next) = rest.chars().next()
        {
            match self.secrets.find(rest, next, more_input) {
                SecretMatch::None => at += next.len_utf8(),
                SecretMatch::Found(bytes) => {
                    clean.push_str(text.get(from..at).unwrap_or_default());
                    clean.push_str(REDACTED);
                    at += bytes;
                    from = at;
                }
                SecretMatch::Partial => break,
            }
        }
        clean.push_str(text.get(from..at).unwrap_or_default());
        (clean, text.get(at..).unwrap_or_default())
    }
}

/// Whether more text may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MoreInput {
    Expected,
    Ended,
}

/// Match of a secret at the beginning of the text.
enum SecretMatch {
    None,
    /// The text begins with a secret, or with enough of its beginning to be redacted: the length of the match in bytes.
    Found(usize),
    /// The text is too short to decide.
    Partial,
}

impl Secrets {
    fn find(&self, text: &str, first: char, more_input: MoreInput) -> SecretMatch {
        let mut found = SecretMatch::None;
        for secret in self.0.iter().filter(|secret| secret.may_begin(first)) {
            match (secret.find(text, more_input), &found) {
                (SecretMatch::Partial, _) => return SecretMatch::Partial,
                (SecretMatch::Found(bytes), SecretMatch::Found(other)) if bytes <= *other => {}
                (SecretMatch::Found(bytes), _) => found = SecretMatch::Found(bytes),
                (SecretMatch::None, _) => {}
            }
        }
        found
    }
}

impl Secret {
    fn new(secret: &SecretString) -> Self {
        let mut characters: Vec<char> = secret.expose_secret().chars().collect();
        // Escaping changes the number of consecutive backslashes, so several count as one.
        characters.dedup_by(|next, one| *next == '\\' && *one == '\\');
        Secret(characters.into_iter().map(encodings).collect())
    }

    /// Returns true if the secret may begin with this character.
    fn may_begin(&self, character: char) -> bool {
        let first = self.0.first().and_then(|spellings| spellings.first());
        matches!(character, '\\' | '%' | '&') || first.is_some_and(|first| first.starts_with(character))
    }

    fn find(&self, text: &str, more_input: MoreInput) -> SecretMatch {
        let mut rest = text;
        let mut matched = 0;
        for spellings in &self.0 {
            let fits = |spelling: &&String| rest.starts_with(spelling.as_str());
            let longest = spellings.iter().filter(fits).map(String::len).max();
            let undecided = |spelling: &String| spelling.len() > rest.len() && spelling.starts_with(rest);
            if more_input == MoreInput::Expected && spellings.iter().any(undecided) {
                return SecretMatch::Partial;
            }
            let Some(next) = longest.and_then(|bytes| rest.get(bytes..)) else {
                break;
            };
            rest = next;
            matched += 1;
        }
        if matched == self.0.len() || matched >= REVEALING_PREFIX_CHARS {
            SecretMatch::Found(text.len() - rest.len())
        } else {
            SecretMatch::None
        }
    }
}

/// Returns the encodings of a character: plain, and escaped for JSON, URLs and HTML, once or twice.
fn encodings(character: char) -> Vec<String> {
    let code = u32::from(character);
    let mut spellings = vec![
        character.to_string(),
        format!("&#{code};"),
        format!("&#x{code:x};"),
        format!("&#x{code:X};"),
    ];
    for backslashes in 1..=4 {
        let escape = "\\".repeat(backslashes);
        spellings.push(format!("{escape}u{code:04x}"));
        spellings.push(format!("{escape}u{code:04X}"));
    }
    if character.is_ascii_punctuation() {
        spellings.extend((1..=7).map(|backslashes| format!("{}{character}", "\\".repeat(backslashes))));
    }
    let bytes = character.to_string().into_bytes();
    for percent in ["%", "%25"] {
        let encoded = |digits: fn(&u8) -> String| {
            let digits = bytes.iter().map(digits);
            digits
                .map(|digits| format!("{percent}{digits}"))
                .collect::<String>()
        };
        spellings.push(encoded(|byte| format!("{byte:02x}")));
        spellings.push(encoded(|byte| format!("{byte:02X}")));
    }
    let named = match character {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&apos;",
        _ => return spellings,
    };
    spellings.push(named.to_owned());
    spellings
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const KEY: &str = r#"sk-A/b+c="d\e&f'g"#;

    fn secrets(secrets: &[&str]) -> Secrets {
        let secrets: Vec<SecretString> = secrets.iter().map(|secret| (*secret).into()).collect();
        Secrets::new(&secrets)
    }

    #[test]
    fn a_secret_is_recognised_however_it_is_written() {
        let in_json = Value::from(KEY).to_string();
        let in_json_in_json = Value::from(in_json.as_str()).to_string();
        for text in [
            KEY,
            in_json.trim_matches('"'),
            in_json_in_json.trim_matches(['"', '\\']),
            "sk-A%2Fb%2Bc%3D%22d%5Ce%26f%27g",
            "sk%2dA%2fb%2bc%3d%22d%5ce%26f%27g",
            "sk-A%252Fb%252Bc%253D%2522d%255Ce%2526f%2527g",
            r#"sk-A\/b+c=\"d\\e&f'g"#,
            r#"\u0073k\u002dA\u002fb\u002Bc=\"d\\e\u0026f\u0027g"#,
            "sk-A/b+c=&quot;d\\e&amp;f&#39;g",
            "sk-A&#x2F;b&#43;c&#61;&#34;d&#92;e&#38;f&apos;g",
        ] {
            assert_eq!(
                secrets(&[KEY]).redact(&format!("<{text}>")),
                "<[secret]>",
                "{text}"
            );
        }
    }

    #[test]
    fn the_first_twenty_characters_of_a_secret_are_redacted_and_fewer_are_not() {
        let secrets = secrets(&["sk-0123456789abcdefghij"]);
        assert_eq!(secrets.redact("key sk-0123456789abcdefg…"), "key [secret]…");
        assert_eq!(secrets.redact("key sk-0123456789abcdefg"), "key [secret]");
        assert_eq!(
            secrets.redact("key sk-0123456789abcdef…"),
            "key sk-0123456789abcdef…"
        );
        assert_eq!(secrets.redact("sk-sk-0123456789abcdefghij0"), "sk-[secret]0");
    }

    #[test]
    fn the_common_prefix_of_a_providers_keys_is_not_redacted() {
        let secrets = secrets(&["sk-ant-api03-0123456789abcdef", "sk-proj-0123456789abcdef"]);
        let said = "Keys begin with sk-ant-api03- or sk-proj-";
        assert_eq!(secrets.redact(said), said);
    }

    #[test]
    fn a_short_secret_is_redacted_only_as_a_whole_and_a_placeholder_never() {
        assert_eq!(
            secrets(&["0123456789abcdef"]).redact("0123456789abcdef 0123456789abcde"),
            "[secret] 0123456789abcde"
        );
        let said = "ollama and lm-studio are servers, and a key is not-needed";
        assert_eq!(
            secrets(&["ollama", "lm-studio", "not-needed", ""]).redact(said),
            said
        );
    }

    #[test]
    fn of_several_matching_secrets_the_longest_is_redacted() {
        let secrets = secrets(&["0123456789abcdef", "0123456789abcdefghi"]);
        assert_eq!(
            secrets.redact("0123456789abcdefghi, 0123456789abcdef."),
            "[secret], [secret]."
        );
    }

    #[test]
    fn debug_output_shows_no_secret() {
        assert_eq!(format!("{:?}", secrets(&[KEY])), "1 secrets");
    }

    proptest! {
        #[test]
        fn redaction_does_not_depend_on_how_a_text_is_split(
            text in prop::collection::vec(
                prop::sample::select(vec!["sk-", "A/b+c=", r#"\"d"#, r"\\", "e&amp;f", "'g", "é", "%2F", KEY]), 0..12),
            cuts in prop::collection::vec(0_usize..120, 0..12),
        ) {
            let text = text.concat();
            let secrets = secrets(&[KEY, "another-secret-of-ours"]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
            cuts.sort_unstable();
            let mut redactor = Redactor::new(&secrets);
            let mut clean = String::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([text.len()]) {
                clean.push_str(&redactor.push(&text[from..cut]));
                from = cut;
            }
            clean.push_str(&redactor.finish());
            prop_assert_eq!(clean, secrets.redact(&text));
        }
    }
}
