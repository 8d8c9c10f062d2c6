//! What a turn that has ended leaves to the next turn of its conversation.

use crate::end_reason::EndReason;
use crate::id::RunId;
use crate::message::Message;
use crate::run::Run;
use crate::run_tree::RunTree;
use crate::turn::{EarlierTurns, History, HistoryPart, TurnRun};

impl EarlierTurns {
    /// Creates the context for the next turn, from the machines of this turn's run after the run has ended.
    pub fn from_ended(last_run: RunId, machines: &RunTree) -> Self {
        let run = machines.run();
        let earlier = run.spec().earlier_turns();
        let history = earlier.map(|earlier| &earlier.history);
        let mut usage = earlier.map(|earlier| earlier.usage).unwrap_or_default();
        usage += run.usage();
        let ids = TurnRun {
            run: last_run,
            agents: run.agents_started(),
            steps: run.last_step(),
            iterations: run.iteration_in_conversation(run.iteration()),
        };
        let history = match (machines.lead(), history) {
            (Some(lead), history) => extend(history, lead.left_history(run.closing_message()), ids),
            // The lead did not start.
            (None, Some(history)) => history.extended(message_pair(run)),
            (None, None) => History::from_parts(vec![message_pair(run)]),
        };
        let unanswered = match run.end() {
            Some(EndReason::GoalAchieved) => None,
            Some(reason) => Some(reason.to_string()),
            None => Some("the process ended".to_owned()),
        };
        EarlierTurns {
            last_run,
            agents: ids.agents,
            steps: ids.steps,
            iterations: ids.iterations,
            usage,
            unanswered,
            kept_fact: run.spec().turn.as_ref().and_then(|turn| turn.last_kept_fact()),
            compact: false,
            history,
        }
    }
}

/// The user's message of a turn that did not start the lead, and its answer, if any.
fn message_pair(run: &Run) -> HistoryPart {
    let task = run.lead_task().unwrap_or_else(|| Message::User {
        content: run.spec().goal.clone(),
    });
    let answer = run.answer().map(|answer| Message::Assistant {
        content: answer.to_owned(),
        calls: Vec::new(),
    });
    HistoryPart {
        messages: std::iter::once(task).chain(answer).collect(),
        ..HistoryPart::default()
    }
}

/// Returns the history that ends with the lead's messages. If the lead's messages do not begin with the messages of the
/// history, they have been compacted, and replace the history.
fn extend(history: Option<&History>, mut all: HistoryPart, ids: TurnRun) -> History {
    all.runs.push(ids);
    let Some(history) = history else {
        return History::from_parts(vec![all]);
    };
    let known = history.messages().count();
    if all.messages.len() < known || !history.messages().eq(&all.messages[..known]) {
        // Compacted messages may still contain handles.
        all.runs
            .splice(0..0, history.parts().flat_map(|part| part.runs.iter().copied()));
        return History::from_parts(vec![all]);
    }
    all.messages.drain(..known);
    let seen = history.seen();
    all.seen.retain(|file| seen.get(&file.path) != Some(file));
    for part in history.parts() {
        all.effects.retain(|call, _| !part.effects.contains_key(call));
    }
    history.extended(all)
}
