//! A question to the user, and what counts as its answer (PAOR-9).

use serde::{Deserialize, Serialize};

use crate::text::{one_line, shorten};

/// Characters of a choice that stand in an error.
const SHOWN_CHOICE: usize = 200;

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What to decide.
    pub question: String,
    /// Answers to choose from; none where any text will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// Why a text does not answer a question. The question still waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// A number that no choice has.
    #[error(
        "{number} is none of the {} choices: {}. Answer with a number from 1 to {}, or in your own words",
        choices.len(), numbered(choices), choices.len()
    )]
    NoSuchChoice {
        /// The number as it was given.
        number: String,
        /// The choices, of which the first has the number 1.
        choices: Vec<String>,
    },
}

impl Question {
    /// Returns the answer that a user's text stands for: the choice with that text or that number (from 1), otherwise the text itself.
    /// Applied to its own result, it returns the same.
    ///
    /// # Errors
    /// [`AnswerError::NoSuchChoice`] for a number that no choice has. A question without choices takes any text.
    pub fn choose(&self, text: &str) -> Result<String, AnswerError> {
        let said = text.trim();
        // The text comes first: among the choices 10, 5 and 1, "1" is the third.
        if let Some(choice) = self.choices.iter().find(|choice| choice.trim() == said) {
            return Ok(choice.clone());
        }
        if self.choices.is_empty() || !is_whole_number(said) {
            return Ok(text.to_owned());
        }
        let index = said
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let choice = index.and_then(|index| self.choices.get(index));
        choice.cloned().ok_or_else(|| AnswerError::NoSuchChoice {
            number: said.to_owned(),
            choices: self.choices.clone(),
        })
    }
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// `1 the first, 2 the second`.
fn numbered(choices: &[String]) -> String {
    let numbered = (1..).zip(choices).map(|(number, choice): (usize, _)| {
        let choice = one_line(choice);
        format!("{number} `{}`", shorten(&choice, SHOWN_CHOICE, None))
    });
    numbered.collect::<Vec<_>>().join(", ")
}
