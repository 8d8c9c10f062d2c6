//! Several agents in one workspace (PAOR-5): no agent overwrites another's changes without having seen them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::folder::{Folder, error, numbered, output, text};
use dirigent_core::tool::{SeenFiles, StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{Tool, ToolContext, ToolSettings, ToolSource as _, built_in, file_operations};
use proptest::prelude::*;
use serde_json::{Value, json};

/// An agent from the tools' point of view: what it has seen, collected from its results.
struct Agent<'a> {
    folder: &'a Folder,
    tools: Vec<(String, Arc<dyn Tool>)>,
    seen: SeenFiles,
}

impl<'a> Agent<'a> {
    fn alone(folder: &'a Folder) -> Self {
        Agent::beside(folder, &dirigent_tools::ToolRegistry::new())
    }

    /// An agent that shares its tools with others.
    fn beside(folder: &'a Folder, registry: &dirigent_tools::ToolRegistry) -> Self {
        let tools = ["file_operations", "rename_symbol"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), registry.get(name)?.tool)))
            .collect();
        Agent {
            folder,
            tools,
            seen: SeenFiles::new(),
        }
    }

    async fn calls(&mut self, tool: &str, parameters: Value) -> ToolResult {
        let context = ToolContext {
            seen: Some(Arc::new(self.seen.clone())),
            ..self.folder.context()
        };
        let found = self.tools.iter().find(|(name, _)| name == tool);
        let result = match found {
            Some((_, tool)) => tool.call(context, parameters).await,
            None => file_operations().call(context, parameters).await,
        };
        for seen in &result.seen {
            self.seen.insert(seen.path.clone(), seen.clone());
        }
        result
    }

    async fn does(&mut self, parameters: Value) -> ToolResult {
        self.calls("file_operations", parameters).await
    }

    async fn reads(&mut self, path: &str) -> Value {
        output(self.does(json!({"operation": "read", "path": path})).await)
    }

    async fn writes(&mut self, path: &str, content: &str) -> ToolResult {
        self.does(json!({"operation": "write", "path": path, "content": content}))
            .await
    }

    async fn edits(&mut self, path: &str, old: &str, new: &str) -> ToolResult {
        self.does(json!({"operation": "edit", "path": path, "old": old, "new": new}))
            .await
    }
}

/// The error and the output of a refused call, which must change nothing.
#[track_caller]
fn refused(result: ToolResult) -> (String, Value) {
    assert_eq!(result.changes, []);
    match result.outcome {
        ToolOutcome::Failure { error, output, .. } => (error, output),
        ToolOutcome::Success { output } => panic!("the call succeeded: {output}"),
    }
}

fn on_disk(folder: &Folder, path: &str) -> String {
    std::fs::read_to_string(folder.path(path)).unwrap()
}

#[tokio::test]
async fn paor_5_an_edit_of_a_file_that_changed_since_the_read_shows_the_new_content() {
    let folder = Folder::with(&[("src/a.rs", b"one\ntwo\n")]);
    let (mut first, mut second) = (Agent::alone(&folder), Agent::alone(&folder));
    first.reads("src/a.rs").await;
    second.reads("./src/a.rs").await;

    output(first.edits("src/a.rs", "one", "uno").await);
    let (error, shown) = refused(second.edits("src/a.rs", "two", "due").await);

    assert_eq!(
        error,
        "`src/a.rs` has changed since you last saw it, by another agent, a command or a person, and is left as it is; \
         the output of this call is its current content: work from that and call again"
    );
    assert_eq!(shown, "Lines 1-2 of 2\n1\tuno\n2\ttwo\n");
    assert_eq!(on_disk(&folder, "src/a.rs"), "uno\ntwo\n");

    // The second agent has seen the content now, and the first agent's own edit does not surprise the first agent.
    output(second.edits("src/a.rs", "two", "due").await);
    assert_eq!(on_disk(&folder, "src/a.rs"), "uno\ndue\n");
    refused(first.edits("src/a.rs", "uno", "un").await);
    output(first.edits("src/a.rs", "uno", "un").await);
    output(first.edits("src/a.rs", "due", "deux").await);
    assert_eq!(on_disk(&folder, "src/a.rs"), "un\ndeux\n");
}

