//! A run as a tree that is redrawn: the phase, and every sub-task with who works on it, its state and how long it took.

use std::collections::BTreeMap;
use std::time::Duration;

use console::style;
use dirigent::core::id::{AgentId, Scope, SubTaskId};
use dirigent::core::observation::Observation;
use dirigent::core::plan::{Plan, Work};
use dirigent::{Event, EventKind};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::attend::Prompt;
use crate::output::inert;
use crate::plain;
use crate::tail::Tail;

const TICK: Duration = Duration::from_millis(120);
/// Plans with more sub-tasks show those that run.
const MAX_LINES: usize = 24;
/// Lines of a terminal that are for other things than a plan: the phase, what models say, what is typed.
const OTHER_LINES: usize = 10;

pub(crate) struct LiveTree {
    lines: MultiProgress,
    status: ProgressBar,
    phase: String,
    subtasks: BTreeMap<SubTaskId, Line>,
    whole_plan: bool,
    /// Which agent works on what.
    workers: BTreeMap<AgentId, SubTaskId>,
    /// The last turn of each agent whose reply is there.
    replied: BTreeMap<AgentId, u32>,
    sayings: BTreeMap<AgentId, Saying>,
    /// What is being typed, the last line; none where nobody types.
    prompt: Option<ProgressBar>,
    /// What waits until the person has answered.
    held: Option<Vec<String>>,
}

/// A sub-task's line.
struct Line {
    bar: ProgressBar,
    /// Two spaces for each sub-task on the longest way to it.
    indent: String,
    label: String,
}

/// What an agent's model is saying, in a line under the agent's.
struct Saying {
    turn: u32,
    tail: Tail,
    bar: ProgressBar,
    indent: usize,
}

impl LiveTree {
    pub(crate) fn new() -> Self {
        let lines = MultiProgress::new();
        let status =
            lines.add(ProgressBar::new_spinner().with_style(style_of("{spinner} {msg} {elapsed:.dim}")));
        status.enable_steady_tick(TICK);
        LiveTree {
            lines,
            status,
            phase: String::new(),
            subtasks: BTreeMap::new(),
            whole_plan: true,
            workers: BTreeMap::new(),
            replied: BTreeMap::new(),
            sayings: BTreeMap::new(),
            prompt: None,
            held: None,
        }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        self.listen(event);
        match &event.kind {
            EventKind::PhaseChanged { transition } => {
                let round = style(format!("(round {})", transition.iteration)).dim();
                self.phase = format!("{} {round}", style(transition.to.to_string()).bold());
                self.status.set_message(self.phase.clone());
            }
            EventKind::PlanMade { plan } => self.draw_plan(plan),
            EventKind::SubTaskStarted { subtask, title, .. } => self.start(subtask, title),
            EventKind::SubTaskFinished { observation } => self.end(observation),
            EventKind::RunFinished { .. } => self.status.finish_and_clear(),
            EventKind::RunStarted { .. }
            | EventKind::Guided { .. }
            | EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalDecided { .. }
            | EventKind::ApprovalExpired { .. }
            | EventKind::QuestionAsked { .. }
            | EventKind::QuestionAnswered { .. }
            | EventKind::ModelFailed { .. }
            | EventKind::Resumed => self.say(event),
            EventKind::ToolFinished { success: false, .. }
            | EventKind::AgentFinished { failure: Some(_), .. } => {
                self.say(event);
            }
            EventKind::ToolStarted { tool, .. } => {
                let what = style(inert(&format!("{} {tool}", event.scope))).dim();
                self.status.set_message(format!("{} {what}", self.phase));
            }
            EventKind::AgentStarted { .. }
            | EventKind::ModelReplied { .. }
            | EventKind::ToolFinished { success: true, .. }
            | EventKind::AgentFinished { failure: None, .. } => {}
        }
    }

    /// Shows the next piece of what an agent's model says in that turn, until its reply is there.
    pub(crate) fn said(&mut self, agent: AgentId, turn: u32, text: &str) {
        let has_replied = self.replied.get(&agent).is_some_and(|last| turn <= *last);
        // Pieces may come after the event that tells of the whole.
        if has_replied || self.status.is_finished() {
            return;
        }
        let line = self.workers.get(&agent).and_then(|work| self.subtasks.get(work));
        let saying = self.sayings.entry(agent).or_insert_with(|| {
            let (above, indent) = line.map_or((&self.status, 2), |line| (&line.bar, 4 + line.indent.len()));
            let style = style_of(&format!("{}{{msg:.dim}}", " ".repeat(indent)));
            let bar = ProgressBar::new_spinner().with_style(style);
            Saying {
                turn,
                tail: Tail::default(),
                bar: self.lines.insert_after(above, bar),
                indent,
            }
        });
        if saying.turn != turn {
            (saying.turn, saying.tail) = (turn, Tail::default());
        }
        saying.tail.push(text);
        let (_, columns) = console::Term::stderr().size();
        // A full line would wrap on some terminals.
        let columns = usize::from(columns).saturating_sub(saying.indent + 1);
        saying.bar.set_message(saying.tail.line(columns));
    }

