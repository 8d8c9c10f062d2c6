//! Attacks on the built-in tools, each carried out by a whole run: the real command, a scripted model server over HTTP, an agent that makes
//! the calls, the journal.
//!
//! What is to come of an attack is what its agent is told in its next request and what the journal has of the call. Whatever that is,
//! every attack is checked for the same: nothing outside the workspace is changed, no request holds a secret, and neither a process nor
//! a temporary file is left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dirigent::Millis;
use dirigent::core::agent::AgentInput;
use dirigent::core::journal::Input;
use dirigent::core::tool::{StateChange, ToolOutcome, ToolResult};
use dirigent::store::Journal;
use dirigent_model_server::{ModelServer, Reply, Request, Script, ToolCall, Turn};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli::{Ended, Place, ended};
use crate::scripted::delegate;

/// What no model may read: it is in a file beside the workspace, in a key of the home, and in a variable of the command's environment.
pub const CANARY: &str = "canary-that-must-not-sing";
/// Bytes that an observation has at the most, whatever a tool met.
const MOST_TOLD: usize = 1024 * 1024;
/// The command's exit code where a run waits for its user.
const WAITS: i32 = 4;
/// Attacks in parallel.
const SIDE_BY_SIDE: usize = 3;
/// A run that has not ended after so many seconds never will, and neither will a process that is left of it.
const HANGS: u64 = 600;

/// One row of a table of attacks.
pub struct Attack {
    /// What must hold.
    pub name: &'static str,
    /// Prepares everything and says what the model calls in the end.
    pub made: fn(&Scene) -> Call,
    /// What comes of that call.
    pub told: Told,
    /// What must be true afterwards.
    pub then: fn(&Scene, &Observation),
}

/// Nothing, beyond what is checked after every attack.
pub fn nothing_more(_: &Scene, _: &Observation) {}

