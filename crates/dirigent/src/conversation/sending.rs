//! Sends messages. A message begins a turn, or it is an answer, a decision or guidance for the last turn.

use dirigent_core::approval::{ApprovalAnswer, Decision, DecisionError};
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::intent::{
    Classification, HitlIntent, IntentContext, MemoryIntent, PendingRequest, classify,
};
use dirigent_core::question::OpenQuestion;
use dirigent_core::run::WaitingCall;
use dirigent_core::steering::Steering;
use dirigent_core::turn::{EarlierTurns, Turn};
use dirigent_core::view::RunView;
use dirigent_runtime::{Resume, RunHandle, RuntimeError, SteerOutcome, UserPresence};
use dirigent_store::{RunRecord, StoreError};

use super::remembering::{TurnMemory, UndoHint};
use super::{Conversation, ConversationInfo};
use crate::memory::Visible;
use crate::{DirigentError, Goal};

/// The outcome of a message ([`Conversation::send`]).
#[non_exhaustive]
pub enum Sent {
    /// The message began a turn. If no model was needed, for example to remember a fact, the turn already has its answer.
    Turn(RunHandle),
    /// The message went to the last turn, which was waiting for the user or had been interrupted, and now continues in this process.
    Resumed(ResumedTurn),
    /// The message went to the active turn, as guidance, as a decision about a call, or as the answer to its question.
    Message {
        /// The turn's run.
        run: RunId,
        /// Whether the process that owns the run has handled the message.
        outcome: SteerOutcome,
    },
    /// The message may be an answer to a pending request, but is not clearly one. Nothing was decided: show the pending requests again.
    AskedBack(StillWaiting),
    /// The memory answered while a turn was active or waiting. The turn is unchanged, and the answer is not part of the conversation.
    Answer(String),
}

/// A turn that continues in this process.
#[non_exhaustive]
pub struct ResumedTurn {
    /// The turn's run.
    pub run: RunHandle,
    /// The number of journal entries that the run had before it was resumed.
    pub after: u64,
}

/// The requests of the last turn that are waiting for the user.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StillWaiting {
    /// The turn's run.
    pub run: RunId,
    /// Why the message decided nothing.
    pub intent: Classification,
    /// The calls that are waiting for approval, oldest first.
    pub calls: Vec<WaitingCall>,
    /// The questions that are waiting for an answer, oldest first.
    pub questions: Vec<OpenQuestion>,
}

/// The last turn of a conversation, as recorded in the journal.
struct LastTurn {
    record: RunRecord,
    view: RunView,
    state: TurnState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnState {
    /// A process owns the turn's run, which has not ended.
    Active,
    /// The turn's run is waiting for the user, or its process died.
    Unfinished,
    Ended,
}

impl Conversation {
    /// Sends a message of the user, after classifying it by its words (INTENT-1):
    ///
    /// - a fact to remember, to recall or to forget is handled by the memory, without a model. The answer is a separate turn, unless a
    ///   turn is active or waits;
    /// - if the last turn waits for the user, clear words decide about its call or answer its question; unclear words change nothing, and
    ///   the user is asked again;
    /// - any other message begins a turn. If the last turn is active, waits, or its process died, the message is guidance to it instead.
    ///
    /// A turn that waits, or whose process died, is resumed. `message` gets the workspace of the conversation, and the mode of the
    /// conversation's settings, unless it is a workflow with the mode plan.
    ///
    /// # Errors
    /// As [`Dirigent::start`](crate::Dirigent::start) and [`Dirigent::resume`](crate::Dirigent::resume);
    /// [`DirigentError::ConversationBudget`]; [`DirigentError::TurnUnfinished`] for a workflow if the last turn has not ended.
    pub async fn send(&self, message: Goal) -> Result<Sent, DirigentError> {
        match self.try_to_send(message.clone()).await {
            // The turn may have ended, or another process may have begun a turn, while the message was on its way.
            Err(error) if has_missed_turn(&error) => self.try_to_send(message).await,
            sent => sent,
        }
    }

