//! Questions to the user, and the interpretation of the user's text as an answer (PAOR-9).

use serde::{Deserialize, Serialize};

use crate::id::EffectId;
use crate::limits::RunLimits;
use crate::text::{one_line, shorten};
use crate::time::{Millis, Timestamp};

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

/// A question that waits for the user's answer. JSON: `"effect"`, `"agent"`, the fields of [`Question`], `"asked_at"` and `"expires_at"`;
/// times are milliseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The question's effect id, to which answers refer. The attempt in the id is ignored, so that the id stays valid after a restart.
    pub effect: EffectId,
    /// The name of the agent that asks (LEAD-4); `None` for a question of the run, which its reflector asks (PAOR-9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The question.
    #[serde(flatten)]
    pub question: Question,
    /// The time at which the question was asked.
    pub asked_at: Timestamp,
    /// The time at which the question expires; `None` if it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl OpenQuestion {
    /// Creates a question of an agent. It expires after the same time as an approval.
    pub(crate) fn of_agent(
        effect: EffectId,
        agent: String,
        question: Question,
        limits: &RunLimits,
        now: Timestamp,
    ) -> Self {
        OpenQuestion {
            effect,
            agent: Some(agent),
            question,
            asked_at: now,
            expires_at: limits.approval_timeout.map(|timeout| now + timeout),
        }
    }

    /// Returns the question as if it were asked at `now`, with a new expiry.
    pub(crate) fn renewed(&self, limits: &RunLimits, now: Timestamp) -> Self {
        OpenQuestion {
            asked_at: now,
            expires_at: limits.approval_timeout.map(|timeout| now + timeout),
            ..self.clone()
        }
    }

    /// Extends the deadline by the time in which no process could accept an answer.
    pub(crate) fn extend_expiry(&mut self, by: Millis) {
        self.expires_at = self.expires_at.map(|expires_at| expires_at + by);
    }

    /// Returns true if the question has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
    }
}

/// The reason why an answer cannot be assigned to an open question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// No question is open.
    #[error("no question is open: none was asked, or it was already answered")]
    NoQuestion,
    /// No open question has this id.
    #[error(
        "the question `{question}` is not open: it was already answered, has been withdrawn or was never asked. Open questions: {}",
        listed(open)
    )]
    NotOpen {
        /// The id that was given.
        question: String,
        /// The open questions.
        open: Vec<OpenQuestion>,
    },
    /// The answer has several words, and the first word is not the id of a question.
    #[error(
        "`{word}` is not the id of a question, such as `a3.7`: put an answer of several words in quotes. Open questions: {}",
        listed(open)
    )]
    NotAnId {
        /// The first word.
        word: String,
        /// The open questions.
        open: Vec<OpenQuestion>,
    },
    /// Several questions are open, and the answer does not name any of them.
    #[error("several questions are open; specify the one to answer: {}", listed(open))]
    Several {
        /// The open questions.
        open: Vec<OpenQuestion>,
    },
}

/// Returns the open question with this id, whatever its attempt. Without an id, returns the only open question.
///
/// # Errors
/// [`SelectionError`] if no question is open, none has the id, or several are open and no id is given.
pub fn select_question(
    open: &[OpenQuestion],
    named: Option<EffectId>,
) -> Result<&OpenQuestion, SelectionError> {
    match (open, named) {
        ([], _) => Err(SelectionError::NoQuestion),
        (_, Some(effect)) => {
            let mut named = open.iter().filter(|asked| asked.effect.is_same_effect(effect));
            named.next().ok_or_else(|| SelectionError::NotOpen {
                question: effect.to_string(),
                open: open.to_vec(),
            })
        }
        ([only], None) => Ok(only),
        (_, None) => Err(SelectionError::Several { open: open.to_vec() }),
    }
}

/// Lists questions on one line: ``a3.7 `first`, a4.2 `second` ``.
fn listed(open: &[OpenQuestion]) -> String {
    let questions = open.iter().map(|asked| {
        let text = one_line(&asked.question.question);
        format!("{} `{}`", asked.effect, shorten(&text, MAX_CHOICE, None))
    });
    questions.collect::<Vec<_>>().join(", ")
}

/// The reason why text is not a valid answer to a question. The question remains open.
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
