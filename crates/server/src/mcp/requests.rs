//! What a run asks its user: questions, and calls that need approval.

use std::fmt::Write as _;
use std::sync::Arc;

use dirigent::events::{OpenQuestion, Plan, SUBMIT_PLAN};
use dirigent::render::{escape_invisible, proposal};
use dirigent::report::WaitingCall;
use dirigent::{Approval, EffectId, RunView};
use serde_json::Value;

/// One request of a run to its user.
#[derive(Clone, Debug)]
pub(crate) enum UserRequest {
    /// A question.
    Question(OpenQuestion),
    /// A call that needs approval.
    Call(WaitingApproval),
}

/// A call that needs approval.
#[derive(Clone, Debug)]
pub(crate) struct WaitingApproval {
    pub(crate) call: WaitingCall,
    /// The tree of the plan that the call submits; `None` for any other call.
    tree: Option<String>,
}

/// What tells a request from every other one. A call or a question that is asked again is another request.
pub(crate) type RequestKey = (EffectId, String);

impl UserRequest {
    /// The open requests of a run: first the questions, then the calls, each the oldest first.
    pub(crate) fn of_view(view: &RunView) -> Vec<UserRequest> {
        let setup = &view.run().spec().setup;
        let calls = view.waiting().into_iter().map(|call| {
            let plan = (call.approval.tool == SUBMIT_PLAN)
                .then(|| Plan::from_parameters(&call.approval.parameters).ok())
                .flatten();
            let tree = plan.and_then(|plan| proposal(&plan, setup));
            UserRequest::Call(WaitingApproval { call, tree })
        });
        let questions = view.questions().into_iter().map(UserRequest::Question);
        questions.chain(calls).collect()
    }

    pub(crate) fn key(&self) -> RequestKey {
        match self {
            UserRequest::Question(open) => (open.effect, open.asked_at.0.to_string()),
            UserRequest::Call(waiting) => (waiting.approval().effect, waiting.approval().digest.0.clone()),
        }
    }
}

impl WaitingApproval {
    pub(crate) fn approval(&self) -> &Arc<Approval> {
        &self.call.approval
    }

    /// The whole call, for the person who decides: nothing is shortened, and invisible characters are shown.
    pub(crate) fn text(&self) -> String {
        let approval = self.approval();
        let agent = approval.agent.as_deref().unwrap_or("the plan");
        let mut text = match &self.tree {
            Some(tree) => format!(
                "Dirigent wants to carry out this plan:\n\n{}\n",
                escape_invisible(tree)
            ),
            None => format!(
                "Dirigent ({}) wants to call {}:\n",
                escape_invisible(agent),
                escape_invisible(&approval.tool)
            ),
        };
        let _ = write!(
            text,
            "\n{}\n\nWorkspace: {}",
            call_json(&approval.parameters),
            escape_invisible(&approval.workspace)
        );
        text
    }
}

/// The parameters of a call as JSON, with invisible characters shown.
pub(crate) fn call_json(parameters: &Value) -> String {
    escape_invisible(&serde_json::to_string_pretty(parameters).unwrap_or_else(|_| parameters.to_string()))
}
