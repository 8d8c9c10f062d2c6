//! Waits for a run, and asks the person at the client what the run needs on the way.

use std::collections::HashSet;
use std::time::Duration;

use dirigent::{DirigentError, EventKind, Events, RunChanges, RunId};
use rmcp::RoleServer;
use rmcp::model::{ElicitResult, InputRequiredResult};
use rmcp::service::Peer;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::host::{Decider, Host};
use super::person::{Channel, Dialog, ask_with_next_call};
use super::person_forms::{Filled, form, read};
use super::progress::Progress;
use super::requests::{RequestKey, UserRequest};
use super::results::{RunStatus, State};
use super::snapshot::Snapshot;
use crate::problem::Problem;

/// The time without events after which the client is told that the call still waits, so that it does not give up.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// What a call that waits returns.
pub(crate) enum Waited {
    /// The state of the run.
    Status(Box<RunStatus>),
    /// The client is to ask its user, and to make the call again.
    Ask(InputRequiredResult),
}

/// A call that waits for a run.
pub(crate) struct Waiting {
    pub(crate) host: Host,
    pub(crate) run: RunId,
    /// The runs that have changed since the call began. After the events of a run have ended, they tell that it is resumed, or stops.
    pub(crate) changes: RunChanges,
    pub(crate) channel: Channel,
    pub(crate) progress: Progress,
    /// When the call stops waiting. A person who is being asked is not interrupted.
    pub(crate) deadline: Instant,
    /// Cancelled when the client cancels the call, which does not touch the run.
    pub(crate) cancelled: CancellationToken,
    /// The requests of the run that the person has answered during this call.
    pub(crate) answered: HashSet<RequestKey>,
    /// The requests of the run that the person was asked, and has not answered.
    pub(crate) declined: HashSet<RequestKey>,
    /// Why requests that the person was asked are still open.
    pub(crate) notes: Vec<String>,
}

/// Why a wait for a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The run may need something else than before, or has ended.
    Run,
    /// Nobody waits any more, or the time is over.
    Stop,
}

impl Waiting {
    /// Waits until the run ends, or needs its user for something that the person at the client cannot be asked, or the time is over.
    pub(crate) async fn wait(mut self) -> Result<Waited, Problem> {
        loop {
            let snapshot = Snapshot::read(&self.host, self.run).await?;
            let open = snapshot.requests.iter();
            let open: Vec<_> = open
                .filter(|request| !self.answered.contains(&request.key()))
                .collect();
            let askable: Vec<_> = open
                .iter()
                .copied()
                .filter(|request| self.can_ask(request))
                .collect();
            match (askable.first(), self.channel.clone()) {
                (Some(request), Channel::Requests(peer)) => {
                    match self.ask(&peer, request, snapshot.seq).await? {
                        Change::Run => continue,
                        Change::Stop => return self.stop().await,
                    }
                }
                (Some(_), Channel::NextCall) => {
                    if let Some(needed) = ask_with_next_call(&askable) {
                        return Ok(Waited::Ask(needed));
                    }
                }
                (_, _) => {}
            }
            if !open.is_empty() || snapshot.is_at_rest() {
                return Ok(self.finished(&snapshot));
            }
            self.progress.begin(&snapshot).await;
            let mut events = self.host.dirigent.events(self.run, snapshot.seq);
            let deadline = self.deadline;
            let change = tokio::select! {
                biased;
                change = self.next_change(&mut events) => change?,
                () = sleep_until(deadline) => Change::Stop,
            };
            if change == Change::Stop {
                return self.stop().await;
            }
        }
    }

    /// Returns true for a request that is put to the person, if the client can ask them.
    pub(crate) fn may_ask(&self, request: &UserRequest) -> bool {
        match (request, self.host.decider) {
            (UserRequest::Question(_), _) | (UserRequest::Call(_), Decider::Person) => true,
            (UserRequest::Call(_), Decider::Model) => false,
        }
    }

    /// Returns true for a request that can be put to the person now.
    fn can_ask(&self, request: &UserRequest) -> bool {
        self.may_ask(request) && !self.declined.contains(&request.key()) && form(request).is_some()
    }

    /// Shows a form, and waits until it is filled in or no longer needed.
    async fn ask(
        &mut self,
        peer: &Peer<RoleServer>,
        request: &UserRequest,
        seq: u64,
    ) -> Result<Change, Problem> {
        let Some(form) = form(request) else {
            return Ok(Change::Run);
        };
        let mut dialog = match Dialog::open(peer, form).await {
            Ok(dialog) => dialog,
            Err(note) => {
                self.decline(request, note);
                return Ok(Change::Run);
            }
        };
        let mut seq = seq;
        loop {
            let mut events = self.host.dirigent.events(self.run, seq);
            let change = tokio::select! {
                biased;
                filled = dialog.filled() => {
                    match filled {
                        Ok(filled) => self.fill(request, &filled).await,
                        Err(note) => self.decline(request, note),
                    }
                    return Ok(Change::Run);
                }
                change = self.next_change(&mut events) => change?,
            };
            let now = Snapshot::read(&self.host, self.run).await?;
            if change == Change::Stop || now.requests.iter().all(|open| open.key() != request.key()) {
                dialog.close().await;
                return Ok(change);
            }
            seq = now.seq;
        }
    }

