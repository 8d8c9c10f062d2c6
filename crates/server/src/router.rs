//! The addresses of the service.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, post};

use crate::mcp::McpEndpoint;
use crate::problem::Problem;
use crate::service::Service;
use crate::{
    access, approvals, completion, conversations, entrance, messages, permits, run_changes, runs, steering,
    system_prompts,
};

/// All addresses, each behind the checks of access and of the number of requests.
pub(crate) fn router(service: Service) -> Router {
    let mcp = McpEndpoint::new(&service);
    Router::new()
        .route("/", get(entrance::enter))
        .route("/health", get(entrance::health))
        .nest("/v1/runs", runs_router())
        .route("/v1/approvals", get(approvals::list))
        .nest("/v1/system-prompts", system_prompts_router())
        .route("/context", get(conversations::list).post(conversations::create))
        .nest("/context/{conversation}", conversation_router())
        .route(
            "/mcp",
            any(move |service, request| mcp.clone().answer(service, request)),
        )
        .fallback(async || Problem::unknown_address())
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .layer(from_fn_with_state(service.clone(), permits::limit_requests))
        .layer(from_fn(completion::complete_changes))
        .layer(from_fn_with_state(service.clone(), access::check_access))
        .with_state(service)
}

fn runs_router() -> Router<Service> {
    Router::new()
        .route("/", get(runs::list).post(runs::start))
        .route("/{run}", get(runs::show))
        .route("/{run}/events", get(runs::events))
        .route("/{run}/graph", get(runs::graph))
        .route("/{run}/resume", post(runs::resume))
        .route("/{run}/fork", post(runs::fork))
        .route("/{run}/guidance", post(steering::guide))
        .route("/{run}/answers", post(steering::answer))
        .route("/{run}/approvals", get(approvals::of_run))
        .route("/{run}/approvals/{call}", post(steering::decide))
        .route("/{run}/cancel", post(steering::cancel))
        .route("/{run}/diff", get(run_changes::diff))
        .route(
            "/{run}/undo",
            get(run_changes::preview_undo).post(run_changes::undo),
        )
}

fn system_prompts_router() -> Router<Service> {
    Router::new()
        .route("/", get(system_prompts::list).post(system_prompts::create))
        .route(
            "/{name}",
            get(system_prompts::show)
                .put(system_prompts::update)
                .delete(system_prompts::delete),
        )
        .route("/{name}/enhanced", get(system_prompts::enhanced))
}

fn conversation_router() -> Router<Service> {
    Router::new()
        .route(
            "/",
            get(conversations::show)
                .patch(conversations::change)
                .delete(conversations::delete),
        )
        .route("/messages", post(messages::send))
        .route("/answers", post(messages::answer))
        .route("/approvals", get(approvals::of_conversation))
        .route("/approvals/{call}", post(messages::decide))
        .route("/events", get(conversations::events))
        .route("/cancel", post(conversations::cancel))
}
