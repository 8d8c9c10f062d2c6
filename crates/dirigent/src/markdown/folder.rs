//! Finds and reads Markdown files in a folder. Reading never blocks on a pipe, is bounded in size, and never follows a link out of a project.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a file, in bytes.
const MAX_FILE: u64 = 256 * 1024;
/// Maximum number of files in a folder.
const MAX_FILES: usize = 200;
/// Maximum number of directory entries to visit.
const MAX_ENTRIES: usize = 10_000;
/// Maximum number of levels of nested folders.
const MAX_DEPTH: usize = 4;

/// A file that may define an agent or a workflow. If `error` is set, it says why the path is not read.
pub(crate) struct MarkdownFile {
    pub(crate) path: PathBuf,
    error: Option<String>,
}

impl MarkdownFile {
    /// Reads the text of the file. The error is a reason for display. A file outside `within` is an error. Reads the disk.
    pub(crate) fn read(&self, within: Option<&Path>) -> Result<String, String> {
        match &self.error {
            None => read_file(&self.path, within),
            Some(problem) => Err(problem.clone()),
        }
    }
}

/// Lists the `*.md` files of a folder and its subfolders, except `README.md`, sorted by path; empty if the folder does not exist. Folders
/// outside `within` are not searched. Reads the disk.
pub(crate) fn files(folder: &Path, within: Option<&Path>) -> Vec<MarkdownFile> {
    let mut search = FolderScan::default();
    search.walk(folder, within, 0);
    search.paths.sort();
    let too_many = search.paths.len() > MAX_FILES || search.entries > MAX_ENTRIES;
    search.paths.truncate(MAX_FILES);
    let files = search
        .paths
        .into_iter()
        .map(|path| MarkdownFile { path, error: None });
    let mut found: Vec<MarkdownFile> = search.unreadable.into_iter().chain(files).collect();
    if too_many {
        found.push(MarkdownFile {
            path: folder.to_owned(),
            error: Some(format!(
                "there are more than {MAX_FILES} files: only the first {MAX_FILES} are read"
            )),
        });
    }
    found
}

#[derive(Default)]
struct FolderScan {
    paths: Vec<PathBuf>,
    unreadable: Vec<MarkdownFile>,
    entries: usize,
}

impl FolderScan {
    fn walk(&mut self, folder: &Path, within: Option<&Path>, depth: usize) {
        let entries = confined(folder, within).and_then(|()| fs::read_dir(folder).map_err(|e| reason(&e)));
        let entries = match entries {
            Ok(entries) => entries,
            Err(_) if is_missing(folder) => return,
            Err(problem) => {
                let path = folder.to_owned();
                self.unreadable.push(MarkdownFile {
                    path,
                    error: Some(problem),
                });
                return;
            }
        };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return;
            }
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().to_lowercase();
            // Links to folders are not followed: they may form a cycle.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth + 1 < MAX_DEPTH {
                    self.walk(&path, within, depth + 1);
                }
            } else if name.ends_with(".md") && name != "readme.md" {
                self.paths.push(path);
            }
        }
    }
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

/// Checks that a path resolves to a path inside the folder `within`, which must be a canonical path.
fn confined(path: &Path, within: Option<&Path>) -> Result<(), String> {
    let Some(within) = within else { return Ok(()) };
    let real = path.canonicalize().map_err(|error| reason(&error))?;
    if real.starts_with(within) {
        Ok(())
    } else {
        Err("it is a link that leads out of the project, so it is not read".to_owned())
    }
}

/// Reads the text of a file. The error is a reason for display. A file outside `within`, which must be a canonical path, is an error. Reads
/// the disk.
pub(crate) fn read_file(path: &Path, within: Option<&Path>) -> Result<String, String> {
    confined(path, within)?;
    let failed = |error: std::io::Error| reason(&error);
    // A pipe could block, and a device could be endless.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("it is longer than {} KiB", MAX_FILE / 1024));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "it is a link to a file that does not exist".to_owned(),
        ErrorKind::PermissionDenied => "no permission to read it: check its permissions".to_owned(),
        _ => error.to_string(),
    }
}