#[tokio::test]
async fn paor_5_a_file_counts_as_seen_once_all_its_parts_were_read() {
    let folder = Folder::with(&[("a", b"one\ntwo\nthree\n")]);
    let mut agent = Agent::alone(&folder);
    output(
        agent
            .does(json!({"operation": "read", "path": "a", "start_line": 1, "end_line": 1}))
            .await,
    );

    std::fs::write(folder.path("a"), "one\ntwo\nfour\n").unwrap();

    refused(agent.edits("a", "one", "uno").await);
    output(agent.edits("a", "one", "uno").await);
}

#[tokio::test]
async fn paor_5_every_way_to_overwrite_a_change_by_others_is_refused_once() {
    let calls = [
        json!({"operation": "write", "path": "a", "content": "mine\n"}),
        json!({"operation": "edit", "path": "a", "old": "others", "new": "mine"}),
        json!({"operation": "delete", "path": "a"}),
        json!({"operation": "move", "from": "a", "to": "b"}),
    ];
    for call in calls {
        let folder = Folder::with(&[("a", b"before\n")]);
        let mut agent = Agent::alone(&folder);
        agent.reads("a").await;
        std::fs::write(folder.path("a"), "others\n").unwrap();

        let (error, shown) = refused(agent.does(call.clone()).await);

        assert!(
            error.starts_with("`a` has changed since you last saw it"),
            "{call}: {error}"
        );
        assert_eq!(shown, "Lines 1-1 of 1\n1\tothers\n", "{call}");
        assert_eq!(on_disk(&folder, "a"), "others\n", "{call}");
        output(agent.does(call).await);
    }
}

#[tokio::test]
async fn paor_5_a_file_that_the_agent_never_saw_is_not_overwritten() {
    let folder = Folder::with(&[("a", b"others\n")]);
    let mut agent = Agent::alone(&folder);

    let (error, shown) = refused(agent.writes("a", "mine\n").await);
    assert_eq!(
        error,
        "`a` exists and you have not seen its content, so it is left as it is; the output of this call is its current content: \
         work from that and call again"
    );
    assert_eq!(shown, "Lines 1-1 of 1\n1\tothers\n");
    output(agent.writes("a", "mine\n").await);
    assert_eq!(on_disk(&folder, "a"), "mine\n");

    // An edit gives the text that it replaces.
    let mut other = Agent::alone(&folder);
    output(other.edits("a", "mine", "ours").await);
    // Writing the existing content loses nothing.
    let mut third = Agent::alone(&folder);
    assert!(text(third.writes("a", "ours\n").await).starts_with("Unchanged"));
    output(third.writes("a", "theirs\n").await);
}

#[tokio::test]
async fn a_refused_change_of_a_protected_file_does_not_show_its_content() {
    let folder = Folder::with(&[("dirigent.toml", b"[sandbox]\n")]);
    let mut agent = Agent::alone(&folder);
    let protected = "`dirigent.toml` is read-only to tools";
    let (error, _) = refused(agent.writes("dirigent.toml", "mine\n").await);
    assert!(error.starts_with(protected), "{error}");
    agent.reads("dirigent.toml").await;
    std::fs::write(folder.path("dirigent.toml"), "[http]\n").unwrap();
    let (error, _) = refused(agent.edits("dirigent.toml", "http", "mine").await);
    assert!(error.starts_with(protected), "{error}");
    let delete = json!({"operation": "delete", "path": "dirigent.toml"});
    let (error, _) = refused(agent.does(delete).await);
    assert!(error.starts_with(protected), "{error}");
}

#[tokio::test]
async fn paor_5_a_deleted_or_recreated_file_also_counts_as_changed() {
    let folder = Folder::with(&[("a", b"1\n")]);
    let mut agent = Agent::alone(&folder);
    agent.reads("a").await;
    std::fs::remove_file(folder.path("a")).unwrap();

    let (message, shown) = refused(agent.writes("a", "2\n").await);
    assert_eq!(
        message,
        "`a` is gone since you last saw it: another agent, a command or a person deleted or moved it; call again \
         to create it"
    );
    assert_eq!(shown, Value::Null);
    output(agent.writes("a", "2\n").await);

    // Deleted by the agent, and created again by somebody else.
    output(agent.does(json!({"operation": "delete", "path": "a"})).await);
    std::fs::write(folder.path("a"), "others\n").unwrap();
    let (message, _) = refused(agent.writes("a", "3\n").await);
    assert!(
        message.starts_with("`a` exists and you have not seen its content"),
        "{message}"
    );

    // A read that finds no file also counts as seeing it.
    std::fs::remove_file(folder.path("a")).unwrap();
    let gone = agent.does(json!({"operation": "read", "path": "a"})).await;
    assert_eq!(error(gone), "`a` does not exist");
    output(agent.writes("a", "4\n").await);
}

