//! Globs that match files, with the same rules as in an ignore file.

use globset::{Glob, GlobBuilder};

/// Compiles a glob for paths relative to the workspace. A glob without `/` matches names in any folder; others match whole paths. `*` does
/// not match `/`.
pub(crate) fn file_glob(glob: &str) -> Result<Glob, globset::Error> {
    let plain = glob.strip_prefix("./").unwrap_or(glob);
    let anywhere = if plain.contains('/') {
        plain.to_owned()
    } else {
        format!("**/{plain}")
    };
    GlobBuilder::new(&anywhere).literal_separator(true).build()
}
