//! Somebody else, who works at the same files all the while.
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

/// Does one thing again and again until the work is done, or has panicked.
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

/// Makes the folder `dir` a link to the target, and then a folder again.
///
/// Whoever resolves `dir/new` meanwhile may find `dir` or `aside`, and makes that folder anew, with a file in it, where it is gone by then.
pub fn turn_into_link_and_back(folder: &Folder, target: &Path) {
    let (dir, aside) = (folder.path("dir"), folder.path("aside"));
    onto(&aside, "dir to aside", || rename(&dir, &aside));
    onto(&dir, "a link as dir", || symlink(target, &dir));
    remove_file(&dir).unwrap_or_else(|error| panic!("removing the link: {error}"));
    onto(&dir, "aside to dir", || rename(&aside, &dir));
}

/// Puts something at a path, and removes what is there first as often as that is necessary.
fn onto(path: &Path, what: &str, put: impl Fn() -> io::Result<()>) {
    while let Err(error) = put() {
        let taken = matches!(
            error.kind(),
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
        );
        assert!(taken, "{what}: {error}");
        // A file may be made in it while it is removed.
        let _ = remove_dir_all(path);
    }
}
