//! Finds the values of a workflow's parameters in a sentence (FLOW-2), by name, type and position.
//!
//! Every word must be accounted for: as a value, as a parameter's name, or as a word without a meaning of its own. Otherwise no value is
//! given, because a value given by half a sentence would run something that the user did not ask for. Values are not validated: the caller
//! tells the user why a value is wrong.

mod lexicon;
#[cfg(test)]
mod tests;
mod tokens;

use dirigent_core::prompt::{ParameterLine, ParameterType, SET_PARAMETERS};
use dirigent_core::tags;
use dirigent_core::tags::unescape_tags;
use dirigent_core::text::number_from_word;
use serde_json::{Map, Value};

use crate::conversation::{Call, Conversation};
use lexicon::{Lexicon, is_link, is_naming, is_negation, is_place, is_target};
use tokens::{Token, tokens};

/// Returns the call that gives the parameters their values. It gives none if the sentence is not understood.
pub(crate) fn next(conversation: &Conversation<'_>) -> Call {
    let section = |tag| unescape_tags(conversation.sections.text(tag).unwrap_or_default());
    let lines = section(tags::PARAMETERS);
    let parameters: Vec<ParameterLine> = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let values = found(&section(tags::WORKFLOW), &parameters, &section(tags::WORDS));
    Call::terminating(SET_PARAMETERS, Value::Object(values.unwrap_or_default()))
}

/// Returns the values in the words; `None` if the words are not understood. `workflow` is the name and the description of the workflow.
fn found(workflow: &str, parameters: &[ParameterLine], words: &str) -> Option<Map<String, Value>> {
    let lexicon = Lexicon::new(workflow, parameters);
    let mut search = Search {
        tokens: tokens(words, &lexicon),
        parameters,
        lexicon: &lexicon,
        values: Map::new(),
        open_strings: false,
    };
    search.by_name()?;
    search.choices()?;
    search.numbers()?;
    search.switches();
    search.paths()?;
    search.strings()?;
    let is_left = |token: &Token| !token.used && !search.is_filler(token);
    match !search.open_strings && search.tokens.iter().any(is_left) {
        true => None,
        false => Some(search.values),
    }
}

/// The search for values. A step returns `None` if the words are not understood.
struct Search<'a> {
    tokens: Vec<Token>,
    parameters: &'a [ParameterLine],
    lexicon: &'a Lexicon,
    values: Map<String, Value>,
    /// Whether it is unclear which of several words are the values of the parameters of type string, which the user is asked for.
    open_strings: bool,
}

impl<'a> Search<'a> {
    fn is_filler(&self, token: &Token) -> bool {
        let word = token.text.as_str();
        !token.quoted && (self.lexicon.is_filler(word) || is_place(word) || is_link(word))
    }

    /// Returns true if the token can only be a value.
    fn is_value(&self, token: &Token) -> bool {
        !token.used && !self.is_filler(token) && (token.quoted || !is_negation(&token.text))
    }