    async fn try_to_send(&self, message: Goal) -> Result<Sent, DirigentError> {
        let last = self.last_turn().await?;
        let text = message.checked_text()?;
        // The text of a workflow's goal is not the user's wording.
        let intent = match message.workflow {
            Some(_) => None,
            None => Some(self.classify(&text, last.as_ref()).await?),
        };
        match last {
            Some(last) if last.state != TurnState::Ended => match intent {
                Some(intent) => self.send_to(last, text, intent, message.user).await,
                None => Err(DirigentError::TurnUnfinished { run: last.record.run }),
            },
            last => Ok(Sent::Turn(self.begin(last, message, intent).await?)),
        }
    }

    /// Starts a turn with a message of the user, without classifying its words.
    ///
    /// # Errors
    /// [`DirigentError::TurnUnfinished`] if the last turn has not ended; [`DirigentError::ConversationBudget`]; as
    /// [`Dirigent::start`](crate::Dirigent::start); [`dirigent_store::StoreError::TurnExists`] if another process has just started a turn.
    pub async fn start_turn(&self, message: Goal) -> Result<RunHandle, DirigentError> {
        let last = self.last_turn().await?;
        match last {
            Some(last) if last.state != TurnState::Ended => {
                Err(DirigentError::TurnUnfinished { run: last.record.run })
            }
            last => self.begin(last, message, None).await,
        }
    }

    /// Resumes the last turn if it is waiting for the user, or its process died; `None` if there is nothing to resume.
    ///
    /// # Errors
    /// As [`Dirigent::resume`](crate::Dirigent::resume).
    pub async fn resume_last(&self, user: UserPresence) -> Result<Option<ResumedTurn>, DirigentError> {
        match self.last_turn().await? {
            Some(last) if last.state == TurnState::Unfinished => Ok(Some(self.resume(&last, user).await?)),
            Some(_) | None => Ok(None),
        }
    }

    async fn resume(&self, last: &LastTurn, user: UserPresence) -> Result<ResumedTurn, DirigentError> {
        let run = self
            .dirigent
            .resume(last.record.run, Resume::new().user(user))
            .await?;
        let after = last.record.entries;
        Ok(ResumedTurn { run, after })
    }

    async fn last_turn(&self) -> Result<Option<LastTurn>, DirigentError> {
        let Some(record) = self.last_run().await? else {
            return Ok(None);
        };
        let (view, _) = self.dirigent.read(record.run).await?;
        let state = match (view.run().end(), record.owner_pid) {
            (Some(EndReason::UserRequired) | None, Some(_)) => TurnState::Active,
            (Some(EndReason::UserRequired) | None, None) => TurnState::Unfinished,
            (Some(_), _) => TurnState::Ended,
        };
        Ok(Some(LastTurn { record, view, state }))
    }

    async fn classify(&self, text: &str, last: Option<&LastTurn>) -> Result<Classification, DirigentError> {
        let own_tools = self.dirigent.run_spec_factory.tool_names();
        let pending = last.map(LastTurn::pending).unwrap_or_default();
        let workspace = self.info().await?.workspace;
        let found = self.dirigent.load_services(Some(&workspace)).await?;
        let services = self.dirigent.known_services(&found);
        let context = IntentContext {
            services: &services,
            own_tools: &own_tools,
            pending: &pending,
            has_just_remembered: last.is_some_and(LastTurn::has_kept_fact),
            has_kept_fact: last.is_some_and(LastTurn::has_fact_to_undo),
        };
        Ok(classify(text, &context))
    }

