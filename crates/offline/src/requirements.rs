//! What the user wants by now: the goal, with the guidance and the answers that came since (PAOR-8, PAOR-9).

use super::goal::{Goal, is_identifier, strip_keep_clause};
use super::prompt_sections::Sections;
use super::scope::Scope;
use super::tools::ClashPolicy;
use super::words::{Word, words};

/// The goal as it stands.
pub(crate) struct Requirements {
    /// The goal, changed as the user said.
    pub goal: Goal,
    /// Whether a new name may be one that is in use.
    pub clash: ClashPolicy,
    /// What the user's last answer leaves open or ends.
    pub decision: UserDecision,
    /// What is to become of changes where the goal can't be reached.
    pub on_failure: OnFailure,
    /// The guidance that is followed, by its numbers.
    pub followed_guidance: Vec<u32>,
    /// The guidance that is beyond this model, by its numbers.
    pub unsupported_guidance: Vec<u32>,
}

/// What becomes of what was changed for a goal that can't be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The files are as before.
    Undo,
    /// They stay as they are, as the user wants it.
    KeepChanges,
}

/// Where the user's answers leave the goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserDecision {
    /// Go on.
    Continue,
    /// The user wants it to end.
    Stop,
    /// The user wants another name and has not said which, or can't be understood.
    NameNeeded,
}

impl Requirements {
    /// Reads a request's goal, guidance and answers.
    pub fn parse(sections: Sections<'_>) -> Requirements {
        let (goal, on_failure) = parse_goal(&words(sections.text("GOAL").unwrap_or_default()));
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
            requirements.apply_answer(&answer.answer);
        }
        requirements
    }

    /// Follows a piece of guidance; says whether it could.
    fn apply_guidance(&mut self, guidance: &[Word]) -> bool {
        let (guidance, mut understood) = self.take_keep_clause(guidance);
        if let (Goal::Rename(rename), Some(name)) = (&mut self.goal, new_name(guidance)) {
            rename.to = name;
            understood = true;
        }
        let scope = Scope::parse(guidance);
        if scope.is_everything() {
            return understood;
        }
        match &mut self.goal {
            Goal::Rename(rename) => rename.scope.narrow(scope),
            Goal::FindUsages { scope: of_goal, .. }
            | Goal::Replace { scope: of_goal, .. }
            | Goal::Count { scope: of_goal, .. } => {
                of_goal.narrow(scope);
            }
            Goal::Check { .. } | Goal::Unsupported => return understood,
        }
        true
    }

    /// Takes what is said of changes that come to nothing; gives what else is said, and whether there was such a thing.
    fn take_keep_clause<'a>(&mut self, words: &'a [Word]) -> (&'a [Word], bool) {
        let changes_files = match self.goal {
            Goal::Rename(_) | Goal::Replace { .. } => true,
            Goal::FindUsages { .. } | Goal::Check { .. } | Goal::Count { .. } | Goal::Unsupported => false,
        };
        match strip_keep_clause(words).filter(|_| changes_files) {
            Some(rest) => {
                self.on_failure = OnFailure::KeepChanges;
                (rest, true)
            }
            None => (words, false),
        }
    }

    /// Takes the answer to a question about a name that is in use.
    fn apply_answer(&mut self, answer: &str) {
        let words = words(answer);
        let (words, keeps_changes) = self.take_keep_clause(&words);
        let Goal::Rename(rename) = &mut self.goal else {
            return;
        };
        if keeps_changes && words.is_empty() {
            return;
        }
        let says = |options: &[&str]| words.iter().any(|word| word.is_any(options));
        let quoted = words
            .iter()
            .find(|word| !word.is_plain() && is_identifier(&word.text))
            .map(|word| word.text.clone());
        let alone = match words {
            [only] if is_identifier(&only.text) && !says(ANSWERS) => Some(only.text.clone()),
            _ => None,
        };
        if let Some(name) = quoted.or(alone).or_else(|| new_name(words)) {
            rename.to = name;
            (self.clash, self.decision) = (ClashPolicy::Refuse, UserDecision::Continue);
        } else if says(&["another", "other", "different"]) {
            self.decision = UserDecision::NameNeeded;
        } else if says(&["stop", "no", "cancel", "abort", "don't", "nothing", "quit"]) {
            self.decision = UserDecision::Stop;
        } else if says(&[
            "anyway", "yes", "proceed", "allow", "merge", "go", "ok", "okay", "sure",
        ]) {
            (self.clash, self.decision) = (ClashPolicy::Allow, UserDecision::Continue);
        } else {
            self.decision = UserDecision::NameNeeded;
        }
    }
}

/// The goal, and what is to become of its changes where it can't be reached. A clause about changes belongs to a goal that makes some.
fn parse_goal(words: &[Word]) -> (Goal, OnFailure) {
    let kept = strip_keep_clause(words).map(Goal::from_words);
    match kept {
        Some(goal @ (Goal::Rename(_) | Goal::Replace { .. })) => (goal, OnFailure::KeepChanges),
        Some(Goal::FindUsages { .. } | Goal::Check { .. } | Goal::Count { .. } | Goal::Unsupported)
        | None => (Goal::from_words(words), OnFailure::Undo),
    }
}

/// Words that are answers of their own, never a name.
const ANSWERS: &[&str] = &[
    "stop",
    "no",
    "cancel",
    "abort",
    "nothing",
    "quit",
    "anyway",
    "yes",
    "proceed",
    "allow",
    "merge",
    "go",
    "ok",
    "okay",
    "sure",
    "another",
    "other",
    "different",
];

/// The name in "call it Z", "rename it to Z", "use Z instead". Other sentences with these verbs name nothing.
fn new_name(words: &[Word]) -> Option<String> {
    let says = |options: &[&str]| words.iter().any(|word| word.is_any(options));
    let verb = words
        .iter()
        .position(|word| word.is_any(&["call", "rename", "name", "use"]))?;
    let clear = if words[verb].is_any(&["use"]) {
        says(&["instead"]) || words.len() == 2
    } else {
        words
            .get(verb + 1)
            .is_some_and(|word| word.is_any(&["it", "them", "this", "to"]))
    };
    let skipped = &["it", "them", "this", "to", "the", "name", "a", "new", "instead"];
    let name = words[verb + 1..].iter().find(|word| !word.is_any(skipped))?;
    (clear && is_identifier(&name.text) && !name.is_any(ANSWERS) && !name.is_any(&["in", "only"]))
        .then(|| name.text.clone())
}