/// A tool and its parameters.
pub type Call = (&'static str, Value);

/// What is to come of an attack.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// The tool ran and failed with this code; all of these words are in what the model reads.
    Refused(&'static str, &'static [&'static str]),
    /// The tool did not run; the model is told this code, and all of these words.
    NotRun(&'static str, &'static [&'static str]),
    /// The tool succeeded, and all of these words are in what the model reads.
    Bounded(&'static [&'static str]),
    /// A person was to be asked first, and nobody was there: the tool did not run, and the model is told nothing.
    Asked,
    /// Any result: what counts is what is true afterwards.
    Either,
}

/// What came of an attack's last call.
pub struct Observation {
    /// What the model was told, as it came to the server; null where it was told nothing.
    pub told: Value,
    /// What the journal has of the call; none where the tool did not run.
    pub journaled: Option<ToolResult>,
    /// How the command ended.
    pub ended: Ended,
}

impl Observation {
    /// What the tool returned to be read.
    pub fn output(&self) -> &Value {
        &self.told["output"]
    }
}

/// What is there until the run is over.
type Kept = Box<dyn Any + Send>;
type Meanwhile = Box<dyn FnOnce() -> Kept + Send>;

/// Where an attack takes place: a home, a project, a folder beside it that nothing may touch, and a folder for temporary files.
pub struct Scene {
    /// The home, the project and the journal.
    pub place: Place,
    settings: Mutex<String>,
    before: Mutex<Vec<Call>>,
    access: Mutex<&'static str>,
    tools: Mutex<Vec<&'static str>>,
    through: Mutex<Vec<String>>,
    meanwhile: Mutex<Vec<Meanwhile>>,
    kept: Mutex<Vec<Kept>>,
    noticed: Arc<Mutex<Vec<String>>>,
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Scene {
    /// One with a secret beside the workspace and another in the home.
    pub fn new() -> Self {
        let place = Place::new();
        for (folder, name) in [("outside", "secret.txt"), ("home/.ssh", "id_ed25519")] {
            let folder = place.folder().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), format!("{CANARY}\n")).unwrap();
        }
        Scene {
            place,
            settings: Mutex::default(),
            before: Mutex::default(),
            access: Mutex::new("read-write"),
            tools: Mutex::default(),
            through: Mutex::default(),
            meanwhile: Mutex::default(),
            kept: Mutex::default(),
            noticed: Arc::default(),
        }
    }

    /// Where a path of the workspace is.
    pub fn work(&self, path: &str) -> PathBuf {
        self.place.work().join(path)
    }

    /// Where a path of the folder beside the workspace is.
    pub fn outside(&self, path: &str) -> PathBuf {
        self.place.folder().join("outside").join(path)
    }

    /// The same as text.
    pub fn outside_text(&self, path: &str) -> String {
        self.outside(path).to_str().unwrap().to_owned()
    }

    /// A file of the workspace.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.work(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A link in the workspace.
    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.work(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Whether there is something in the workspace of that name, a link that leads nowhere included.
    pub fn is_there(&self, path: &str) -> bool {
        self.work(path).symlink_metadata().is_ok()
    }

    /// Lines of the configuration.
    pub fn settings(&self, lines: &str) {
        let mut settings = self.settings.lock().unwrap();
        settings.push_str(lines);
        settings.push('\n');
    }

    /// What the model calls before, in that order.
    pub fn before(&self, calls: impl IntoIterator<Item = Call>) {
        self.before.lock().unwrap().extend(calls);
    }

    /// What the agent may do; `read-write` where nothing is said.
    pub fn access(&self, access: &'static str) {
        *self.access.lock().unwrap() = access;
    }

    /// What the agent may call, where that is not what it calls.
    pub fn tools(&self, tools: impl IntoIterator<Item = &'static str>) {
        self.tools.lock().unwrap().extend(tools);
    }

    /// Starts the command through another one, which is given the command and its arguments.
    pub fn through(&self, command: impl IntoIterator<Item = String>) {
        self.through.lock().unwrap().extend(command);
    }

    /// Keeps something until the run has finished: a listener, a thread.
    pub fn keep(&self, thing: impl Any + Send) {
        self.kept.lock().unwrap().push(Box::new(thing));
    }

    /// Starts something once it was seen what there is, and keeps it until the run has finished: it may change names.
    pub fn meanwhile<T: Any + Send>(&self, start: impl FnOnce() -> T + Send + 'static) {
        let start = move || Box::new(start()) as Kept;
        self.meanwhile.lock().unwrap().push(Box::new(start));
    }

    /// Where a listener writes down what came to it.
    pub fn notebook(&self) -> Arc<Mutex<Vec<String>>> {
        self.noticed.clone()
    }

    /// What the listeners wrote down.
    pub fn noticed(&self) -> Vec<String> {
        self.noticed.lock().unwrap().clone()
    }
}

/// Carries out the attacks of a table; all that fail are named.
pub fn check<const N: usize>(attacks: [Attack; N]) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (next, failed, slowest) = (
        AtomicUsize::new(0),
        Mutex::new(Vec::new()),
        Mutex::new((Millis(0), "")),
    );
    std::thread::scope(|threads| {
        for _ in 0..SIDE_BY_SIDE.min(N) {
            threads.spawn(|| {
                while let Some(attack) = attacks.get(next.fetch_add(1, Ordering::SeqCst)) {
                    match catch_unwind(AssertUnwindSafe(|| attack.carry_out(&runtime))) {
                        Ok(took) => {
                            let mut slowest = slowest.lock().unwrap();
                            *slowest = (*slowest).max((took, attack.name));
                        }
                        Err(panic) => {
                            failed
                                .lock()
                                .unwrap()
                                .push(format!("{}: {}", attack.name, words(&*panic)))
                        }
                    }
                }
            });
        }
    });
    // Measured, never asserted.
    let (took, name) = slowest.into_inner().unwrap();
    println!("of {N} attacks the tool was longest at `{name}`: {took}");
    let failed = failed.into_inner().unwrap();
    let mut list = String::new();
    for failure in &failed {
        let _ = writeln!(list, "- {failure}\n");
    }
    assert!(failed.is_empty(), "{} of {N} attacks:\n{list}", failed.len());
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_default()
}

impl Attack {
    /// Carries it out and checks what came of it; returns how long the tool took.
    fn carry_out(&self, runtime: &Runtime) -> Millis {
        let scene = Scene::new();
        let last = (self.made)(&scene);
        let mut calls = std::mem::take(&mut *scene.before.lock().unwrap());
        calls.push(last);
        let (outside, inside) = (found(&scene.outside("")), names(&scene.work("")));
        let server = runtime.block_on(ModelServer::start(script(&calls))).unwrap();
        write_settings(&scene, &server.url(), &calls);
        let meanwhile = std::mem::take(&mut *scene.meanwhile.lock().unwrap());
        let names_change = !meanwhile.is_empty();
        let started = meanwhile.into_iter().map(|start| start());
        scene.kept.lock().unwrap().extend(started);

        let ended = ended(&mut command(&scene));
        scene.kept.lock().unwrap().clear();

        let requests = server.requests();
        let observation = observation(&scene, &requests, calls.len(), ended);
        check_nothing_left(&scene);
        // What commands make is their own matter.
        if calls.iter().all(|(tool, _)| *tool != "execute_command") {
            let uses_databases = calls.iter().any(|(tool, _)| *tool == "execute_sql");
            check_all_told(&scene, &inside, uses_databases, names_change);
        }
        assert_eq!(
            found(&scene.outside("")),
            outside,
            "something outside has changed"
        );
        for request in &requests {
            let said = String::from_utf8_lossy(&request.http.body);
            assert!(!said.contains(CANARY), "the secret is in a request: {said}");
        }
        self.told.check(&observation);
        (self.then)(&scene, &observation);
        observation.journaled.map_or(Millis(0), |result| result.duration)
    }
}

impl Told {
    #[track_caller]
    fn check(self, observation: &Observation) {
        let text = observation.told.to_string();
        assert!(text.len() <= MOST_TOLD, "the model is told {} bytes", text.len());
        let journaled = match &observation.journaled {
            None => None,
            Some(ToolResult {
                outcome: ToolOutcome::Success { .. },
                ..
            }) => Some(""),
            Some(ToolResult {
                outcome: ToolOutcome::Failure { code, .. },
                ..
            }) => Some(code.as_str()),
        };
        let words = match self {
            Told::Refused(code, words) => {
                assert_eq!(observation.told["code"], code, "{text}");
                assert_eq!(journaled, Some(code), "in the journal");
                words
            }
            Told::NotRun(code, words) => {
                assert_eq!(observation.told["code"], code, "{text}");
                assert_eq!(journaled, None, "in the journal");
                words
            }
            Told::Bounded(words) => {
                assert_eq!(observation.told["success"], true, "{text}");
                assert_eq!(journaled, Some(""), "in the journal");
                words
            }
            Told::Asked => {
                assert_eq!(observation.told, Value::Null, "in the request");
                assert_eq!(journaled, None, "in the journal");
                assert_eq!(observation.ended.code(), Some(WAITS), "{}", observation.ended);
                &[]
            }
            Told::Either => {
                assert!(
                    !observation.told.is_null(),
                    "the model is told nothing: {}",
                    observation.ended
                );
                &[]
            }
        };
        for word in words {
            assert!(text.contains(word), "`{word}` is not in {text}");
        }
    }
}

/// What the model says: a plan of one sub-task for the attacker, its calls one after another, and that there is no more to do.
fn script(calls: &[Call]) -> Script {
    let calls: Vec<Turn> = calls
        .iter()
        .map(|(tool, parameters)| Turn::calls([ToolCall::new(*tool, parameters)]))
        .collect();
    Script::from_fn(move |request| {
        let offers = |tool: &str| request.tool_names().contains(&tool);
        if offers("submit_plan") {
            let work = delegate("attack", "attacker", "Do your worst.");
            submit("submit_plan", &json!({"summary": "Attack.", "subtasks": [work]}))
        } else if offers("submit_reflection") {
            let judged = json!({"verdict": "failed", "summary": "That was that."});
            submit("submit_reflection", &judged)
        } else {
            let said = Reply::text("That was my worst.").into();
            calls.get(request.turn - 1).cloned().unwrap_or(said)
        }
    })
}

fn submit(tool: &str, parameters: &Value) -> Turn {
    Turn::calls([ToolCall::new(tool, parameters)])
}

/// The configuration and the attacker, who may call what it calls.
fn write_settings(scene: &Scene, url: &str, calls: &[Call]) {
    let folder = scene.place.folder().join("home/.config/dirigent");
    fs::create_dir_all(folder.join("agents")).unwrap();
    let settings = scene.settings.lock().unwrap();
    let model = format!(
        "[model]\nprovider = \"openai\"\nname = \"scripted\"\nbase_url = \"{url}\"\ncalls = \"native\"\nattempts = 1\n"
    );
    fs::write(folder.join("dirigent.toml"), format!("{model}\n{settings}")).unwrap();
    let mut tools = scene.tools.lock().unwrap().clone();
    if tools.is_empty() {
        tools.extend(calls.iter().map(|(tool, _)| *tool));
    }
    tools.sort_unstable();
    tools.dedup();
    let (tools, access) = (tools.join(", "), scene.access.lock().unwrap());
    let attacker = format!(
        "---\nname: attacker\ndescription: Attacks.\ntools: [{tools}]\naccess: {access}\nmax_turns: 100\ntimeout: 1h\n---\nYou are the attacker.\n"
    );
    fs::write(folder.join("agents/attacker.md"), attacker).unwrap();
}

fn command(scene: &Scene) -> Command {
    let run = ["run", "Attack", "--workspace", "work", "--non-interactive"];
    let direct = scene.place.command(run);
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", &HANGS.to_string()]);
    scene.place.settle(&mut command);
    command
        .args(scene.through.lock().unwrap().iter())
        .arg(direct.get_program())
        .args(direct.get_args())
        .env("DEPLOY_TOKEN", CANARY);
    command
}

/// What the attacker's last call came to.
fn observation(scene: &Scene, requests: &[Arc<Request>], calls: usize, ended: Ended) -> Observation {
    let is_attackers = |request: &&Arc<Request>| request.system_prompt().contains("You are the attacker.");
    let last = requests.iter().rfind(is_attackers);
    let results = last.map(|request| request.tool_results()).unwrap_or_default();
    assert!(
        results.len() + 1 >= calls,
        "the model is told of every call but the last: {ended}"
    );
    let told = results.get(calls - 1).map_or(Value::Null, |(_, text)| {
        serde_json::from_str(text).expect("results are JSON")
    });
    let mut journaled = journaled(scene);
    let ran = journaled.len() == calls;
    Observation {
        told,
        journaled: if ran { journaled.pop() } else { None },
        ended,
    }
}

/// The results of the attacker's calls that ran.
fn journaled(scene: &Scene) -> Vec<ToolResult> {
    let journal = Journal::open(&scene.place.db()).unwrap();
    let runs = journal.runs().unwrap();
    let entries = journal.entries(runs[0].run, 0, 10_000).unwrap();
    let results = entries.into_iter().filter_map(|entry| match entry.input {
        Input::Agent(AgentInput::ToolFinished { result, .. }) => Some(result),
        Input::Agent(_) | Input::Run(_) => None,
    });
    results.collect()
}

/// Everything in a folder, by its path, with what it is: links, permissions and content.
fn found(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        let content = if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        let described = format!("{:o} {:?}", metadata.mode(), String::from_utf8_lossy(&content));
        if metadata.is_dir() {
            all.extend(found(&path));
        }
        all.insert(path, described);
    }
    all
}

/// The paths of everything in a folder; links are not followed.
fn names(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            all.extend(names(&entry.path()));
        }
        all.insert(entry.path());
    }
    all
}