    /// Begins a turn after the last one, which has ended.
    async fn begin(
        &self,
        last: Option<LastTurn>,
        message: Goal,
        intent: Option<Classification>,
    ) -> Result<RunHandle, DirigentError> {
        let info = self.info().await?;
        let mut turn = self.next_turn(last, &message, intent);
        let wanted = turn.intent.as_ref().and_then(Classification::memory).cloned();
        // A workflow may restrict the lead further than the conversation does.
        let is_restricted = message.workflow.is_some() && !message.mode.is_auto();
        let mode = if is_restricted {
            message.mode
        } else {
            info.settings.mode
        };
        let mut goal = message.workspace(&info.workspace).mode(mode);
        goal.system_prompt = goal.system_prompt.or(info.settings.system_prompt.clone());
        goal.own.default_model = goal.own.default_model.or(info.settings.model.clone());
        match wanted {
            Some(wanted) => {
                let memory = self.turn_memory(&info, goal.checked_text()?, UndoHint::ForgetThat);
                let answered = memory
                    .answer(
                        &wanted,
                        turn.earlier.as_ref().and_then(|earlier| earlier.kept_fact),
                    )
                    .await?;
                if answered.hides_message {
                    goal = goal.text(answered.shown_message());
                    turn.intent = turn.intent.map(|intent| intent.without_words());
                }
                turn.answer = Some(answered.answer);
            }
            None => {
                turn.notes = self.notes(&info, &turn, &goal.checked_text()?).await?;
                let limits = goal
                    .limits
                    .clone()
                    .unwrap_or_else(|| self.dirigent.run_spec_factory.limits.clone());
                let spent = turn
                    .earlier
                    .as_ref()
                    .map(|earlier| earlier.usage)
                    .unwrap_or_default();
                goal = goal.limits(info.settings.bound(limits, &spent)?);
            }
        }
        goal.turn = Some(turn);
        let text = goal.checked_text()?;
        let run = self.dirigent.start(goal).await?;
        if info.title.is_empty() {
            self.set_first_title(&text).await?;
        }
        Ok(run)
    }

    fn next_turn(&self, last: Option<LastTurn>, message: &Goal, intent: Option<Classification>) -> Turn {
        let last_number = last
            .as_ref()
            .and_then(|last| last.record.turn)
            .map(|turn| turn.number);
        let earlier = last.map(|last| EarlierTurns {
            compact: message.compact,
            ..EarlierTurns::from_ended(last.record.run, last.view.machines())
        });
        Turn {
            intent,
            ..Turn::new(self.id(), last_number.map_or(1, |last| last + 1), earlier)
        }
    }

    /// The few facts that are relevant to the conversation's first message to a model, and that are sent with this message.
    async fn notes(
        &self,
        info: &ConversationInfo,
        turn: &Turn,
        text: &str,
    ) -> Result<Vec<String>, DirigentError> {
        if turn.earlier.as_ref().is_some_and(|earlier| earlier.agents > 0) {
            return Ok(Vec::new());
        }
        let visible = Visible::Workspace(info.workspace.clone());
        let facts = self.dirigent.memory().relevant(visible, text).await?;
        Ok(facts.into_iter().map(|fact| fact.text).collect())
    }

    fn turn_memory(&self, info: &ConversationInfo, message: String, undo: UndoHint) -> TurnMemory {
        TurnMemory {
            memory: self.dirigent.memory(),
            workspace: info.workspace.clone(),
            message,
            undo,
        }
    }

    /// Saves, recalls or deletes a fact if the message requests it, and returns the answer, without a turn and without a model
    /// (INTENT-1). Returns `None` for any other message, and changes nothing. Intended for text that would otherwise be guidance to an
    /// unfinished turn.
    ///
    /// # Errors
    /// A failure of the journal.
    pub async fn answer_from_memory(&self, message: &str) -> Result<Option<String>, DirigentError> {
        let Some(last) = self.last_turn().await? else {
            return Ok(None);
        };
        let intent = self.classify(message, Some(&last)).await?;
        match intent.memory() {
            Some(wanted) => self
                .answer_beside(&last, message.to_owned(), wanted)
                .await
                .map(Some),
            None => Ok(None),
        }
    }

    /// Has the memory answer a message without affecting the last turn.
    async fn answer_beside(
        &self,
        last: &LastTurn,
        message: String,
        wanted: &MemoryIntent,
    ) -> Result<String, DirigentError> {
        let memory = self.turn_memory(&self.info().await?, message, UndoHint::ForgetAbout);
        let turn = last.view.run().spec().turn.as_ref();
        let kept = turn.and_then(|turn| turn.last_kept_fact());
        Ok(memory.answer(wanted, kept).await?.answer.text)
    }

