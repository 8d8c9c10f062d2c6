//! A run as a tree that is redrawn: the phase, and every sub-task with who works on it, its state and how long it took.

use std::collections::BTreeMap;
use std::time::Duration;

use console::style;
use dirigent::core::id::SubTaskId;
use dirigent::core::plan::{Plan, Work};
use dirigent::{Event, EventKind};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output::inert;
use crate::plain;

/// Plans with more sub-tasks show those that run.
const MAX_LINES: usize = 24;

pub(crate) struct LiveTree {
    lines: MultiProgress,
    phase: ProgressBar,
    subtasks: BTreeMap<SubTaskId, ProgressBar>,
    whole_plan: bool,
}

impl LiveTree {
    pub(crate) fn new() -> Self {
        let lines = MultiProgress::new();
        let phase =
            lines.add(ProgressBar::new_spinner().with_style(spinner("{spinner} {msg} {elapsed:.dim}")));
        phase.enable_steady_tick(Duration::from_millis(120));
        LiveTree {
            lines,
            phase,
            subtasks: BTreeMap::new(),
            whole_plan: true,
        }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        match &event.kind {
            EventKind::PhaseChanged { transition } => {
                let round = format!("round {}", transition.iteration);
                self.phase.set_message(format!(
                    "{} {}",
                    style(transition.to.to_string()).bold(),
                    style(round).dim()
                ));
            }
            EventKind::PlanMade { plan } => self.draw_plan(plan),
            EventKind::SubTaskStarted { subtask, title, .. } => {
                let line = self.line(subtask, title);
                line.set_style(spinner("  {spinner:.cyan} {msg} {elapsed:.dim}"));
                line.reset_elapsed();
                line.enable_steady_tick(Duration::from_millis(120));
            }
            EventKind::SubTaskFinished { observation } => {
                if let Some(line) = self.subtasks.remove(&observation.subtask) {
                    if self.whole_plan {
                        line.set_style(spinner("{msg}"));
                        line.finish_with_message(plain::ended(observation));
                    } else {
                        line.finish_and_clear();
                    }
                }
            }
            EventKind::RunFinished { .. } => self.phase.finish_and_clear(),
            EventKind::RunStarted { .. }
            | EventKind::Guided { .. }
            | EventKind::QuestionAsked { .. }
            | EventKind::QuestionAnswered { .. }
            | EventKind::ModelFailed { .. }
            | EventKind::Resumed => self.say(event),
            EventKind::ToolFinished { success: false, .. }
            | EventKind::AgentFinished { failure: Some(_), .. } => {
                self.say(event);
            }
            EventKind::ToolStarted { tool, .. } => {
                self.phase.set_message(format!(
                    "{} {}",
                    style(event.scope.to_string()).dim(),
                    inert(tool)
                ));
            }
            EventKind::AgentStarted { .. }
            | EventKind::ModelReplied { .. }
            | EventKind::ToolFinished { success: true, .. }
            | EventKind::AgentFinished { failure: None, .. } => {}
        }
    }

    /// Lets a question be asked without the tree drawing over it.
    pub(crate) fn suspend<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.lines.suspend(ask)
    }

    pub(crate) fn finish(self) {
        self.phase.finish_and_clear();
        for line in self.subtasks.values() {
            line.abandon();
        }
    }

    fn say(&self, event: &Event) {
        if let Some(text) = plain::lines(event) {
            let _ = self.lines.println(text);
        }
    }

    fn draw_plan(&mut self, plan: &Plan) {
        self.subtasks.clear();
        let _ = self
            .lines
            .println(format!("{} {}", style("plan:").bold(), inert(&plan.summary)));
        self.whole_plan = plan.subtasks.len() <= MAX_LINES;
        if !self.whole_plan {
            let _ = self.lines.println(format!(
                "  {} sub-tasks; those that run are shown",
                plan.subtasks.len()
            ));
            return;
        }
        for subtask in &plan.subtasks {
            let who = match &subtask.work {
                Work::Agent { agent, .. } => format!(" ({agent})"),
                Work::Calls { .. } => String::new(),
            };
            self.line(&subtask.id, &format!("{}{who}", subtask.title));
        }
    }

    fn line(&mut self, subtask: &SubTaskId, title: &str) -> ProgressBar {
        let lines = &self.lines;
        let line = self.subtasks.entry(subtask.clone()).or_insert_with(|| {
            let line = lines.add(ProgressBar::new_spinner().with_style(spinner("  · {msg:.dim}")));
            line.set_message(inert(&format!("{subtask}: {title}")));
            line.tick();
            line
        });
        line.clone()
    }
}

fn spinner(template: &str) -> ProgressStyle {
    // The templates are the constants above.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