#[tokio::test]
async fn paor_5_a_moved_file_stays_seen_under_its_new_path() {
    let folder = Folder::with(&[("src/a", b"1\n"), ("src/deep/b", b"2\n"), ("srcs", b"")]);
    let mut agent = Agent::alone(&folder);
    agent.reads("src/a").await;
    agent.reads("src/deep/b").await;

    output(
        agent
            .does(json!({"operation": "move", "from": "src", "to": "lib"}))
            .await,
    );
    output(agent.writes("lib/a", "one\n").await);
    std::fs::write(folder.path("lib/deep/b"), "others\n").unwrap();
    refused(agent.writes("lib/deep/b", "two\n").await);
    assert_eq!(on_disk(&folder, "lib/deep/b"), "others\n");
}

#[tokio::test]
async fn paor_5_long_content_is_shown_in_part_with_the_way_to_the_rest() {
    let line = format!("{}\n", "x".repeat(99));
    let folder = Folder::with(&[("long", line.repeat(1000).as_bytes()), ("binary", b"text")]);
    let mut agent = Agent::alone(&folder);
    agent.reads("long").await;
    agent.reads("binary").await;
    std::fs::write(folder.path("long"), line.repeat(2000)).unwrap();
    std::fs::write(folder.path("binary"), b"a\0b").unwrap();

    let (_, shown) = refused(agent.writes("long", "").await);
    let (head, lines) = shown.as_str().unwrap().split_once('\n').unwrap();
    assert_eq!(
        head,
        "Lines 1-163 of 2000; cut after 16 KiB, continue with start_line 164"
    );
    assert_eq!(lines, numbered(1, &line.repeat(163)));
    let (message, shown) = refused(agent.writes("binary", "text").await);
    assert!(
        message.ends_with("it is not text, so it is not shown: repeat the call to change it anyway"),
        "{message}"
    );
    assert_eq!(shown, Value::Null);
    output(agent.writes("binary", "text").await);
}

#[tokio::test]
async fn paor_5_an_agent_that_saw_a_part_of_a_file_cannot_delete_or_move_it() {
    let line = format!("{}\n", "x".repeat(99));
    for call in [
        json!({"operation": "write", "path": "a", "content": "mine\n"}),
        json!({"operation": "delete", "path": "a"}),
        json!({"operation": "move", "from": "a", "to": "b"}),
    ] {
        let folder = Folder::with(&[("a", b"before\n")]);
        let mut agent = Agent::alone(&folder);
        agent.reads("a").await;
        let others = line.repeat(1000);
        std::fs::write(folder.path("a"), &others).unwrap();

        // Each refusal shows the next 16 KiB.
        let (error, _) = refused(agent.does(call.clone()).await);
        assert!(
            error.ends_with(
                "the output of this call is a part of its current content: `read` the rest, from `start_line` 164 on, \
                 before you replace, delete or move it"
            ),
            "{error}"
        );
        let (error, shown) = refused(agent.does(call.clone()).await);
        assert!(
            error.starts_with("you have seen `a` only up to line 163"),
            "{error}"
        );
        assert!(
            shown.as_str().unwrap().starts_with("Lines 164-326 of 1000; "),
            "{shown}"
        );
        assert_eq!(on_disk(&folder, "a"), others);

        // Neither a read of the end nor an edit shows the lines in between.
        output(
            agent
                .does(json!({"operation": "read", "path": "a", "start_line": 990}))
                .await,
        );
        refused(agent.does(call.clone()).await);
        let rest = json!({"operation": "read", "path": "a", "start_line": 400});
        output(agent.does(rest).await);
        output(agent.does(call).await);
    }
}

