//! Undo plans: applied to the files that a run left, they restore the files from before the run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use dirigent_core::agent::AgentInput;
use dirigent_core::id::{AgentId, EffectId, RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::{FileVersion, StateChange, ToolResult};
use dirigent_core::undo::{
    CommandHistory, MoveBack, PathState, RestorePath, RestoreStep, UndoPlan, is_within,
};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert_eq, proptest};
use proptest::sample::Index;
use serde_json::Value;

fn version(content: &str) -> FileVersion {
    FileVersion {
        digest: content.to_owned(),
        mode: 0o100_644,
    }
}

fn file(content: &str) -> PathState {
    PathState::File(version(content))
}

fn created(path: &str, after: &str) -> StateChange {
    StateChange::FileCreated {
        path: path.to_owned(),
        diff: None,
        after: Some(version(after)),
    }
}

fn edited(path: &str, before: &str, after: &str) -> StateChange {
    StateChange::FileEdited {
        path: path.to_owned(),
        diff: None,
        before: Some(version(before)),
        after: Some(version(after)),
    }
}

fn deleted(path: &str, before: &str) -> StateChange {
    StateChange::FileDeleted {
        path: path.to_owned(),
        diff: None,
        before: Some(version(before)),
    }
}

fn moved(from: &str, to: &str, content: Option<&str>) -> StateChange {
    StateChange::FileMoved {
        from: from.to_owned(),
        to: to.to_owned(),
        version: content.map(version),
    }
}

