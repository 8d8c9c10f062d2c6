//! What the keys of a person mean while a run goes on: guidance, a decision about a call, the answer to a question.
//!
//! Two rules make it safe to be interrupted by a dialog. What is being typed is never taken away: a dialog gets the keys only when the line
//! is empty. And nothing that was typed before a dialog could be seen goes to it (APPROVE-3): the caller shows it, gives what was
//! typed until then to [`Desk::typed_before`], and only then calls [`Desk::open`].

use std::collections::BTreeSet;

use dirigent::core::approval::{ApprovalAnswer, Decision, DecisionFault};
use dirigent::core::id::{EffectId, Scope};
use dirigent::core::run::Question;
use dirigent::core::steering::Steering;
use dirigent::{DirigentError, RuntimeError};

use super::dialog::{WORDS, Word, approval_lines, question_lines};
use super::editor::{Editor, Pressed, Prompt};
use super::keys::Key;
use crate::output::inert;
use crate::waits::{Waiting, Waits};

/// What the caller does for the person.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// Show these lines.
    Show(Vec<String>),
    /// Show these lines, then call [`Desk::typed_before`] and [`Desk::open`].
    Open(Vec<String>),
    /// Tell the run; what came of it goes to [`Desk::told`].
    Say(Steering),
    /// Tell the run that nobody answers from now on.
    Leave,
}

/// What was there of a run when this process took it up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    /// Its last entry; zero for a new run.
    pub(crate) last: u64,
    /// Whether its question has its answer.
    pub(crate) answered: bool,
}

/// How much a terminal shows at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// A call or question whatever its try.
type Handle = (Scope, u32);

/// The person's side of a run.
#[derive(Default)]
pub(crate) struct Desk {
    /// Guidance that is being typed.
    draft: Editor,
    waits: Waits,
    asked: Option<Asked>,
    /// What the person will look at later.
    put_off: BTreeSet<Handle>,
    /// What needs nothing more from here.
    settled: BTreeSet<Handle>,
    /// Nobody answers any more.
    left: bool,
}

/// What is on the table.
struct Asked {
    what: What,
    line: Editor,
    /// Whether keys are for it.
    has_keys: bool,
    /// Whether parameters are being typed.
    edits: bool,
    /// The lines of it that are not shown yet.
    unseen: Vec<String>,
}

enum What {
    Call(Waiting),
    Question(EffectId, Question),
}

impl What {
    fn effect(&self) -> EffectId {
        match self {
            What::Call(waiting) => waiting.call.approval.effect,
            What::Question(effect, _) => *effect,
        }
    }
}

fn handle(effect: EffectId) -> Handle {
    (effect.scope, effect.step)
}

impl Desk {
    /// Needs no answer from here: it was given on the command line.
    pub(crate) fn settle(&mut self, effect: EffectId) {
        self.settled.insert(handle(effect));
    }

    /// Whether something is on the table.
    pub(crate) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// What waits for the person now.
    pub(crate) fn look(&mut self, waits: Waits, sight: Sight) -> Vec<Act> {
        self.waits = waits;
        let mut acts = Vec::new();
        if let Some(asked) = &self.asked
            && !self.waits.has(asked.what.effect())
        {
            let effect = asked.what.effect();
            acts.push(Act::Show(vec![format!("  {effect} needs no answer any more")]));
            self.put_away();
        }
        acts.extend(self.next(sight));
        acts
    }

    /// What was typed before what has just been shown could be seen. It stays on the line, and even Enter sends nothing.
    pub(crate) fn typed_before(&mut self, keys: Vec<Key>) {
        for key in keys
            .into_iter()
            .filter(|key| !matches!(key, Key::Enter | Key::Leave))
        {
            self.draft.press(key);
        }
    }

