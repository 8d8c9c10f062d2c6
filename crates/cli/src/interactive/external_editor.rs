//! Edits text in the user's own editor: `$VISUAL`, else `$EDITOR`.

use std::io::Write as _;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Returns the command of the user's editor as shell text, such as `code --wait`; `None` if none is set.
pub(crate) fn command() -> Option<String> {
    let set = |name| {
        std::env::var(name)
            .ok()
            .filter(|value: &String| !value.trim().is_empty())
    };
    set("VISUAL").or_else(|| set("EDITOR"))
}

/// Edits the text in a temporary file that only the user can read, with a file name that ends with `suffix`. Blocks until the editor ends.
pub(crate) fn edit(editor: &str, text: &str, suffix: &str) -> anyhow::Result<String> {
    let mut file = tempfile::Builder::new()
        .prefix("dirigent-")
        .suffix(suffix)
        .tempfile()
        .context("cannot create a file for the editor")?;
    file.write_all(text.as_bytes())
        .context("cannot write the file for the editor")?;
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .with_context(|| format!("cannot start the editor `{editor}`"))?;
    if !status.success() {
        bail!("the editor `{editor}` failed ({status}), so nothing was changed");
    }
    // An editor that replaces the file leaves the originally opened file unchanged, so the path is read again.
    std::fs::read_to_string(file.path()).context("cannot read what the editor saved")
}