    /// What an event says of who speaks.
    fn listen(&mut self, event: &Event) {
        match (&event.kind, event.scope) {
            (EventKind::ModelReplied { turn, .. }, Scope::Agent(agent)) => self.hush(agent, *turn),
            // The same turn is asked for again.
            (EventKind::ModelFailed { .. }, Scope::Agent(agent)) => self.forget(agent, u32::MAX),
            (EventKind::AgentFinished { .. }, Scope::Agent(agent)) => self.hush(agent, u32::MAX),
            (
                EventKind::SubTaskStarted {
                    subtask,
                    agent: Some(agent),
                    ..
                },
                _,
            ) => {
                self.workers.insert(*agent, subtask.clone());
            }
            (EventKind::RunFinished { .. }, _) => {
                for agent in self.sayings.keys().copied().collect::<Vec<_>>() {
                    self.hush(agent, u32::MAX);
                }
            }
            (
                EventKind::RunStarted { .. }
                | EventKind::PhaseChanged { .. }
                | EventKind::PlanMade { .. }
                | EventKind::SubTaskStarted { agent: None, .. }
                | EventKind::SubTaskFinished { .. }
                | EventKind::AgentStarted { .. }
                | EventKind::ModelReplied { .. }
                | EventKind::ModelFailed { .. }
                | EventKind::ToolStarted { .. }
                | EventKind::ToolFinished { .. }
                | EventKind::AgentFinished { .. }
                | EventKind::Guided { .. }
                | EventKind::ApprovalAsked { .. }
                | EventKind::ApprovalDecided { .. }
                | EventKind::ApprovalExpired { .. }
                | EventKind::QuestionAsked { .. }
                | EventKind::QuestionAnswered { .. }
                | EventKind::Resumed,
                _,
            ) => {}
        }
    }

    /// Takes away what was said up to that turn, and shows no more of it.
    fn hush(&mut self, agent: AgentId, turn: u32) {
        self.replied.insert(agent, turn);
        self.forget(agent, turn);
    }

    /// Takes away what was said up to that turn.
    fn forget(&mut self, agent: AgentId, turn: u32) {
        if let Some(saying) = self.sayings.remove(&agent) {
            if saying.turn > turn {
                self.sayings.insert(agent, saying);
            } else {
                saying.bar.finish_and_clear();
                self.lines.remove(&saying.bar);
            }
        }
    }

    fn start(&mut self, subtask: &SubTaskId, title: &str) {
        if !self.subtasks.contains_key(subtask) {
            self.add(subtask, format!("{subtask}: {title}"), 0);
        }
        if let Some(line) = self.subtasks.get(subtask) {
            line.bar.set_style(style_of(&format!(
                "  {}{{spinner:.cyan}} {{msg}} {{elapsed:.dim}}",
                line.indent
            )));
            line.bar.reset_elapsed();
            line.bar.enable_steady_tick(TICK);
        }
    }

    fn end(&mut self, observation: &Observation) {
        let Some(line) = self.subtasks.remove(&observation.subtask) else {
            return;
        };
        if self.whole_plan {
            line.bar.set_style(style_of("  {msg}"));
            line.bar.finish_with_message(format!(
                "{}{}",
                line.indent,
                plain::ended(observation, &line.label)
            ));
        } else {
            line.bar.finish_and_clear();
            self.lines.remove(&line.bar);
        }
    }

    /// Says something above the tree, at once.
    pub(crate) fn tell(&self, text: &str) {
        let _ = self.lines.println(text);
    }

    /// Shows what is being typed beneath the tree. While the person is asked something, nothing is said between it and what was asked.
    pub(crate) fn prompt(&mut self, prompt: &Prompt, asks: bool) {
        if asks {
            self.held.get_or_insert_default();
        } else {
            for text in self.held.take().unwrap_or_default() {
                self.tell(&text);
            }
        }
        let bar = self.prompt.get_or_insert_with(|| {
            self.lines
                .add(ProgressBar::new_spinner().with_style(style_of("{msg}")))
        });
        let (_, columns) = console::Term::stderr().size();
        bar.set_message(prompt.line(usize::from(columns).saturating_sub(1)));
        bar.force_draw();
    }

    pub(crate) fn finish(self) {
        self.status.finish_and_clear();
        if let Some(prompt) = &self.prompt {
            prompt.finish_and_clear();
        }
        for text in self.held.iter().flatten() {
            self.tell(text);
        }
        for saying in self.sayings.values() {
            saying.bar.finish_and_clear();
        }
        for line in self.subtasks.values() {
            line.bar.abandon();
        }
    }

    fn say(&mut self, event: &Event) {
        if let Some(text) = plain::lines(event) {
            self.print(text);
        }
    }

    fn print(&mut self, text: String) {
        match &mut self.held {
            Some(held) => held.push(text),
            None => self.tell(&text),
        }
    }