    /// Returns the parameters of this type without a value, in order.
    fn unset(&self, kind: ParameterType) -> Vec<&'a ParameterLine> {
        let is_unset = |parameter: &&ParameterLine| !self.values.contains_key(&parameter.name);
        let parameters = self.parameters.iter().filter(is_unset);
        parameters.filter(|parameter| parameter.kind == kind).collect()
    }

    fn word_before(&self, at: usize) -> Option<&Token> {
        self.tokens[..at].last().filter(|token| !token.quoted)
    }

    /// Sets a parameter to the value of a token.
    fn set(&mut self, parameter: &ParameterLine, at: usize, value: Value) {
        self.tokens[at].used = true;
        self.values.insert(parameter.name.clone(), value);
    }

    /// Finds `name value`, `name is value` and `name: value`, and `3 name` for a number. Fails if a parameter gets two values.
    fn by_name(&mut self) -> Option<()> {
        let mut longest_first: Vec<&ParameterLine> = self.parameters.iter().collect();
        longest_first.sort_by_key(|parameter| std::cmp::Reverse(parameter.name.len()));
        for parameter in longest_first {
            for (start, length) in self.places_of(&parameter.name) {
                let Some((at, value)) = self.named_value(parameter, start, length) else {
                    continue;
                };
                if self.values.contains_key(&parameter.name) {
                    return None;
                }
                self.tokens[start..start + length]
                    .iter_mut()
                    .for_each(|token| token.used = true);
                self.set(parameter, at, value);
            }
        }
        Some(())
    }

    /// Returns where the words contain a parameter's name: the first token, and the number of tokens.
    fn places_of(&self, name: &str) -> Vec<(usize, usize)> {
        let name = name.to_lowercase();
        let parts: Vec<&str> = name.split('_').collect();
        let is_part =
            |token: &Token, part: &str| !token.quoted && !token.used && token.text.to_lowercase() == part;
        let whole = |at: usize| {
            is_part(&self.tokens[at], &name) || is_part(&self.tokens[at], &name.replace('_', "-"))
        };
        let in_parts = |at: usize| {
            let tokens = self.tokens.get(at..at + parts.len());
            tokens.is_some_and(|tokens| {
                tokens
                    .iter()
                    .zip(&parts)
                    .all(|(token, part)| is_part(token, part))
            })
        };
        (0..self.tokens.len())
            .filter_map(|at| match (whole(at), in_parts(at)) {
                (true, _) => Some((at, 1)),
                (false, true) => Some((at, parts.len())),
                (false, false) => None,
            })
            .collect()
    }

    /// Returns the value next to a parameter's name.
    fn named_value(&self, parameter: &ParameterLine, start: usize, length: usize) -> Option<(usize, Value)> {
        let is_link_at = |at: &usize| {
            self.tokens
                .get(*at)
                .is_some_and(|token| !token.quoted && is_link(&token.text))
        };
        let mut after = start + length;
        while is_link_at(&after) {
            after += 1;
        }
        let next = self.tokens.get(after).filter(|token| !token.used);
        let value = next.and_then(|token| self.value_of(parameter, token));
        if let Some(value) = value {
            return Some((after, value));
        }
        let is_number = matches!(parameter.kind, ParameterType::Integer | ParameterType::Number);
        let before = start.checked_sub(1).filter(|_| is_number)?;
        let value = number(&self.tokens[before]).filter(|_| !self.tokens[before].used)?;
        Some((before, value))
    }

    /// Returns the token as a value of the parameter, if its type allows.
    fn value_of(&self, parameter: &ParameterLine, token: &Token) -> Option<Value> {
        match parameter.kind {
            ParameterType::Integer | ParameterType::Number => number(token),
            ParameterType::Boolean => switch(token),
            ParameterType::Choice => choice(parameter, token),
            ParameterType::String | ParameterType::Path => {
                self.is_value(token).then(|| Value::from(token.text.clone()))
            }
        }
    }

    /// Finds the choices that the words name. Fails if the words name several choices of a parameter, or one of several parameters.
    fn choices(&mut self) -> Option<()> {
        for parameter in self.unset(ParameterType::Choice) {
            let named: Vec<(usize, Value)> = self
                .tokens
                .iter()
                .enumerate()
                .filter(|(_, token)| !token.used)
                .filter_map(|(at, token)| Some((at, choice(parameter, token)?)))
                .collect();
            let Some((first, value)) = named.first().cloned() else {
                continue;
            };
            let others = self.unset(ParameterType::Choice).into_iter();
            let mut others = others.filter(|other| other.name != parameter.name);
            if named.iter().any(|(_, other)| *other != value)
                || others.any(|other| choice(other, &self.tokens[first]).is_some())
            {
                return None;
            }
            for (at, value) in named {
                self.set(parameter, at, value);
            }
        }
        Some(())
    }

    /// Assigns the numbers in their order. Fails if there are more or fewer of them than parameters.
    fn numbers(&mut self) -> Option<()> {
        let parameters: Vec<&ParameterLine> = self
            .parameters
            .iter()
            .filter(|parameter| matches!(parameter.kind, ParameterType::Integer | ParameterType::Number))
            .filter(|parameter| !self.values.contains_key(&parameter.name))
            .collect();
        let numbers: Vec<(usize, Value)> = self
            .tokens
            .iter()
            .enumerate()
            .filter(|(_, token)| !token.used && !token.quoted)
            .filter_map(|(at, token)| Some((at, number(token)?)))
            .collect();
        if parameters.is_empty() || numbers.is_empty() {
            return Some(());
        }
        if parameters.len() != numbers.len() {
            return None;
        }
        for (parameter, (at, value)) in parameters.into_iter().zip(numbers) {
            self.set(parameter, at, value);
        }
        Some(())
    }

    /// Switches on the parameters whose names the words contain, and off those after "no" or "without".
    fn switches(&mut self) {
        for parameter in self.unset(ParameterType::Boolean) {
            let Some((start, length)) = self.places_of(&parameter.name).first().copied() else {
                continue;
            };
            let before = start.checked_sub(1);
            let negation =
                before.filter(|at| !self.tokens[*at].quoted && is_negation(&self.tokens[*at].text));
            negation
                .into_iter()
                .chain(start..start + length)
                .for_each(|at| self.tokens[at].used = true);
            self.values
                .insert(parameter.name.clone(), Value::from(negation.is_none()));
        }
    }

    /// Finds the paths: words with a path's form, and words after "in". Fails if they are more than the parameters.
    fn paths(&mut self) -> Option<()> {
        let parameters = self.unset(ParameterType::Path);
        let has_strings = !self.unset(ParameterType::String).is_empty();
        let paths: Vec<usize> = (0..self.tokens.len())
            .filter(|at| {
                let token = &self.tokens[*at];
                let is_place = self.word_before(*at).is_some_and(|word| is_place(&word.text));
                self.is_value(token)
                    && (is_place || has_path_form(&token.text) && !(token.quoted && has_strings))
            })
            .collect();
        if parameters.is_empty() || paths.is_empty() {
            return Some(());
        }
        let required: Vec<&ParameterLine> = parameters.iter().copied().filter(|it| it.required).collect();
        let parameters = match paths.len() {
            count if count == required.len() => required,
            count if count == parameters.len() => parameters,
            _ => return None,
        };
        for (parameter, at) in parameters.into_iter().zip(paths) {
            let value = Value::from(self.tokens[at].text.clone());
            self.set(parameter, at, value);
        }
        Some(())
    }

    /// Assigns the other words in their order. If their number does not fit, the user is asked for all strings; fails if a string is
    /// optional, because the user would not be asked.
    fn strings(&mut self) -> Option<()> {
        self.names()?;
        let all = self.unset(ParameterType::String);
        let required: Vec<&ParameterLine> = all.iter().copied().filter(|it| it.required).collect();
        let words: Vec<usize> = (0..self.tokens.len())
            .filter(|at| self.is_value(&self.tokens[*at]))
            .collect();
        let is_marked = |at: &usize| self.tokens[*at].quoted || is_identifier(&self.tokens[*at].text);
        let is_target_at = |at: &usize| self.word_before(*at).is_some_and(|word| is_target(&word.text));
        if words.is_empty() {
            return Some(());
        }
        let chosen = if words.len() <= required.len() {
            let first_is_target = words.first().is_some_and(is_target_at) && required.len() > 1;
            (!first_is_target).then_some(required.clone())
        } else if words.len() == all.len() && words.iter().all(is_marked) {
            Some(all.clone())
        } else {
            None
        };
        match chosen {
            Some(parameters) => {
                for (parameter, at) in parameters.into_iter().zip(words) {
                    let value = Value::from(self.tokens[at].text.clone());
                    self.set(parameter, at, value);
                }
            }
            None if !all.is_empty() && all.len() == required.len() && words.iter().all(is_marked) => {
                self.open_strings = true;
            }
            None => return None,
        }
        Some(())
    }

    /// Assigns the word after "called" to the parameter for a name, whatever word it is. Fails if there are two such words.
    fn names(&mut self) -> Option<()> {
        let follows_naming = |at: &usize| {
            let naming = self.word_before(*at);
            naming.is_some_and(|word| is_naming(&word.text)) && !self.tokens[*at].used
        };
        let named: Vec<usize> = (1..self.tokens.len()).filter(follows_naming).collect();
        let strings = self.unset(ParameterType::String);
        let is_name =
            |parameter: &&ParameterLine| parameter.name == "name" || parameter.name.ends_with("_name");
        let parameter = match (
            strings.as_slice(),
            strings
                .iter()
                .copied()
                .filter(is_name)
                .collect::<Vec<_>>()
                .as_slice(),
        ) {
            (_, [only]) | ([only], []) => *only,
            _ => return Some(()),
        };
        match named.as_slice() {
            [] => {}
            [only] => {
                let value = Value::from(self.tokens[*only].text.clone());
                self.set(parameter, *only, value);
            }
            _ => return None,
        }
        Some(())
    }
}

