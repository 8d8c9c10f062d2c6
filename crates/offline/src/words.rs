//! A sentence as words. Knows quotes and punctuation, and nothing of what the words mean.

/// A word of a sentence, or a quoted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Its text, without the quotes and the punctuation around it.
    pub text: String,
    /// Whether it stood in quotes or backticks: then it is a name or a text, never part of the grammar.
    pub quoting: Quoting,
}

/// How a word stood in the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoting {
    /// As it is.
    Plain,
    /// In quotes or backticks.
    Quoted,
}

impl Word {
    /// Whether it is one of these words of the grammar, in lower case.
    pub fn is_any(&self, words: &[&str]) -> bool {
        self.is_plain() && words.contains(&self.text.to_lowercase().as_str())
    }

    /// Whether it stood without quotes.
    pub fn is_plain(&self) -> bool {
        match self.quoting {
            Quoting::Plain => true,
            Quoting::Quoted => false,
        }
    }
}

/// The words of a sentence in their order.
pub(crate) fn words(sentence: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = sentence.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = closing(first).and_then(|end| {
            let inside = &rest[first.len_utf8()..];
            closing_position(inside, end).map(|at| (&inside[..at], &inside[at + end.len_utf8()..]))
        });
        let after = if let Some((text, after)) = quoted {
            words.push(Word {
                text: text.to_owned(),
                quoting: Quoting::Quoted,
            });
            // `X`() says nothing more than `X`.
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

/// Which character ends a quotation that this one opens.
fn closing(opening: char) -> Option<char> {
    match opening {
        '`' | '"' | '\'' => Some(opening),
        '“' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        _ => None,
    }
}

/// Where a quotation ends: at a quote that no letter follows, so that an apostrophe in it doesn't.
fn closing_position(inside: &str, end: char) -> Option<usize> {
    inside.match_indices(end).map(|(at, _)| at).find(|&at| {
        at > 0
            && !inside[at + end.len_utf8()..]
                .chars()
                .next()
                .is_some_and(char::is_alphanumeric)
    })
}

fn push_plain(token: &str, words: &mut Vec<Word>) {
    let text = token
        .trim_start_matches('(')
        .trim_end_matches([',', ';', '!', '?', ':'])
        .trim_end_matches("()")
        .trim_end_matches([')', ',']);
    // A stop ends a sentence, but `.` and `..` are paths.
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

/// A comma lists things, as "and" does.
fn comma() -> Word {
    Word {
        text: "and".to_owned(),
        quoting: Quoting::Plain,
    }
}
