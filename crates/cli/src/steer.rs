//! `guide`, `approve`, `answer` and `cancel`: messages to a run from another terminal.
//!
//! Messages are sent through the journal to the process that owns the run. If no process owns the run, the message stays pending until
//! `resume`.

use std::path::PathBuf;

use dirigent::Steering;
use dirigent::approval_rules::{CallPattern, SavedRule, Within};
use dirigent::{
    ApprovalAnswer, Decision, DecisionError, Dirigent, DirigentError, EffectId, EndReason, OpenQuestion,
    PendingMessage, RunId, RuntimeError, SelectionError, SteerOutcome, render, select_question,
};
use serde_json::json;

use crate::approvals;
use crate::args::{AnswerCommand, ApproveCommand, CancelCommand, GuideCommand, RuleWithin};
use crate::exit::Exit;
use crate::open::open_existing;
use crate::output::{Output, sanitize};
use crate::pending_messages::{load_pending_messages, pending_messages_json, pending_messages_line};
use crate::pending_requests::{PendingCall, PendingRequests};
use crate::request_text::{approval_lines, request_lines};
use crate::summary::next_command;

/// The run to which a message is sent, with its pending requests and messages.
struct TargetRun {
    dirigent: Dirigent,
    run: RunId,
    /// `None` if the run has not ended.
    end: Option<EndReason>,
    requests: PendingRequests,
    messages: Vec<PendingMessage>,
}

impl TargetRun {
    async fn find(db: Option<PathBuf>, text: &str) -> anyhow::Result<Self> {
        let dirigent = open_existing(Dirigent::builder(), db).await?;
        let run = dirigent.find(text).await?;
        let record = dirigent.record(run).await?;
        let messages = load_pending_messages(&dirigent, &record).await?;
        let (end, requests) = if record.entries == 0 {
            (None, PendingRequests::default())
        } else {
            let (view, _) = dirigent.read(run).await?;
            (view.run().end().cloned(), PendingRequests::from_view(&view))
        };
        Ok(TargetRun {
            dirigent,
            run,
            end,
            requests,
            messages,
        })
    }