    /// What is on the table has been shown: it gets the keys once nothing else is being typed.
    pub(crate) fn open(&mut self) -> Vec<Act> {
        self.give_keys();
        match &self.asked {
            Some(asked) if !asked.has_keys => {
                let effect = asked.what.effect();
                vec![Act::Show(vec![format!(
                    "  your line is kept: Enter sends it as guidance, Ctrl-U drops it; then you answer {effect}"
                )])]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// A key, pressed by someone who sees what was shown last.
    pub(crate) fn press(&mut self, key: Key, sight: Sight) -> Vec<Act> {
        match &mut self.asked {
            Some(asked) if asked.has_keys => match asked.line.press(key) {
                Pressed::Typing => Vec::new(),
                Pressed::Leave => self.leave(),
                Pressed::Line(line) => self.answer(line, sight),
            },
            Some(_) | None => {
                let acts = match self.draft.press(key) {
                    Pressed::Typing => Vec::new(),
                    Pressed::Leave => self.leave(),
                    Pressed::Line(line) => self.guide(line.trim(), sight),
                };
                self.give_keys();
                acts
            }
        }
    }

    /// What came of something that the run was told.
    pub(crate) fn told(&mut self, said: &Steering, error: Option<&DirigentError>, sight: Sight) -> Vec<Act> {
        let mut acts = Vec::new();
        if let Some(error) = error {
            acts.push(Act::Show(vec![format!("  {}", inert(&error.to_string()))]));
        }
        let effect = match said {
            Steering::Decide { effect, .. } | Steering::Answer { effect, .. } => *effect,
            Steering::Guide { .. }
            | Steering::Redirect { .. }
            | Steering::GuideAgent { .. }
            | Steering::Cancel => return acts,
        };
        match error.map(is_to_be_said_again) {
            Some(true) => {
                if let (Some(asked), Steering::Decide { decision, .. }) = (&mut self.asked, said)
                    && let ApprovalAnswer::Edit { parameters } = &decision.answer
                {
                    (asked.edits, asked.line) = (true, Editor::with(&parameters.to_string()));
                }
                return acts;
            }
            Some(false) | None => self.settle(effect),
        }
        self.put_away();
        acts.extend(self.next(sight));
        acts
    }

    /// What is drawn of what is being typed.
    pub(crate) fn prompt(&self) -> Prompt {
        match &self.asked {
            Some(asked) if asked.has_keys => asked.prompt(),
            Some(asked) => self.draft.prompt(
                format!("guidance, before you answer {}: ", asked.what.effect()),
                "",
            ),
            None => self.draft.prompt("> ", self.hint()),
        }
    }

    fn hint(&self) -> String {
        let waiting = self
            .waits
            .calls
            .iter()
            .filter(|call| self.is_put_off(call))
            .count();
        let guide = "type guidance and Enter (! first: at once) · Ctrl-C cancels";
        match waiting {
            0 => guide.to_owned(),
            1 => format!("Enter shows the call that waits for you · {guide}"),
            calls => format!("Enter shows the {calls} calls that wait for you · {guide}"),
        }
    }

    fn is_put_off(&self, waiting: &Waiting) -> bool {
        self.put_off.contains(&handle(waiting.call.approval.effect))
    }

    fn give_keys(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.has_keys |= self.draft.is_empty();
        }
    }

    fn put_away(&mut self) {
        self.asked = None;
    }

    /// Puts the next thing on the table, if it is free.
    fn next(&mut self, sight: Sight) -> Option<Act> {
        if self.asked.is_some() || self.left {
            return None;
        }
        let is_open =
            |effect| !self.settled.contains(&handle(effect)) && !self.put_off.contains(&handle(effect));
        let question = self.waits.question.iter().filter(|(effect, _)| is_open(*effect));
        let question = question.map(|(effect, question)| What::Question(*effect, question.clone()));
        let calls = self
            .waits
            .calls
            .iter()
            .filter(|waiting| is_open(waiting.call.approval.effect));
        let what = question.chain(calls.cloned().map(What::Call)).next()?;
        let (lines, unseen) = match &what {
            What::Call(waiting) => shown_first(approval_lines(waiting), sight),
            What::Question(_, question) => (question_lines(question), Vec::new()),
        };
        self.asked = Some(Asked {
            what,
            line: Editor::default(),
            has_keys: false,
            edits: false,
            unseen,
        });
        Some(Act::Open(lines))
    }

    fn leave(&mut self) -> Vec<Act> {
        if self.waits.is_empty() {
            return vec![Act::Show(vec![
                "  nothing waits for you; Ctrl-C cancels the run".to_owned(),
            ])];
        }
        self.left = true;
        self.put_away();
        vec![Act::Leave]
    }

    fn guide(&mut self, line: &str, sight: Sight) -> Vec<Act> {
        if line.is_empty() {
            self.put_off.clear();
            return self.next(sight).into_iter().collect();
        }
        let said = match line.strip_prefix('!').map(str::trim) {
            Some("") => return Vec::new(),
            Some(guidance) => Steering::Redirect {
                guidance: guidance.to_owned(),
            },
            None => Steering::Guide {
                guidance: line.to_owned(),
            },
        };
        vec![Act::Say(said)]
    }

    /// A whole line about what is on the table.
    fn answer(&mut self, line: String, sight: Sight) -> Vec<Act> {
        let Some(asked) = &mut self.asked else {
            return Vec::new();
        };
        match &asked.what {
            What::Question(_, _) if line.trim().is_empty() => Vec::new(),
            What::Question(effect, question) => match question.choose(&line) {
                Ok(answer) => vec![Act::Say(Steering::Answer {
                    effect: *effect,
                    answer: answer.trim().to_owned(),
                })],
                Err(fault) => vec![Act::Show(vec![format!("  {}", inert(&fault.to_string()))])],
            },
            What::Call(waiting) => {
                let (effect, digest) = (waiting.call.approval.effect, waiting.call.approval.digest.clone());
                let answer = if asked.edits {
                    asked.edited(&line)
                } else {
                    match Word::of(&line) {
                        Word::Later => {
                            self.put_off.insert(handle(effect));
                            self.put_away();
                            return self.next(sight).into_iter().collect();
                        }
                        word => asked.decided(word),
                    }
                };
                match answer {
                    Ok(answer) => {
                        let decision = Decision { digest, answer };
                        vec![Act::Say(Steering::Decide { effect, decision })]
                    }
                    Err(shown) if shown.is_empty() => Vec::new(),
                    Err(shown) => vec![Act::Show(shown)],
                }
            }
        }
    }
}

impl Asked {
    fn prompt(&self) -> Prompt {
        let effect = self.what.effect();
        match (&self.what, self.edits, self.unseen.is_empty()) {
            (What::Question(_, _), _, _) => self
                .line
                .prompt("your answer: ", "Ctrl-D leaves it for `dirigent resume`"),
            (What::Call(_), true, _) => self.line.prompt(
                format!("{effect}, parameters: "),
                "Enter goes back to a, e, r, g or l; Ctrl-C cancels the run",
            ),
            (What::Call(_), false, true) => self.line.prompt(format!("{effect}: "), WORDS),
            (What::Call(_), false, false) => self
                .line
                .prompt(format!("{effect}: "), format!("v shows all of it · {WORDS}")),
        }
    }

    /// What a word decides; else what to show.
    fn decided(&mut self, word: Word) -> Result<ApprovalAnswer, Vec<String>> {
        match word {
            Word::Approve if !self.unseen.is_empty() => Err(vec![
                "  nothing was decided: you have not seen all of it; v shows it".to_owned(),
            ]),
            Word::Approve => Ok(ApprovalAnswer::Approve),
            Word::Edit => {
                if let What::Call(waiting) = &self.what {
                    self.edits = true;
                    self.line = Editor::with(&waiting.call.approval.parameters.to_string());
                }
                Err(Vec::new())
            }
            Word::Reject(reason) => Ok(ApprovalAnswer::Reject { reason }),
            Word::Guide(guidance) => Ok(ApprovalAnswer::Guide { guidance }),
            Word::View => Err(std::mem::take(&mut self.unseen)),
            Word::Unclear(why) => Err(vec![format!("  {why}")]),
            // What is put off is no answer.
            Word::Later => Err(Vec::new()),
        }
    }

    /// The call with the parameters that were typed; else what to show.
    fn edited(&mut self, line: &str) -> Result<ApprovalAnswer, Vec<String>> {
        self.edits = false;
        if line.trim().is_empty() {
            return Err(vec!["  nothing was changed".to_owned()]);
        }
        match serde_json::from_str(line) {
            Ok(parameters) => {
                let shown = match &self.what {
                    What::Call(waiting) => Some(&waiting.call.approval.parameters),
                    What::Question(_, _) => None,
                };
                if shown == Some(&parameters) {
                    return Err(vec![
                        "  nothing was changed, and nothing was decided: a approves it".to_owned(),
                    ]);
                }
                Ok(ApprovalAnswer::Edit { parameters })
            }
            Err(error) => {
                (self.edits, self.line) = (true, Editor::with(line));
                Err(vec![format!("  that is no JSON: {}", inert(&error.to_string()))])
            }
        }
    }
}

/// Whether the person can say something else about the same call or question.
fn is_to_be_said_again(error: &DirigentError) -> bool {
    matches!(
        error,
        DirigentError::Runtime(
            RuntimeError::Decision {
                fault: DecisionFault::Parameters(_) | DecisionFault::Denied(_),
                ..
            } | RuntimeError::Answer { .. }
        )
    )
}

/// The lines that fit on the screen with what says what is missing, and the others. All of them where they fit.
fn shown_first(mut lines: Vec<String>, sight: Sight) -> (Vec<String>, Vec<String>) {
    let height = |line: &String| {
        console::measure_text_width(line)
            .div_ceil(sight.columns.max(1))
            .max(1)
    };
    // The tree and the line for typing need some, too.
    let room = (sight.rows / 2).max(6);
    if lines.iter().map(height).sum::<usize>() <= room {
        return (lines, Vec::new());
    }
    let all = lines.clone();
    let mut used = 0;
    let shown = lines.iter().take_while(|line| {
        used += height(line);
        used <= room
    });
    let shown = shown.count();
    let (hidden, characters) = (
        &all[shown..],
        all[shown..]
            .iter()
            .map(|line| line.chars().count())
            .sum::<usize>(),
    );
    let note = format!(
        "  … {} more lines, {characters} characters, are not shown: v shows all of it; only then can it be approved",
        hidden.len()
    );
    lines.truncate(shown);
    lines.push(console::style(note).yellow().to_string());
    (lines, all)
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
