//! Draws a run as a tree that is updated in place: the phase, and each sub-task with its agent, state and duration.

use std::collections::BTreeMap;
use std::time::Duration;

use console::style;
use dirigent::events::{AgentId, AgentRole, Observation, Plan, Scope, StateChange, SubTaskId, Work};
use dirigent::{Delta, Event, EventKind};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::answer_stream::AnswerStream;
use crate::call_name::call_name;
use crate::output::sanitize;
use crate::plain::{self, EventLines};
use crate::prompt::Prompt;
use crate::tail::Tail;

const TICK: Duration = Duration::from_millis(120);
/// The maximum number of sub-tasks that are shown together. Of a larger plan, only running sub-tasks are shown.
const MAX_LINES: usize = 24;
/// The number of terminal lines reserved for the phase, previews of replies and the prompt.
const OTHER_LINES: usize = 10;

pub(crate) struct LiveTree {
    lines: MultiProgress,
    events: EventLines,
    status: ProgressBar,
    phase: String,
    /// The lead's scope. The lead has no separate line, so its changes are printed.
    lead: Option<Scope>,
    /// Set once the first change has been announced (LEAD-2).
    has_changed: bool,
    subtasks: BTreeMap<SubTaskId, Line>,
    whole_plan: bool,
    /// The sub-task of each agent.
    workers: BTreeMap<AgentId, SubTaskId>,
    /// For each agent, the last turn whose reply is complete.
    replied: BTreeMap<AgentId, u32>,
    previews: BTreeMap<AgentId, ReplyPreview>,
    /// The prompt, on the last line; `None` if there is no user at the terminal.
    prompt: Option<ProgressBar>,
    /// Output to print once the open dialog is closed; `None` while no dialog is open.
    deferred: Option<Vec<String>>,
    /// The streamed answer of a chat's turn, which is printed as it arrives; `None` outside of a chat.
    answer: Option<AnswerStream>,
}

/// The line of a sub-task.
struct Line {
    bar: ProgressBar,
    /// Two spaces for each level of the sub-task's depth (see [`depths`]).
    indent: String,
    label: String,
}

/// The streamed reply of an agent's model, on the line beneath the agent's sub-task.
struct ReplyPreview {
    turn: u32,
    tail: Tail,
    bar: ProgressBar,
    indent: usize,
}

