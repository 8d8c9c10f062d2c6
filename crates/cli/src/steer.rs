//! What is said to a run from another terminal: guidance, decisions, answers, its end. It reaches the process that carries the run out by the
//! journal; where there is none it waits for the next one.

use std::path::PathBuf;

use dirigent::core::steering::Steering;
use dirigent::{
    ApprovalAnswer, Decision, DecisionFault, Dirigent, DirigentError, EffectId, Kept, RunId, RuntimeError,
    Steered,
};
use serde_json::json;

use crate::args::{AnswerCommand, ApproveCommand, CancelCommand, GuideCommand};
use crate::attend::{approval_lines, question_lines};
use crate::exit::Exit;
use crate::kept::{kept_json, kept_line, kept_of};
use crate::output::{Output, inert};
use crate::run::open_existing;
use crate::waits::{Waiting, Waits};

/// A run of the journal and what waits for its user.
struct Addressed {
    dirigent: Dirigent,
    run: RunId,
    waits: Waits,
    kept: Vec<Kept>,
}

impl Addressed {
    async fn find(db: Option<PathBuf>, text: &str) -> anyhow::Result<Self> {
        let dirigent = open_existing(Dirigent::builder(), db).await?;
        let (run, waits, kept) = tokio::task::block_in_place(|| {
            let run = dirigent.find(text)?;
            let (view, _) = dirigent.read(run)?;
            let kept = kept_of(&dirigent, &dirigent.record(run)?)?;
            Ok::<_, DirigentError>((run, Waits::of(&view), kept))
        })?;
        Ok(Addressed {
            dirigent,
            run,
            waits,
            kept,
        })
    }

    /// Says it, and what came of it.
    async fn say(&self, said: Steering, taken: &str, json: bool, output: &Output) -> anyhow::Result<Exit> {
        let run = self.run.short();
        let (state, text) = match self.dirigent.steer(self.run, said).await {
            Ok(Steered::Taken) => ("taken", taken.to_owned()),
            Ok(Steered::Waiting) => (
                "waiting",
                format!(
                    "Run {run} has not taken it: no process carries it out now, or that process stands still. It is kept, and taken as soon \
                     as the run goes on: `dirigent resume {run}`."
                ),
            ),
            Err(error) => return self.refuse(error, json, output),
        };
        if json {
            output.say(&json!({"run": self.run, "state": state}).to_string());
        } else {
            output.say(&text);
        }
        Ok(Exit::Success)
    }

    /// It does not count, for that reason.
    fn refuse(&self, error: impl Into<DirigentError>, json: bool, output: &Output) -> anyhow::Result<Exit> {
        let error = error.into();
        if !json {
            return Err(error.into());
        }
        let refused = json!({"run": self.run, "state": "refused", "reason": error.to_string()});
        output.say(&refused.to_string());
        Ok(Exit::of_error(&error.into()))
    }
}

pub(crate) async fn guide(
    db: Option<PathBuf>,
    command: GuideCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let addressed = Addressed::find(db, &command.run).await?;
    let (run, guidance) = (addressed.run.short(), command.guidance);
    let (said, taken) = match (command.agent, command.now) {
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
    addressed.say(said, &taken, command.json, output).await
}

pub(crate) async fn approve(
    db: Option<PathBuf>,
    command: ApproveCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let addressed = Addressed::find(db, &command.run).await?;
    let Some(effect) = command.call else {
        show_waiting(&addressed, command.json, output);
        return Ok(Exit::Success);
    };
    let Some(waiting) = addressed.waits.call(effect) else {
        let (run, fault) = (addressed.run, DecisionFault::NotPending { effect });
        return addressed.refuse(RuntimeError::Decision { run, fault }, command.json, output);
    };
    let (answer, taken) = decided(&command, waiting);
    // The handle of the call that waits, whatever its try.
    let effect = waiting.call.approval.effect;
    if !command.json {
        output.say(&approval_lines(waiting).join("\n"));
    }
    let digest = waiting.call.approval.digest.clone();
    let decision = Decision { digest, answer };
    addressed
        .say(
            Steering::Decide { effect, decision },
            &taken,
            command.json,
            output,
        )
        .await
}

/// What the flags say of a call, and how that is told.
fn decided(command: &ApproveCommand, waiting: &Waiting) -> (ApprovalAnswer, String) {
    let effect = waiting.call.approval.effect;
    match (&command.edit, &command.reject, &command.guide) {
        (Some(parameters), _, _) => (
            ApprovalAnswer::Edit {
                parameters: parameters.0.clone(),
            },
            format!(
                "{effect} runs with the parameters that you gave: {}",
                inert(&parameters.0.to_string())
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
fn show_waiting(addressed: &Addressed, json: bool, output: &Output) {
    let Addressed { run, waits, kept, .. } = addressed;
    if json {
        let mut object = json!({"run": run});
        waits.add_to(&mut object);
        object["kept"] = kept_json(kept);
        output.say(&object.to_string());
        return;
    }
    if waits.is_empty() {
        output.note(&format!("nothing in run {} waits for you", run.short()));
    } else {
        output.say(&waiting_lines(*run, waits).join("\n"));
    }
    if let Some(line) = kept_line(kept) {
        output.say(&line);
    }
}

/// What waits for the user of a run, in full, each with how it is answered.
pub(crate) fn waiting_lines(run: RunId, waits: &Waits) -> Vec<String> {
    let mut lines = Vec::new();
    let run = run.short();
    for waiting in &waits.calls {
        let effect = waiting.call.approval.effect;
        lines.extend(approval_lines(waiting));
        lines.push(format!(
            "  dirigent approve {run} {} [--edit JSON | --reject [REASON] | --guide TEXT]",
            EffectId { attempt: 0, ..effect }
        ));
    }
    if let Some((_, question)) = &waits.question {
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
    let addressed = Addressed::find(db, &command.run).await?;
    let run = addressed.run;
    let Some((effect, question)) = &addressed.waits.question else {
        return addressed.refuse(RuntimeError::NoQuestion { run }, command.json, output);
    };
    let answer = match question.choose(&command.answer) {
        Ok(answer) => answer,
        Err(fault) => return addressed.refuse(RuntimeError::Answer { run, fault }, command.json, output),
    };
    let taken = format!("Run {} has its answer: {}", run.short(), inert(&answer));
    let said = Steering::Answer {
        effect: *effect,
        answer,
    };
    addressed.say(said, &taken, command.json, output).await
}

pub(crate) async fn cancel(
    db: Option<PathBuf>,
    command: CancelCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let addressed = Addressed::find(db, &command.run).await?;
    let taken = format!("Run {} is cancelled.", addressed.run.short());
    addressed
        .say(Steering::Cancel, &taken, command.json, output)
        .await
}
