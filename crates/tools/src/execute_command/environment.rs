//! The environment of a command: the variables that tools need to find their files, and nothing else. The shell that starts the command
//! adds `PWD`.
//!
//! The lists are allowlists, so a secret in an unforeseen variable is never passed on.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::sandbox::{AccessRules, Confinement, Sandbox};

/// Variables passed on unchanged. None of them is meant for secrets. The variables for proxies and package registries are missing because
/// their URLs may contain passwords.
const ALLOWED: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTFLAGS",
    "RUST_BACKTRACE",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOTOOLCHAIN",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYENV_ROOT",
    "NODE_PATH",
    "NVM_DIR",
    "JAVA_HOME",
];

/// Variables set for every command. They prevent colours, cursor movements and prompts, which nobody could
/// answer.
const FIXED: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("CARGO_TERM_COLOR", "never"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Returns a minimal environment, without `PATH`, for a program that the user has configured. It consists of
/// the inherited variables that are not meant for secrets, and the variables that prevent colours and
/// prompts.
pub fn short_environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let allowed = inherited.into_iter().filter(|(name, _)| is_allowed(name, &[]));
    allowed.chain(fixed()).collect()
}

fn fixed() -> impl Iterator<Item = (OsString, OsString)> {
    FIXED.iter().map(|(name, value)| (name.into(), value.into()))
}

/// Returns the environment of a command: the allowed inherited variables, the fixed ones, and a `PATH` made of `search`. In the sandbox,
/// temporary files and caches go to `temporary`.
pub(super) fn sanitized(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    sandbox: &Sandbox,
    rules: &AccessRules,
    search: &[PathBuf],
    temporary: &Path,
) -> Vec<(OsString, OsString)> {
    let allowed = inherited
        .into_iter()
        .filter(|(name, _)| is_allowed(name, &sandbox.environment));
    // Joining cannot fail, because the folders come from splitting a `PATH`. An empty `PATH` would mean the working directory, so it is not
    // set.
    let path = std::env::join_paths(search).ok().filter(|path| !path.is_empty());
    let path = path.map(|path| ("PATH".into(), path));
    let mut all: Vec<_> = allowed.chain(fixed()).chain(path).collect();
    match sandbox.confinement {
        Confinement::Off => {}
        Confinement::Required => {
            // Go fails if it cannot write to `GOCACHE`; if `GOCACHE` is not set, Go uses `XDG_CACHE_HOME`.
            let is_dropped = |name: &OsStr, value: &OsStr| {
                name == "XDG_RUNTIME_DIR" || name == "GOCACHE" && !rules.allows_write(Path::new(value))
            };
            all.retain(|(name, value)| !is_dropped(name, value));
            let cache = temporary.join("cache");
            all.push(("TMPDIR".into(), temporary.into()));
            all.push(("npm_config_cache".into(), cache.join("npm").into()));
            all.push(("XDG_CACHE_HOME".into(), cache.into()));
        }
    }
    all
}

fn is_allowed(name: &OsStr, more: &[String]) -> bool {
    let Some(name) = name.to_str() else { return false };
    name.starts_with("LC_") || ALLOWED.contains(&name) || more.iter().any(|more| more == name)
}
