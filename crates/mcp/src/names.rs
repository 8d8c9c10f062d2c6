//! The names of services' tools among an agent's tools: `mcp__SERVICE__TOOL` (MCP-2).

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::config::{ServiceName, is_name_char};

/// Maximum length of a tool's name that all providers accept.
const MAX_NAME: usize = 64;

/// Returns the prefix of the names of a service's tools. The names of other services' tools do not begin with it.
pub fn tool_prefix(service: &ServiceName) -> String {
    format!("mcp__{service}__")
}

/// Returns the service that a tool or a pattern belongs to: `github` for `mcp__github__create_issue` and `mcp__github__*`. `None` if
/// the name belongs to no service.
pub fn service_of(tool: &str) -> Option<ServiceName> {
    let (service, _) = tool.strip_prefix("mcp__")?.split_once("__")?;
    ServiceName::new(service).ok()
}

/// Returns the name of a service's tool among an agent's tools, and adds it to `taken`. If the service's own name for the tool must be
/// changed, the result ends with digits of a digest, so that it is the same after each start. `None` if the name is already taken,
/// because the service lists the tool twice.
pub(crate) fn tool_name(service: &ServiceName, tool: &str, taken: &mut BTreeSet<String>) -> Option<String> {
    let prefix = tool_prefix(service);
    let mut name = prefix.clone();
    name.extend(tool.chars().map(|c| if is_name_char(c) { c } else { '_' }));
    let is_unchanged = name.len() <= MAX_NAME && name.ends_with(tool) && !tool.is_empty();
    if is_unchanged && taken.insert(name.clone()) {
        return Some(name);
    }
    if is_unchanged {
        return None;
    }
    let digest = Sha256::digest(tool.as_bytes());
    let suffix: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    name.truncate(MAX_NAME - 1 - suffix.len());
    let name = format!("{name}_{suffix}");
    taken.insert(name.clone()).then_some(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names(service: &str, tools: &[&str]) -> Vec<Option<String>> {
        let service = ServiceName::new(service).unwrap();
        let mut taken = BTreeSet::new();
        tools
            .iter()
            .map(|tool| tool_name(&service, tool, &mut taken))
            .collect()
    }

    #[test]
    fn mcp_2_a_tools_name_contains_its_service_and_its_original_name() {
        assert_eq!(
            names("github", &["create_issue", "_get-me"]),
            [
                Some("mcp__github__create_issue".to_owned()),
                Some("mcp__github___get-me".to_owned())
            ]
        );
        assert_eq!(
            service_of("mcp__github__create_issue").unwrap().as_str(),
            "github"
        );
        assert_eq!(service_of("mcp__github__*").unwrap().as_str(), "github");
        assert_eq!(service_of("mcp__github___get-me").unwrap().as_str(), "github");
        for other in ["search", "mcp__github", "mcp____x", "mcp__*"] {
            assert_eq!(service_of(other), None, "{other}");
        }
    }

    #[test]
    fn mcp_2_changed_names_stay_unique_and_short() {
        let long = "a".repeat(80);
        let found = names("files", &["read.file", "read/file", "read_file", "", &long, "读"]);
        let found: Vec<String> = found.into_iter().map(Option::unwrap).collect();
        for name in &found {
            assert!(name.len() <= MAX_NAME, "{name}");
            assert!(name.chars().all(is_name_char), "{name}");
        }
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
        assert_eq!(found[2], "mcp__files__read_file");
        assert_eq!(found[0], "mcp__files__read_file_dd32cdf5");
    }

    #[test]
    fn mcp_2_a_tool_that_is_listed_twice_has_one_name() {
        assert_eq!(names("a", &["x", "x", "?", "?"])[1], None);
        assert_eq!(names("a", &["x", "x", "?", "?"])[3], None);
    }
}
