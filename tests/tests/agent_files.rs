//! PAOR-5: sub-agents as Markdown files: the shipped ones and the user's, what is refused, and what the command lists and records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use dirigent::config::{Config, Sources};
use dirigent::{AgentSource, Agents, Dirigent, ListedAgent, Millis, RefusedAgent};
use dirigent_core::tool::Access;
use dirigent_tests::cli::{Place, root};
use dirigent_tests::stage::block_on;
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::config;

/// A user's configuration folder and a project.
pub(crate) struct Files {
    pub(crate) folder: TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["user/agents", "project"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Files { folder }
    }

    /// Adds a file: `user/…` in the user's folder, `project/…` in the project.
    pub(crate) fn with(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn with_config(self, text: &str) -> Self {
        self.with("user/dirigent.toml", text)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn config(&self) -> Config {
        Config::load(&Sources::none().folder(self.path("user"))).unwrap()
    }

    /// The agents of a run in the project.
    pub(crate) fn agents(&self) -> Agents {
        let builder = Dirigent::builder().config(&self.config());
        block_on(builder.agents(Some(&self.path("project")))).unwrap()
    }

    /// Each refused file with its line and the reason.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.agents()
            .refused
            .iter()
            .map(|refused| self.shown(refused))
            .collect()
    }

    fn shown(&self, refused: &RefusedAgent) -> String {
        let path = refused.source.file().unwrap();
        let path = path.strip_prefix(self.folder.path()).unwrap().display();
        let line = refused.line.map(|line| format!(":{line}")).unwrap_or_default();
        let reason = refused.reason.replace(self.folder.path().to_str().unwrap(), "");
        format!("{path}{line}: {reason}")
    }
}

pub(crate) fn named<'a>(agents: &'a Agents, name: &str) -> &'a ListedAgent {
    let found = agents.agents.iter().find(|agent| agent.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {agents:#?}"))
}

pub(crate) fn names(agents: &Agents) -> Vec<&str> {
    agents.agents.iter().map(|agent| agent.name.as_str()).collect()
}

/// An agent's file with these fields.
pub(crate) fn file(fields: &str) -> String {
    format!("---\n{fields}\n---\nYou are somebody.\n")
}

pub(crate) fn claude(name: &str) -> String {
    fs::read_to_string(root().join("tests/agents/claude").join(name)).unwrap()
}

#[test]
fn paor_5_the_four_shipped_agents_have_their_access_and_tools() {
    let agents = block_on(Dirigent::builder().agents(None)).unwrap();
    let told: Vec<String> = agents
        .agents
        .iter()
        .map(|agent| format!("{} {}: {}", agent.name, agent.access, agent.tools.join(" ")))
        .collect();
    assert_eq!(
        told,
        [
            "explore read-only: file_operations find_definition git http_request list_symbols read_output rename_symbol search",
            "implement read-write: apply_patch execute_command file_operations find_definition list_symbols read_output rename_symbol search",
            "review read-only: file_operations find_definition git list_symbols read_output search",
            "verify execute: execute_command file_operations find_definition http_request list_symbols read_output rename_symbol search",
        ]
    );
    assert!(
        agents
            .agents
            .iter()
            .all(|agent| agent.source == AgentSource::Shipped)
    );
}

#[test]
fn paor_5_a_users_file_defines_an_agent_and_replaces_a_shipped_one_of_its_name() {
    let files = Files::new()
        .with_config("[models.small]\nprovider = \"openai\"\nname = \"x\"\nbase_url = \"http://127.0.0.1:1/v1\"\n")
        .with(
            "user/agents/api/expert.md",
            file(
                "name: api-expert\ndescription: Knows the API.\ntools: [search, execute_command]\naccess: read-write\nmodel: \
                 small\nmax_turns: 7\ntimeout: 90s\nmax_repeats: 2",
            ),
        )
        .with("user/agents/explore.md", file("description: Looks closer."))
        .with("user/agents/README.md", "For people.");
    let agents = files.agents();

    assert_eq!(agents.refused, []);
    assert_eq!(
        names(&agents),
        ["implement", "review", "verify", "api-expert", "explore"]
    );
    let expert = named(&agents, "api-expert");
    assert_eq!(
        expert.source,
        AgentSource::User(files.path("user/agents/api/expert.md"))
    );
    assert_eq!(expert.description, "Knows the API.");
    assert_eq!(expert.tools, ["execute_command", "search"]);
    assert_eq!(expert.access, Access::ReadWrite);
    assert_eq!(expert.model.as_deref(), Some("small"));
    assert_eq!((expert.limits.max_turns, expert.limits.max_repeats), (7, 2));
    assert_eq!(expert.limits.timeout, Millis::from_secs(90));
    // An agent without `tools` has the tools of agents with at most its access.
    let explore = named(&agents, "explore");
    assert_eq!(explore.description, "Looks closer.");
    assert_eq!(explore.access, Access::ReadOnly);
    assert_eq!(explore.tools, READ_ONLY_TOOLS);
}

#[test]
fn paor_5_an_invalid_file_is_refused_with_its_line_and_the_others_are_used() {
    let wrong = [
        ("a-key.md", file("description: d\ntolls: [search]")),
        ("b-tool.md", file("description: d\ntools: [serch]")),
        ("c-claude-tool.md", file("description: d\ntools: [Read]")),
        ("d-access.md", file("description: d\naccess: all")),
        (
            "e-access.md",
            file("description: d\ntools: [execute_command]\naccess: read-only"),
        ),
        ("f-count.md", file("description: d\nmax_turns: 0")),
        ("g-time.md", file("description: d\ntimeout: 5 parsecs")),
        ("h-model.md", file("description: d\nmodel: gpt")),
        ("i-yaml.md", file("description: d: e")),
        ("j-none.md", "You are nobody.\n".to_owned()),
        ("k-lead.md", file("name: lead\ndescription: d")),
        ("l-name.md", file("name: Big Boss\ndescription: d")),
        ("m-description.md", file("name: quiet")),
        ("n-body.md", "---\ndescription: d\n---\n\n".to_owned()),
        ("o-key.md", file("description: d\nmodel: openai/gpt-4.1-mini")),
        ("p-deep.md", file("description: d\ntools: {a: [b]}")),
    ];
    let mut files = Files::new();
    for (name, text) in wrong {
        files = files.with(&format!("user/agents/{name}"), text);
    }
    files = files
        .with("user/agents/q-bytes.md", b"---\ndescription: \xff\n---\nx")
        .with("user/agents/r-long.md", "x".repeat(256 * 1024 + 1))
        .with(
            "user/agents/s-good.md",
            "\u{feff}---\r\ndescription: d\r\n---\r\nYou are good.\r\n",
        )
        .with("user/agents/t-twice.md", file("name: s-good\ndescription: d"));

    insta::assert_snapshot!("refused", files.refused().join("\n"));
    assert_eq!(
        names(&files.agents()),
        ["explore", "implement", "review", "verify", "s-good"]
    );
}

#[test]
fn paor_5_an_invalid_user_file_removes_the_shipped_agent_that_it_would_replace() {
    // given a user who has restricted a shipped agent, and a mistake in the file
    let files = Files::new()
        .with_config("[roles]\nimplement = \"offline\"\n")
        .with(
            "user/agents/implement.md",
            file("description: Only looks.\naccess: read only"),
        )
        .with("project/.dirigent/agents/implement.md", file("description: d"));
    assert_eq!(names(&files.agents()), ["explore", "review", "verify"]);
    assert_eq!(
        files.refused(),
        [
            "user/agents/implement.md:3: `access` must be one of read-only, execute, read-write",
            "project/.dirigent/agents/implement.md: the name `implement` is taken (your agent file, which was refused), and a project's file can't \
             replace another agent: rename the agent in this file",
        ]
    );
}

#[test]
fn paor_5_an_invalid_user_file_reserves_its_file_name_and_the_name_in_it() {
    // the name is readable despite a mistake elsewhere in the file
    for slip in ["access: read only", "description: a: b", "tools: ["] {
        let files = Files::new().with(
            "user/agents/verify.md",
            file(&format!("name: \"implement\"\ndescription: Only looks.\n{slip}")),
        );
        assert_eq!(names(&files.agents()), ["explore", "review"], "{slip}");
    }
    let endless = Files::new().with("user/agents/strict.md", "---\nname: implement\n");
    assert_eq!(names(&endless.agents()), ["explore", "review", "verify"]);
}

#[test]
fn loop_5_an_agents_own_time_limit_takes_precedence_over_the_configured_one() {
    let files = Files::new()
        .with_config("[limits.agents]\ntimeout = \"1h\"\n")
        .with("user/agents/says.md", file("description: d\ntimeout: 5m"))
        .with("user/agents/silent.md", file("description: d"))
        .with(
            "project/.dirigent/agents/theirs.md",
            file("description: d\ntimeout: 5m"),
        )
        .with("project/.dirigent/agents/their-silent.md", file("description: d"));
    let agents = files.agents();
    let minutes = |name: &str| named(&agents, name).limits.timeout;
    assert_eq!(
        ["says", "silent", "theirs", "their-silent"].map(minutes),
        [300, 3_600, 300, 3_600].map(Millis::from_secs)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever a file contains, it is either an agent or refused.
    #[test]
    fn paor_5_an_agent_file_with_any_content_does_not_keep_others_from_loading(front in "[-a-z:\\[\\]{}\"'|>&*!%@#,?~. \t\n]{0,120}", raw in any::<Vec<u8>>()) {
        let files = Files::new()
            .with("project/.dirigent/agents/a.md", format!("---\n{front}\n---\nbody"))
            .with("project/.claude/agents/b.md", format!("---\nname: b\ndescription: {front}\n---\nbody"))
            .with("project/.claude/agents/c.md", raw);
        let agents = files.agents();
        prop_assert_eq!(agents.agents.len() + agents.refused.len(), 7);
    }
}

/// A home, a project with files, and this configuration.
/// The tools of an agent with read access whose file names none.
pub(crate) const READ_ONLY_TOOLS: [&str; 8] = [
    "file_operations",
    "find_definition",
    "git",
    "http_request",
    "list_symbols",
    "read_output",
    "rename_symbol",
    "search",
];

/// A place with this configuration, and a folder for the user's agents.
pub(crate) fn place(config: &str) -> Place {
    let place = config::place(config);
    fs::create_dir_all(place.folder().join("home/.config/dirigent/agents")).unwrap();
    place
}

pub(crate) fn shown(place: &Place, text: &str) -> String {
    let real = place.folder().canonicalize().unwrap();
    text.replace(real.to_str().unwrap(), "PLACE")
        .replace(place.folder().to_str().unwrap(), "PLACE")
}

fn write_own(place: &Place, name: &str, text: &str) {
    fs::write(
        place.folder().join("home/.config/dirigent/agents").join(name),
        text,
    )
    .unwrap();
}

#[test]
fn paor_5_agents_are_listed_with_sources_and_reasons_for_refusals() {
    let place = place("");
    write_own(
        &place,
        "api-expert.md",
        &file(
            "description: |\n  Knows the API.\n  All of it.\naccess: read-write\ntools: [search]\ntimeout: 10m",
        ),
    );
    write_own(&place, "slip.md", &file("description: d\nacess: read-only"));
    place.write(".claude/agents/code-reviewer.md", &claude("code-reviewer.md"));
    place.write(
        ".dirigent/agents/evil.md",
        &file("name: \"\\e[31mevil\"\ndescription: d"),
    );

    let text = place.dirigent(["agents", "--workspace", "work"]).with_code(0);
    insta::assert_snapshot!("listed", shown(&place, &text.stdout));

    let json = place
        .dirigent(["agents", "--workspace", "work", "--json"])
        .with_code(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["agents"][4]["name"], "api-expert");
    assert_eq!(json["agents"][4]["source"], "user");
    assert_eq!(json["agents"][4]["limits"]["timeout"], 600_000);
    assert_eq!(json["refused"][0]["line"], 3);
    let nowhere = place.dirigent(["agents", "--workspace", "nowhere"]).with_code(2);
    assert!(nowhere.stderr.contains("there is no such folder"), "{nowhere}");
}

#[test]
fn paor_5_an_invalid_agent_file_is_reported_at_the_start_of_a_run_which_continues() {
    let place = place("");
    write_own(&place, "slip.md", &file("description: d\nacess: read-only"));
    let ran = place.run("Count the lines in notes.txt").with_code(0);
    let warning = "warning: the agent PLACE/home/.config/dirigent/agents/slip.md:3 is refused: there is no field `acess`; did you mean \
                   `access`?";
    assert!(shown(&place, &ran.stderr).contains(warning), "{ran}");
    let checked = place.dirigent(["config", "check", "--offline"]).with_code(0);
    assert!(checked.stdout.contains("slip.md:3 is refused"), "{checked}");
}

#[test]
fn host_9_a_run_with_agents_of_the_users_and_the_project_replays() {
    let place = place("");
    write_own(&place, "expert.md", &file("description: d"));
    place.write(".claude/agents/code-reviewer.md", &claude("code-reviewer.md"));
    let run = [
        "run",
        "Count the lines in notes.txt",
        "--workspace",
        "work",
        "--record",
        "run.jsonl",
    ];
    let ran = place.dirigent(run).with_code(0);
    let replayed = place.dirigent(["run", "--replay", "run.jsonl"]).with_code(0);
    assert_eq!(summary(&replayed.stdout), summary(&ran.stdout));
    // A replay uses the recorded agents, even if the project no longer exists.
    fs::remove_dir_all(place.work()).unwrap();
    let replayed = place.dirigent(["run", "--replay", "run.jsonl"]).with_code(0);
    assert_eq!(summary(&replayed.stdout), summary(&ran.stdout));
}

/// The line with the run's outcome.
fn summary(stdout: &str) -> Option<&str> {
    stdout.lines().find(|line| line.contains("notes.txt has"))
}

#[test]
fn the_example_of_the_page_about_agents_loads() {
    let page = fs::read_to_string(root().join("docs/agents.md")).unwrap();
    let example = page
        .split("```markdown\n")
        .nth(1)
        .unwrap()
        .split("\n```\n")
        .next()
        .unwrap();
    let files = Files::new().with("user/agents/api-expert.md", example);
    let agents = files.agents();
    assert_eq!(agents.refused, []);
    assert_eq!(named(&agents, "api-expert").notes, Vec::<String>::new());
    let path = Path::new("user/agents/api-expert.md");
    assert_eq!(
        named(&agents, "api-expert").source.file(),
        Some(files.path(path.to_str().unwrap()).as_path())
    );
}