fn entry(seq: u64, input: Input) -> Entry {
    Entry {
        run: RunId("0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse().unwrap()),
        seq,
        at: Timestamp(seq),
        scope: Scope::Run,
        input,
    }
}

/// The entries of one call per change, made by the run itself: entries 1 and 2 are the start and the end of the first call.
fn calls(changes: &[StateChange]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (step, change) in (1..).zip(changes) {
        let effect = EffectId {
            scope: Scope::Run,
            step,
            attempt: 0,
        };
        let result = ToolResult::success(Value::Null).with_changes(vec![change.clone()]);
        let seq = u64::from(step) * 2;
        entries.push(entry(seq - 1, Input::Run(RunInput::ToolStarted { effect })));
        entries.push(entry(seq, Input::Run(RunInput::ToolFinished { effect, result })));
    }
    entries
}

/// A step to restore a path, with the number of changes that it undoes.
fn restoration(path: &str, expected: PathState, original: PathState, changes: usize) -> (RestoreStep, usize) {
    let step = RestoreStep::Restore(RestorePath {
        path: path.to_owned(),
        expected,
        original,
        changed_by_others: false,
        changes: Vec::new(),
    });
    (step, changes)
}

/// The steps without their changes, each with the number of its changes.
fn counted(plan: UndoPlan) -> Vec<(RestoreStep, usize)> {
    let steps = plan.steps.into_iter();
    steps
        .map(|mut step| match &mut step {
            RestoreStep::Restore(restoration) => {
                let changes = std::mem::take(&mut restoration.changes).len();
                (step, changes)
            }
            RestoreStep::Move(_) => (step, 0),
        })
        .collect()
}

#[track_caller]
fn check(changes: &[StateChange], steps: &[(RestoreStep, usize)]) {
    assert_eq!(counted(UndoPlan::from_entries(&calls(changes), 0)), steps);
}

#[test]
fn a_file_that_was_edited_twice_is_restored_once() {
    check(
        &[edited("a", "1", "2"), edited("a", "2", "3")],
        &[restoration("a", file("3"), file("1"), 2)],
    );
}

#[test]
fn changes_that_the_run_itself_reverted_need_no_step() {
    check(
        &[
            created("a", "1"),
            edited("b", "1", "2"),
            deleted("a", "1"),
            edited("b", "2", "1"),
        ],
        &[],
    );
}

#[test]
fn deleted_files_are_restored_before_new_ones_are_removed_unless_these_block_them() {
    check(
        &[
            deleted("x", "1"),
            created("x/a", "2"),
            created("x/b/c", "3"),
            created("y", "4"),
        ],
        &[
            restoration("x/b/c", file("3"), PathState::Nothing, 1),
            restoration("x/a", file("2"), PathState::Nothing, 1),
            restoration("x", PathState::Nothing, file("1"), 1),
            restoration("y", file("4"), PathState::Nothing, 1),
        ],
    );
    check(
        &[deleted("x/a", "1"), created("x", "2"), created("x-", "3")],
        &[
            restoration("x", file("2"), PathState::Nothing, 1),
            restoration("x/a", PathState::Nothing, file("1"), 1),
            restoration("x-", file("3"), PathState::Nothing, 1),
        ],
    );
}

#[test]
fn a_moved_and_edited_file_is_restored_under_its_old_name() {
    check(
        &[moved("a", "b", Some("1")), edited("b", "1", "2")],
        &[
            restoration("a", PathState::Nothing, file("1"), 1),
            restoration("b", file("2"), PathState::Nothing, 2),
        ],
    );
}

#[test]
fn a_folder_is_moved_back_after_its_content_was_restored() {
    check(
        &[
            edited("d/a", "1", "2"),
            moved("d", "e", None),
            edited("e/a", "2", "3"),
            created("e/b", "4"),
            created("d/a", "5"),
        ],
        &[
            restoration("e/a", file("3"), file("1"), 2),
            restoration("e/b", file("4"), PathState::Nothing, 1),
            restoration("d/a", file("5"), PathState::Nothing, 1),
            (
                RestoreStep::Move(MoveBack {
                    from: "e".to_owned(),
                    to: "d".to_owned(),
                    source: Some("e".to_owned()),
                    target: Some("d".to_owned()),
                }),
                0,
            ),
        ],
    );
}

#[test]
fn changes_journaled_in_reverse_order_are_merged_into_one_step() {
    check(
        &[edited("a", "2", "3"), edited("a", "1", "2")],
        &[restoration("a", file("3"), file("1"), 2)],
    );
}

#[test]
fn changes_by_somebody_else_in_between_are_reported() {
    let changes = [
        edited("a", "1", "2"),
        edited("a", "3", "4"),
        edited("a", "4", "5"),
    ];
    let plan = UndoPlan::from_entries(&calls(&changes), 0);
    let [RestoreStep::Restore(step)] = &plan.steps[..] else {
        panic!("{plan:?}");
    };
    assert_eq!((&step.original, &step.expected), (&file("1"), &file("5")));
    assert!(step.changed_by_others);
    let groups = step.uninterrupted().into_iter();
    let groups: Vec<_> = groups
        .map(|group| (&group[0].before, &group[group.len() - 1].after))
        .collect();
    assert_eq!(groups, [(&file("1"), &file("2")), (&file("3"), &file("5"))]);
}

/// A command during which these files changed.
fn command(files: &[StateChange]) -> StateChange {
    StateChange::ProcessExited {
        command: "cargo fmt".to_owned(),
        code: Some(0),
        files: files.to_vec(),
    }
}

/// The changes during commands, by call.
fn during_commands(plan: &UndoPlan) -> Vec<(String, Vec<StateChange>)> {
    let during = plan.during_commands.iter();
    during
        .map(|during| (during.call.to_string(), during.changes.clone()))
        .collect()
}

#[test]
fn paor_10_changes_during_a_command_are_undone_only_on_request() {
    let unknown = StateChange::FileEdited {
        path: "c".to_owned(),
        diff: None,
        before: None,
        after: Some(version("2")),
    };
    let files = [edited("a", "2", "3"), created("b", "1"), unknown];
    let entries = calls(&[edited("a", "1", "2"), command(&files), edited("c", "2", "3")]);

    let own = UndoPlan::from_entries(&entries, 0);
    assert_eq!(during_commands(&own), [("run.2".to_owned(), files.to_vec())]);
    assert_eq!(
        counted(own),
        [
            restoration("a", file("2"), file("1"), 1),
            restoration("c", file("3"), file("2"), 1)
        ]
    );
    assert_eq!(
        counted(UndoPlan::with_commands(&entries, 0)),
        [
            restoration("a", file("3"), file("1"), 2),
            // The content before the command is unknown, so only the tool's change is undone.
            restoration("c", file("3"), file("2"), 1),
            restoration("b", file("1"), PathState::Nothing, 1),
        ]
    );
    assert_eq!(during_commands(&UndoPlan::from_entries(&entries, 4)), []);
}

#[test]
fn paor_10_changes_during_commands_are_counted_by_command() {
    let ran = |command: &str, files: &[StateChange]| StateChange::ProcessExited {
        command: command.to_owned(),
        code: Some(0),
        files: files.to_vec(),
    };
    let entries = calls(&[
        edited("a", "1", "2"),
        ran("cargo test", &[created("Cargo.lock", "1"), created("junk", "1")]),
        ran("cargo fmt", &[edited("a", "2", "3")]),
        ran("cargo test", &[deleted("junk", "1"), edited("b", "1", "2")]),
        ran("cargo doc", &[edited("c", "1", "2")]),
        ran("cargo doc", &[edited("c", "2", "1")]),
    ]);

    let changes = UndoPlan::from_entries(&entries, 0).command_changes();

    assert_eq!(
        serde_json::json!(changes),
        serde_json::json!([
            {"command": "cargo test", "files": [{"path": "Cargo.lock", "kind": "created"}, {"path": "b", "kind": "edited"}]},
            {"command": "cargo fmt", "files": [{"path": "a", "kind": "edited"}]}
        ])
    );
    assert_eq!(
        changes[0].title(),
        "changed while `cargo test` ran, by this command or something else"
    );
}

/// Entries of parallel calls, the last of which is a command: every call starts before the first one ends.
fn parallel(changes: &[StateChange], command: &StateChange) -> Vec<Entry> {
    let mut all = changes.to_vec();
    all.push(command.clone());
    let (starts, ends): (Vec<Entry>, Vec<Entry>) = calls(&all)
        .into_iter()
        .partition(|entry| matches!(entry.input, Input::Run(RunInput::ToolStarted { .. })));
    let in_order = (1..).zip(starts.into_iter().chain(ends));
    in_order.map(|(seq, entry)| Entry { seq, ..entry }).collect()
}

#[test]
fn paor_10_a_file_tools_change_during_a_command_is_not_attributed_to_the_command() {
    for (tools, noticed, left) in [
        (vec![edited("a", "1", "2")], edited("a", "1", "2"), None),
        (
            vec![created("a", "1"), edited("a", "1", "2")],
            created("a", "2"),
            None,
        ),
        (vec![moved("b", "a", Some("1"))], created("a", "1"), None),
        (vec![moved("d", "e", None)], created("e/a", "1"), None),
        (
            vec![edited("b", "1", "2")],
            edited("a", "1", "2"),
            Some(edited("a", "1", "2")),
        ),
        // The command changed the file before or after the tool did.
        (
            vec![edited("a", "1", "2")],
            edited("a", "1", "3"),
            Some(edited("a", "2", "3")),
        ),
        (
            vec![edited("a", "2", "3")],
            edited("a", "1", "3"),
            Some(edited("a", "1", "2")),
        ),
        (
            vec![created("a", "1")],
            created("a", "2"),
            Some(edited("a", "1", "2")),
        ),
    ] {
        let entries = parallel(&tools, &command(std::slice::from_ref(&noticed)));
        let found = UndoPlan::from_entries(&entries, 0).during_commands;
        let found = found.into_iter().flat_map(|during| during.changes).next();
        assert_eq!(found, left, "{tools:?} {noticed:?}");
    }
    // If they ran one after the other, the command's change counts on its own.
    let entries = calls(&[edited("a", "1", "2"), command(&[edited("a", "1", "2")])]);
    assert_eq!(UndoPlan::from_entries(&entries, 0).during_commands.len(), 1);
}

/// A command with this text during which these files changed.
fn ran(text: &str, files: &[StateChange]) -> StateChange {
    StateChange::ProcessExited {
        command: text.to_owned(),
        code: Some(0),
        files: files.to_vec(),
    }
}

#[test]
fn paor_10_a_change_that_parallel_commands_saw_is_one_change() {
    let unknown = |path: &str| StateChange::FileEdited {
        path: path.to_owned(),
        diff: None,
        before: None,
        after: None,
    };
    let entries = parallel(
        &[ran(
            "make a",
            &[edited("a", "1", "2"), created("x", "1"), unknown("u")],
        )],
        &ran(
            "make b",
            &[
                edited("a", "1", "3"),
                created("x", "1"),
                unknown("u"),
                edited("own", "1", "2"),
            ],
        ),
    );

    let plan = UndoPlan::with_commands(&entries, 0);

    assert_eq!(
        serde_json::json!(plan.command_changes()),
        serde_json::json!([
            {
                "command": "make a",
                "in_parallel": ["make b"],
                "files": [
                    {"path": "a", "kind": "edited"},
                    {"path": "u", "kind": "edited"},
                    {"path": "x", "kind": "created"},
                ],
            },
            {"command": "make b", "files": [{"path": "own", "kind": "edited"}]},
        ])
    );
    assert_eq!(
        plan.command_changes()[0].title(),
        "changed while `make a`, `make b` ran, by these commands or something else"
    );
    assert_eq!(
        counted(plan),
        [
            restoration("a", file("3"), file("1"), 1),
            restoration("own", file("2"), file("1"), 1),
            restoration("x", file("1"), PathState::Nothing, 1),
        ]
    );
    let histories = CommandHistory::from_entries(&entries);
    let told: Vec<_> = histories
        .iter()
        .map(|history| {
            (
                history.changes.path.as_str(),
                history.commands.len(),
                history.changes.changed_by_others,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("a", 2, false),
            ("own", 1, false),
            ("u", 2, false),
            ("x", 2, false)
        ]
    );
}

#[test]
fn paor_10_changes_of_parallel_commands_that_follow_each_other_are_two_changes() {
    let entries = parallel(
        &[ran("make a", &[edited("a", "1", "2")])],
        &ran("make b", &[edited("a", "2", "3")]),
    );
    let plan = UndoPlan::with_commands(&entries, 0);
    let commands: Vec<_> = plan
        .during_commands
        .iter()
        .map(|during| during.command.as_str())
        .collect();
    assert_eq!(commands, ["make a", "make b"]);
    assert_eq!(counted(plan), [restoration("a", file("3"), file("1"), 2)]);
}

#[test]
fn paor_10_a_tool_and_a_command_in_parallel_have_one_history() {
    // The command changed the file first, but its end is journaled after the tool's.
    let entries = parallel(&[edited("a", "2", "3")], &command(&[edited("a", "1", "3")]));
    let [history] = &CommandHistory::from_entries(&entries)[..] else {
        panic!("one file changed");
    };
    assert_eq!(
        (
            &history.changes.original,
            &history.changes.expected,
            history.changes.changed_by_others
        ),
        (&file("1"), &file("3"), false)
    );
}

#[test]
fn a_step_to_restore_a_file_of_unknown_content_has_an_unknown_state() {
    let unread = StateChange::FileDeleted {
        path: "huge".to_owned(),
        diff: None,
        before: None,
    };
    let folder = StateChange::FileDeleted {
        path: "empty/".to_owned(),
        diff: None,
        before: None,
    };
    check(
        &[unread, folder],
        &[
            restoration("empty", PathState::Nothing, PathState::Folder, 1),
            restoration("huge", PathState::Nothing, PathState::Unknown, 1),
        ],
    );
}

#[test]
fn only_calls_after_the_entry_are_undone_each_once() {
    let mut entries = calls(&[edited("a", "1", "2"), edited("b", "1", "2")]);
    // The result that a sub-agent returns to its caller: a call without a start entry.
    let effect = EffectId {
        scope: Scope::Agent(AgentId(3)),
        step: 2,
        attempt: 0,
    };
    let result = ToolResult::success(Value::Null).with_changes(vec![edited("c", "1", "2")]);
    entries.push(entry(
        5,
        Input::Agent(AgentInput::ToolFinished { effect, result }),
    ));

    let steps = |after| counted(UndoPlan::from_entries(&entries, after));
    assert_eq!(
        steps(0),
        [
            restoration("a", file("2"), file("1"), 1),
            restoration("b", file("2"), file("1"), 1)
        ]
    );
    // A call has no effect between its start and its end.
    for after in [2, 3] {
        assert_eq!(steps(after), [restoration("b", file("2"), file("1"), 1)]);
    }
    assert_eq!(steps(4), []);
}

#[test]
fn changes_that_are_not_file_changes_and_unfinished_calls_are_listed_separately() {
    let exited = StateChange::ProcessExited {
        command: "cargo fmt".to_owned(),
        code: Some(0),
        files: Vec::new(),
    };
    let mut entries = calls(&[exited.clone(), edited("a", "1", "2")]);
    entries.pop();

    let undoing = UndoPlan::from_entries(&entries, 0);

    assert!(undoing.is_empty());
    assert_eq!(undoing.other_changes, [exited]);
    let unfinished: Vec<String> = undoing.unfinished.iter().map(ToString::to_string).collect();
    assert_eq!(unfinished, ["run.2"]);
}

#[test]
fn changes_that_a_call_recorded_but_never_reported_are_detected() {
    let mut entries = calls(&[
        edited("a", "1", "2"),
        edited("b", "1", "2"),
        edited("c", "1", "2"),
    ]);
    let Input::Run(RunInput::ToolFinished { result, .. }) = &mut entries[3].input else {
        panic!("{:?}", entries[3]);
    };
    *result = ToolResult::failure("it broke down").with_code("broke_down");
    let effect = |step| EffectId {
        scope: Scope::Run,
        step,
        attempt: 0,
    };
    let undoing = UndoPlan::from_entries(&entries, 0);

    let unfinished: Vec<String> = undoing.unfinished.iter().map(ToString::to_string).collect();
    assert_eq!(unfinished, ["run.2"]);
    assert!(undoing.is_unreported(effect(2), "b", &version("1")));
    // The call reported this change.
    assert!(!undoing.is_unreported(effect(1), "a", &version("1")));
    // This call could not change the file, but another one did and reported it.
    assert!(!undoing.is_unreported(effect(2), "c", &version("1")));
    // With this `after`, the call's change is not undone.
    assert!(!UndoPlan::from_entries(&entries, 4).is_unreported(effect(2), "b", &version("1")));
}

#[test]
fn refused_paths_remove_only_the_steps_that_depend_on_them() {
    let changes = [
        edited("d/a", "1", "2"),
        moved("d", "e", None),
        moved("x", "y", Some("1")),
        edited("z", "1", "2"),
        edited("ea", "1", "2"),
    ];
    let without = |path: &str| -> Vec<String> {
        let undoing = UndoPlan::from_entries(&calls(&changes), 0).without(&BTreeSet::from([path.to_owned()]));
        let steps = undoing.steps.iter();
        steps
            .map(|step| match step {
                RestoreStep::Restore(restoration) => restoration.path.clone(),
                RestoreStep::Move(back) => format!("{} to {}", back.from, back.to),
            })
            .collect()
    };
    assert_eq!(without("none"), ["e/a", "ea", "x", "z", "y", "e to d"]);
    assert_eq!(without("e/a"), ["ea", "x", "z", "y"]);
    assert_eq!(without("d"), ["ea", "x", "z", "y"]);
    assert_eq!(without("y"), ["e/a", "ea", "z", "e to d"]);
    assert_eq!(without("x"), ["e/a", "ea", "z", "e to d"]);
    assert_eq!(without("z"), ["e/a", "ea", "x", "y", "e to d"]);
}

/// Files by path; a folder exists if it contains a file.
type Files = BTreeMap<String, String>;

/// Returns true if a file can be created at the path: no file is one of its parents, and it is not a folder.
fn is_free(files: &Files, path: &str) -> bool {
    !files
        .keys()
        .any(|other| is_within(path, other) || is_within(other, path))
}

/// A possible operation of a tool on the files; numbers select among existing files.
#[derive(Clone, Debug)]
enum Deed {
    Create(usize),
    Edit(Index),
    Delete(Index),
    Move(Index, usize),
    /// Moves a folder, or a file without reading it.
    MoveUnread(Index, usize),
}

const PATHS: [&str; 9] = ["a", "b", "d", "d/a", "d/b", "d/e/a", "e", "e/a", "f/g/a"];

fn deed() -> impl Strategy<Value = Deed> {
    let path = 0..PATHS.len();
    proptest::prop_oneof![
        path.clone().prop_map(Deed::Create),
        any::<Index>().prop_map(Deed::Edit),
        any::<Index>().prop_map(Deed::Delete),
        (any::<Index>(), path.clone()).prop_map(|(which, to)| Deed::Move(which, to)),
        (any::<Index>(), path).prop_map(|(which, to)| Deed::MoveUnread(which, to)),
    ]
}

fn carry(files: &mut Files, from: &str, to: &str) {
    let taken: Vec<String> = files
        .keys()
        .filter(|path| is_within(path, from))
        .cloned()
        .collect();
    for path in taken {
        let content = files.remove(&path).unwrap();
        files.insert(format!("{to}{}", &path[from.len()..]), content);
    }
}

/// Performs the operation, with content that is unique to the number. `None` if it is not possible.
fn act(files: &mut Files, deed: &Deed, number: usize) -> Option<StateChange> {
    let content = format!("content {number}");
    let chosen = |which: &Index| {
        let paths: Vec<&String> = files.keys().collect();
        (!paths.is_empty()).then(|| which.get(&paths).to_string())
    };
    match deed {
        Deed::Create(path) => {
            let path = PATHS[*path];
            is_free(files, path).then(|| {
                files.insert(path.to_owned(), content.clone());
                created(path, &content)
            })
        }
        Deed::Edit(which) => {
            let path = chosen(which)?;
            let before = files.insert(path.clone(), content.clone())?;
            Some(edited(&path, &before, &content))
        }
        Deed::Delete(which) => {
            let path = chosen(which)?;
            let before = files.remove(&path)?;
            Some(deleted(&path, &before))
        }
        Deed::Move(which, to) => {
            let (from, to) = (chosen(which)?, PATHS[*to]);
            is_free(files, to).then(|| {
                let content = files.remove(&from).unwrap();
                files.insert(to.to_owned(), content.clone());
                moved(&from, to, Some(&content))
            })
        }
        Deed::MoveUnread(which, to) => {
            let (path, to) = (chosen(which)?, PATHS[*to]);
            let from = path.rsplit_once('/').map_or(path.as_str(), |(folder, _)| folder);
            (is_free(files, to) && !is_within(to, from)).then(|| {
                carry(files, from, to);
                moved(from, to, None)
            })
        }
    }
}

/// Executes the steps, each of which must find the state that it expects.
fn undo(files: &mut Files, steps: &[RestoreStep]) {
    for step in steps {
        match step {
            RestoreStep::Restore(RestorePath {
                path,
                expected,
                original,
                ..
            }) => {
                let there = files
                    .get(path)
                    .map_or(PathState::Nothing, |content| file(content));
                assert_eq!(&there, expected, "{path}");
                match original {
                    PathState::Nothing => drop(files.remove(path)),
                    PathState::File(version) => {
                        files.remove(path);
                        assert!(is_free(files, path), "{path}: {files:?}");
                        files.insert(path.clone(), version.digest.clone());
                    }
                    PathState::Folder | PathState::Unknown => panic!("{path}"),
                }
            }
            RestoreStep::Move(MoveBack { from, to, .. }) => {
                // An empty folder has no entry here.
                assert!(is_free(files, to), "{to}: {files:?}");
                carry(files, from, to);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn undoing_to_any_entry_restores_the_files_as_of_that_entry(
        first in proptest::collection::btree_set(0..PATHS.len(), 0..6),
        deeds in proptest::collection::vec(deed(), 1..14),
        back_to in any::<Index>(),
    ) {
        let mut files = Files::new();
        for path in first {
            if is_free(&files, PATHS[path]) {
                files.insert(PATHS[path].to_owned(), format!("first {path}"));
            }
        }
        let (mut changes, mut states) = (Vec::new(), vec![files.clone()]);
        for (number, deed) in deeds.iter().enumerate() {
            if let Some(change) = act(&mut files, deed, number) {
                changes.push(change);
                states.push(files.clone());
            }
        }
        let back_to = back_to.index(states.len());

        let undoing = UndoPlan::from_entries(&calls(&changes), back_to as u64 * 2);
        undo(&mut files, &undoing.steps);

        prop_assert_eq!(&files, &states[back_to], "{:?}\n{:?}", changes, undoing.steps);
    }
}
