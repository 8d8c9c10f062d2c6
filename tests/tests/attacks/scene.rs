//! The run of an attack: the real command, a scripted model server over HTTP, an agent that makes the calls, and the journal.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dirigent_core::agent::AgentInput;
use dirigent_core::journal::Input;
use dirigent_core::tool::{ModelToolResult, ToolOutcome, ToolResult};
use dirigent_model_server::{ModelServer, Reply, Request, Script, ToolCall, Turn};
use dirigent_store::Journal;
use dirigent_tests::cli::{Ended, Place, ended};
use dirigent_tests::scripted::delegate;
use serde_json::{Value, json};

/// The secret in a file next to the workspace, in the home, in the configuration and in the environment of the command.
pub const CANARY: &str = "canary-that-must-not-sing";
/// The maximum size of a result in a request, in bytes.
const MAX_RESULT: usize = 100_000;
/// The exit code of a run that ended without reaching its goal: it continued after the attacks.
const NOT_ACHIEVED: i32 = 1;
/// Seconds after which a run, or a process that it left behind, counts as hanging.
const HANG: u64 = 300;

/// A tool and its parameters.
pub type Call = (&'static str, Value);

/// The expected outcome of a call. The last field is text that the model must receive.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// The tool ran and succeeded.
    Done(&'static str),
    /// The tool ran and failed with this code.
    Refused(&'static str, &'static str),
    /// The tool did not run; the code says why.
    NotRun(&'static str, &'static str),
}

/// A home, a workspace, a folder next to it that no tool may touch, and a local service that no tool may connect to.
pub struct Scene {
    pub place: Place,
    /// Lines of the configuration.
    pub settings: String,
    /// The agent's access, and its tools; if empty, the tools that it calls.
    pub agent: (&'static str, &'static str),
    service: TcpListener,
}

/// The observed outcome of a run.
pub struct Observed {
    pub ended: Ended,
    /// The results that the model received, in the order of the calls.
    pub told: Vec<Value>,
    /// The results in the journal: those of calls that ran.
    pub journaled: Vec<ToolResult>,
}

impl Scene {
    pub fn new() -> Self {
        let place = Place::new();
        for path in ["outside/secret.txt", "home/.ssh/id_ed25519"] {
            let path = place.folder().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{CANARY}\n")).unwrap();
        }
        let service = TcpListener::bind("127.0.0.1:0").unwrap();
        service.set_nonblocking(true).unwrap();
        Scene {
            place,
            settings: String::new(),
            agent: ("read-write", ""),
            service,
        }
    }

    pub fn with_settings(settings: &str) -> Self {
        Scene {
            settings: settings.to_owned(),
            ..Scene::new()
        }
    }

    /// Returns a path in the folder next to the workspace.
    pub fn outside(&self, path: &str) -> PathBuf {
        self.place.folder().join("outside").join(path)
    }

    /// Creates a link in the workspace.
    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.place.work().join(path)).unwrap();
    }

    /// Returns true if the path exists in the workspace.
    pub fn exists(&self, path: &str) -> bool {
        self.place.work().join(path).symlink_metadata().is_ok()
    }

    /// Returns the address of the local service.
    pub fn service(&self) -> String {
        self.service.local_addr().unwrap().to_string()
    }

    /// Returns true if somebody has connected to the local service.
    pub fn is_reached(&self) -> bool {
        self.service.accept().is_ok()
    }

    /// Runs an agent that makes these calls one after another, and checks each outcome.
    pub fn attack<const N: usize>(&self, attacks: [(Call, Told); N]) -> Observed {
        let observed = self.run(attacks.iter().map(|(call, _)| call.clone()).collect());
        let ended = &observed.ended;
        assert_eq!(ended.code(), Some(NOT_ACHIEVED), "{ended}");
        assert_eq!(observed.told.len(), N, "the model is told of every call: {ended}");
        let mut codes = Vec::new();
        for (((tool, parameters), expected), told) in attacks.iter().zip(&observed.told) {
            let (code, words) = match *expected {
                Told::Done(words) => (None, words),
                Told::Refused(code, words) | Told::NotRun(code, words) => (Some(code), words),
            };
            if !matches!(expected, Told::NotRun(..)) {
                codes.push(code);
            }
            let text = told.to_string();
            let row = format!("{tool} {parameters}: {text:.2000}");
            assert!(text.len() < MAX_RESULT, "{row}");
            assert_eq!(told["success"], code.is_none(), "{row}");
            assert_eq!(told["code"].as_str(), code, "{row}");
            assert!(text.contains(words), "`{words}`: {row}");
        }
        let journaled = observed.journaled.iter().map(|result| match &result.outcome {
            ToolOutcome::Success { .. } => None,
            ToolOutcome::Failure { code, .. } => Some(code.as_str()),
        });
        assert_eq!(journaled.collect::<Vec<_>>(), codes, "in the journal");
        observed
    }

    /// Runs an agent that makes these calls one after another. Then checks that nothing outside the workspace has changed, that no process
    /// or temporary file is left, and that the secret is in no request, no output and not in the journal.
    pub fn run(&self, calls: Vec<Call>) -> Observed {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let outside = contents(&self.outside(""));
        let server = runtime.block_on(ModelServer::start(script(&calls))).unwrap();
        self.configure(&server.url(), &calls);

        let ended = ended(&mut self.command());

        let patience = Instant::now() + Duration::from_secs(HANG);
        while !self.place.command_lines().is_empty() && Instant::now() < patience {
            std::thread::yield_now();
        }
        assert_eq!(self.place.command_lines(), [] as [&str; 0], "processes are left");
        let temporary = contents(&self.place.temporary());
        assert!(temporary.is_empty(), "temporary files are left: {temporary:?}");
        assert_eq!(
            contents(&self.outside("")),
            outside,
            "something outside has changed"
        );
        let requests = server.requests();
        let output = [ended.stdout.as_bytes(), ended.stderr.as_bytes()].concat();
        let journal = ["journal.db", "journal.db-wal"].map(|name| self.place.folder().join(name));
        let journal = journal.map(|path| fs::read(path).unwrap_or_default()).concat();
        for written in requests
            .iter()
            .map(|request| &request.http.body[..])
            .chain([&output[..], &journal])
        {
            let text = String::from_utf8_lossy(written);
            assert!(!text.contains(CANARY), "the secret is in: {text:.2000}");
        }
        Observed {
            told: told(&requests),
            journaled: self.journaled(),
            ended,
        }
    }

    /// Writes the configuration and the agent, which may use the tools that it calls.
    fn configure(&self, url: &str, calls: &[Call]) {
        let folder = self.place.folder().join("home/.config/dirigent");
        fs::create_dir_all(folder.join("agents")).unwrap();
        let settings = format!(
            "# {CANARY}\n[model]\nprovider = \"openai\"\nname = \"scripted\"\nbase_url = \"{url}\"\ncalls = \"native\"\nattempts = 1\n{}",
            self.settings
        );
        fs::write(folder.join("dirigent.toml"), settings).unwrap();
        let (access, tools) = self.agent;
        let mut called: Vec<&str> = calls.iter().map(|(tool, _)| *tool).collect();
        called.sort_unstable();
        called.dedup();
        let tools = if tools.is_empty() {
            called.join(", ")
        } else {
            tools.to_owned()
        };
        let attacker = format!(
            "---\nname: attacker\ndescription: Attacks.\ntools: [{tools}]\naccess: {access}\nmax_turns: 100\ntimeout: 1h\n---\nYou are the attacker.\n"
        );
        fs::write(folder.join("agents/attacker.md"), attacker).unwrap();
    }

    /// The command, with secrets in its environment and none of the descriptors that this process has open.
    fn command(&self) -> Command {
        let direct = self
            .place
            .command(["run", "Attack", "--workspace", "work", "--non-interactive"]);
        let closing = "import os, sys; os.closerange(3, 4096); os.execvp(sys.argv[1], sys.argv[1:])";
        let mut command = Command::new("timeout");
        self.place.settle(&mut command);
        command
            .args(["--signal=KILL", &HANG.to_string(), "python3", "-c", closing])
            .arg(direct.get_program())
            .args(direct.get_args())
            .env("DEPLOY_TOKEN", CANARY)
            // Nothing listens on that port.
            .env(
                "APP_DATABASE_URL",
                format!("postgres://user:{CANARY}@127.0.0.1:9/app"),
            );
        command
    }

    /// The results of the agent's calls in the journal.
    fn journaled(&self) -> Vec<ToolResult> {
        let journal = Journal::open(&self.place.db()).unwrap();
        let runs = journal.runs().unwrap();
        let entries = journal.entries(runs[0].run, 0, 10_000).unwrap();
        let results = entries.into_iter().filter_map(|entry| match entry.input {
            Input::Agent(AgentInput::ToolFinished { result, .. }) => Some(result),
            Input::Agent(_) | Input::Run(_) => None,
        });
        results.collect()
    }
}

