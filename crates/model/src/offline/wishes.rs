//! What the user wants by now: the goal, with the guidance and the answers that came since (PAOR-8, PAOR-9).

use super::goal::{Goal, before_keep, is_identifier};
use super::reading::Sections;
use super::scope::Scope;
use super::tools::Clash;
use super::words::{Word, words};

/// The goal as it stands.
pub(super) struct Wishes {
    /// The goal, changed as the user said.
    pub goal: Goal,
    /// Whether a new name may be one that is in use.
    pub clash: Clash,
    /// What the user's last answer leaves open or ends.
    pub decision: Decision,
    /// What is to become of changes where the goal can't be reached.
    pub leftovers: Leftovers,
    /// The guidance that is followed, by its numbers.
    pub followed: Vec<u32>,
    /// The guidance that is beyond this model, by its numbers.
    pub beyond: Vec<u32>,
}

/// What becomes of what was changed for a goal that can't be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftovers {
    /// The files are as before.
    PutBack,
    /// They stay as they are, as the user wants it.
    Kept,
}

/// Where the user's answers leave the goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Go on.
    GoOn,
    /// The user wants it to end.
    Stop,
    /// The user wants another name and has not said which, or can't be understood.
    NameNeeded,
}

impl Wishes {
    /// Reads a request's goal, guidance and answers.
    pub fn read(sections: Sections<'_>) -> Wishes {
        let (goal, leftovers) = goal(&words(sections.text("GOAL").unwrap_or_default()));
        let mut wishes = Wishes {
            goal,
            clash: Clash::Refused,
            decision: Decision::GoOn,
            leftovers,
            followed: Vec::new(),
            beyond: Vec::new(),
        };
        for (number, text) in sections.guidance() {
            if wishes.follow(&words(&text)) {
                wishes.followed.push(number);
            } else {
                wishes.beyond.push(number);
            }
        }
        for answer in sections.answers() {
            wishes.answer(&answer.answer);
        }
        wishes
    }

    /// Follows a piece of guidance; says whether it could.
    fn follow(&mut self, guidance: &[Word]) -> bool {
        let (guidance, mut understood) = self.keeps(guidance);
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
            Goal::FindUsages { scope: place, .. }
            | Goal::Replace { scope: place, .. }
            | Goal::Count { scope: place, .. } => {
                place.narrow(scope);
            }
            Goal::Check { .. } | Goal::Beyond => return understood,
        }
        true
    }

    /// Takes what is said of changes that come to nothing; gives what else is said, and whether there was such a thing.
    fn keeps<'a>(&mut self, said: &'a [Word]) -> (&'a [Word], bool) {
        let changes_files = match self.goal {
            Goal::Rename(_) | Goal::Replace { .. } => true,
            Goal::FindUsages { .. } | Goal::Check { .. } | Goal::Count { .. } | Goal::Beyond => false,
        };
        match before_keep(said).filter(|_| changes_files) {
            Some(rest) => {
                self.leftovers = Leftovers::Kept;
                (rest, true)
            }
            None => (said, false),
        }
    }

    /// Takes the answer to a question about a name that is in use.
    fn answer(&mut self, answer: &str) {
        let said = words(answer);
        let (said, keeps) = self.keeps(&said);
        let Goal::Rename(rename) = &mut self.goal else {
            return;
        };
        if keeps && said.is_empty() {
            return;
        }
        let says = |options: &[&str]| said.iter().any(|word| word.is_any(options));
        let quoted = said
            .iter()
            .find(|word| !word.is_plain() && is_identifier(&word.text))
            .map(|word| word.text.clone());
        let alone = match said {
            [only] if is_identifier(&only.text) && !says(ANSWERS) => Some(only.text.clone()),
            _ => None,
        };
        if let Some(name) = quoted.or(alone).or_else(|| new_name(said)) {
            rename.to = name;
            (self.clash, self.decision) = (Clash::Refused, Decision::GoOn);
        } else if says(&["another", "other", "different"]) {
            self.decision = Decision::NameNeeded;
        } else if says(&["stop", "no", "cancel", "abort", "don't", "nothing", "quit"]) {
            self.decision = Decision::Stop;
        } else if says(&[
            "anyway", "yes", "proceed", "allow", "merge", "go", "ok", "okay", "sure",
        ]) {
            (self.clash, self.decision) = (Clash::Allowed, Decision::GoOn);
        } else {
            self.decision = Decision::NameNeeded;
        }
    }
}

/// The goal, and what is to become of its changes where it can't be reached. A clause about changes belongs to a goal that makes some.
fn goal(said: &[Word]) -> (Goal, Leftovers) {
    let kept = before_keep(said).map(Goal::of);
    match kept {
        Some(goal @ (Goal::Rename(_) | Goal::Replace { .. })) => (goal, Leftovers::Kept),
        Some(Goal::FindUsages { .. } | Goal::Check { .. } | Goal::Count { .. } | Goal::Beyond) | None => {
            (Goal::of(said), Leftovers::PutBack)
        }
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
fn new_name(said: &[Word]) -> Option<String> {
    let says = |options: &[&str]| said.iter().any(|word| word.is_any(options));
    let verb = said
        .iter()
        .position(|word| word.is_any(&["call", "rename", "name", "use"]))?;
    let clear = if said[verb].is_any(&["use"]) {
        says(&["instead"]) || said.len() == 2
    } else {
        said.get(verb + 1)
            .is_some_and(|word| word.is_any(&["it", "them", "this", "to"]))
    };
    let skipped = &["it", "them", "this", "to", "the", "name", "a", "new", "instead"];
    let name = said[verb + 1..].iter().find(|word| !word.is_any(skipped))?;
    (clear && is_identifier(&name.text) && !name.is_any(ANSWERS) && !name.is_any(&["in", "only"]))
        .then(|| name.text.clone())
}