/// Whether signals of a command reach its own processes alone: on Linux before 6.12 they reach others, Dirigent's among them.
pub fn signals_stay_inside() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse().ok());
    let version: (u32, u32) = number().zip(number()).expect("Linux has a version");
    version >= (6, 12)
}

/// Says that a test was left out, and why: not by a macro, whose text is kept back where the test passes.
pub fn left_out(why: &str) {
    let _ = writeln!(std::io::stderr(), "left out: {why}");
}

/// The command lines of the processes that were started in a place, whoever their parent is by now.
pub fn processes_of(place: &Place) -> Vec<String> {
    let line = |id: i32| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let lines = place.processes().into_iter().map(line);
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .collect()
}

/// Neither a process nor a temporary file is there any more.
fn check_nothing_left(scene: &Scene) {
    // What was killed is gone once the system has come to it.
    let patience = Instant::now() + Duration::from_secs(HANGS);
    while !processes_of(&scene.place).is_empty() && Instant::now() < patience {
        std::thread::yield_now();
    }
    assert_eq!(processes_of(&scene.place), [] as [&str; 0], "processes are left");
    let temporary = names(&scene.place.temporary());
    assert!(temporary.is_empty(), "temporary files are left: {temporary:?}");
}

/// What is new in the workspace is what calls said that they made.
fn check_all_told(scene: &Scene, before: &BTreeSet<PathBuf>, uses_databases: bool, names_change: bool) {
    let made: Vec<PathBuf> = journaled(scene)
        .iter()
        .flat_map(|result| &result.changes)
        .filter_map(|change| match change {
            StateChange::FileCreated { path, .. } | StateChange::FileMoved { to: path, .. } => {
                Some(scene.work(path))
            }
            StateChange::FileEdited { .. }
            | StateChange::FileDeleted { .. }
            | StateChange::ProcessExited { .. }
            | StateChange::TableCreated { .. }
            | StateChange::TableDropped { .. }
            | StateChange::RowsChanged { .. }
            | StateChange::RequestSent { .. } => None,
        })
        .collect();
    let after = names(&scene.work(""));
    // Where folders change their names meanwhile, a file is told under the name that its folder had.
    let is_same = |made: &PathBuf, path: &PathBuf| names_change && made.file_name() == path.file_name();
    let is_told = |path: &&PathBuf| {
        made.iter()
            .any(|made| made.starts_with(path) || is_same(made, path))
    };
    // SQLite's own files beside a database, which those who open it next take up.
    let is_of_a_database = |path: &&PathBuf| {
        let ends = ["-journal", "-wal", "-shm"].iter();
        let mut databases = ends.filter_map(|end| path.to_str()?.strip_suffix(end));
        uses_databases && databases.any(|database| before.contains(Path::new(database)))
    };
    let untold: Vec<&PathBuf> = after
        .difference(before)
        .filter(|path| !is_told(path) && !is_of_a_database(path))
        .collect();
    assert!(untold.is_empty(), "nobody said that these were made: {untold:?}");
}
