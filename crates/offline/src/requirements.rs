//! The user's requirements: the goal with all guidance and answers so far applied to it (PAOR-8, PAOR-9).

use dirigent_core::tags;

use super::goal::{self, Goal, guidance_scope, is_identifier, strip_keep_clause};
use super::prompt_sections::Sections;
use super::words::{Word, words};

/// The user's requirements: the goal, and decisions about it, with all guidance and answers so far applied.
pub(crate) struct Requirements {
    /// The goal, changed by guidance and answers.
    pub goal: Goal,
    pub clash: ClashPolicy,
    pub decision: UserDecision,
    pub on_failure: OnFailure,
    /// Numbers of the guidance entries that the offline model follows.
    pub followed_guidance: Vec<u32>,
    /// Numbers of the guidance entries that the offline model does not understand.
    pub unsupported_guidance: Vec<u32>,
}

/// Whether a rename may introduce a name that is already in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClashPolicy {
    Refuse,
    Allow,
}

/// What the run does with changes if the goal cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Undo,
    KeepChanges,
}

/// The decision in the user's last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserDecision {
    Continue,
    Stop,
    /// The answer asks for another name without giving the name, or is not understood.
    NameNeeded,
}

/// Words in answers that stop the run.
const STOP: &[&str] = &["stop", "no", "cancel"];
/// Words in answers that allow the name although it is in use.
const ANYWAY: &[&str] = &["anyway", "yes", "go"];
/// Words in answers that ask for another name.
const ANOTHER: &[&str] = &["another", "other"];

impl Requirements {
    /// Parses a request's goal, guidance and answers.
    pub fn parse(sections: &Sections<'_>) -> Requirements {
        let (goal, on_failure) = parse_goal(&words(sections.text(tags::GOAL).unwrap_or_default()));
        let mut requirements = Requirements {
            goal,
            clash: ClashPolicy::Refuse,
            decision: UserDecision::Continue,
            on_failure,
            followed_guidance: Vec::new(),
            unsupported_guidance: Vec::new(),
        };
        for (number, text) in sections.guidance() {
            if requirements.apply_guidance(&words(&text)) {
                requirements.followed_guidance.push(number);
            } else {
                requirements.unsupported_guidance.push(number);
            }
        }
        for answer in sections.answers() {
            requirements.apply_answer(&words(&answer.answer));
        }
        requirements
    }

    /// Applies a guidance entry. Returns false if it is not understood.
    fn apply_guidance(&mut self, guidance: &[Word]) -> bool {
        let (guidance, mut understood) = self.apply_keep_clause(guidance);
        if let (Goal::Rename(rename), Some(name)) = (&mut self.goal, new_name(guidance)) {
            rename.to = name;
            understood = true;
        }
        let Some(places) = guidance_scope(guidance) else {
            return understood;
        };
        match &mut self.goal {
            Goal::Rename(rename) => rename.scope.narrow(places),
            Goal::FindUsages { scope, .. } | Goal::Replace { scope, .. } | Goal::Count { scope, .. } => {
                scope.narrow(places);
            }
            Goal::Check { .. } | Goal::CreateProject(_) | Goal::Unsupported => return understood,
        }
        true
    }

    /// Applies "keep the changes" at the end of a message. Returns the words before it, and true if it was present.
    fn apply_keep_clause<'a>(&mut self, words: &'a [Word]) -> (&'a [Word], bool) {
        match strip_keep_clause(words).filter(|_| self.goal.changes_files()) {
            Some(rest) => {
                self.on_failure = OnFailure::KeepChanges;
                (rest, true)
            }
            None => (words, false),
        }
    }

    /// Applies the answer to a question about a name.
    fn apply_answer(&mut self, answer: &[Word]) {
        let (words, keeps_changes) = self.apply_keep_clause(answer);
        let Goal::Rename(rename) = &mut self.goal else {
            return;
        };
        if keeps_changes && words.is_empty() {
            return;
        }
        let has = |options: &[&str]| words.iter().any(|word| word.is_any(options));
        let quoted = words
            .iter()
            .find(|word| !word.is_plain() && is_identifier(&word.text))
            .map(|word| word.text.clone());
        let alone = match words {
            [only] if is_identifier(&only.text) && !is_answer(only) => Some(only.text.clone()),
            _ => None,
        };
        if let Some(name) = quoted.or(alone).or_else(|| new_name(words)) {
            rename.to = name;
            (self.clash, self.decision) = (ClashPolicy::Refuse, UserDecision::Continue);
        } else if has(ANOTHER) {
            self.decision = UserDecision::NameNeeded;
        } else if has(STOP) {
            self.decision = UserDecision::Stop;
        } else if has(ANYWAY) {
            (self.clash, self.decision) = (ClashPolicy::Allow, UserDecision::Continue);
        } else {
            self.decision = UserDecision::NameNeeded;
        }
    }
}

/// Parses the goal and the handling of failures. Only a goal that changes files can have a keep clause.
fn parse_goal(words: &[Word]) -> (Goal, OnFailure) {
    match strip_keep_clause(words)
        .map(goal::from_words)
        .filter(Goal::changes_files)
    {
        Some(goal) => (goal, OnFailure::KeepChanges),
        None => (goal::from_words(words), OnFailure::Undo),
    }
}

/// Returns the name in "call it Z", "rename it to Z" or "use Z instead"; `None` for other words.
fn new_name(words: &[Word]) -> Option<String> {
    let verb = words
        .iter()
        .position(|word| word.is_any(&["call", "rename", "use"]))?;
    let after = &words[verb + 1..];
    let is_clear = if words[verb].is_any(&["use"]) {
        after.len() == 1 || after.iter().any(|word| word.is_any(&["instead"]))
    } else {
        after.first().is_some_and(|word| word.is_any(&["it"]))
    };
    let name = after.iter().find(|word| !word.is_any(&["it", "to", "instead"]))?;
    (is_clear && is_identifier(&name.text) && !is_answer(name) && !name.is_any(&["in", "only"]))
        .then(|| name.text.clone())
}

/// Returns true if the word is a known answer, so that it cannot be a name.
fn is_answer(word: &Word) -> bool {
    [STOP, ANYWAY, ANOTHER].iter().any(|answers| word.is_any(answers))
}