    /// Sends the message and prints the result; `accepted` is the text for success.
    async fn send(
        &self,
        message: Steering,
        accepted: &str,
        json: bool,
        output: &Output,
    ) -> anyhow::Result<Exit> {
        let run = self.run.short();
        let (state, text) = match self.dirigent.steer(self.run, message).await {
            Ok(SteerOutcome::Accepted) => ("accepted", accepted.to_owned()),
            Ok(SteerOutcome::Pending) => (
                "pending",
                format!(
                    "Pending: no process owns run {run}, or its process does not respond. The message is stored and handled when the run \
                     continues: `dirigent resume {run}`."
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

    /// Reports a rejected message: as JSON with exit code 2, or as an error.
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
        let rejected = json!({"run": self.run, "state": "rejected", "reason": error.to_string()});
        output.print(&rejected.to_string());
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
    let (message, accepted) = match (command.agent, command.now) {
        (Some(agent), _) => (
            Steering::GuideAgent { agent, guidance },
            format!(
                "Accepted: agent {agent} of run {run} receives the guidance with its next model request."
            ),
        ),
        (None, true) => (
            Steering::Redirect { guidance },
            format!("Accepted: run {run} stops its current work and plans again."),
        ),
        (None, false) => (Steering::Guide { guidance }, guidance_accepted(&target)),
    };
    target.send(message, &accepted, command.json, output).await
}

/// Returns the text for accepted guidance. If the run has ended, the text says that guidance takes effect only after a resume.
fn guidance_accepted(target: &TargetRun) -> String {
    let TargetRun {
        run, end, requests, ..
    } = target;
    let short = run.short();
    let next = end.as_ref().and_then(|end| next_command(*run, end, requests));
    match next {
        Some(command) => {
            format!(
                "Accepted: once you resume run {short}, its next plan takes your guidance into account.\nnext: {command}"
            )
        }
        None => format!("Accepted: the next plan of run {short} takes your guidance into account."),
    }
}

pub(crate) async fn approve(
    db: Option<PathBuf>,
    command: ApproveCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let target = TargetRun::find(db, &command.run).await?;
    let Some(effect) = command.call else {
        show_pending(&target, command.json, output);
        return Ok(Exit::Success);
    };
    let Some(pending) = target.requests.call(effect) else {
        let (run, error) = (target.run, DecisionError::NotPending { effect });
        return target.report_rejection(RuntimeError::Decision { run, error }, command.json, output);
    };
    if let Some(calls) = &command.always {
        return always(&target, pending, calls, &command, output).await;
    }
    let (answer, accepted) = decision_from_args(&command, pending);
    // The argument may omit the number of the attempt.
    let effect = pending.call.approval.effect;
    if !command.json {
        output.print(&approval_lines(pending).join("\n"));
    }
    let digest = pending.call.approval.digest.clone();
    let decision = Decision { digest, answer };
    let message = Steering::Decide { effect, decision };
    target.send(message, &accepted, command.json, output).await
}

/// Saves a rule that approves the pending call, and calls like it from now on.
async fn always(
    target: &TargetRun,
    pending: &PendingCall,
    calls: &CallPattern,
    command: &ApproveCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let (run, json) = (target.run, command.json);
    if !target.requests.approves(calls, pending) {
        let reason = format!(
            "`{calls}` does not allow this call: the pattern does not match it, the call is a plan (no pattern allows plans), or your configuration always asks about such calls"
        );
        return target.report_rejection(RuntimeError::MessageRejected { run, reason }, json, output);
    }
    let within = match command.within {
        RuleWithin::Run => Within::Run,
        RuleWithin::Conversation => Within::Conversation,
        RuleWithin::Folder => Within::Workspace,
        RuleWithin::Everywhere => Within::Everywhere,
    };
    if !json {
        output.print(&approval_lines(pending).join("\n"));
    }
    let saved = target
        .dirigent
        .approval_rules()
        .allow(run, within, calls.clone())
        .await;
    let SavedRule { rule, outcome } = match saved {
        Ok(saved) => saved,
        Err(error) => return target.report_rejection(error, json, output),
    };
    let state = match outcome {
        Some(SteerOutcome::Accepted) => "accepted",
        Some(SteerOutcome::Pending) => "pending",
        None => "ended",
    };
    if json {
        output.print(&json!({"run": run, "state": state, "rule": render::approval_rule(&rule)}).to_string());
        return Ok(Exit::Success);
    }
    output.print(&format!("Saved rule {}", approvals::line(&rule)));
    let (effect, short) = (pending.call.approval.effect, run.short());
    output.print(&match outcome {
        Some(SteerOutcome::Accepted) => format!("{effect} is approved by it."),
        Some(SteerOutcome::Pending) => {
            format!("Pending: {effect} runs when the run continues: `dirigent resume {short}`.")
        }
        None => format!("Run {short} has ended in the meantime."),
    });
    Ok(Exit::Success)
}

/// The decision that the flags request, and the text to print if the run accepts it.
fn decision_from_args(command: &ApproveCommand, pending: &PendingCall) -> (ApprovalAnswer, String) {
    let effect = pending.call.approval.effect;
    match (&command.edit, &command.reject, &command.guide) {
        (Some(parameters), _, _) => (
            ApprovalAnswer::Edit {
                parameters: parameters.0.clone(),
            },
            format!(
                "{effect} runs with your parameters: {}",
                sanitize(&parameters.0.to_string())
            ),
        ),
        (None, Some(reason), _) => (
            ApprovalAnswer::Reject {
                reason: reason.clone().filter(|reason| !reason.trim().is_empty()),
            },
            format!("{effect} is rejected: neither the call nor any work that depends on it runs."),
        ),
        (None, None, Some(guidance)) => (
            ApprovalAnswer::Guide {
                guidance: guidance.clone(),
            },
            format!("{effect} does not run; its agent receives your guidance."),
        ),
        (None, None, None) => (ApprovalAnswer::Approve, format!("{effect} is approved.")),
    }
}

/// Prints all pending requests in full, with the commands that answer them, and the pending messages.
fn show_pending(target: &TargetRun, json: bool, output: &Output) {
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
        output.note(&format!("run {} is not waiting for you", run.short()));
    } else {
        output.print(&request_lines(*run, requests).join("\n"));
    }
    if let Some(line) = pending_messages_line(messages) {
        output.print(&line);
    }
}

pub(crate) async fn answer(
    db: Option<PathBuf>,
    command: AnswerCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let target = TargetRun::find(db, &command.run).await?;
    let (run, open) = (target.run, &target.requests.questions);
    let (asked, text) = match selected_question(open, &command.words) {
        Ok(selected) => selected,
        Err(error) => {
            return target.report_rejection(RuntimeError::question(run, error), command.json, output);
        }
    };
    let (effect, named) = (asked.effect, command.words.len() > 1);
    if !named && text.trim().parse() == Ok(EffectId { attempt: 0, ..effect }) {
        let reason = format!("`{text}` is the id of the open question: write your answer after it");
        let error = RuntimeError::MessageRejected { run, reason };
        return target.report_rejection(error, command.json, output);
    }
    let answer = match asked.question.choose(&text) {
        Ok(answer) => answer,
        Err(error) => {
            return target.report_rejection(RuntimeError::Answer { run, error }, command.json, output);
        }
    };
    let who = match asked.agent {
        Some(_) => format!("{effect} of run {}", run.short()),
        None => format!("Run {}", run.short()),
    };
    let accepted = format!("Accepted: {who} receives the answer: {}", sanitize(&answer));
    let message = Steering::Answer { effect, answer };
    target.send(message, &accepted, command.json, output).await
}

/// Returns the question that the arguments of `answer` select, and the text of the answer.
fn selected_question<'a>(
    open: &'a [OpenQuestion],
    words: &[String],
) -> Result<(&'a OpenQuestion, String), SelectionError> {
    let (named, text) = match words {
        [first, rest @ ..] if !rest.is_empty() => match first.parse() {
            Ok(effect) => (Some(effect), rest.join(" ")),
            Err(_) if open.is_empty() => return Err(SelectionError::NoQuestion),
            Err(_) => {
                return Err(SelectionError::NotAnId {
                    word: first.clone(),
                    open: open.to_vec(),
                });
            }
        },
        words => (None, words.concat()),
    };
    Ok((select_question(open, named)?, text))
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
