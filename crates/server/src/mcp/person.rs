//! Asks the person at the client, by elicitation.
//!
//! Versions of the protocol before 2026-07-28 let the server send requests while a call is under way. Since then a call returns what it needs, and the client makes it again with the
//! answers.

use std::collections::BTreeMap;

use rmcp::RoleServer;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, InputRequest, InputRequiredResult,
    InputResponses, ProtocolVersion, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, RequestHandle};
use serde::{Deserialize, Serialize};

use super::person_forms::form;
use super::requests::{RequestKey, UserRequest};
use crate::problem::Problem;

/// The most requests that are put to a person at once.
const MAX_AT_ONCE: usize = 5;

/// How the client puts a request to its user.
#[derive(Clone, Debug)]
pub(crate) enum Channel {
    /// It cannot.
    None,
    /// It answers requests of the server.
    Requests(Peer<RoleServer>),
    /// It makes the call again, with the answers.
    NextCall,
}

impl Channel {
    pub(crate) fn of_call(context: &RequestContext<RoleServer>) -> Self {
        let capabilities = context.client_capabilities().unwrap_or_default();
        // Before there were two kinds, a client that declared the capability meant forms.
        let has_forms = capabilities
            .elicitation
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none());
        let version = context.protocol_version();
        match version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str()) {
            _ if !has_forms => Channel::None,
            true => Channel::NextCall,
            false => Channel::Requests(context.peer.clone()),
        }
    }
}

/// A form that a person is filling in.
pub(crate) struct Dialog(RequestHandle<RoleServer>);

impl Dialog {
    /// Shows a form. The protocol ties it to the call that is being handled.
    pub(crate) async fn open(peer: &Peer<RoleServer>, form: ElicitRequestParams) -> Result<Dialog, String> {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let options = PeerRequestOptions::no_options();
        match peer.send_cancellable_request(request, options).await {
            Ok(handle) => Ok(Dialog(handle)),
            Err(error) => Err(format!("The client could not ask the user: {error}.")),
        }
    }

    /// Waits until the form is filled in or closed. Cancel safe.
    pub(crate) async fn filled(&mut self) -> Result<ElicitResult, String> {
        match (&mut self.0.rx).await {
            Ok(Ok(ClientResult::ElicitResult(result))) => Ok(result),
            Ok(Ok(_)) => Err("The client's answer is not one to a form.".to_owned()),
            Ok(Err(error)) => Err(format!("The client could not ask the user: {error}.")),
            Err(_) => Err("The client has gone.".to_owned()),
        }
    }

    /// Closes the form, because nobody needs the answer any more.
    pub(crate) async fn close(self) {
        // Fails only if the client has gone.
        let _ = self
            .0
            .cancel(Some("the question is no longer open".to_owned()))
            .await;
    }
}

/// What a call that the client makes again brings back: which requests it had shown. It is checked against the open requests, so that a client which changes it gains
/// nothing.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Shown {
    /// The requests by the names of their forms.
    requests: BTreeMap<String, RequestKey>,
}

/// The answer of a call that needs a person first; `None` if no request fits into a form.
pub(crate) fn ask_with_next_call(requests: &[&UserRequest]) -> Option<InputRequiredResult> {
    let (mut shown, mut asked) = (Shown::default(), BTreeMap::new());
    let forms = requests
        .iter()
        .filter_map(|request| Some((request, form(request)?)));
    for ((request, form), number) in forms.take(MAX_AT_ONCE).zip(1..) {
        let name = format!("request_{number}");
        shown.requests.insert(name.clone(), request.key());
        asked.insert(name, InputRequest::Elicitation(ElicitRequest::new(form)));
    }
    if asked.is_empty() {
        return None;
    }
    let state = serde_json::to_string(&shown).ok()?;
    Some(InputRequiredResult::new(Some(asked), Some(state)))
}

/// The filled forms that a call brings, each with its request, as far as the request is still open.
pub(crate) fn filled_forms(
    responses: Option<InputResponses>,
    state: Option<&str>,
    open: &[UserRequest],
) -> Result<Vec<(UserRequest, ElicitResult)>, Problem> {
    let (Some(responses), Some(state)) = (responses, state) else {
        return Ok(Vec::new());
    };
    let invalid = || {
        Problem::invalid(
            "the call brings answers that this server did not ask for: make it again without them",
        )
    };
    let shown: Shown = serde_json::from_str(state).map_err(|_| invalid())?;
    let mut filled = Vec::new();
    for (name, response) in responses {
        let key = shown.requests.get(&name).ok_or_else(invalid)?;
        let result = serde_json::from_value(response).map_err(|_| invalid())?;
        if let Some(request) = open.iter().find(|request| request.key() == *key) {
            filled.push((request.clone(), result));
        }
    }
    Ok(filled)
}