/// The model's script: a plan with a sub-task for the attacker, its calls one after another, and a verdict that ends the run.
fn script(calls: &[Call]) -> Script {
    let turn = |tool: &str, parameters: &Value| Turn::calls([ToolCall::new(tool, parameters)]);
    let calls: Vec<Turn> = calls
        .iter()
        .map(|(tool, parameters)| turn(tool, parameters))
        .collect();
    let work = delegate("attack", "attacker", "Do your worst.");
    let plan = turn("submit_plan", &json!({"summary": "Attack.", "subtasks": [work]}));
    let verdict = json!({"verdict": "failed", "summary": "That was that."});
    let verdict = turn("submit_reflection", &verdict);
    Script::from_fn(move |request| {
        let offers = |tool: &str| request.tool_names().contains(&tool);
        if offers("submit_plan") {
            plan.clone()
        } else if offers("submit_reflection") {
            verdict.clone()
        } else {
            let last = Reply::text("That was my worst.").into();
            calls.get(request.turn - 1).cloned().unwrap_or(last)
        }
    })
}

/// The result of each call as the attacker's model received it in the next request.
fn told(requests: &[Arc<Request>]) -> Vec<Value> {
    let attackers = requests
        .iter()
        .filter(|request| request.system_prompt().contains("You are the attacker."));
    attackers
        .filter_map(|request| request.tool_results().pop())
        .map(|(_, text)| json!(ModelToolResult::from_text(&text)))
        .collect()
}

/// Everything in a folder, with permissions and content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if metadata.is_dir() {
            all.extend(contents(&path));
        }
        let content = if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        all.insert(path, (metadata.mode(), content));
    }
    all
}
