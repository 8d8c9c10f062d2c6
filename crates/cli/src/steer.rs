//! What is said to a run from another terminal: guidance, decisions, answers, its end. It reaches the process that carries the run out by the
//! journal; where there is none it waits for the next one.

use std::path::PathBuf;

use dirigent::core::steering::Steering;
use dirigent::{
    ApprovalAnswer, Decision, DecisionError, Dirigent, DirigentError, EffectId, PendingMessage, RunId,
    RuntimeError, SteerOutcome,
};
use serde_json::json;

use crate::args::{AnswerCommand, ApproveCommand, CancelCommand, GuideCommand};
use crate::exit::Exit;
use crate::interactive::{approval_lines, question_lines};
use crate::output::{Output, sanitize};
use crate::pending_messages::{load_pending_messages, pending_messages_json, pending_messages_line};
use crate::pending_requests::{PendingCall, PendingRequests};
use crate::run::open_existing;

/// A run of the journal and what waits for its user.
struct TargetRun {
    dirigent: Dirigent,
    run: RunId,
    requests: PendingRequests,
    messages: Vec<PendingMessage>,
}

impl TargetRun {
    async fn find(db: Option<PathBuf>, text: &str) -> anyhow::Result<Self> {
        let dirigent = open_existing(Dirigent::builder(), db).await?;
        let (run, requests, messages) = tokio::task::block_in_place(|| {
            let run = dirigent.find(text)?;
            let (view, _) = dirigent.read(run)?;
            let messages = load_pending_messages(&dirigent, &dirigent.record(run)?)?;
            Ok::<_, DirigentError>((run, PendingRequests::from_view(&view), messages))
        })?;
        Ok(TargetRun {
            dirigent,
            run,
            requests,
            messages,
        })
    }

    /// Says it, and what came of it.
    async fn send(
        &self,
        said: Steering,
        accepted: &str,
        json: bool,
        output: &Output,
    ) -> anyhow::Result<Exit> {
        let run = self.run.short();
        let (state, text) = match self.dirigent.steer(self.run, said).await {
            Ok(SteerOutcome::Accepted) => ("accepted", accepted.to_owned()),
            Ok(SteerOutcome::Pending) => (
                "pending",
                format!(
                    "Run {run} has not taken it: no process owns it now, or that process stands still. It is kept, and taken as soon \
                     as the run goes on: `dirigent resume {run}`."
                ),
            ),
            Err(error) => return self.report_rejection(error, json, output),
        };
        if json {
            output.print(&json!({"run": self.run, "state": state}).to_string());
        } else {
            output.print(&text);
        }
        Ok(Exit::Success)
    }

    /// It does not count, for that reason.
    fn report_rejection(
        &self,
        error: impl Into<DirigentError>,
        json: bool,
        output: &Output,
    ) -> anyhow::Result<Exit> {
        let error = error.into();
        if !json {
            return Err(error.into());
        }
        let refused = json!({"run": self.run, "state": "rejected", "reason": error.to_string()});
        output.print(&refused.to_string());
        Ok(Exit::from_error(&error.into()))
    }
}

pub(crate) async fn guide(
    db: Option<PathBuf>,
    command: GuideCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let target = TargetRun::find(db, &command.run).await?;
    let (run, guidance) = (target.run.short(), command.guidance);
    let (said, accepted) = match (command.agent, command.now) {
        (Some(agent), _) => (
            Steering::GuideAgent { agent, guidance },
            format!("Agent {agent} of run {run} is told with its next model request."),
        ),
        (None, true) => (
            Steering::Redirect { guidance },
            format!("Run {run} stops what is under way and plans anew."),
        ),
        (None, false) => (
            Steering::Guide { guidance },
            format!("The next plan of run {run} takes it into account."),
        ),
    };
    target.send(said, &accepted, command.json, output).await
}

