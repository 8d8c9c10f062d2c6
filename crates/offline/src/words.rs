//! Splitting of sentences into words. This module handles quotes and punctuation; it does not interpret the words.

/// A word of a sentence, or a quoted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text without quotes and surrounding punctuation.
    pub text: String,
    pub quoting: Quoting,
}

/// Whether a word is in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    Plain,
    /// The word is in quotes or backticks: a name or a string, never a word of the goal grammar.
    Quoted,
}

impl Word {
    /// Returns true if the word is unquoted and one of `words`, ignoring case. `words` must be lowercase.
    pub fn is_any(&self, words: &[&str]) -> bool {
        self.is_plain() && words.contains(&self.text.to_lowercase().as_str())
    }

    /// Returns the text as a name, without `()` at its end.
    pub fn name(&self) -> String {
        self.text.trim_end_matches("()").to_owned()
    }

    pub fn is_plain(&self) -> bool {
        match self.quoting {
            Quoting::Plain => true,
            Quoting::Quoted => false,
        }
    }
}

/// Splits a sentence into words. A comma becomes "and".
pub(crate) fn words(sentence: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = sentence.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = closing_quote(first).and_then(|end| {
            let inside = &rest[first.len_utf8()..];
            closing_position(inside, end).map(|at| (&inside[..at], &inside[at + end.len_utf8()..]))
        });
        let after = if let Some((text, after)) = quoted {
            words.push(Word {
                text: text.to_owned(),
                quoting: Quoting::Quoted,
            });
            // `X`() means `X`.
            let after = after.trim_start_matches(['(', ')']);
            if after.starts_with(',') {
                words.push(comma());
            }
            after.trim_start_matches([',', ';', '.', '!', '?', ')', ':'])
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            push_plain(&rest[..end], &mut words);
            &rest[end..]
        };
        rest = after.trim_start();
    }
    words
}

fn closing_quote(opening: char) -> Option<char> {
    match opening {
        '`' | '"' | '\'' => Some(opening),
        '“' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        _ => None,
    }
}

/// Returns the position of the closing quote: the first quote that no letter follows, so that an apostrophe within a word does not count.
fn closing_position(inside: &str, end: char) -> Option<usize> {
    let followed_by_letter = |at: usize| {
        inside[at + end.len_utf8()..]
            .chars()
            .next()
            .is_some_and(char::is_alphanumeric)
    };
    let mut ends = inside.match_indices(end).map(|(at, _)| at);
    ends.find(|&at| at > 0 && !followed_by_letter(at))
}

fn push_plain(token: &str, words: &mut Vec<Word>) {
    let text = token
        .trim_start_matches('(')
        .trim_end_matches([',', ';', '!', '?', ':'])
        .trim_end_matches("()")
        .trim_end_matches([')', ',']);
    // A full stop ends a sentence, but `.` and `..` are paths.
    let text = match text.trim_end_matches('.') {
        "" => text,
        without => without,
    };
    if !text.is_empty() {
        words.push(Word {
            text: text.to_owned(),
            quoting: Quoting::Plain,
        });
    }
    if token.ends_with(',') {
        words.push(comma());
    }
}

fn comma() -> Word {
    Word {
        text: "and".to_owned(),
        quoting: Quoting::Plain,
    }
}
