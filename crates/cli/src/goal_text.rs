//! Where the text of a goal comes from: the arguments, standard input or a file.

use std::fs::File;
use std::io::{IsTerminal as _, Read, stdin};
use std::path::Path;

use crate::exit::UsageError;
use crate::output::Output;

/// The longest text of a goal from standard input or a file, in bytes. Longer texts belong into files of the workspace.
const MAX_BYTES: u64 = 256 * 1024;

/// Returns the goal's text: the argument itself; what standard input has, if the argument is `-`; or what the file has. `None` if there
/// is neither an argument nor a file.
///
/// # Errors
/// [`UsageError`] if the text cannot be read, is not UTF-8 or is too long.
pub(crate) fn goal_text(
    argument: Option<String>,
    file: Option<&Path>,
    output: &Output,
) -> Result<Option<String>, UsageError> {
    match (argument, file) {
        (Some(argument), _) if argument != "-" => Ok(Some(argument)),
        (Some(_), _) => {
            if stdin().is_terminal() {
                output.note("Type the goal; end it with Ctrl-D on a line of its own.");
            }
            read(stdin().lock(), "standard input").map(Some)
        }
        (None, Some(path)) => {
            let name = path.display().to_string();
            let opened = File::open(path).map_err(|e| {
                UsageError(format!(
                    "cannot read the goal from {name}: {e}; check the path and its permissions"
                ))
            })?;
            read(opened, &name).map(Some)
        }
        (None, None) => Ok(None),
    }
}

fn read(from: impl Read, name: &str) -> Result<String, UsageError> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|e| UsageError(format!("cannot read the goal from {name}: {e}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(UsageError(format!(
            "the goal from {name} is longer than {MAX_BYTES} bytes: put long texts into a file of the workspace, and mention it as @path"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        UsageError(format!(
            "the goal from {name} is not UTF-8 text: convert it to UTF-8"
        ))
    })?;
    Ok(text.trim().to_owned())
}
