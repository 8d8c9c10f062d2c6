//! Questions to the user, and the texts that answer them (PAOR-9).

use serde::{Deserialize, Serialize};

use crate::text::{one_line, shorten};

/// The most characters of a choice that an error shows.
const MAX_CHOICE: usize = 200;

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The question's text.
    pub question: String,
    /// Answers to choose from; empty if any text will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// Why a text does not answer a question, which stays open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// A number that no choice has.
    #[error(
        "{number} is none of the {} choices: {}. Answer with a number from 1 to {}, or in your own words",
        choices.len(), numbered(choices), choices.len()
    )]
    NoSuchChoice {
        /// The number as given.
        number: String,
        /// The choices, numbered from 1.
        choices: Vec<String>,
    },
}

impl Question {
    /// Returns the answer that the user's text means: the choice with this text or number (from 1), otherwise the text itself. Idempotent.
    ///
    /// # Errors
    /// [`AnswerError::NoSuchChoice`] for a number that no choice has. A question without choices accepts any text.
    pub fn choose(&self, text: &str) -> Result<String, AnswerError> {
        let trimmed = text.trim();
        // Texts take precedence over numbers: of the choices 10, 5 and 1, "1" is the third.
        if let Some(choice) = self.choices.iter().find(|choice| choice.trim() == trimmed) {
            return Ok(choice.clone());
        }
        if self.choices.is_empty() || !is_whole_number(trimmed) {
            return Ok(text.to_owned());
        }
        let index = trimmed
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let choice = index.and_then(|index| self.choices.get(index));
        choice.cloned().ok_or_else(|| AnswerError::NoSuchChoice {
            number: trimmed.to_owned(),
            choices: self.choices.clone(),
        })
    }
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Formats choices as `1 the first, 2 the second`.
fn numbered(choices: &[String]) -> String {
    let numbered = (1..).zip(choices).map(|(number, choice): (usize, _)| {
        let choice = one_line(choice);
        format!("{number} `{}`", shorten(&choice, MAX_CHOICE, None))
    });
    numbered.collect::<Vec<_>>().join(", ")
}
