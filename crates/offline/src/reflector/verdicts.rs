//! The input of the reflector, and constructors for its verdicts.

use dirigent_core::plan::Plan;
use dirigent_core::prompt::{ObservationLine, PastIteration};
use dirigent_core::reflection::{Reflection, ReflectionVerdict};

use crate::requirements::Requirements;

/// Input of a reflector.
pub(super) struct ReflectionContext {
    pub requirements: Requirements,
    pub plan: Plan,
    pub observations: Vec<ObservationLine>,
    /// The iterations before this one.
    pub iterations: Vec<PastIteration<'static>>,
    /// The files that the run has changed.
    pub changed: Vec<String>,
}

pub(super) fn achieved(summary: String) -> Reflection {
    reflection(ReflectionVerdict::Achieved, summary)
}

pub(super) fn failed(summary: String) -> Reflection {
    reflection(ReflectionVerdict::Failed, summary)
}

pub(super) fn continue_with(summary: String) -> Reflection {
    reflection(ReflectionVerdict::Continue, summary)
}

pub(super) fn ask_user(summary: String, question: String, choices: &[&str]) -> Reflection {
    Reflection {
        question: Some(question),
        choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
        ..reflection(ReflectionVerdict::AskUser, summary)
    }
}

fn reflection(verdict: ReflectionVerdict, summary: String) -> Reflection {
    Reflection {
        verdict,
        summary,
        question: None,
        choices: Vec::new(),
        confirmed_by: Vec::new(),
    }
}
