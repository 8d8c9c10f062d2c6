//! Runs the real `dirigent` command as users do: in a temporary folder with a project, a journal and a home.
//!
//! Tests see only what users see: the output, the exit code, and the files that
//! remain.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed, and says where"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// The arguments that rename the function of the shop project.
pub const RENAME: [&str; 4] = [
    "run",
    "rename the function parsePrice to readPrice",
    "--workspace",
    "work",
];

/// A home, a project, a journal and a folder for temporary files, for one test.
pub struct Place {
    folder: TempDir,
}

impl Default for Place {
    fn default() -> Self {
        Place::new()
    }
}

impl Place {
    /// Creates a place with an empty project.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("dirigent-test-")
            .tempdir()
            .expect("a temporary folder");
        for name in ["home", "work", "tmp"] {
            fs::create_dir(folder.path().join(name)).expect("a new folder");
        }
        Place { folder }
    }

    /// Creates a place whose project is the sample of `dirigent demo`.
    pub fn with_sample() -> Self {
        let place = Place::new();
        copy(&sample(), &place.work());
        place
    }

    /// Creates a place whose project has a source file and a text file with the old name, so that a rename takes several steps in a fixed order.
    pub fn with_shop() -> Self {
        let place = Place::new();
        place.write(
            "price.js",
            "export function parsePrice(text) { return Number(text); }\n",
        );
        place.write("notes.txt", "parsePrice reads prices.\n");
        place
    }

    /// Like [`Place::with_shop`], but the new name of [`RENAME`] is already in use.
    pub fn with_clash() -> Self {
        let place = Place::with_shop();
        place.write("read.js", "export function readPrice(file) { return file; }\n");
        place
    }

    /// The folder that contains everything.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The project.
    pub fn work(&self) -> PathBuf {
        self.folder().join("work")
    }

    /// The folder for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.folder().join("tmp")
    }

    /// The journal.
    pub fn db(&self) -> PathBuf {
        self.folder().join("journal.db")
    }

    /// Writes a file of the project.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.work().join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).expect("a new folder");
        }
        fs::write(path, text).expect("a new file");
    }

    /// Reads a file of the project.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.work().join(path)).expect("a text file")
    }

    /// The project's files without build products.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        files(&self.work())
    }

    /// The command with these arguments and this place's journal. Its environment contains only what is needed to find programs.
    pub fn command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(binary());
        self.settle(&mut command);
        command.arg("--db").arg(self.db()).args(arguments);
        command
    }

    /// The running processes that were started in this place, recognized by `HOME` in their environment. Linux only.
    pub fn processes(&self) -> Vec<i32> {
        let marker = [b"HOME=", self.folder().join("home").as_os_str().as_bytes()].concat();
        let is_ours = |process: &Path| {
            environment(process)
                .split(|byte| *byte == 0)
                .any(|line| line == marker)
        };
        let all = fs::read_dir("/proc").expect("a list of processes").flatten();
        all.filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            is_ours(&entry.path()).then_some(id)
        })
        .collect()
    }

    /// The command lines of these processes.
    pub fn command_lines(&self) -> Vec<String> {
        let line = |id: i32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let lines = self.processes().into_iter().map(line);
        lines
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .collect()
    }

    /// Like `command`, for a command that must end when its terminal is closed. Without this, the command ignores the hang-up if the tests
    /// run under `nohup`.
    pub fn command_with_hang_up<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let inner = self.command(arguments);
        let mut command = Command::new("env");
        self.settle(&mut command);
        command
            .arg("--default-signal=HUP")
            .arg(inner.get_program())
            .args(inner.get_args());
        command
    }

    /// Gives any command this place's environment.
    pub fn settle(&self, command: &mut Command) {
        let home = self.folder().join("home");
        command
            .env_clear()
            .envs(tool_homes())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("XDG_DATA_HOME", home.join("data"))
            .env("HOME", home)
            .env("TMPDIR", self.folder().join("tmp"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .current_dir(self.folder())
            .stdin(Stdio::null());
    }

    /// Runs the command to its end.
    pub fn dirigent<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Ended {
        ended(&mut self.command(arguments))
    }

    /// Pursues a goal in the project.
    pub fn run(&self, goal: &str) -> Ended {
        self.dirigent(["run", goal, "--workspace", "work"])
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status, with the signal if a signal ended the command.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error output.
    pub stderr: String,
}

impl Ended {
    /// The exit code; `None` if a signal ended the command.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns `self` if the exit code is `code`.
    ///
    /// # Panics
    /// With the whole output if the exit code is another one.
    #[must_use]
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{self}");
        self
    }

    /// The standard output, each line parsed as JSON.
    ///
    /// # Panics
    /// If a line is not JSON.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\n--- standard output\n{}\n--- standard error\n{}",
            self.status, self.stdout, self.stderr
        )
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Ended {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs any command to its end.
pub fn ended(command: &mut Command) -> Ended {
    command.output().expect("a program that starts").into()
}

/// A running command that prints its events as JSON.
pub struct Watched {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Watched {
    /// Starts the command, whose arguments must contain `--json`.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a program that starts");
        let stdout = child.stdout.take().expect("its standard output is piped");
        Watched {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next event for which `is_it` returns true.
    ///
    /// # Panics
    /// If the command ends before.
    #[track_caller]
    pub fn wait_for(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let event = self.find(is_it);
        event.expect("the command ends after the event, and each of its lines is JSON")
    }

    /// Waits for the next event for which `is_it` returns true; `None` if the command ends before, even within a line.
    pub fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            let event = serde_json::from_str(&self.lines.next()?.ok()?).ok()?;
            if is_it(&event) {
                return Some(event);
            }
        }
    }

    /// Kills the command like `kill -9`, and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().expect("a process that runs");
        self.child.wait().expect("a child");
    }

    /// Waits for the command's end.
    pub fn end(self) -> Ended {
        let rest: Vec<String> = self.lines.map(|line| line.expect("readable output")).collect();
        let output = self.child.wait_with_output().expect("a child");
        Ended {
            stdout: rest.join("\n"),
            ..output.into()
        }
    }
}

/// The environment of a process; empty if the process has ended, belongs to another user, or is a kernel thread.
fn environment(process: &Path) -> Vec<u8> {
    let read = |name: &str| fs::read(process.join(name)).unwrap_or_default();
    // A process that is just executing another program briefly has neither arguments nor environment. One that never has any was not
    // started by a test.
    for _ in 0..10_000 {
        let is_settled = !read("cmdline").is_empty() || fs::read_link(process.join("exe")).is_err();
        let environment = read("environ");
        if is_settled || !environment.is_empty() {
            return environment;
        }
    }
    Vec::new()
}

/// The sample project that `dirigent demo` copies.
pub fn sample() -> PathBuf {
    root().join("config/samples/ledger")
}

/// The repository's root folder.
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the repository").to_owned()
}

