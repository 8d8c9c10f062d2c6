//! The arguments, settings and environment of git. They prevent git from running any program that a repository names.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::request::{Command, GitRequest};

/// Settings that override the repository's settings. Git reads them from environment variables, which take precedence over files.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.preloadIndex", "false"),
    ("core.quotePath", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("diff.ignoreSubmodules", "all"),
    ("diff.submodule", "short"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("log.mailmap", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("safe.directory", "*"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("merge.default", "text"),
    ("maintenance.auto", "false"),
    ("gc.auto", "0"),
    ("color.ui", "false"),
];

/// Git's environment variables besides `PATH`. They make git ignore the system's and the user's settings, never prompt, and never contact
/// other repositories.
pub(super) const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("HOME", "/nonexistent"),
    ("XDG_CONFIG_HOME", "/nonexistent"),
    ("LC_ALL", "C.UTF-8"),
    ("TERM", "dumb"),
];

/// The keys of a filter (`filter.NAME.KEY`) that name a program, or that make git fail if no program is
/// named, each with the value that disables it.
const FILTER: [(&str, &str); 4] = [
    ("clean", ""),
    ("smudge", ""),
    ("process", ""),
    ("required", "false"),
];

/// Returns git's global options, which precede the command.
pub(super) fn global_options(root: &Path) -> Vec<OsString> {
    let option = |name: &str, path: &Path| {
        let mut option = OsString::from(name);
        option.push(path);
        option
    };
    let words = words(&["--no-pager", "--no-optional-locks", "--literal-pathspecs"]);
    words
        .into_iter()
        .map(OsString::from)
        .chain([
            option("--git-dir=", &root.join(".git")),
            option("--work-tree=", root),
        ])
        .collect()
}

/// Returns the environment variables that pass [`SETTINGS`] to git and disable the filters named in `filters`, which the repository
/// defines. Git has no setting that disables all filters, so each one is disabled by name. Arguments (`-c NAME=VALUE`) are not used,
/// because a filter's name may contain `=`.
pub(super) fn settings(filters: &[OsString]) -> Vec<(String, OsString)> {
    let settings = SETTINGS.iter().map(|(key, value)| (OsString::from(key), *value));
    let off = filters
        .iter()
        .flat_map(|name| FILTER.map(|(key, value)| (filter_key(name, key), value)));
    let mut variables = Vec::new();
    for (index, (key, value)) in settings.chain(off).enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}"), key));
        variables.push((format!("GIT_CONFIG_VALUE_{index}"), value.into()));
    }
    let count = variables.len() / 2;
    variables.push(("GIT_CONFIG_COUNT".to_owned(), count.to_string().into()));
    variables
}

fn filter_key(name: &OsStr, key: &str) -> OsString {
    let mut whole = OsString::from("filter.");
    whole.push(name);
    whole.push(".");
    whole.push(key);
    whole
}

/// Returns the command that lists the names of all settings, including the repository's filters.
pub(super) fn list_settings() -> Vec<String> {
    words(&["config", "--null", "--name-only", "--list"])
}

/// Returns the command that shows the branch and the changed files. An untracked folder counts as one file.
pub(super) fn summary() -> Vec<String> {
    words(&[
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    ])
}

/// Returns the command with its options, revision and paths.
pub(super) fn command(request: &GitRequest) -> Vec<String> {
    let (first, last) = request.lines;
    let mut words: Vec<String> = match request.command {
        Command::Status => words(&[
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=all",
        ]),
        Command::Diff => {
            let mut words = words(&["diff"]);
            words.extend(diff_options());
            if request.staged {
                words.push("--cached".to_owned());
            }
            words
        }
        Command::Log => {
            let format = "--format=%H%x00%an%x00%ae%x00%aI%x00%s%x00%b%x00";
            let mut words = words(&["log", "-z", "--no-show-signature", "--no-patch", format]);
            words.push(format!("--max-count={}", request.max_count));
            words
        }
        Command::Show => {
            let format = "--format=%H%x00%an%x00%ae%x00%aI%x00%B%x00";
            let mut words = words(&["show", "--no-show-signature", format]);
            words.extend(diff_options());
            words
        }
        Command::Blame => {
            let mut words = words(&["blame", "--porcelain", "--no-textconv"]);
            // Git accepts a last line past the end of the file, but fails if the first line is also past the end.
            words.push(format!("-L{first},{last}"));
            words
        }
    };
    match (request.command, &request.revision) {
        (Command::Status, _) => {}
        (_, Some(revision)) => words.push(revision.clone()),
        (Command::Show, None) => words.push("HEAD".to_owned()),
        (_, None) => {}
    }
    let names_object = request.revision.as_deref().is_some_and(|text| text.contains(':'));
    if !(request.command == Command::Show && names_object) {
        words.push("--".to_owned());
        words.extend(request.paths.iter().cloned());
    }
    words
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(super) fn diff_options() -> Vec<String> {
    words(&[
        "--patch",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--ignore-submodules=all",
        "--submodule=short",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    ])
}