    fn draw_plan(&mut self, plan: &Plan) {
        self.subtasks.clear();
        self.print(format!("{} {}", style("plan:").bold(), inert(&plan.summary)));
        let (rows, _) = console::Term::stderr().size();
        let room = usize::from(rows).saturating_sub(OTHER_LINES).min(MAX_LINES);
        self.whole_plan = plan.subtasks.len() <= room;
        if !self.whole_plan {
            self.print(format!(
                "  {} sub-tasks; those that run are shown",
                plan.subtasks.len()
            ));
            return;
        }
        let depths = depths(plan);
        for subtask in &plan.subtasks {
            let who = match &subtask.work {
                Work::Agent { agent, .. } => format!(" ({agent})"),
                Work::Calls { .. } => String::new(),
            };
            let label = format!("{}: {}{who}", subtask.id, subtask.title);
            self.add(&subtask.id, label, depths.get(&subtask.id).copied().unwrap_or(0));
        }
    }

    fn add(&mut self, subtask: &SubTaskId, label: String, depth: usize) {
        let indent = "  ".repeat(depth);
        let bar = ProgressBar::new_spinner().with_style(style_of(&format!("  {indent}· {{msg:.dim}}")));
        let bar = match &self.prompt {
            Some(prompt) => self.lines.insert_before(prompt, bar),
            None => self.lines.add(bar),
        };
        let label = inert(&label);
        bar.set_message(label.clone());
        bar.tick();
        self.subtasks.insert(subtask.clone(), Line { bar, indent, label });
    }
}

/// For each sub-task the number of others on the longest way to it: its indentation. Plans have no cycles.
fn depths(plan: &Plan) -> BTreeMap<&SubTaskId, usize> {
    let mut depths: BTreeMap<&SubTaskId, usize> = BTreeMap::new();
    // The longest way has fewer steps than there are sub-tasks; mostly one pass does, as planners write them in order.
    for _ in &plan.subtasks {
        let before = depths.clone();
        for subtask in &plan.subtasks {
            let after = subtask.depends_on.iter().filter_map(|id| depths.get(id)).max();
            depths.insert(&subtask.id, after.map_or(0, |depth| depth + 1));
        }
        if depths == before {
            break;
        }
    }
    depths
}

fn style_of(template: &str) -> ProgressStyle {
    // The templates are constants but for spaces.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use dirigent::core::id::RunId;
    use dirigent::core::message::Usage;
    use dirigent::core::time::Timestamp;

    use super::*;

    const ONE: AgentId = AgentId(1);

    fn event(scope: Scope, kind: EventKind) -> Event {
        Event {
            run: "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse::<RunId>().unwrap(),
            seq: 1,
            at: Timestamp(1),
            scope,
            kind,
        }
    }

    fn replied(turn: u32) -> Event {
        let kind = EventKind::ModelReplied {
            turn,
            content: String::new(),
            model: None,
            usage: Usage::default(),
        };
        event(Scope::Agent(ONE), kind)
    }

    /// What is shown of what the first agent's model says.
    fn saying(tree: &LiveTree) -> Option<String> {
        tree.sayings.get(&ONE).map(|saying| saying.bar.message())
    }

    #[test]
    fn what_a_model_says_is_shown_until_its_reply_is_there() {
        let mut tree = LiveTree::new();
        tree.said(ONE, 1, "I will ");
        tree.said(ONE, 1, "look");
        assert_eq!(saying(&tree).unwrap(), "I will look");
        tree.show(&replied(1));
        assert_eq!(saying(&tree), None);
        // Pieces and events come by ways of their own.
        tree.said(ONE, 1, " at it");
        assert_eq!(saying(&tree), None);
        tree.said(ONE, 3, "Found");
        tree.show(&replied(2));
        assert_eq!(saying(&tree).unwrap(), "Found");
    }

    #[test]
    fn a_request_that_failed_mutes_nobody() {
        let mut tree = LiveTree::new();
        tree.said(ONE, 1, "I will");
        let failed = EventKind::ModelFailed {
            error: "busy".to_owned(),
        };
        tree.show(&event(Scope::Agent(ONE), failed));
        assert_eq!(saying(&tree), None);
        tree.said(ONE, 1, "I shall");
        assert_eq!(saying(&tree).unwrap(), "I shall");
    }

    #[test]
    fn a_new_turn_begins_anew_and_nothing_is_shown_when_the_run_is_over() {
        let mut tree = LiveTree::new();
        let task = EventKind::SubTaskStarted {
            subtask: "look".into(),
            title: "Look".to_owned(),
            agent: Some(ONE),
        };
        tree.show(&event(Scope::Run, task));
        tree.said(ONE, 1, "one");
        tree.said(ONE, 2, "two");
        assert_eq!(saying(&tree).unwrap(), "two");
        let over = EventKind::RunFinished {
            reason: dirigent::EndReason::Cancelled,
            summary: String::new(),
        };
        tree.show(&event(Scope::Run, over));
        assert_eq!(saying(&tree), None);
        tree.said(ONE, 3, "three");
        assert_eq!(saying(&tree), None);
    }
}
