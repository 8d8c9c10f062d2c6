//! PAOR-5: sub-agents as Markdown files: the shipped ones, the user's, and a project's, which cannot widen what the user allows. APPROVE-1:
//! the approval rules in a configuration.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use dirigent::config::{Config, Sources};
use dirigent::{AgentSource, Agents, Dirigent, ListedAgent, Millis, RefusedAgent};
use dirigent_core::tool::Access;
use dirigent_tests::cli::{Place, root};
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, block_on, findings};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A user's configuration folder and a project.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["user/agents", "project"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Files { folder }
    }

    /// Adds a file: `user/…` in the user's folder, `project/…` in the project.
    fn with(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn with_config(self, text: &str) -> Self {
        self.with("user/dirigent.toml", text)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn config(&self) -> Config {
        Config::load(&Sources::none().folder(self.path("user"))).unwrap()
    }

    /// The agents of a run in the project.
    fn agents(&self) -> Agents {
        let builder = Dirigent::builder().config(&self.config());
        block_on(builder.agents(Some(&self.path("project")))).unwrap()
    }

    /// Each refused file with its line and the reason.
    fn refused(&self) -> Vec<String> {
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

fn named<'a>(agents: &'a Agents, name: &str) -> &'a ListedAgent {
    let found = agents.agents.iter().find(|agent| agent.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {agents:#?}"))
}

fn names(agents: &Agents) -> Vec<&str> {
    agents.agents.iter().map(|agent| agent.name.as_str()).collect()
}

/// An agent's file with these fields.
fn file(fields: &str) -> String {
    format!("---\n{fields}\n---\nYou are somebody.\n")
}

fn claude(name: &str) -> String {
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
    assert_eq!(
        explore.tools,
        [
            "file_operations",
            "find_definition",
            "git",
            "http_request",
            "list_symbols",
            "read_output",
            "rename_symbol",
            "search"
        ]
    );
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
fn paor_5_agent_files_written_for_claude_code_load_unchanged() {
    let mut files = Files::new().with_config("[agents]\nproject = \"read-write\"\n");
    for name in [
        "architect.md",
        "code-reviewer.md",
        "committer.md",
        "test-runner.md",
    ] {
        files = files.with(&format!("project/.claude/agents/{name}"), claude(name));
    }
    let agents = files.agents();

    assert_eq!(agents.refused, []);
    let mut told = String::new();
    for agent in agents
        .agents
        .iter()
        .filter(|agent| agent.source != AgentSource::Shipped)
    {
        let _ = writeln!(
            told,
            "{} {} [{}]",
            agent.name,
            agent.access,
            agent.tools.join(", ")
        );
        let _ = writeln!(told, "  {}", agent.description);
        let _ = writeln!(told, "  asks {:?}, {} turns", agent.model, agent.limits.max_turns);
        for note in &agent.notes {
            let _ = writeln!(told, "  note: {note}");
        }
    }
    insta::assert_snapshot!("claude_code", told);
}

#[test]
fn paor_5_a_projects_agents_are_read_only_unless_the_user_allows_more() {
    let greedy = file(
        "name: greedy\ndescription: Wants all.\ntools: [execute_command, file_operations, search, delegate]\naccess: read-write",
    );
    let write = |config: &str| {
        Files::new()
            .with_config(config)
            .with("project/.dirigent/agents/greedy.md", &greedy)
            .with(
                "project/.claude/agents/all.md",
                file("name: all\ndescription: Says no tools."),
            )
    };

    let agents = write("").agents();
    let [greedy_one, all] = [named(&agents, "greedy"), named(&agents, "all")];
    assert_eq!(greedy_one.access, Access::ReadOnly);
    assert_eq!(greedy_one.tools, ["file_operations", "search"]);
    assert_eq!(
        greedy_one.notes,
        [
            "its access is read-only instead of read-write, because a project defines it (see `project` of [agents])",
            "tools removed: delegate, execute_command. A project's read-only agent may use only tools that a built-in agent or one of your own \
             read-only agents has",
        ]
    );
    assert_eq!(greedy_one.description, "As the project describes it: Wants all.");
    assert_eq!(all.access, Access::ReadOnly);
    assert_eq!(
        all.tools,
        [
            "file_operations",
            "find_definition",
            "git",
            "http_request",
            "list_symbols",
            "read_output",
            "rename_symbol",
            "search"
        ]
    );

    let agents = write("[agents]\nproject = \"read-write\"\n").agents();
    let [greedy_one, all] = [named(&agents, "greedy"), named(&agents, "all")];
    assert_eq!(greedy_one.access, Access::ReadWrite);
    assert_eq!(greedy_one.tools, ["execute_command", "file_operations", "search"]);
    assert_eq!(
        all.tools,
        [
            "apply_patch",
            "execute_command",
            "file_operations",
            "find_definition",
            "git",
            "http_request",
            "list_symbols",
            "read_output",
            "rename_symbol",
            "search"
        ]
    );

    let agents = write("[agents]\nproject = \"off\"\n").agents();
    assert_eq!(names(&agents), ["explore", "implement", "review", "verify"]);
    assert_eq!(agents.refused, []);
}

#[test]
fn paor_5_a_project_gets_no_more_than_the_users_agents_have() {
    // given a user whose agents are all read-only
    let narrow = |name: &str| file(&format!("name: {name}\ndescription: d\ntools: [search]"));
    let mut files = Files::new().with_config("[agents]\nproject = \"read-write\"\n");
    for name in ["explore", "implement", "review", "verify"] {
        files = files.with(&format!("user/agents/{name}.md"), narrow(name));
    }
    let files = files.with(
        "project/.claude/agents/wide.md",
        file("name: wide\ndescription: d\ntools: Read, Grep, Bash, Edit\nmaxTurns: 100000"),
    );
    let agents = files.agents();
    let wide = named(&agents, "wide");
    assert_eq!(wide.access, Access::ReadOnly);
    assert_eq!(wide.tools, ["search"]);
    assert_eq!(wide.limits.max_turns, 10);
    assert_eq!(
        wide.notes.last().unwrap(),
        "limits lowered to the highest of your own and the built-in agents: max_turns to 10"
    );
}

#[test]
fn paor_5_a_projects_agent_can_neither_replace_an_agent_nor_choose_any_model() {
    let model = |model: &str| {
        file(&format!(
            "name: {}\ndescription: d\nmodel: {model}",
            model.replace('/', "-")
        ))
    };
    let files = Files::new()
        .with_config("[models.small]\nprovider = \"offline\"\n")
        .with("user/agents/mine.md", file("name: mine\ndescription: d"))
        .with(
            "project/.dirigent/agents/a.md",
            file("name: explore\ndescription: d"),
        )
        .with(
            "project/.dirigent/agents/b.md",
            file("name: reflector\ndescription: d"),
        )
        .with("project/.dirigent/agents/c.md", model("anthropic/claude-opus-4"))
        .with("project/.dirigent/agents/d.md", model("small"))
        .with(
            "project/.dirigent/agents/e.md",
            file("name: twin\ndescription: d"),
        )
        .with("project/.claude/agents/e.md", file("name: Mine\ndescription: d"))
        .with("project/.claude/agents/f.md", file("name: twin\ndescription: d"))
        .with("project/.claude/agents/g.md", model("opus"));
    let agents = files.agents();

    insta::assert_snapshot!("names_taken", files.refused().join("\n"));
    assert_eq!(
        named(&agents, "anthropic-claude-opus-4").model.as_deref(),
        Some("default")
    );
    assert_eq!(
        named(&agents, "anthropic-claude-opus-4").notes,
        ["its `model` is ignored: there is no [models.anthropic/claude-opus-4]"]
    );
    assert_eq!(named(&agents, "small").model.as_deref(), Some("small"));
    assert_eq!(named(&agents, "opus").model.as_deref(), Some("default"));
    // A model that the user chooses for all agents overrides the agents' own models.
    let sources = Sources::none().folder(files.path("user")).model("offline");
    let builder = Dirigent::builder().config(&Config::load(&sources).unwrap());
    let agents = block_on(builder.agents(Some(&files.path("project")))).unwrap();
    assert_eq!(named(&agents, "small").model.as_deref(), Some("offline"));
}

#[cfg(unix)]
#[test]
fn paor_5_links_and_pipes_in_a_projects_agent_folder_are_neither_followed_nor_read() {
    use std::os::unix::fs::symlink;

    let files = Files::new()
        .with("secret/id.md", file("name: secret\ndescription: d"))
        .with("project/shared/kept.md", file("name: kept\ndescription: d"))
        .with(
            "project/.claude/agents/deep/deeper/fine.md",
            file("name: fine\ndescription: d"),
        );
    symlink(files.path("secret"), files.path("project/.dirigent")).unwrap();
    let agents = files.path("project/.claude/agents");
    symlink(files.path("secret/id.md"), agents.join("out.md")).unwrap();
    symlink("../../shared/kept.md", agents.join("within.md")).unwrap();
    symlink("nowhere", agents.join("broken.md")).unwrap();
    symlink("..", agents.join("round")).unwrap();
    symlink("/dev/zero", agents.join("zero.md")).unwrap();
    fs::create_dir(agents.join("folder.md")).unwrap();
    let pipe = agents.join("pipe.md");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    // The user may link agents; only a project's links are refused.
    symlink(files.path("secret/id.md"), files.path("user/agents/linked.md")).unwrap();

    let found = files.agents();
    assert_eq!(
        names(&found),
        [
            "explore",
            "implement",
            "review",
            "verify",
            "secret",
            "fine",
            "kept"
        ]
    );
    insta::assert_snapshot!("links", files.refused().join("\n"));
}

#[test]
fn paor_5_a_project_has_a_bounded_number_of_agents_with_bounded_descriptions() {
    let mut files = Files::new();
    for number in 0..60 {
        let text = file(&format!(
            "name: a{number:03}\ndescription: {}",
            "word ".repeat(1_000)
        ));
        files = files.with(&format!("project/.claude/agents/{number:03}.md"), text);
    }
    let agents = files.agents();
    assert_eq!((agents.agents.len(), agents.refused.len()), (4 + 50, 10));
    assert_eq!(agents.refused[0].reason, "a project is limited to 50 agents");
    assert!(named(&agents, "a000").description.chars().count() < 1_100);
}

#[test]
fn paor_5_the_roles_of_a_projects_agents_are_bounded_individually_and_in_total() {
    let of = |bytes: usize| format!("---\ndescription: d\n---\n{}\n", "x".repeat(bytes));
    let mut files = Files::new()
        .with("project/.claude/agents/00-long.md", of(64 * 1024 + 1))
        .with("user/agents/long.md", of(64 * 1024 + 1));
    for number in 1..=17 {
        files = files.with(&format!("project/.claude/agents/{number:02}.md"), of(64 * 1024));
    }
    let too_long = "the text below its front matter is longer than 64 KiB: shorten it, or have the agent read the rest from a file";
    let together = "a project's agent files are limited to 1024 KiB in total";
    assert_eq!(
        files.refused(),
        [
            format!("user/agents/long.md: {too_long}"),
            format!("project/.claude/agents/00-long.md: {too_long}"),
            format!("project/.claude/agents/16.md: {together}"),
            format!("project/.claude/agents/17.md: {together}"),
        ]
    );
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

fn wanting_to_write() -> Scripted {
    let write = call(
        "file_operations",
        json!({"operation": "write", "path": "made.txt", "content": "x"}),
    );
    Scripted::new()
        .lead([plan(
            "Ask the expert.",
            [delegate("ask", "api-expert", "Change it.")],
        )])
        .agent("api-expert", [write, says("I could not.")])
        .reflector([achieved("Asked.")])
}

const EXPERT: &str =
    "---\nname: api-expert\ndescription: Knows the API.\ntools: Read, Edit, Bash\n---\nYou are api-expert.\n";

#[tokio::test]
async fn paor_5_a_projects_agent_works_on_a_sub_task_with_read_access_only() {
    let stage = Stage::new().file(".claude/agents/api-expert.md", EXPERT);
    let model = wanting_to_write();
    let config = Config::load(&Sources::none()).unwrap();
    let dirigent = stage
        .builder(model.clone())
        .config(&config)
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Change it.")).await.unwrap();
    let report = achieved_report(&run).await;

    let lead = &model.lead_asked()[0];
    assert!(
        lead.system()
            .contains("- api-expert: As the project describes it: Knows the API."),
        "{}",
        lead.system()
    );
    assert_eq!(findings(&report, 0, "ask").unwrap(), "I could not.");
    let told = model.agent_asked("api-expert")[1].result();
    assert_eq!(
        told["error"],
        "this call of `file_operations` needs read-write access, but you have read-only access: use other tools, or finish and report \
         what you may not do"
    );
    assert!(!stage.workspace().join("made.txt").exists());
    // The journal records the agent with the run, even if its file is deleted.
    let started = serde_json::to_value(&stage.entries()[0].input).unwrap();
    assert!(started.to_string().contains("You are api-expert."), "{started}");
}

#[tokio::test]
async fn paor_5_a_program_without_a_configuration_reads_no_agents_of_projects() {
    let stage = Stage::new().file(".claude/agents/api-expert.md", EXPERT);
    let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
    assert_eq!(
        names(&dirigent.agents(Some(&stage.workspace())).await.unwrap()),
        ["explore", "implement", "review", "verify"]
    );
}

/// A home, a project with files, and this configuration.
fn place(config: &str) -> Place {
    let place = Place::new();
    let own = place.folder().join("home/.config/dirigent");
    fs::create_dir_all(own.join("agents")).unwrap();
    fs::write(own.join("dirigent.toml"), config).unwrap();
    place.write("notes.txt", "remember the milk\n");
    place
}

fn shown(place: &Place, text: &str) -> String {
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
fn approve_1_rules_of_all_files_are_shown_with_their_sources_and_journaled() {
    let place = place(
        "[approvals]\nallow = [\n  \"execute_command(command: cargo test*)\",\n]\nask = [\"execute_command\"]\ndeny = [\"execute_command(command: rm *)\"]\n",
    );
    fs::write(
        place.folder().join("more.toml"),
        "[approvals]\ndeny = [\"file_operations(operation: delete)\"]\n",
    )
    .unwrap();
    let checked = place
        .dirigent(["--config", "more.toml", "config", "check", "--offline", "--json"])
        .with_code(0);
    let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
    let rules: Vec<String> = checked["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| {
            format!(
                "{} {} {}",
                setting["key"],
                setting["value"],
                shown(&place, setting["from"].as_str().unwrap())
            )
        })
        .collect();
    assert_eq!(
        rules,
        [
            "\"approvals.allow\" \"execute_command(command: cargo test*)\" PLACE/home/.config/dirigent/dirigent.toml:3",
            "\"approvals.ask\" \"execute_command\" PLACE/home/.config/dirigent/dirigent.toml:5",
            "\"approvals.deny\" \"execute_command(command: rm *)\" PLACE/home/.config/dirigent/dirigent.toml:6",
            "\"approvals.deny\" \"file_operations(operation: delete)\" more.toml:2",
        ]
    );

    let goal = "Count the lines in notes.txt";
    let run = [
        "--config",
        "more.toml",
        "run",
        goal,
        "--workspace",
        "work",
        "--record",
        "run.jsonl",
    ];
    let ran = place.dirigent(run).with_code(0);
    assert!(ran.stderr.contains("Recorded in run.jsonl"), "{ran}");
    let recorded = fs::read_to_string(place.folder().join("run.jsonl")).unwrap();
    assert!(
        recorded
            .contains(r#"{"ruling":"deny","tool":"file_operations","parameters":{"operation":"delete"}}"#),
        "{recorded}"
    );
}

#[test]
fn approve_1_a_rule_that_can_never_match_is_an_error() {
    let mut told = String::new();
    for rules in [
        "deny = [\"exeute_command\"]",
        "deny = [\"execute_command(comand: rm *)\"]",
        "ask = [\"exce*\"]",
        "ask = [\"*(foo: rm)\"]",
        "ask = [\"*(operation: read, pattern: x)\"]",
        "deny = [\"file_operations(operation: remove)\"]",
        "deny = [\"file_*(operation: delte)\"]",
        "deny = [\"execute_command(\"]",
        "deny = [\n  \"search\",\n  7,\n]",
        "deny = \"search\"",
        "never = [\"search\"]",
    ] {
        let files = Files::new().with_config(&format!("[approvals]\n{rules}\n"));
        let error = match Config::load(&Sources::none().folder(files.path("user"))) {
            Ok(config) => block_on(Dirigent::builder().config(&config).check())
                .unwrap_err()
                .to_string(),
            Err(error) => error.to_string(),
        };
        let _ = writeln!(
            told,
            "{}",
            error.replace(files.folder.path().to_str().unwrap(), "")
        );
    }
    insta::assert_snapshot!("wrong_rules", told);
}

#[test]
fn approve_1_a_rule_can_name_each_parameter_of_read_output() {
    let rules = "deny = [\"read_output(handle: a1.*, start_line: 1, end_line: 2, pattern: *, offset: 0, length: 9)\"]";
    let files = Files::new().with_config(&format!("[approvals]\n{rules}\n"));
    let config = Config::load(&Sources::none().folder(files.path("user"))).unwrap();
    block_on(Dirigent::builder().config(&config).check()).unwrap();
}

#[test]
fn approve_1_a_projects_configuration_sets_no_rules() {
    let place = place("");
    place.write(
        "dirigent.toml",
        "[approvals]\nallow = [\"*\"]\n[agents]\nproject = \"read-write\"\n",
    );
    let mut command = place.command(["config", "check", "--offline", "--json"]);
    command.current_dir(place.work());
    let checked = dirigent_tests::cli::ended(&mut command).with_code(0);
    let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(checked["settings"], json!([]));
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
