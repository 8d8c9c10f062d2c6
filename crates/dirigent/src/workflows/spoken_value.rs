//! Compares the values that a model found in a sentence with the sentence, so that no value is used that the user did not write (FLOW-2).
//!
//! Letter case does not count, and spaces, `-` and `_` are the same. Where the sentence's own spelling is a valid value, it is used.

use dirigent_core::intent::{PhraseMention, find_mention};
use dirigent_core::text::{is_han, number_from_word};

use super::parameter::{Parameter, ParameterKind};

/// A value that a model found in a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpokenValue {
    /// The valid value, in its normal form.
    Valid(String),
    /// The sentence has the value, but the parameter cannot have it, for this reason.
    Invalid { value: String, reason: String },
    /// The sentence does not have the value.
    Invented,
}

/// Compares a model's value for a parameter with the sentence.
pub(super) fn check(parameter: &Parameter, sentence: &str, value: &str) -> SpokenValue {
    let checked = parameter.check(value);
    let written = match (&parameter.kind, &checked) {
        (ParameterKind::Boolean, Ok(_)) => has_switch(sentence, parameter, value).then_some(value),
        (ParameterKind::Integer | ParameterKind::Number, Ok(_)) => {
            has_number(sentence, value).then_some(value)
        }
        (ParameterKind::Choice(_), Ok(choice)) => has_choice(sentence, choice).then_some(value),
        (ParameterKind::Path, _) => {
            find(sentence, value).or_else(|| find(sentence, value.trim_end_matches('/')))
        }
        (
            ParameterKind::String
            | ParameterKind::Boolean
            | ParameterKind::Integer
            | ParameterKind::Number
            | ParameterKind::Choice(_),
            _,
        ) => find(sentence, value),
    };
    let Some(written) = written else {
        return SpokenValue::Invented;
    };
    match (parameter.check(written), checked) {
        (Ok(valid), _) | (Err(_), Ok(valid)) => SpokenValue::Valid(valid),
        (Err(reason), Err(_)) => SpokenValue::Invalid {
            value: written.to_owned(),
            reason,
        },
    }
}

/// Returns true if the text is a part of the value, except for letter case and separators.
pub(super) fn contains(value: &str, text: &str) -> bool {
    find(value, text).is_some()
}

/// A normalized character of a text, with its byte range in the text.
struct NormalChar {
    c: char,
    start: usize,
    end: usize,
}

/// Finds a value as whole words of a text, and returns the text's own spelling, preferably the same.
fn find<'a>(text: &'a str, value: &str) -> Option<&'a str> {
    let (haystack, needle) = (normalized(text), normalized(value.trim()));
    if needle.is_empty() {
        return None;
    }
    let mut same_word = None;
    for window in haystack.windows(needle.len()) {
        if !window.iter().zip(&needle).all(|(a, b)| a.c == b.c) {
            continue;
        }
        let (start, end) = (window[0].start, window[window.len() - 1].end);
        if continues(&text[..start], &text[start..end], &text[end..]) {
            continue;
        }
        let written = &text[start..end];
        if written == value.trim() {
            return Some(written);
        }
        same_word = same_word.or(Some(written));
    }
    same_word
}

fn normalized(text: &str) -> Vec<NormalChar> {
    let mut normalized: Vec<NormalChar> = Vec::new();
    for (start, written) in text.char_indices() {
        let end = start + written.len_utf8();
        if written.is_whitespace() || written == '-' || written == '_' {
            match normalized.last_mut() {
                Some(last) if last.c == ' ' => last.end = end,
                Some(_) | None => normalized.push(NormalChar { c: ' ', start, end }),
            }
            continue;
        }
        normalized.extend(written.to_lowercase().map(|c| NormalChar { c, start, end }));
    }
    normalized
}

/// Returns true if the word in the middle continues before or after it, as `app` does in `my-app` and `src` in `src/main.rs`.
fn continues(before: &str, middle: &str, after: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() && !is_han(c);
    let is_inner = |c: char| matches!(c, '-' | '_' | '.' | '/' | '\\' | ':');
    let joins = |edge: Option<char>, next: Option<char>, beyond: Option<char>| {
        let (Some(edge), Some(next)) = (edge, next) else {
            return false;
        };
        if is_word(next) {
            return is_word(edge) || is_inner(edge);
        }
        is_word(edge) && is_inner(next) && beyond.is_some_and(is_word)
    };
    let mut previous = before.chars().rev();
    let mut following = after.chars();
    joins(middle.chars().next(), previous.next(), previous.next())
        || joins(middle.chars().next_back(), following.next(), following.next())
}

fn has_choice(sentence: &str, choice: &str) -> bool {
    let singular = choice.strip_suffix('s').filter(|word| !word.is_empty());
    find(sentence, choice).is_some()
        || find(sentence, &format!("{choice}s")).is_some()
        || singular.is_some_and(|word| find(sentence, word).is_some())
}

/// Returns true if the sentence has the number in digits or as a word. Digits in a word, as in `v2` and `job-7`, are no number.
fn has_number(sentence: &str, value: &str) -> bool {
    let is_value = |number: &str| match (number.parse::<i64>(), value.trim().parse::<i64>()) {
        (Ok(number), Ok(value)) => number == value,
        (Ok(_) | Err(_), _) => number
            .parse::<f64>()
            .is_ok_and(|number| value.trim().parse() == Ok(number)),
    };
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == '+';
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphabetic() && !is_han(c));
    let mut rest = sentence;
    while let Some(start) = rest.find(is_part) {
        let before = rest[..start].chars().next_back();
        let end = rest[start..]
            .find(|c| !is_part(c))
            .map_or(rest.len(), |length| start + length);
        let digits = rest[start..end].trim_end_matches(['.', '-']);
        if !is_letter(before) && !is_letter(rest[end..].chars().next()) && is_value(digits) {
            return true;
        }
        rest = &rest[end..];
    }
    let is_number = |word: &str| number_from_word(word).is_some_and(|number| is_value(&number.to_string()));
    let mut words = sentence.split(|c: char| !c.is_alphanumeric() || is_han(c));
    let mut characters = sentence.chars().filter(|c| is_han(*c)).map(String::from);
    words.any(is_number) || characters.any(|c| is_number(&c))
}