/// A folder's files with their content, sorted, without build products.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    collect(folder, folder, &mut found);
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .strip_prefix(root)
            .expect("below its root")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if !["target", "__pycache__"].contains(&name.as_str()) {
                collect(root, &path, found);
            }
        } else {
            found.push((name, fs::read(&path).expect("a file")));
        }
    }
}

/// Copies a folder's files, without build products.
pub fn copy(from: &Path, to: &Path) {
    for (name, content) in files(from) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a new folder");
        fs::write(path, content).expect("a new file");
    }
}

/// The variables with the folders of cargo and rustup. By default these folders are in the home, but tests have their own home.
fn tool_homes() -> Vec<(OsString, OsString)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let at = |name: &str, default: &str| {
        let path = std::env::var_os(name).unwrap_or_else(|| home.join(default).into());
        (name.into(), path)
    };
    let mut homes = vec![at("CARGO_HOME", ".cargo"), at("RUSTUP_HOME", ".rustup")];
    let toolchain = std::env::var_os("RUSTUP_TOOLCHAIN");
    homes.extend(toolchain.map(|value| ("RUSTUP_TOOLCHAIN".into(), value)));
    homes
}

/// The cargo that runs the tests, or else the first one on the `PATH`. It does not get the variables that describe the package of the
/// tests: build scripts that read them would run again, and with them everything that depends on them.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let is_of_package = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if is_of_package {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The `dirigent` binary of this build: the one next to the test binary if cargo has just built it, otherwise it is built now.
/// `CARGO_BIN_EXE_dirigent` overrides the path.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("CARGO_BIN_EXE_dirigent") {
            return path.into();
        }
        let test = std::env::current_exe().expect("a test has a path");
        let profile = test
            .ancestors()
            .find(|folder| folder.ends_with("deps"))
            .and_then(Path::parent)
            .expect("cargo puts tests into PROFILE/deps");
        let beside = profile.join(format!("dirigent{}", std::env::consts::EXE_SUFFIX));
        if is_fresh(&beside, &profile.join("dirigent.d")) {
            beside
        } else {
            build(profile)
        }
    })
}

/// Returns true if the binary is newer than all its sources.
fn is_fresh(binary: &Path, sources: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let (Ok(built), Ok(sources)) = (changed(binary), fs::read_to_string(sources)) else {
        return false;
    };
    let root = root();
    let mut sources = sources
        .split_once(": ")
        .map_or("", |(_, sources)| sources)
        .split_whitespace();
    // A path with a space is not found, so cargo decides whether to build.
    sources.all(|source| {
        Path::new(source).starts_with(&root) && changed(Path::new(source)).is_ok_and(|at| at <= built)
    })
}

fn build(profile: &Path) -> PathBuf {
    let target = profile.parent().expect("profiles lie in the target folder");
    let name = match profile.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let output = cargo()
        .args(["build", "--bin", "dirigent", "--profile", name, "--target-dir"])
        .arg(target)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo");
    let executable = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    executable.expect("cargo builds the command")
}
