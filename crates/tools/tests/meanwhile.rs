//! Simulates somebody else who changes the same files at the same time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{remove_dir_all, remove_file, rename};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::folder::Folder;

struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats an action until the work has ended or panicked.
pub fn meanwhile(mut again: impl FnMut() + Send, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                again();
            }
        });
        let _stop = SetWhenDropped(&stop);
        work();
    });
}

/// Replaces the folder `dir` with a link to the target, and then with a folder again.
///
/// Code that resolves `dir/new` at the same time may find `dir` or `aside`. If that folder was just removed, the code creates it again,
/// with a file in it.
pub fn turn_into_link_and_back(folder: &Folder, target: &Path) {
    let (dir, aside) = (folder.path("dir"), folder.path("aside"));
    onto(&aside, "dir to aside", || rename(&dir, &aside));
    onto(&dir, "a link as dir", || symlink(target, &dir));
    remove_file(&dir).unwrap_or_else(|error| panic!("removing the link: {error}"));
    onto(&dir, "aside to dir", || rename(&aside, &dir));
}

/// Puts something at a path, after removing whatever is there, as often as necessary.
fn onto(path: &Path, what: &str, put: impl Fn() -> io::Result<()>) {
    while let Err(error) = put() {
        let taken = matches!(
            error.kind(),
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
        );
        assert!(taken, "{what}: {error}");
        // A file may be created in the folder while it is removed.
        let _ = remove_dir_all(path);
    }
}