impl LiveTree {
    /// Creates a tree. With `answer`, the lead's replies are printed while they arrive.
    pub(crate) fn new(answer: Option<AnswerStream>) -> Self {
        let lines = MultiProgress::new();
        let status =
            lines.add(ProgressBar::new_spinner().with_style(style_of("{spinner} {msg} {elapsed:.dim}")));
        status.enable_steady_tick(TICK);
        LiveTree {
            lines,
            events: EventLines::default(),
            status,
            phase: String::new(),
            lead: None,
            has_changed: false,
            subtasks: BTreeMap::new(),
            whole_plan: true,
            workers: BTreeMap::new(),
            replied: BTreeMap::new(),
            previews: BTreeMap::new(),
            prompt: None,
            deferred: None,
            answer,
        }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        self.update_previews(event);
        self.announce_first_change(event);
        // The status shows the phase.
        let lines = match &event.kind {
            EventKind::PhaseChanged { .. } => None,
            _ => self.events.lines(event),
        };
        match &event.kind {
            EventKind::PhaseChanged { transition } => {
                let iteration = style(format!("(iteration {})", transition.iteration)).dim();
                self.phase = format!("{} {iteration}", style(transition.to.to_string()).bold());
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
            | EventKind::QuestionExpired { .. }
            | EventKind::ModelFailed { .. }
            | EventKind::ToolRefused { .. }
            | EventKind::Reflected { .. }
            | EventKind::CallsAllowed { .. }
            | EventKind::ToolsChanged { .. }
            | EventKind::WorkspaceShared { .. }
            | EventKind::Resumed => self.print_event(lines, event),
            EventKind::ToolFinished { success: false, .. }
            | EventKind::AgentFinished { failure: Some(_), .. } => {
                self.print_event(lines, event);
            }
            EventKind::ToolStarted { tool, parameters, .. } => {
                let call = style(format!("{} {}", event.scope, call_name(tool, parameters))).dim();
                self.status.set_message(format!("{} {call}", self.phase));
            }
            EventKind::ToolFinished { changes, .. }
                if self.lead == Some(event.scope) && !changes.is_empty() =>
            {
                self.print_event(lines, event);
            }
            EventKind::AgentStarted {
                role: AgentRole::Lead,
                ..
            } => {
                self.lead = Some(event.scope);
                if let (Some(answer), Scope::Agent(lead)) = (&mut self.answer, event.scope) {
                    answer.set_lead(lead);
                }
            }
            _ => {}
        }
    }

    /// Announces the first change that the run makes, whichever agent makes it (LEAD-2).
    fn announce_first_change(&mut self, event: &Event) {
        if let EventKind::ToolFinished { tool, changes, .. } = &event.kind
            && !self.has_changed
            && changes.iter().any(StateChange::is_reflected)
        {
            self.has_changed = true;
            let is_own = |change: &StateChange| {
                change.is_reflected() && !matches!(change, StateChange::ProcessExited { .. })
            };
            let text = if changes.iter().any(is_own) {
                format!("{} {tool} makes the first change of this run", event.scope)
            } else {
                format!(
                    "first file changes of this run, made while {} ran {tool}",
                    event.scope
                )
            };
            self.print(format!("  {} {}", style("●").yellow(), sanitize(&text)));
        }
    }

    /// Shows a piece of an agent's reply: prints the completed blocks of an answer, and shows the end of the reply as a preview.
    pub(crate) fn show_delta(&mut self, delta: &Delta) {
        let answer = self.answer.as_mut();
        if let Some(blocks) = answer.and_then(|answer| answer.push(delta)) {
            self.print(blocks);
        }
        self.preview(delta);
    }

    /// Appends a piece to the preview of an agent's reply, unless that turn's reply is complete.
    fn preview(&mut self, delta: &Delta) {
        let (agent, turn) = (delta.agent, delta.turn);
        let has_replied = self.replied.get(&agent).is_some_and(|last| turn <= *last);
        // Pieces may arrive after the event with the complete reply.
        if has_replied || self.status.is_finished() {
            return;
        }
        let line = self.workers.get(&agent).and_then(|work| self.subtasks.get(work));
        let preview = self.previews.entry(agent).or_insert_with(|| {
            let (above, indent) = line.map_or((&self.status, 2), |line| (&line.bar, 4 + line.indent.len()));
            let style = style_of(&format!("{}{{msg:.dim}}", " ".repeat(indent)));
            let bar = ProgressBar::new_spinner().with_style(style);
            ReplyPreview {
                turn,
                tail: Tail::default(),
                bar: self.lines.insert_after(above, bar),
                indent,
            }
        });
        if preview.turn != turn {
            (preview.turn, preview.tail) = (turn, Tail::default());
        }
        preview.tail.push(&delta.text);
        let (_, columns) = console::Term::stderr().size();
        // Some terminals wrap a line that fills the whole width.
        let columns = usize::from(columns).saturating_sub(preview.indent + 1);
        preview.bar.set_message(preview.tail.line(columns));
    }

    /// Updates the previews after an event.
    fn update_previews(&mut self, event: &Event) {
        match (&event.kind, event.scope) {
            (EventKind::ModelReplied { turn, .. }, Scope::Agent(agent)) => self.stop_preview(agent, *turn),
            // When the lead is continued, its turns are counted from 1 again.
            (EventKind::LeadContinued, Scope::Agent(agent)) => {
                self.replied.remove(&agent);
            }
            // The model is asked again in the same turn.
            (EventKind::ModelFailed { .. }, Scope::Agent(agent)) => {
                self.remove_preview(agent, u32::MAX);
            }
            (EventKind::AgentFinished { .. }, Scope::Agent(agent)) => self.stop_preview(agent, u32::MAX),
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
                for agent in self.previews.keys().copied().collect::<Vec<_>>() {
                    self.stop_preview(agent, u32::MAX);
                }
            }
            (_, _) => {}
        }
    }

    /// Removes the agent's preview if it shows this turn or an earlier one, and ignores further pieces of these turns.
    fn stop_preview(&mut self, agent: AgentId, turn: u32) {
        self.replied.insert(agent, turn);
        self.remove_preview(agent, turn);
    }