    /// Sends a message to the last turn, which is active or unfinished.
    async fn send_to(
        &self,
        last: LastTurn,
        text: String,
        intent: Classification,
        user: UserPresence,
    ) -> Result<Sent, DirigentError> {
        if let Some(wanted) = intent.memory() {
            return Ok(Sent::Answer(self.answer_beside(&last, text, wanted).await?));
        }
        let run = last.record.run;
        let steering = match intent.answer() {
            Some(answer) => last.steering(answer)?,
            None => Some(Steering::Guide { guidance: text }),
        };
        let Some(steering) = steering else {
            return Ok(Sent::AskedBack(StillWaiting {
                run,
                intent,
                calls: last.view.waiting(),
                questions: last.view.questions(),
            }));
        };
        let outcome = self.dirigent.steer(run, steering).await?;
        // The process that owned an active run may have stopped or paused it in the meantime.
        let is_unowned = match outcome {
            SteerOutcome::Pending => self.dirigent.record(run).await?.owner_pid.is_none(),
            SteerOutcome::Accepted => false,
        };
        if is_unowned {
            Ok(Sent::Resumed(self.resume(&last, user).await?))
        } else {
            Ok(Sent::Message { run, outcome })
        }
    }
}

/// Returns true if the last turn was no longer in the state in which it had been read.
fn has_missed_turn(error: &DirigentError) -> bool {
    match error {
        DirigentError::Runtime(RuntimeError::Ended { .. }) => true,
        error => matches!(error.store_error(), Some(StoreError::TurnExists { .. })),
    }
}

impl LastTurn {
    /// The calls and questions that are waiting for the user, in display order.
    fn pending(&self) -> Vec<PendingRequest> {
        if self.state == TurnState::Ended {
            return Vec::new();
        }
        let approvals = self.view.approvals();
        let questions = self.view.questions();
        let calls = approvals.iter().map(|approval| PendingRequest::from(&**approval));
        calls.chain(questions.iter().map(PendingRequest::from)).collect()
    }

    /// Returns true if the turn saved a fact, so that "forget that" refers to this fact.
    fn has_kept_fact(&self) -> bool {
        let answer = self.view.run().spec().ready_answer();
        answer.is_some_and(|answer| answer.kept_fact.is_some())
    }

    /// Returns true if the conversation saved a fact, in this turn or an earlier one, that no undo has deleted since.
    fn has_fact_to_undo(&self) -> bool {
        let turn = self.view.run().spec().turn.as_ref();
        turn.is_some_and(|turn| turn.last_kept_fact().is_some())
    }

    /// Returns the message that applies the answer to the run; `None` if the answer is not clear.
    fn steering(&self, answer: &HitlIntent) -> Result<Option<Steering>, DirigentError> {
        let decide = |effect: EffectId, answer| self.decision(effect, answer).map(Some);
        match answer {
            HitlIntent::Approve { effect } => decide(*effect, ApprovalAnswer::Approve),
            HitlIntent::Reject { effect, reason } => {
                let reason = reason.clone();
                decide(*effect, ApprovalAnswer::Reject { reason })
            }
            // The words do not contain the parameters, so the model makes the changed call, which is then shown for approval (APPROVE-3).
            HitlIntent::Edit { effect, words } => {
                let guidance = words.clone();
                decide(*effect, ApprovalAnswer::Guide { guidance })
            }
            HitlIntent::Guide { effect, guidance } => {
                let guidance = guidance.clone();
                decide(*effect, ApprovalAnswer::Guide { guidance })
            }
            HitlIntent::Choose { effect, number } => Ok(Some(Steering::Answer {
                effect: *effect,
                answer: number.to_string(),
            })),
            HitlIntent::Answer { effect, text } => Ok(Some(Steering::Answer {
                effect: *effect,
                answer: text.clone(),
            })),
            HitlIntent::Unclear => Ok(None),
        }
    }

    /// A decision about a waiting call. It applies only to the call as recorded in the journal (APPROVE-3).
    fn decision(&self, effect: EffectId, answer: ApprovalAnswer) -> Result<Steering, DirigentError> {
        let approvals = self.view.approvals();
        let approval = approvals.iter().find(|approval| approval.effect == effect);
        let approval = approval.ok_or_else(|| RuntimeError::Decision {
            run: self.record.run,
            error: DecisionError::NotPending { effect },
        })?;
        let digest = approval.digest.clone();
        Ok(Steering::Decide {
            effect,
            decision: Decision { digest, answer },
        })
    }
}
