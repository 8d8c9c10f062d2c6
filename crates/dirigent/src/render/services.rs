//! MCP services as JSON, the same in every interface.

use serde_json::{Value, json};

use crate::services::{RegisteredService, ServiceList, ServiceOrigin};

/// All services of a workspace, the services that cannot be used, and the project's file if it is not trusted.
pub fn services(listed: &ServiceList) -> Value {
    let services: Vec<Value> = listed.services.iter().map(service).collect();
    let skipped: Vec<Value> = listed
        .skipped
        .iter()
        .map(|skipped| json!({"name": skipped.name, "reason": skipped.reason}))
        .collect();
    let untrusted = listed
        .untrusted
        .as_ref()
        .map(|file| json!({"file": file.path, "services": file.services, "changed": file.changed}));
    json!({"services": services, "untrusted": untrusted, "skipped": skipped, "notes": listed.notes})
}

/// A service without secrets.
pub fn service(service: &RegisteredService) -> Value {
    let tools: Vec<Value> = service
        .tool_summaries()
        .map(|(name, summary)| json!({"name": name, "summary": summary}))
        .collect();
    let start = service.last_start.as_ref().map(|start| {
        json!({"at": start.at, "error": start.error, "stderr": start.stderr, "changed": start.changed})
    });
    json!({
        "name": service.name.as_str(),
        "state": service.state_name().replace(' ', "_"),
        "origin": origin_json(&service.origin),
        "hides": service.hides.iter().map(origin_json).collect::<Vec<_>>(),
        "settings": service.settings,
        "tools": tools,
        "unavailable": service.tools.unavailable(),
        "last_start": start,
    })
}

fn origin_json(from: &ServiceOrigin) -> Value {
    match from {
        ServiceOrigin::Configuration => json!({"kind": "configuration"}),
        ServiceOrigin::Store { version, at } => json!({"kind": "store", "version": version, "at": at}),
        ServiceOrigin::Project(path) => json!({"kind": "project", "file": path}),
    }
}