/// Returns true if the sentence has the value of a switch: the name of the parameter stands for `true`, unless the words before it negate
/// it or the word after it is the value. Without the name, the whole sentence must be the value.
fn has_switch(sentence: &str, parameter: &Parameter, value: &str) -> bool {
    let said = match find_mention(sentence, &parameter.name) {
        Some(PhraseMention { is_negated, next }) => parameter
            .check(&next)
            .unwrap_or_else(|_| (!is_negated).to_string()),
        None => sentence.trim_matches(|c: char| !c.is_alphanumeric()).to_owned(),
    };
    parameter
        .check(value)
        .is_ok_and(|value| parameter.check(&said) == Ok(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameter(kind: ParameterKind, pattern: Option<&str>) -> Parameter {
        Parameter {
            name: "dry_run".to_owned(),
            kind,
            required: true,
            default: None,
            pattern: pattern.map(str::to_owned),
            description: String::new(),
        }
    }

    #[test]
    fn flow_2_a_value_must_be_in_the_sentence() {
        use ParameterKind::{Boolean, Choice, Integer, Number, Path, String};
        let choice = || Choice(["python", "tests"].map(str::to_owned).into());
        let cases: [(ParameterKind, &str, &str, Option<&str>); 37] = [
            (String, "a package called my-app please", "my-app", Some("my-app")),
            // The user's spelling counts.
            (String, "call it My App", "my-app", Some("My App")),
            (String, "rename parseAmount", "parseamount", Some("parseAmount")),
            (String, "把parse_amount改名", "parse_amount", Some("parse_amount")),
            (String, "write `a b`, now", "a b", Some("a b")),
            (String, "for bob's team", "bob", Some("bob")),
            // Invented, or a part of a word.
            (String, "a package", "my-app", None),
            (String, "a package called my-app", "app", None),
            (String, "rename parse_amount", "parse", None),
            (String, "look at src/parse.rs", "parse", None),
            (String, "a package", "", None),
            (Path, "in src/", "src", Some("src")),
            (Path, "in src", "src/", Some("src")),
            (Path, "in src/main.rs.", "src/main.rs", Some("src/main.rs")),
            (Path, "in src/main.rs", "src", None),
            (Path, "in src/main.rs", "src/", None),
            (choice(), "a Python package", "python", Some("python")),
            (choice(), "run the test", "tests", Some("tests")),
            (choice(), "a snake package", "python", None),
            (Integer, "3 times", "3", Some("3")),
            (Integer, "Three times", "3", Some("3")),
            (Integer, "重复三次", "3", Some("3")),
            (Integer, "13 times", "3", None),
            (Number, "at 0.50.", "0.5", Some("0.5")),
            (Boolean, "as a dry run", "true", Some("true")),
            (Boolean, "yes", "true", Some("true")),
            (Boolean, "a wet one", "false", None),
            (Boolean, "deploy as a dry run", "false", None),
            (Boolean, "this is not a dry run", "false", Some("false")),
            (Boolean, "this is not a dry run", "true", None),
            (Boolean, "with dry run off", "false", Some("false")),
            (Boolean, "run tests on src", "true", None),
            (Boolean, "there is no hurry", "false", None),
            (Integer, "rename v2 to v3", "2", None),
            (Integer, "the log of job-7", "-7", None),
            (Integer, "9007199254740993", "9007199254740992", None),
            (Number, "-1.5 degrees", "-1.5", Some("-1.5")),
        ];
        for (kind, sentence, value, expected) in cases {
            let checked = check(&parameter(kind, None), sentence, value);
            let expected = expected.map_or(SpokenValue::Invented, |value| {
                SpokenValue::Valid(value.to_owned())
            });
            assert_eq!(checked, expected, "{value} in {sentence}");
        }
    }

    #[test]
    fn flow_2_a_value_in_the_sentence_is_checked_as_a_typed_one() {
        let name = parameter(ParameterKind::String, Some("[a-z-]+"));
        assert_eq!(
            check(&name, "call it my app", "my-app"),
            SpokenValue::Valid("my-app".to_owned())
        );
        let choice = parameter(ParameterKind::Choice(vec!["rust".to_owned()]), None);
        let path = parameter(ParameterKind::Path, None);
        for (parameter, sentence, value, reason) in [
            (&name, "call it App2", "App2", "it must match `[a-z-]+`"),
            (&choice, "in Cobol", "cobol", "it must be one of rust"),
            (&path, "in ../up", "../up", "it leads out of the workspace"),
        ] {
            let checked = check(parameter, sentence, value);
            let is_refused =
                matches!(&checked, SpokenValue::Invalid { reason: found, .. } if found == reason);
            assert!(is_refused, "{sentence}: {checked:?}");
        }
    }

    proptest! {
        #[test]
        fn flow_2_any_found_value_is_a_part_of_the_sentence(sentence in "\\PC*", value in "\\PC*") {
            if let Some(found) = find(&sentence, &value) {
                prop_assert!(sentence.contains(found));
            }
        }
    }
}