    /// Passes a filled form on to the run.
    pub(crate) async fn fill(&mut self, request: &UserRequest, filled: &ElicitResult) {
        match read(request, filled) {
            Filled::Open(note) => self.decline(request, note),
            Filled::Done(steering) => match self.host.deliver(self.run, steering).await {
                Ok(_) => {
                    self.answered.insert(request.key());
                }
                Err(problem) => self.decline(
                    request,
                    format!("The user's answer had no effect: {}.", problem.detail()),
                ),
            },
        }
    }

    fn decline(&mut self, request: &UserRequest, note: String) {
        self.declined.insert(request.key());
        self.notes.push(note);
    }

    /// Waits for a change after which the run may need something else than before, and tells the client about all events.
    async fn next_change(&mut self, events: &mut Events) -> Result<Change, Problem> {
        let mut have_ended = false;
        loop {
            let heartbeat = self.progress.last_sent() + HEARTBEAT;
            let event = tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return Ok(Change::Stop),
                () = self.host.stopping.cancelled() => return Ok(Change::Stop),
                event = events.next(), if !have_ended => event,
                changed = self.changes.next(), if have_ended => {
                    let changed = changed.map_err(DirigentError::from)?;
                    if changed.deleted || changed.runs.contains(&self.run) {
                        return Ok(Change::Run);
                    }
                    continue;
                }
                () = sleep_until(heartbeat) => {
                    self.progress.send("Still waiting".to_owned()).await;
                    continue;
                }
            };
            let Some(Ok(event)) = event else {
                // The run has ended, or its process has: from now on, the list of runs tells what becomes of it, and may have told it already.
                have_ended = true;
                continue;
            };
            self.progress.tell(&event).await;
            if changes_requests(&event.kind) {
                return Ok(Change::Run);
            }
        }
    }

    async fn stop(self) -> Result<Waited, Problem> {
        let snapshot = Snapshot::read(&self.host, self.run).await?;
        Ok(self.finished(&snapshot))
    }

    fn finished(self, snapshot: &Snapshot) -> Waited {
        let next = self.notes.into_iter().chain(next_step(&self.host, snapshot));
        let next: Vec<String> = next.collect();
        let next = (!next.is_empty()).then(|| next.join(" "));
        Waited::Status(Box::new(snapshot.status(next)))
    }
}

/// What the calling model can do next; `None` if nothing is left to do.
pub(crate) fn next_step(host: &Host, snapshot: &Snapshot) -> Option<String> {
    let short = snapshot.run.short();
    match snapshot.state {
        State::Running if host.stopping.is_cancelled() => Some(
            "The server is shutting down: the run stops and can be resumed later, for example with guide_run.".to_owned(),
        ),
        State::Running => Some("The run goes on. Call wait_run again.".to_owned()),
        State::NeedsUser => {
            let mut steps = Vec::new();
            let is_call = |request: &&UserRequest| matches!(request, UserRequest::Call(_));
            if snapshot.requests.iter().any(|request| !is_call(&request)) {
                steps.push("Ask the user, and pass their own answer on with answer_run.".to_owned());
            }
            if snapshot.requests.iter().any(|request| is_call(&request)) {
                steps.push(match host.decider {
                    Decider::Person => format!(
                        "Only the user can decide about a call: tell them what waits, and that they can decide with the command dirigent (run {short}) or in \
                         its console. Do not look for a way around it. Call wait_run again when they have decided."
                    ),
                    Decider::Model => "Decide about each call with decide_call and its digest, and call wait_run again.".to_owned(),
                });
            }
            Some(steps.join(" "))
        }
        State::Interrupted => Some("guide_run resumes the run.".to_owned()),
        State::NeverBegan | State::Cancelled | State::Failed => None,
        State::GoalAchieved => None,
        State::IterationLimit | State::TimeLimit | State::BudgetExhausted => Some(format!(
            "The user can resume the run with a higher limit (run {short}); start_goal starts a new one."
        )),
    }
}

/// Returns true for an event after which a run may ask something else than before, or has ended.
fn changes_requests(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ApprovalAsked { .. }
            | EventKind::ApprovalDecided { .. }
            | EventKind::ApprovalExpired { .. }
            | EventKind::QuestionAsked { .. }
            | EventKind::QuestionAnswered { .. }
            | EventKind::QuestionExpired { .. }
            | EventKind::CallsAllowed { .. }
            | EventKind::RunFinished { .. }
    )
}
