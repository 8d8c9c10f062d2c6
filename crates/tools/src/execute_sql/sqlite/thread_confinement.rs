//! Holding SQLite's thread to the database's folder by the kernel.

use std::io;
use std::path::Path;

/// What SQLite reads elsewhere: random bytes, and the time zone.
#[cfg(target_os = "linux")]
const READ: [&str; 3] = ["/dev/urandom", "/etc/localtime", "/usr/share/zoneinfo"];

/// From now on this thread reaches no file outside of `folder`, where the database and its journals are. A kernel without Landlock does not know how to, and the other bars
/// have to hold.
#[cfg(target_os = "linux")]
pub(super) fn confine(folder: &Path) -> io::Result<()> {
    use landlock::{ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr};

    // The first version has no say on renaming between folders, which SQLite never does, nor on truncating, for which a file must be opened.
    let all = AccessFs::from_all(ABI::V1);
    let restrict = || {
        let rules = Ruleset::default()
            .handle_access(all)?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new(folder)?, all))?;
        READ.iter()
            .filter_map(|path| PathFd::new(path).ok())
            .try_fold(rules, |rules, path| {
                rules.add_rule(PathBeneath::new(path, AccessFs::from_read(ABI::V1)))
            })?
            .restrict_self()
            .map_err(Box::<dyn std::error::Error + Send + Sync>::from)
    };
    restrict().map(drop).map_err(io::Error::other)
}

/// Other systems have nothing of the kind.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::confine;

    #[test]
    fn a_confined_thread_reaches_the_folder_alone() {
        let (workspace, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (ours, theirs) = (workspace.path().join("ours"), outside.path().join("theirs"));
        fs::write(&theirs, "kept").unwrap();
        let (folder, victim) = (workspace.path().to_owned(), theirs.clone());
        std::thread::spawn(move || {
            confine(&folder).unwrap();
            fs::write(&ours, "written").unwrap();
            fs::remove_file(&ours).unwrap();
            assert!(fs::read(&victim).is_err());
            assert!(fs::remove_file(&victim).is_err());
        })
        .join()
        .unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "kept");
    }
}
