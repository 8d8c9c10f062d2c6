//! The addresses of the service.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::mcp::McpEndpoint;
use crate::problem::Problem;
use crate::service::Service;
use crate::{
    access, agents, all_runs, approval_rules, approvals, completion, console, conversations, decisions,
    entrance, idempotency, input, mcp_services, memory, messages, openapi, outputs, passthrough, permits,
    reference, run_changes, runs, steering, system_prompts, usage, workflows,
};

/// All addresses, each behind the checks of access and of the number of requests.
pub(crate) fn router(service: Service) -> Router {
    let (router, _) = api();
    let router = router.layer(from_fn(input::refuse_unknown_parameters));
    let mcp = McpEndpoint::new(&service);
    let answer_mcp = move |service, request| mcp.clone().answer(service, request);
    router
        .route("/", get(entrance::enter))
        .route("/openapi.json", get(openapi::document))
        .route("/reference", get(reference::page))
        .route("/mcp", any(answer_mcp))
        .merge(console::router())
        .fallback(async || Problem::unknown_address())
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .layer(from_fn_with_state(service.clone(), idempotency::answer_once))
        .layer(from_fn_with_state(service.clone(), permits::limit_requests))
        .layer(from_fn(completion::complete_changes))
        .merge(passthrough::router(&service))
        .layer(from_fn_with_state(service.clone(), access::check_access))
        .layer(from_fn(passthrough::errors_in_openai_form))
        .with_state(service)
}

/// The addresses of the API with their description: what is added here is described, too.
pub(crate) fn api() -> (Router<Service>, OpenApi) {
    OpenApiRouter::with_openapi(openapi::introduction())
        .routes(routes!(entrance::health))
        .merge(runs_router())
        .merge(approvals_router())
        .merge(conversations_router())
        .merge(system_prompts_router())
        .merge(registries_router())
        .split_for_parts()
}

fn runs_router() -> OpenApiRouter<Service> {
    OpenApiRouter::new()
        .routes(routes!(runs::list, runs::start))
        .routes(routes!(all_runs::events))
        .routes(routes!(runs::show))
        .routes(routes!(runs::events))
        .routes(routes!(runs::graph))
        .routes(routes!(outputs::show))
        .routes(routes!(runs::resume))
        .routes(routes!(runs::fork))
        .routes(routes!(steering::guide))
        .routes(routes!(steering::cancel))
        .routes(routes!(run_changes::diff))
        .routes(routes!(run_changes::preview_undo, run_changes::undo))
}

fn approvals_router() -> OpenApiRouter<Service> {
    OpenApiRouter::new()
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::of_run))
        .routes(routes!(decisions::decide))
        .routes(routes!(decisions::check))
        .routes(routes!(steering::answer))
        .routes(routes!(approval_rules::list))
        .routes(routes!(approval_rules::delete))
}

fn conversations_router() -> OpenApiRouter<Service> {
    OpenApiRouter::new()
        .routes(routes!(conversations::list, conversations::create))
        .routes(routes!(
            conversations::show,
            conversations::change,
            conversations::delete
        ))
        .routes(routes!(messages::send))
        .routes(routes!(messages::answer))
        .routes(routes!(approvals::of_conversation))
        .routes(routes!(messages::decide))
        .routes(routes!(conversations::events))
        .routes(routes!(conversations::cancel))
}

fn system_prompts_router() -> OpenApiRouter<Service> {
    OpenApiRouter::new()
        .routes(routes!(system_prompts::list, system_prompts::create))
        .routes(routes!(
            system_prompts::show,
            system_prompts::update,
            system_prompts::delete
        ))
        .routes(routes!(system_prompts::enhanced))
}

/// What runs work with: workflows, the memory, agents and MCP services.
fn registries_router() -> OpenApiRouter<Service> {
    OpenApiRouter::new()
        .routes(routes!(workflows::list))
        .routes(routes!(workflows::show))
        .routes(routes!(workflows::start))
        .routes(routes!(workflows::trust))
        .routes(routes!(memory::list, memory::add))
        .routes(routes!(memory::show, memory::delete))
        .routes(routes!(agents::list))
        .routes(routes!(agents::show))
        .routes(routes!(mcp_services::list))
        .routes(routes!(mcp_services::show))
        .routes(routes!(mcp_services::logs))
        .routes(routes!(mcp_services::start))
        .routes(routes!(mcp_services::stop))
        .routes(routes!(usage::usage))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::openapi::openapi;

    /// The pages for browsers, and the description itself.
    const PAGES: [&str; 3] = ["/", "/openapi.json", "/reference"];

    /// The addresses in the source of a router.
    fn routes(source: &str) -> Vec<String> {
        let (source, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
        // A route that is not on one line would not be found.
        assert!(!source.contains(".route(\n"));
        assert!(!source.contains(".nest(") && !source.contains("_service("));
        let routes = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix(".route(\""));
        let routes = routes.filter_map(|rest| rest.split('"').next());
        routes.map(|path| path.replace("{*", "{")).collect()
    }

    /// What is added to `api` is described. The other routers are compared with the description.
    #[test]
    fn host_3_every_address_is_described() {
        let mut routes = routes(include_str!("router.rs"));
        routes.extend(self::routes(include_str!("passthrough/mod.rs")));
        assert!(routes.contains(&"/mcp".to_owned()) && routes.contains(&"/v1/models".to_owned()));
        let described = openapi()["paths"].as_object().unwrap();
        let missing: Vec<&String> = routes
            .iter()
            .filter(|path| !described.contains_key(*path) && !PAGES.contains(&path.as_str()))
            .collect();
        assert_eq!(missing, Vec::<&String>::new());
    }

    #[test]
    fn host_3_each_operation_has_a_name_of_its_own() {
        let items = openapi()["paths"].as_object().unwrap().values();
        let operations = items.flat_map(|item| item.as_object().unwrap().values());
        let names: Vec<&str> = operations
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        let different: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }
}
