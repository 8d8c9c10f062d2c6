//! The files that a confined command can read and write.
//!
//! The lists contain only allowed paths and everything else is denied, so a secret at an unforeseen location
//! stays unreadable.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::settings::Sandbox;

/// Files and folders, each with all its content. Missing paths are ignored when the rules are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessRules {
    /// Readable and executable.
    pub read: Vec<PathBuf>,
    /// Readable, executable and writable.
    pub write: Vec<PathBuf>,
}

/// The system's programs, libraries, settings and status files, all readable.
const SYSTEM: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/gnu/store",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
];

/// A toolchain whose files commands may read.
struct Toolchain {
    /// Environment variable that contains the path of the toolchain's folder.
    variable: &'static str,
    /// Path of the toolchain's folder relative to the home folder, used if the variable is not set.
    path: &'static str,
    /// Readable paths within the toolchain's folder; `""` is the whole folder.
    parts: &'static [&'static str],
}

/// Readable toolchains, limited to files that are not meant to contain secrets. Cargo's home, for example, contains `credentials.toml`.
const TOOLCHAINS: [Toolchain; 15] = [
    Toolchain::parts(
        "CARGO_HOME",
        ".cargo",
        &["bin", "registry", "git", "config.toml", "config", "env"],
    ),
    Toolchain::whole("RUSTUP_HOME", ".rustup"),
    Toolchain::whole("GOPATH", "go"),
    Toolchain::whole("GOROOT", ".go"),
    Toolchain::whole("GOMODCACHE", "go/pkg/mod"),
    Toolchain::whole("NVM_DIR", ".nvm"),
    Toolchain::whole("VOLTA_HOME", ".volta"),
    Toolchain::whole("PYENV_ROOT", ".pyenv"),
    Toolchain::whole("VIRTUAL_ENV", ".venv"),
    Toolchain::whole("JAVA_HOME", ".sdkman/candidates"),
    Toolchain::parts("ASDF_DATA_DIR", ".asdf", &["bin", "shims", "installs", "plugins"]),
    Toolchain::parts(
        "XDG_DATA_HOME",
        ".local/share",
        &["uv", "mise", "pnpm", "fnm", "pipx"],
    ),
    Toolchain::parts("PYTHONUSERBASE", ".local", &["bin", "lib"]),
    // Only these files of git's folder are readable, because its `credentials` may contain passwords.
    Toolchain::parts(
        "XDG_CONFIG_HOME",
        ".config",
        &["git/config", "git/ignore", "git/attributes"],
    ),
    Toolchain::parts("", "", &[".gitconfig"]),
];

impl Toolchain {
    const fn whole(variable: &'static str, path: &'static str) -> Self {
        Toolchain::parts(variable, path, &[""])
    }

    const fn parts(variable: &'static str, path: &'static str, parts: &'static [&'static str]) -> Self {
        Toolchain {
            variable,
            path,
            parts,
        }
    }
}

impl AccessRules {
    /// Creates the rules for a command in `workspace`. `temporary` is the folder for its temporary files, and `search` are the folders of
    /// its `PATH`. `variable` reads a variable of Dirigent's environment.
    pub(crate) fn new(
        sandbox: &Sandbox,
        workspace: &Path,
        temporary: &Path,
        search: &[PathBuf],
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let home = variable("HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute());
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        let toolchains = TOOLCHAINS.iter().flat_map(|toolchain| {
            let configured = variable(toolchain.variable).map(PathBuf::from);
            let path = configured.or_else(|| Some(home.as_ref()?.join(toolchain.path)));
            let parts = toolchain.parts.iter();
            path.into_iter()
                .flat_map(move |path| parts.clone().map(move |part| path.join(part)))
        });
        // Excludes any folder that contains the whole home folder, even if the search path or a variable
        // names them.
        let is_narrow =
            |path: &PathBuf| path.is_absolute() && !home.as_ref().is_some_and(|home| home.starts_with(path));
        // Programs in a `shims` folder start programs in its sibling folders.
        let shims = search.iter().filter(|folder| folder.ends_with("shims"));
        let shim_parents = shims.filter_map(|folder| folder.parent().map(Path::to_owned));
        read.extend(
            search
                .iter()
                .cloned()
                .chain(shim_parents)
                .chain(toolchains)
                .filter(is_narrow),
        );
        let target = variable("CARGO_TARGET_DIR").map(PathBuf::from).filter(is_narrow);
        let expanded = |paths: &[PathBuf]| -> Vec<PathBuf> {
            let paths = paths.iter();
            paths
                .map(|path| workspace.join(expand(path, home.as_deref())))
                .collect()
        };
        read.extend(expanded(&sandbox.read));
        let mut write = vec![workspace.to_owned(), temporary.to_owned()];
        write.extend(target);
        write.extend(expanded(&sandbox.write));
        AccessRules { read, write }
    }

    /// Returns true if `path` is writable. Compares paths as they are written, without resolving links.
    pub(crate) fn allows_write(&self, path: &Path) -> bool {
        self.write.iter().any(|writable| path.starts_with(writable))
    }
}

fn expand(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => home.join(below),
        (Ok(_), None) | (Err(_), _) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(sandbox: &Sandbox, variables: &[(&str, &str)]) -> AccessRules {
        let search = [
            PathBuf::from("/home/ada/bin"),
            PathBuf::from("/home"),
            PathBuf::from("/"),
        ];
        AccessRules::new(sandbox, Path::new("/w"), Path::new("/t"), &search, |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    fn reads(rules: &AccessRules, path: &str) -> bool {
        rules
            .read
            .iter()
            .any(|readable| Path::new(path).starts_with(readable))
    }

    #[test]
    fn only_the_toolchains_in_the_home_folder_are_readable() {
        let rules = rules(&Sandbox::default(), &[("HOME", "/home/ada"), ("GOPATH", "/home")]);
        for path in [
            "bin/x",
            ".cargo/registry/src/a.rs",
            ".cargo/config.toml",
            ".gitconfig",
            ".rustup/toolchains",
        ] {
            assert!(reads(&rules, &format!("/home/ada/{path}")), "{path}");
        }
        for path in [
            "",
            "notes",
            ".ssh/id",
            ".cargo/credentials.toml",
            ".config/git/credentials",
            "go/x",
            ".config",
        ] {
            assert!(!reads(&rules, &format!("/home/ada/{path}")), "{path}");
        }
    }

    #[test]
    fn settings_can_add_readable_and_writable_paths_relative_to_the_home() {
        let sandbox = Sandbox {
            read: vec!["~/.m2".into(), "/data".into()],
            write: vec!["~/cache".into()],
            ..Sandbox::default()
        };
        let rules = rules(
            &sandbox,
            &[("HOME", "/home/ada"), ("CARGO_TARGET_DIR", "/builds/target")],
        );
        assert!(reads(&rules, "/home/ada/.m2/a") && reads(&rules, "/data/a"));
        let expected: Vec<PathBuf> = ["/w", "/t", "/builds/target", "/home/ada/cache"]
            .iter()
            .map(PathBuf::from)
            .collect();
        assert_eq!(rules.write, expected);
        assert!(rules.allows_write(Path::new("/home/ada/cache/go")));
    }
}
