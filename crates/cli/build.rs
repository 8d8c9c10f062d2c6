//! Tells the command which commit it is built from, for `dirigent --version`. Outside a git repository, the version has no commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Git writes this file whenever another commit is checked out or made. Cargo builds again each time if it does not exist.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["log", "-1", "--format=%h %cs", "--abbrev=8"]).unwrap_or_default();
    println!("cargo::rustc-env=DIRIGENT_COMMIT={commit}");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=DIRIGENT_TARGET={target}");
}

/// The output of a git command in this repository; `None` without git, without a repository, or in the repository of another project
/// that only contains this package.
fn git(arguments: &[&str]) -> Option<String> {
    let root = Path::new("../..").canonicalize().ok()?;
    root.join(".git").exists().then_some(())?;
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