    /// Removes the agent's preview, unless it belongs to a later turn.
    fn remove_preview(&mut self, agent: AgentId, turn: u32) {
        if let Some(preview) = self.previews.remove(&agent) {
            if preview.turn > turn {
                self.previews.insert(agent, preview);
            } else {
                preview.bar.finish_and_clear();
                self.lines.remove(&preview.bar);
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
                plain::subtask_result(observation, &line.label)
            ));
        } else {
            line.bar.finish_and_clear();
            self.lines.remove(&line.bar);
        }
    }

    /// Prints text above the tree, even while a dialog is open.
    pub(crate) fn print_now(&self, text: &str) {
        let _ = self.lines.println(text);
    }

    /// Removes the tree from the screen while `program` runs.
    pub(crate) fn suspend<T>(&self, program: impl FnOnce() -> T) -> T {
        self.lines.suspend(program)
    }

    /// Draws the prompt beneath the tree. While a dialog is open, other output is deferred.
    pub(crate) fn prompt(&mut self, prompt: &Prompt, has_dialog: bool) {
        if has_dialog {
            self.deferred.get_or_insert_default();
        } else {
            for text in self.deferred.take().unwrap_or_default() {
                self.print_now(&text);
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

    /// Removes the tree from the screen. Returns the answer stream of a chat, which knows how much of the answer was printed.
    pub(crate) fn finish(self) -> Option<AnswerStream> {
        self.status.finish_and_clear();
        if let Some(prompt) = &self.prompt {
            prompt.finish_and_clear();
        }
        for text in self.deferred.iter().flatten() {
            self.print_now(text);
        }
        for preview in self.previews.values() {
            preview.bar.finish_and_clear();
        }
        for line in self.subtasks.values() {
            line.bar.abandon();
        }
        self.answer
    }

    fn print_event(&mut self, lines: Option<String>, event: &Event) {
        match lines {
            Some(text) if plain::is_user_action(event) => self.print_now(&text),
            Some(text) => self.print(text),
            None => {}
        }
    }

    fn print(&mut self, text: String) {
        match &mut self.deferred {
            Some(deferred) => deferred.push(text),
            None => self.print_now(&text),
        }
    }

    fn draw_plan(&mut self, plan: &Plan) {
        self.subtasks.clear();
        self.print(format!("{} {}", style("plan:").bold(), sanitize(&plan.summary)));
        let (rows, _) = console::Term::stderr().size();
        let room = usize::from(rows).saturating_sub(OTHER_LINES).min(MAX_LINES);
        self.whole_plan = plan.subtasks.len() <= room;
        if !self.whole_plan {
            self.print(format!(
                "  {} sub-tasks; only running ones are shown",
                plan.subtasks.len()
            ));
            return;
        }
        let depths = depths(plan);
        for subtask in &plan.subtasks {
            let agent = match &subtask.work {
                Work::Agent { agent, .. } => format!(" ({agent})"),
                Work::Calls { .. } => String::new(),
            };
            let label = format!("{}: {}{agent}", subtask.id, subtask.title);
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
        let label = sanitize(&label);
        bar.set_message(label.clone());
        bar.tick();
        self.subtasks.insert(subtask.clone(), Line { bar, indent, label });
    }
}

/// The depth of each sub-task: the length of the longest chain of its dependencies. Plans have no cycles.
fn depths(plan: &Plan) -> BTreeMap<&SubTaskId, usize> {
    let mut depths: BTreeMap<&SubTaskId, usize> = BTreeMap::new();
    // One pass per sub-task is enough for the longest possible chain. Usually the first pass finds all depths, because leads list
    // sub-tasks in order.
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
    // Templates are constants apart from spaces, so they are valid.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use dirigent::events::{RunId, Timestamp, Usage};

    use super::*;

    const ONE: AgentId = AgentId(1);

    fn event(scope: Scope, kind: EventKind) -> Event {
        let run = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse::<RunId>().unwrap();
        Event::new(run, 1, Timestamp(1), scope, kind)
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

    fn show_delta(tree: &mut LiveTree, turn: u32, text: &str) {
        let delta = serde_json::json!({"agent": ONE, "turn": turn, "start": 0, "text": text});
        tree.show_delta(&serde_json::from_value(delta).unwrap());
    }

    /// The preview of the first agent's reply.
    fn preview(tree: &LiveTree) -> Option<String> {
        tree.previews.get(&ONE).map(|preview| preview.bar.message())
    }

    #[test]
    fn the_streamed_preview_is_shown_until_the_reply_is_complete() {
        let mut tree = LiveTree::new(None);
        show_delta(&mut tree, 1, "I will ");
        show_delta(&mut tree, 1, "look");
        assert_eq!(preview(&tree).unwrap(), "I will look");
        tree.show(&replied(1));
        assert_eq!(preview(&tree), None);
        // Pieces and events do not arrive in a fixed order.
        show_delta(&mut tree, 1, " at it");
        assert_eq!(preview(&tree), None);
        show_delta(&mut tree, 3, "Found");
        tree.show(&replied(2));
        assert_eq!(preview(&tree).unwrap(), "Found");
    }

    #[test]
    fn the_preview_continues_after_a_failed_request() {
        let mut tree = LiveTree::new(None);
        show_delta(&mut tree, 1, "I will");
        let failed = EventKind::ModelFailed {
            error: "busy".to_owned(),
        };
        tree.show(&event(Scope::Agent(ONE), failed));
        assert_eq!(preview(&tree), None);
        show_delta(&mut tree, 1, "I shall");
        assert_eq!(preview(&tree).unwrap(), "I shall");
    }

    #[test]
    fn a_new_turn_restarts_the_preview_and_a_finished_run_shows_none() {
        let mut tree = LiveTree::new(None);
        let task = EventKind::SubTaskStarted {
            subtask: "look".into(),
            title: "Look".to_owned(),
            agent: Some(ONE),
        };
        tree.show(&event(Scope::Run, task));
        show_delta(&mut tree, 1, "one");
        show_delta(&mut tree, 2, "two");
        assert_eq!(preview(&tree).unwrap(), "two");
        let over = EventKind::RunFinished {
            reason: dirigent::EndReason::Cancelled,
            summary: String::new(),
        };
        tree.show(&event(Scope::Run, over));
        assert_eq!(preview(&tree), None);
        show_delta(&mut tree, 3, "three");
        assert_eq!(preview(&tree), None);
    }
}