#[tokio::test]
async fn paor_5_an_edit_shows_no_more_than_was_seen() {
    let folder = Folder::with(&[("a", b"one\ntwo\nthree\n")]);
    let mut agent = Agent::alone(&folder);
    output(agent.edits("a", "two", "due").await);
    refused(agent.writes("a", "mine\n").await);
    assert_eq!(on_disk(&folder, "a"), "one\ndue\nthree\n");
    output(agent.edits("a", "due", "zwei").await);
    output(agent.writes("a", "mine\n").await);
}

#[tokio::test]
async fn paor_5_a_rename_keeps_the_agents_read_state_and_adds_nothing_to_it() {
    let folder = Folder::with(&[
        ("known.rs", b"fn old() {}\n"),
        ("stale.rs", b"fn f() { old() }\n"),
        ("new.rs", b"fn g() { old() }\n"),
    ]);
    let registry = built_in(&ToolSettings::default());
    let mut agent = Agent::beside(&folder, &registry);
    agent.reads("known.rs").await;
    agent.reads("stale.rs").await;
    std::fs::write(folder.path("stale.rs"), "fn f() { old(); old() }\n").unwrap();

    let rename = json!({"from": "old", "to": "fresh", "preview": false});
    output(agent.calls("rename_symbol", rename).await);

    output(agent.writes("known.rs", "fn fresh() { }\n").await);
    refused(agent.writes("stale.rs", "fn f() {}\n").await);
    refused(agent.writes("new.rs", "fn g() {}\n").await);
    assert_eq!(on_disk(&folder, "stale.rs"), "fn f() { fresh(); fresh() }\n");
}

#[tokio::test]
async fn paor_5_a_call_of_a_plan_may_change_files_that_no_agent_has_seen() {
    let folder = Folder::with(&[("a", b"before\n")]);
    let write = json!({"operation": "write", "path": "a", "content": "after\n"});

    let result = folder.call(file_operations(), write).await;

    assert!(matches!(&result.changes[..], [StateChange::FileEdited { path, .. }] if path == "a"));
    assert_eq!(on_disk(&folder, "a"), "after\n");
}

/// Adds this many lines to the file, one call each, and repeats refused calls. Returns the number of refusals.
async fn hammer(mut agent: Agent<'_>, name: &str, lines: usize) -> usize {
    let mut refusals = 0;
    for number in 0..lines {
        let new = format!("// {name} {number}\n// end");
        loop {
            let result = agent.edits("a.rs", "// end", &new).await;
            if result.succeeded() {
                break;
            }
            refused(result);
            refusals += 1;
        }
    }
    refusals
}

#[tokio::test]
async fn paor_5_no_edit_is_lost_if_many_agents_edit_one_file() {
    let folder = Folder::with(&[("a.rs", b"fn n0() {}\n// end")]);
    // Each agent has its own tools.
    let agent = || Agent::beside(&folder, &built_in(&ToolSettings::default()));
    let rename = async {
        let mut agent = agent();
        let mut renamed = 0;
        while renamed < 40 {
            let (from, to) = (format!("n{renamed}"), format!("n{}", renamed + 1));
            let call = json!({"from": from, "to": to, "preview": false});
            renamed += usize::from(agent.calls("rename_symbol", call).await.succeeded());
        }
    };

    // Each call works on its own thread.
    let (first, second, ()) = tokio::join!(
        hammer(agent(), "first", 150),
        hammer(agent(), "second", 150),
        rename
    );

    let text = on_disk(&folder, "a.rs");
    assert!(text.starts_with("fn n40() {}\n"), "{text}");
    for name in ["first", "second"] {
        let found: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("// {name} ")))
            .map(str::to_owned)
            .collect();
        let written: Vec<String> = (0..150).map(|number| number.to_string()).collect();
        assert_eq!(found, written, "{name}");
    }
    assert!(first + second > 0, "they never met");
}

