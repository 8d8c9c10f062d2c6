//! The environment that a program gets: what tools need to find their files, and nothing else. The shell that starts it adds where it
//! runs.
//!
//! It is a list of what is let through, never of what is held back: a secret under a name that nobody thought of stays
//! here too.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::sandbox::{AccessRules, Confinement, Sandbox};

/// Passed on as they are. None of them carries a secret by its purpose; proxies and registries are not here because
/// their addresses may hold passwords.
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

/// For every program: no colours, no cursor movements, no question that nobody can answer.
const FIXED: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("CARGO_TERM_COLOR", "never"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Where programs are looked for without a `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What of an environment is passed on, with the fixed settings and a `PATH` of the folders that programs are looked for in. In the sandbox
/// temporary files and caches are in `temporary`.
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
    let fixed = FIXED.iter().map(|(name, value)| (name.into(), value.into()));
    // None of them was written with a `:`, which is what could not be joined. An empty `PATH` would be the working directory.
    let path = std::env::join_paths(search).ok().filter(|path| !path.is_empty());
    let path = path.map(|path| ("PATH".into(), path));
    let mut all: Vec<_> = allowed.chain(fixed).chain(path).collect();
    match sandbox.confinement {
        Confinement::Off => {}
        Confinement::Required => {
            // Go gives up where it cannot write its cache; without the variable it takes the one below.
            let dropped = |name: &OsStr, value: &OsStr| {
                name == "XDG_RUNTIME_DIR" || name == "GOCACHE" && !rules.allows_write(Path::new(value))
            };
            all.retain(|(name, value)| !dropped(name, value));
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

/// The folders in which programs are looked for, in order. Relative ones are left out: what they mean would depend on
/// the working directory, whose files nobody vouches for.
pub(crate) fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect()
}