fn number(token: &Token) -> Option<Value> {
    let text = token.text.as_str();
    let whole = text.parse::<i64>().ok().map(Value::from);
    let decimal = || {
        text.parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from)
    };
    let begins_as_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    let digits = begins_as_number.then(|| whole.or_else(decimal)).flatten();
    digits.or_else(|| number_from_word(text).map(Value::from))
}

fn switch(token: &Token) -> Option<Value> {
    match token.text.to_lowercase().as_str() {
        "yes" | "true" | "on" | "是" => Some(Value::from(true)),
        "no" | "false" | "off" | "否" => Some(Value::from(false)),
        _ => None,
    }
}

/// Returns the choice that the word names, in any letter case, also in the singular.
fn choice(parameter: &ParameterLine, token: &Token) -> Option<Value> {
    let word = token.text.to_lowercase();
    let plural = format!("{word}s");
    let named = |choice: &&String| {
        let choice = choice.to_lowercase();
        choice == word || choice == plural
    };
    parameter
        .choices
        .iter()
        .find(named)
        .map(|choice| Value::from(choice.clone()))
}

/// Returns true for `src/`, `.`, `../a` and `README.md`.
fn has_path_form(text: &str) -> bool {
    let extension = text.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    let has_extension = extension.is_some_and(|(_, extension)| {
        (1..=5).contains(&extension.len()) && extension.starts_with(|c: char| c.is_ascii_alphabetic())
    });
    text.contains('/') || text.starts_with('.') || has_extension
}

/// Returns true for a word that looks like a name in code: `parse_amount`, `my-app`, `parseAmount`, `v2`.
fn is_identifier(text: &str) -> bool {
    let inner_upper = text.chars().skip(1).any(char::is_uppercase) && text.chars().any(char::is_lowercase);
    inner_upper
        || text.contains(['_', '-', '.', ':', '/', '$', '#'])
        || text.contains(|c: char| c.is_ascii_digit())
}
