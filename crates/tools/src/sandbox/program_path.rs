//! Locates a program's file before the program is started, so that the error for a missing program can list the searched folders.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The search path if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the folders to search for programs, in order.
///
/// Relative folders of `PATH` are left out, because their meaning would depend on the working directory,
/// whose files are untrusted.
pub(crate) fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect()
}

/// Returns the file of a program. A name with a `/` is relative to `folder`; any other name is searched for in `search`.
///
/// # Errors
///
/// A message for models.
pub(crate) fn locate_program(program: &str, folder: &Path, search: &[PathBuf]) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("the first element of `command` is empty; it must be the program to run".to_owned());
    }
    if program.contains('/') {
        let path: PathBuf = folder.join(program).components().collect();
        return match path.metadata() {
            Ok(metadata) if metadata.is_dir() => Err(format!("`{program}` is a folder, not a program")),
            Ok(_) => Ok(path),
            Err(error) => Err(format!("`{program}` cannot be run: {}: {error}", path.display())),
        };
    }
    match search
        .iter()
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
    {
        Some(path) => Ok(path),
        None => Err(not_found(program, search)),
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn not_found(program: &str, search: &[PathBuf]) -> String {
    let folders: Vec<_> = search.iter().map(|folder| folder.display().to_string()).collect();
    let mut message = format!("no program `{program}` in {}", folders.join(", "));
    if program.contains(char::is_whitespace) {
        message.push_str("; each argument must be a separate element, or pass one string instead of a list to have a shell split it");
    } else {
        message.push_str("; to run a program in the workspace, give its path, such as `./script.sh`");
    }
    message
}
