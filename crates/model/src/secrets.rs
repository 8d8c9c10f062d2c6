//! Taking a provider's secrets out of what it sends back: the one place where that is done.
//!
//! Servers say back what they were sent: in errors, in addresses to go to instead, in what a model says. A secret is recognised
//! however its characters are written: as they are, escaped as in JSON (also in JSON within JSON), in an address or in HTML. Its
//! beginning is taken out like the whole, as servers say by it which key was wrong. Fewer than [`REVEALING_PREFIX_CHARS`] characters of it stay.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

/// What stands where a secret stood.
const REDACTED: &str = "[secret]";

/// What is shorter is no secret but a placeholder, as local servers want one: `ollama`, `lm-studio`, `not-needed`. A model may well
/// say it.
const MIN_SECRET_CHARS: usize = 16;

/// So many of a secret's first characters give it away. Fewer may be public: all keys of a provider begin alike, Anthropic's with
/// `sk-ant-api03-`.
const REVEALING_PREFIX_CHARS: usize = 20;

/// What is known to be secret. `Debug` shows nothing of it.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<[Secret]>);

/// One secret: for each of its characters, the ways to write it.
struct Secret(Vec<Vec<String>>);

impl Secrets {
    /// Those secrets. What is too short to be one is left out.
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let long = |secret: &&SecretString| secret.expose_secret().chars().count() >= MIN_SECRET_CHARS;
        Secrets(secrets.into_iter().filter(long).map(Secret::new).collect())
    }

    /// A text without them.
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

/// Takes secrets out of a text that comes in pieces, wherever it is cut.
#[derive(Debug)]
pub(crate) struct Redactor {
    secrets: Secrets,
    /// The end of what has come, which may be a secret's beginning.
    buffer: String,
}

impl Redactor {
    /// A redactor of those secrets.
    pub(crate) fn new(secrets: &Secrets) -> Self {
        Redactor {
            secrets: secrets.clone(),
            buffer: String::new(),
        }
    }

    /// Takes a piece; what of the text is certain to hold no secret comes out.
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

    /// The rest, when no more comes.
    pub(crate) fn finish(&mut self) -> String {
        let text = std::mem::take(&mut self.buffer);
        self.redact_buffer(&text, MoreInput::Ended).0
    }

    /// The bytes that are held.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The clean text, and the end of it of which nothing is certain.
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

/// Whether more of a text may come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MoreInput {
    Expected,
    Ended,
}

/// What a text begins with.
enum SecretMatch {
    None,
    /// A secret, or enough of one, of that many bytes.
    Found(usize),
    /// What may be the beginning of one.
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
        // How many backslashes are meant by several can't be told.
        characters.dedup_by(|next, one| *next == '\\' && *one == '\\');
        Secret(characters.into_iter().map(encodings).collect())
    }

    /// Whether a text that begins so is worth a closer look.
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

/// The ways to write a character: as it is, and escaped as in JSON, in addresses and in HTML, once or twice.
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
        let written = |digits: fn(&u8) -> String| {
            let digits = bytes.iter().map(digits);
            digits
                .map(|digits| format!("{percent}{digits}"))
                .collect::<String>()
        };
        spellings.push(written(|byte| format!("{byte:02x}")));
        spellings.push(written(|byte| format!("{byte:02X}")));
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
    fn twenty_characters_of_it_are_enough_and_fewer_are_not() {
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
    fn what_all_keys_of_a_provider_begin_with_is_no_secret() {
        let secrets = secrets(&["sk-ant-api03-0123456789abcdef", "sk-proj-0123456789abcdef"]);
        let said = "Keys begin with sk-ant-api03- or sk-proj-";
        assert_eq!(secrets.redact(said), said);
    }

    #[test]
    fn a_short_one_is_only_recognised_whole_and_a_placeholder_is_none() {
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
    fn of_several_the_longer_counts() {
        let secrets = secrets(&["0123456789abcdef", "0123456789abcdefghi"]);
        assert_eq!(
            secrets.redact("0123456789abcdefghi, 0123456789abcdef."),
            "[secret], [secret]."
        );
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", secrets(&[KEY])), "1 secrets");
    }

    proptest! {
        #[test]
        fn wherever_a_text_is_cut_it_is_cleaned_alike(
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