pub(crate) async fn approve(
    db: Option<PathBuf>,
    command: ApproveCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let target = TargetRun::find(db, &command.run).await?;
    let Some(effect) = command.call else {
        show_waiting(&target, command.json, output);
        return Ok(Exit::Success);
    };
    let Some(waiting) = target.requests.call(effect) else {
        let (run, fault) = (target.run, DecisionError::NotPending { effect });
        return target.report_rejection(RuntimeError::Decision { run, fault }, command.json, output);
    };
    let (answer, accepted) = decision_from_args(&command, waiting);
    // The effect id of the call that waits, whatever its attempt.
    let effect = waiting.call.approval.effect;
    if !command.json {
        output.print(&approval_lines(waiting).join("\n"));
    }
    let digest = waiting.call.approval.digest.clone();
    let decision = Decision { digest, answer };
    target
        .send(
            Steering::Decide { effect, decision },
            &accepted,
            command.json,
            output,
        )
        .await
}

/// What the flags say of a call, and how that is told.
fn decision_from_args(command: &ApproveCommand, waiting: &PendingCall) -> (ApprovalAnswer, String) {
    let effect = waiting.call.approval.effect;
    match (&command.edit, &command.reject, &command.guide) {
        (Some(parameters), _, _) => (
            ApprovalAnswer::Edit {
                parameters: parameters.0.clone(),
            },
            format!(
                "{effect} runs with the parameters that you gave: {}",
                sanitize(&parameters.0.to_string())
            ),
        ),
        (None, Some(reason), _) => (
            ApprovalAnswer::Reject {
                reason: reason.clone().filter(|reason| !reason.trim().is_empty()),
            },
            format!("{effect} is rejected: it does not run, and neither does anything after it."),
        ),
        (None, None, Some(guidance)) => (
            ApprovalAnswer::Guide {
                guidance: guidance.clone(),
            },
            format!("{effect} does not run; its agent is told what you said."),
        ),
        (None, None, None) => (ApprovalAnswer::Approve, format!("{effect} is approved.")),
    }
}

/// All that waits, in full, with the commands that answer it.
fn show_waiting(target: &TargetRun, json: bool, output: &Output) {
    let TargetRun {
        run,
        requests,
        messages,
        ..
    } = target;
    if json {
        let mut object = json!({"run": run});
        requests.add_to_json(&mut object);
        object["pending_messages"] = pending_messages_json(messages);
        output.print(&object.to_string());
        return;
    }
    if requests.is_empty() {
        output.note(&format!("nothing in run {} waits for you", run.short()));
    } else {
        output.print(&waiting_lines(*run, requests).join("\n"));
    }
    if let Some(line) = pending_messages_line(messages) {
        output.print(&line);
    }
}

/// What waits for the user of a run, in full, each with how it is answered.
pub(crate) fn waiting_lines(run: RunId, requests: &PendingRequests) -> Vec<String> {
    let mut lines = Vec::new();
    let run = run.short();
    for waiting in &requests.calls {
        let effect = waiting.call.approval.effect;
        lines.extend(approval_lines(waiting));
        lines.push(format!(
            "  dirigent approve {run} {} [--edit JSON | --reject [REASON] | --guide TEXT]",
            EffectId { attempt: 0, ..effect }
        ));
    }
    if let Some((_, question)) = &requests.question {
        lines.extend(question_lines(question));
        lines.push(format!("  dirigent answer {run} \"…\""));
    }
    lines
}

pub(crate) async fn answer(
    db: Option<PathBuf>,
    command: AnswerCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let target = TargetRun::find(db, &command.run).await?;
    let run = target.run;
    let Some((effect, question)) = &target.requests.question else {
        return target.report_rejection(RuntimeError::NoQuestion { run }, command.json, output);
    };
    let answer = match question.choose(&command.answer) {
        Ok(answer) => answer,
        Err(fault) => {
            return target.report_rejection(RuntimeError::Answer { run, fault }, command.json, output);
        }
    };
    let accepted = format!("Run {} has its answer: {}", run.short(), sanitize(&answer));
    let said = Steering::Answer {
        effect: *effect,
        answer,
    };
    target.send(said, &accepted, command.json, output).await
}

pub(crate) async fn cancel(
    db: Option<PathBuf>,
    command: CancelCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let target = TargetRun::find(db, &command.run).await?;
    let accepted = format!("Run {} is cancelled.", target.run.short());
    target
        .send(Steering::Cancel, &accepted, command.json, output)
        .await
}
