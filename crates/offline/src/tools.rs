//! Calls of built-in tools.

use dirigent_core::plan::PlannedCall;
use serde_json::{Map, Value, json};

use super::conversation::Call;
use super::scope::Scope;

/// Creates the call that previews a rename. Without a new name, it lists all usages.
pub(crate) fn preview(from: &str, to: Option<&str>, scope: &Scope) -> Call {
    let mut parameters = rename_parameters(from, to, &scope.only);
    parameters.insert("preview".to_owned(), json!(true));
    Call::new("rename_symbol", Value::Object(parameters))
}

/// Creates the call that renames a symbol in these files. Clashes with the new name are allowed: the preview has ruled out real clashes,
/// and a parallel edit may already have introduced the new name.
pub(crate) fn rename(from: &str, to: &str, paths: &[String]) -> PlannedCall {
    let mut parameters = rename_parameters(from, Some(to), paths);
    parameters.insert("preview".to_owned(), json!(false));
    parameters.insert("allow_clash".to_owned(), json!(true));
    planned("rename_symbol", Value::Object(parameters))
}

fn rename_parameters(from: &str, to: Option<&str>, paths: &[String]) -> Map<String, Value> {
    let mut parameters = Map::new();
    parameters.insert("from".to_owned(), json!(from));
    if let Some(to) = to {
        parameters.insert("to".to_owned(), json!(to));
    }
    if !paths.is_empty() {
        parameters.insert("paths".to_owned(), json!(paths));
    }
    parameters
}

/// The pattern to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern<'a> {
    /// A string, even within words.
    Text(&'a str),
    /// A whole word.
    Word(&'a str),
    /// Lines that match a regular expression. The search only counts them.
    Lines(&'a str),
}

/// Creates the call that searches the files of a scope. It ignores the scope's exceptions: apply [`SearchOutput::within`](super::outputs::SearchOutput::within) to the result.
pub(crate) fn search(pattern: Pattern<'_>, scope: &Scope) -> Call {
    let mut parameters = match pattern {
        Pattern::Text(text) => json!({"pattern": text, "literal": true, "max_results": MAX_RESULTS}),
        Pattern::Word(word) => {
            json!({"pattern": word, "literal": true, "whole_word": true, "max_results": MAX_RESULTS})
        }
        Pattern::Lines(regex) => json!({"pattern": regex, "literal": false, "max_results": 1}),
    };
    let paths = scope.search_paths();
    if !paths.is_empty() {
        parameters["paths"] = json!(paths);
    }
    Call::new("search", parameters)
}

/// Maximum number of matches in the output of a search.
const MAX_RESULTS: u32 = 2000;

/// Creates the call that lists a folder with `depth` levels of subfolders.
pub(crate) fn list(folder: &str, depth: u32) -> Call {
    Call::new(
        "file_operations",
        json!({"operation": "list", "path": folder, "depth": depth}),
    )
}

/// Creates the call that reads a file, or a range of its lines.
pub(crate) fn read(path: &str, lines: Option<(u64, u64)>) -> Call {
    let mut parameters = json!({"operation": "read", "path": path});
    if let Some((start, end)) = lines {
        parameters["start_line"] = json!(start);
        parameters["end_line"] = json!(end);
    }
    Call::new("file_operations", parameters)
}

/// Creates the call that replaces a string that occurs once in the file.
pub(crate) fn edit(path: &str, old: &str, new: &str) -> Call {
    Call::new(
        "file_operations",
        json!({"operation": "edit", "path": path, "old": old, "new": new}),
    )
}

/// Creates the call that writes a whole file.
pub(crate) fn write(path: &str, content: &str) -> Call {
    Call::new(
        "file_operations",
        json!({"operation": "write", "path": path, "content": content}),
    )
}

/// Creates the call that undoes all changes of the run to files.
pub(crate) fn undo() -> Call {
    Call::new("file_operations", json!({"operation": "undo"}))
}

/// Creates the call that runs a command, with a timeout of ten minutes because it may be a build.
pub(crate) fn command(command: &[String]) -> PlannedCall {
    planned(
        "execute_command",
        json!({"command": command, "timeout_seconds": 600}),
    )
}

/// Like [`command`], in a folder of the workspace.
pub(crate) fn command_in(folder: &str, command: &[String]) -> PlannedCall {
    planned(
        "execute_command",
        json!({"command": command, "working_directory": folder, "timeout_seconds": 600}),
    )
}

/// Converts a call to a call that a plan contains.
pub(crate) fn planned_call(call: Call) -> PlannedCall {
    planned(&call.tool, call.parameters)
}

fn planned(tool: &str, parameters: Value) -> PlannedCall {
    PlannedCall {
        tool: tool.to_owned(),
        parameters,
    }
}
