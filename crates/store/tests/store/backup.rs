//! Backing up a journal while it is in use.

use std::fs;
use std::path::Path;

use dirigent_store::Journal;

use crate::check::{filled, malformed};
use crate::fixture::{append, create, open, run, stored};

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_backup_during_an_active_run_is_a_consistent_journal() {
    let f = filled();
    let claim = create(&f.journal, 3);
    let copy = f.path.with_file_name("copy.db");
    let copied = std::thread::scope(|threads| {
        let backup = threads.spawn(|| f.journal.backup(&copy).unwrap());
        for number in 0..200 {
            append(&f.journal, &claim, &number.to_string()).unwrap();
        }
        backup.join().unwrap()
    });

    assert_eq!(fs::metadata(&copy).unwrap().len(), copied);
    let journal = open(&copy);
    assert_eq!(journal.check().unwrap().problems, []);
    let entries = |journal: &Journal| journal.entries(run(1), 0, 10).unwrap();
    assert_eq!(entries(&journal), entries(&f.journal));
    let kept = stored(&journal, run(3));
    assert_eq!(kept, stored(&f.journal, run(3))[..kept.len()]);
    assert_eq!(journal.run(run(3)).unwrap().owner_pid, None);
    let again = journal.claim(run(3)).unwrap();
    append(&journal, &again, "goes on").unwrap();
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_a_backup() {
    use std::os::unix::fs::PermissionsExt;
    let f = filled();
    let copy = f.path.with_file_name("copy.db");

    f.journal.backup(&copy).unwrap();

    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let f = filled();
    let copy = f.path.with_file_name("copy.db");
    fs::write(&copy, "mine").unwrap();

    for file in [&copy, &f.path] {
        let error = f.journal.backup(file).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{} already exists: name another file, or remove it",
                file.display()
            )
        );
    }

    assert_eq!(fs::read(&copy).unwrap(), b"mine");
}

#[test]
fn a_backup_that_fails_leaves_no_file() {
    let (f, malformed) = malformed();
    let folder = f.path.with_file_name("backups");
    fs::create_dir(&folder).unwrap();

    let failed = open(&malformed).backup(&folder.join("copy.db"));

    assert!(failed.is_err());
    assert_eq!(names_in(&folder), [""; 0]);
}
