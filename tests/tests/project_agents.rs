//! PAOR-5: a project's agents, which cannot widen what the user allows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;

use dirigent::config::{Config, Sources};
use dirigent::{AgentSource, Dirigent};
use dirigent_core::tool::Access;
use dirigent_tests::scripted::{Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, block_on, findings};
use serde_json::json;

use crate::agent_files::{Files, READ_ONLY_TOOLS, claude, file, named, names};

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
    assert_eq!(all.tools, READ_ONLY_TOOLS);

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
