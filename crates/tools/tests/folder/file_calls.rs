//! Calls of `file_operations`, and the versions of files that its changes name.

use std::os::unix::fs::MetadataExt;

use dirigent_core::tool::FileVersion;
use dirigent_tools::file_operations;
use serde_json::{Value, json};

use super::{Folder, error};

pub fn read(path: &str) -> Value {
    json!({"operation": "read", "path": path})
}

pub fn write(path: &str, content: &str) -> Value {
    json!({"operation": "write", "path": path, "content": content})
}

pub fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"operation": "edit", "path": path, "old": old, "new": new})
}

pub fn delete(path: &str) -> Value {
    json!({"operation": "delete", "path": path})
}

pub fn rename(from: &str, to: &str) -> Value {
    json!({"operation": "move", "from": from, "to": to})
}

pub async fn complaint(folder: &Folder, parameters: Value) -> String {
    error(folder.call(file_operations(), parameters).await)
}

pub fn version(digest: &str, mode: u32) -> Option<FileVersion> {
    let digest = digest.to_owned();
    Some(FileVersion { digest, mode })
}

/// The permissions that the system's defaults give.
pub fn mode(folder: &Folder, path: &str) -> u32 {
    std::fs::metadata(folder.path(path)).unwrap().mode()
}
