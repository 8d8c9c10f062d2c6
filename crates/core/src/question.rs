//! Questions to the user, and the interpretation of the user's text as an answer (PAOR-9).

use serde::{Deserialize, Serialize};

use crate::text::{one_line, shorten};

/// Maximum length of a choice in an error message, in characters.
const MAX_CHOICE: usize = 200;

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The question's text.
    pub question: String,
    /// Suggested answers; empty if there are none. The user may also answer with other text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// The reason why a text does not answer a question. The question remains open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The text is a number, but no choice has this number.
    #[error(
        "{number} is not one of the {} choices: {}. Answer with a number from 1 to {}, or with your own text",
        choices.len(), numbered(choices), choices.len()
    )]
    NoSuchChoice {
        /// The number as entered.
        number: String,
        /// All choices of the question, in order.
        choices: Vec<String>,
    },
}

impl Question {
    /// Returns the answer that the user's text selects: the choice with this text or number (counted from 1), or the text itself.
    /// Idempotent.
    ///
    /// # Errors
    /// [`AnswerError::NoSuchChoice`] if the text is a number, but no choice has this number. A question without choices accepts
    /// any text.
    pub fn choose(&self, text: &str) -> Result<String, AnswerError> {
        let trimmed = text.trim();
        // Texts take precedence over numbers: with the choices 10, 5 and 1, the answer "1" selects the third.
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

/// Formats choices on one line: ``1 `first`, 2 `second` ``.
fn numbered(choices: &[String]) -> String {
    let numbered = (1..).zip(choices).map(|(number, choice): (usize, _)| {
        let choice = one_line(choice);
        format!("{number} `{}`", shorten(&choice, MAX_CHOICE, None))
    });
    numbered.collect::<Vec<_>>().join(", ")
}