#[tokio::test]
async fn paor_5_the_second_of_two_agents_that_create_a_file_is_refused() {
    for round in 0..50 {
        let folder = Folder::with(&[]);
        let registry = built_in(&ToolSettings::default());
        let (mut first, mut second) = (
            Agent::beside(&folder, &registry),
            Agent::beside(&folder, &registry),
        );
        let (one, two) = tokio::join!(
            first.writes("new/a", "first\n"),
            second.writes("new/a", "second\n")
        );
        let winner = match (one.succeeded(), two.succeeded()) {
            (true, false) => "first\n",
            (false, true) => "second\n",
            both => panic!("round {round}: {both:?}"),
        };
        let (_, shown) = refused(if one.succeeded() { two } else { one });
        assert_eq!(shown, format!("Lines 1-1 of 1\n1\t{winner}"));
        assert_eq!(on_disk(&folder, "new/a"), winner);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    Write(usize),
    Delete(usize),
    Move(usize),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let file = 0..2usize;
    let step = prop_oneof![
        file.clone().prop_map(Step::Read),
        file.clone().prop_map(Step::Write),
        file.clone().prop_map(Step::Delete),
        file.prop_map(Step::Move),
    ];
    prop::collection::vec((0..3usize, step), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Content that one agent wrote remains until an agent that has seen it removes it.
    #[test]
    fn paor_5_written_content_stays_until_an_agent_that_has_seen_it_removes_it(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let folder = Folder::with(&[]);
            let mut agents = [Agent::alone(&folder), Agent::alone(&folder), Agent::alone(&folder)];
            let names = ["a", "b"];
            let mut files: BTreeMap<&str, String> = BTreeMap::new();
            // For each agent, the last seen content of each file that it has looked at.
            let mut saw: Vec<BTreeMap<&str, Option<String>>> = vec![BTreeMap::new(); 3];
            for (number, (who, step)) in steps.into_iter().enumerate() {
                let (agent, saw) = (&mut agents[who], &mut saw[who]);
                let (Step::Read(file) | Step::Write(file) | Step::Delete(file) | Step::Move(file)) = step;
                let (name, other) = (names[file], names[1 - file]);
                let there = files.get(name).cloned();
                let content = format!("{number}\n");
                let result = agent.does(match step {
                    Step::Read(_) => json!({"operation": "read", "path": name}),
                    Step::Write(_) => json!({"operation": "write", "path": name, "content": content}),
                    Step::Delete(_) => json!({"operation": "delete", "path": name}),
                    Step::Move(_) => json!({"operation": "move", "from": name, "to": other}),
                }).await;
                let current = saw.get(name).is_some_and(|seen| *seen == there);
                let allowed = match step {
                    Step::Read(_) => there.is_some(),
                    Step::Write(_) => current || there.is_none() && saw.get(name).is_none_or(Option::is_none),
                    Step::Delete(_) => there.is_some() && (current || !saw.contains_key(name)),
                    Step::Move(_) => {
                        there.is_some() && !files.contains_key(other) && (current || !saw.contains_key(name))
                    }
                };
                prop_assert_eq!(result.succeeded(), allowed, "{} {:?}: {:?}", who, step, result);
                match (allowed, step) {
                    (true, Step::Read(_)) => {
                        saw.insert(name, there);
                    }
                    (true, Step::Write(_)) => {
                        files.insert(name, content.clone());
                        saw.insert(name, Some(content));
                    }
                    (true, Step::Delete(_)) => {
                        files.remove(name);
                        if let Some(seen) = saw.get_mut(name) {
                            *seen = None;
                        }
                    }
                    (true, Step::Move(_)) => {
                        let moved = files.remove(name).unwrap();
                        if let Some(seen) = saw.get_mut(name) {
                            *seen = None;
                            saw.insert(other, Some(moved.clone()));
                        }
                        files.insert(other, moved);
                    }
                    // Refused: the agent was shown the current content, or was told that the expected file does not exist.
                    (false, Step::Read(_) | Step::Write(_) | Step::Delete(_)) => {
                        if there.is_some() || saw.get(name).is_some_and(Option::is_some) {
                            saw.insert(name, there);
                        }
                    }
                    (false, Step::Move(_)) => {
                        let stale = saw.get(name).is_some_and(|seen| *seen != there);
                        if stale {
                            saw.insert(name, there);
                        }
                    }
                }
                for name in names {
                    let found = std::fs::read_to_string(folder.path(name)).ok();
                    prop_assert_eq!(found.as_ref(), files.get(name));
                }
            }
            Ok(())
        })?;
    }
}
