//! Splits the text after a workflow's name into words: positional arguments, quoted strings and `key=value`.

/// The characters that begin and end a quoted string.
const QUOTES: [char; 2] = ['"', '\''];

/// A word of the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ArgumentWord {
    /// The part before `=`, if the word begins with a name and `=` outside of quotes.
    pub(super) key: Option<String>,
    /// The text, or the value after `=`, without quotes.
    pub(super) text: String,
    /// Whether the text, or the value after `=`, begins with a quote.
    pub(super) quoted: bool,
}

/// A quote that is never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenQuote(pub(super) char);

/// Splits text at whitespace. A quote at the start of a word or a value begins a quoted string, which may contain whitespace. In double
/// quotes, `\"` and `\\` stand for `"` and `\`. Anywhere else, quotes and backslashes are ordinary characters.
pub(super) fn split(text: &str) -> Result<Vec<ArgumentWord>, OpenQuote> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, value) = split_key(rest);
        let (text, after) = read_text(value)?;
        words.push(ArgumentWord {
            key: key.map(str::to_owned),
            text,
            quoted: value.starts_with(QUOTES),
        });
        rest = after.trim_start();
    }
    Ok(words)
}

/// Converts a word that a shell has already split. Without a key it is a positional argument, whatever it contains.
pub(super) fn from_shell(word: &str) -> ArgumentWord {
    let (key, text) = split_key(word);
    ArgumentWord {
        key: key.map(str::to_owned),
        text: text.to_owned(),
        quoted: false,
    }
}

/// Splits `key=value`, if the text begins with a name and `=`. An operator such as `==` is not a separator.
fn split_key(text: &str) -> (Option<&str>, &str) {
    let is_name = |key: &str| {
        key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    match text.split_once('=') {
        Some((key, value)) if is_name(key) && !value.starts_with('=') => (Some(key), value),
        Some(_) | None => (None, text),
    }
}

/// Reads a word or a quoted string, and returns it and the text after it.
fn read_text(text: &str) -> Result<(String, &str), OpenQuote> {
    let mut read = String::new();
    let mut rest = text;
    if let Some(quote) = text.chars().next().filter(|c| QUOTES.contains(c)) {
        let end = read_quoted(&text[1..], quote, &mut read).ok_or(OpenQuote(quote))?;
        rest = end;
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    read.push_str(&rest[..end]);
    Ok((read, &rest[end..]))
}

/// Reads up to the closing quote, and returns the text after it; `None` without a closing quote.
fn read_quoted<'a>(inside: &'a str, quote: char, read: &mut String) -> Option<&'a str> {
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' => match chars.next() {
                Some((_, escaped)) if escaped == '"' || escaped == '\\' => read.push(escaped),
                Some((_, other)) => read.extend(['\\', other]),
                None => return None,
            },
            _ if c == quote => return Some(&inside[at + 1..]),
            _ => read.push(c),
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arguments_are_positional_quoted_or_key_value_words() {
        type KeyAndText = (Option<&'static str>, &'static str);
        let cases: [(&str, &[KeyAndText]); 10] = [
            ("my-app", &[(None, "my-app")]),
            ("  a\n b\t", &[(None, "a"), (None, "b")]),
            (
                "\"old text\" 'new text'",
                &[(None, "old text"), (None, "new text")],
            ),
            (
                "name=my-app kind='a b'",
                &[(Some("name"), "my-app"), (Some("kind"), "a b")],
            ),
            (r#""say \"hi\" \\ \n""#, &[(None, r#"say "hi" \ \n"#)]),
            (r"'a\' C:\dir", &[(None, r"a\"), (None, r"C:\dir")]),
            ("don't a'b\"c", &[(None, "don't"), (None, "a'b\"c")]),
            (
                "\"name=x\" a==b =c 1=2",
                &[(None, "name=x"), (None, "a==b"), (None, "=c"), (None, "1=2")],
            ),
            ("\"a\"b name=", &[(None, "ab"), (Some("name"), "")]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            let words = split(text).unwrap();
            let words: Vec<_> = words
                .iter()
                .map(|word| (word.key.as_deref(), word.text.as_str()))
                .collect();
            assert_eq!(words, expected, "{text}");
        }
        assert_eq!(split("a \"b"), Err(OpenQuote('"')));
        assert_eq!(split("key='b\\"), Err(OpenQuote('\'')));
        assert_eq!(split("\"b\\"), Err(OpenQuote('"')));
    }

    proptest! {
        #[test]
        fn splitting_any_text_into_words_does_not_panic(text in any::<String>()) {
            if let Ok(words) = split(&text) {
                let longest = words.iter().map(|word| word.text.len()).max().unwrap_or(0);
                prop_assert!(longest <= text.len());
            }
        }

        #[test]
        fn any_quoted_text_is_parsed_to_the_same_text(text in "\\PC*") {
            let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let words = split(&quoted).unwrap();
            prop_assert_eq!(words, vec![ArgumentWord { key: None, text, quoted: true }]);
        }
    }
}
