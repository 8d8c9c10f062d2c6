//! HOST-3: the command's output for people, pipes, programs and real terminals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::{Command, Stdio};

use dirigent_store::Journal;
use dirigent_tests::cli::{Ended, Place, RENAME, ended};
use dirigent_tests::pty::{Dimensions, Terminal};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const GOAL: &str = "Find all usages of function parse_amount and rename it to parse_money";

fn rename_in_shop(place: &Place, more: &[&str]) -> Ended {
    place.dirigent(RENAME.iter().chain(more)).with_code(0)
}

/// Compares the output with the snapshot, without the parts that differ between runs.
fn with_redactions(place: &Place, check: impl FnOnce()) {
    let folder = place.folder().canonicalize().unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(true);
    for (found, shown) in [
        (folder.to_str().unwrap(), "PLACE"),
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "RUN-ID",
        ),
        (r"\b(run|show|resume|diff|undo) [0-9a-f]{8}\b", "$1 RUN"),
        (r"(?m)^[0-9a-f]{8}  ", "RUN  "),
        (r"\b(\d+ min )?\d+(\.\d+)? (ms|s)\b", "TIME"),
        (r"\b\d+ tokens", "N tokens"),
        // The widths of the usage columns depend on their figures.
        (r"(?m)^  (model|agent +model) +calls .*$", "  $1  FIGURES"),
        (r"(?m)^  (a\d+ \w+ +)?offline +\d.*$", "  ${1}offline  FIGURES"),
        (r"(?m)^  run +\d.*$", "  run  FIGURES"),
        // The durations in cargo's output.
        (r"\b\d+\.\d\ds\b", "TIME"),
        // Where a long result is shortened depends on the number of digits of its durations.
        (
            r#"("calls":\[)[^…\n]+… \[\d+ (characters left out: not shown\] …)[^\n]*"#,
            "$1… [N $2",
        ),
        (r#""duration_ms":\d+"#, r#""duration_ms":N"#),
        // Where a text is cut depends on the durations in it.
        (
            r"[^\n ]*… \[\d+ characters left out: not shown\] …[^\n]*",
            "… [N characters left out: not shown] …",
        ),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE"),
    ] {
        settings.add_filter(found, shown);
    }
    settings.bind(check);
}

#[test]
fn host_3_help_names_the_commands_and_the_exit_codes() {
    let help = Place::new().dirigent(["--help"]).with_code(0).stdout;
    insta::assert_snapshot!(help);
}

#[test]
fn host_3_help_of_run_has_examples() {
    let help = Place::new().dirigent(["run", "--help"]).with_code(0).stdout;
    insta::assert_snapshot!(help);
}

#[test]
fn host_3_a_run_is_shown_as_lines_and_a_summary() {
    let place = Place::with_sample();
    let run = ["run", GOAL, "--workspace", "work", "--max-parallel", "1"];
    let ended = place.dirigent(run).with_code(0);
    assert_eq!(ended.stderr, "");
    with_redactions(&place, || insta::assert_snapshot!(ended.stdout));
}

#[test]
fn paor_10_and_11_a_run_is_shown_concisely_and_with_every_step() {
    let place = Place::with_shop();
    let _ = rename_in_shop(&place, &[]);
    let shown = place.dirigent(["show", "last"]).with_code(0).stdout;
    let steps = place.dirigent(["show", "last", "--verbose"]).with_code(0).stdout;
    with_redactions(&place, || {
        insta::assert_snapshot!("concise", shown);
        insta::assert_snapshot!("verbose", steps);
    });
}

#[test]
fn host_10_usage_is_shown_by_model_and_agent_without_costs_if_there_is_no_price() {
    let place = Place::with_shop();
    let _ = rename_in_shop(&place, &[]);
    let report = &place
        .dirigent(["show", "last", "--json"])
        .with_code(0)
        .json_lines()[0];
    let account = &report["account"];
    assert_eq!(account["models"].as_array().unwrap().len(), 1);
    assert_eq!(account["models"][0]["model"], "offline");
    for figure in ["model_calls", "input_tokens", "output_tokens"] {
        let all = report["usage"][figure].as_u64().unwrap();
        assert!(all > 0);
        let agents = account["agents"].as_array().unwrap();
        let by_agent: u64 = agents.iter().map(|agent| agent[figure].as_u64().unwrap()).sum();
        assert_eq!(
            [account[figure].as_u64().unwrap(), by_agent],
            [all, all],
            "{figure}"
        );
        assert_eq!(account["models"][0][figure].as_u64().unwrap(), all, "{figure}");
    }
    assert!(report["usage"].get("cost").is_none() && account.get("cost").is_none());

    let concise = place.dirigent(["show", "last"]).with_code(0).stdout;
    let verbose = place.dirigent(["show", "last", "--verbose"]).with_code(0).stdout;
    for shown in [&concise, &verbose] {
        assert!(shown.contains("\n  offline  "), "{shown}");
        assert!(!shown.contains('$') && !shown.contains("cost"), "{shown}");
    }
    assert!(
        verbose.contains("\n  a1 lead       offline  ") && !concise.contains("a1 lead"),
        "{verbose}"
    );
}

#[test]
fn host_6_paor_1_paor_3_a_run_at_a_limit_names_the_flag_with_which_it_is_resumed() {
    let place = Place::with_shop();
    let run = ["run", RENAME[1], "--workspace", "work", "--max-model-calls", "2"];
    let limited = place.dirigent(run).with_code(3);
    for told in [
        "Stopped at a limit (budget: 2 of 2 model calls used) after 1 iteration",
        "To continue, resume the run with more model calls allowed.\n  dirigent resume ",
        " --max-model-calls N\n",
    ] {
        assert!(limited.stdout.contains(told), "{limited}");
    }

    let refused = place.dirigent(["resume", "last"]).with_code(2);
    assert!(
        refused
            .stderr
            .contains("has reached a limit: budget: 2 of 2 model calls used"),
        "{refused}"
    );
    let guided = place.dirigent(["guide", "last", "only in price.js"]).with_code(0);
    assert!(guided.stdout.contains("once you resume run "), "{guided}");
    assert!(guided.stdout.contains("--max-model-calls N"), "{guided}");
    let resumed = place
        .dirigent(["resume", "last", "--max-model-calls", "50", "--json"])
        .with_code(0);
    let lines = resumed.json_lines();
    let recovered = lines.iter().position(|line| {
        line["event"] == "phase_changed" && line["from"] == "failed" && line["to"] == "planning"
    });
    assert!(recovered.is_some(), "{resumed}");
    assert!(place.read("price.js").contains("readPrice"));
    let over = place
        .dirigent(["resume", "last", "--max-model-calls", "60"])
        .with_code(2);
    assert!(over.stderr.contains("has already ended"), "{over}");
}

#[test]
fn host_6_a_cost_limit_that_is_not_a_positive_amount_is_refused() {
    let place = Place::with_shop();
    let no_amount = "must be an amount of US dollars above 0, such as 2.50";
    for amount in [
        "0",
        "-1",
        "nan",
        "inf",
        "much",
        "$1",
        "1e-12",
        "99999999999999999999",
        "",
    ] {
        let ended = place
            .dirigent(["run", RENAME[1], "--workspace", "work", "--max-cost", amount])
            .with_code(2);
        assert!(ended.stderr.contains(no_amount), "{amount:?}: {ended}");
    }
    for flag in ["--max-tokens", "--max-model-calls", "--max-agents"] {
        let ended = place
            .dirigent(["run", RENAME[1], "--workspace", "work", flag, "0"])
            .with_code(2);
        assert!(
            ended.stderr.contains("must be a whole number of at least 1"),
            "{ended}"
        );
    }
    assert!(!place.db().exists());
}

#[test]
fn host_3_the_plan_is_shown_as_a_graph_in_three_forms() {
    let place = Place::with_sample();
    let _ = place.run(GOAL).with_code(0);
    for form in ["mermaid", "dot", "tree"] {
        let graph = place
            .dirigent(["show", "last", "--graph", form])
            .with_code(0)
            .stdout;
        insta::assert_snapshot!(form, graph);
    }
}

#[test]
fn host_3_the_changes_are_shown_as_a_diff() {
    let place = Place::with_shop();
    let run = rename_in_shop(&place, &["--diff"]);
    let diff = "--- a/price.js\n+++ b/price.js\n@@ -1 +1 @@\n-export function parsePrice(text) { return Number(text); }\n\
                +export function readPrice(text) { return Number(text); }\n";
    assert!(run.stdout.ends_with(diff), "{run}");
    assert_eq!(
        place.dirigent(["diff", "last"]).with_code(0).stdout,
        format!("diff --git a/price.js b/price.js\n{diff}")
    );
}

#[test]
fn host_3_runs_are_listed_newest_first() {
    let place = Place::with_shop();
    // The user's default journal, which does not exist yet.
    let mut command = Command::new(place.command(["runs"]).get_program());
    place.settle(&mut command);
    let none = ended(command.arg("runs")).with_code(0);
    assert_eq!(
        (none.stdout.as_str(), none.stderr.as_str()),
        (
            "",
            "no runs yet; start one with `dirigent run GOAL`, or try `dirigent demo`\n"
        )
    );
    let _ = rename_in_shop(&place, &[]);
    let _ = place.run("rename nothing_here to something").with_code(1);
    let _ = place.run("count the files").with_code(0);
    let runs = place.dirigent(["runs"]).with_code(0).stdout;
    with_redactions(&place, || {
        insta::assert_snapshot!(runs, @r"
        RUN  DATE  achieved      count the files
        RUN  DATE  failed        rename nothing_here to something
        RUN  DATE  achieved      rename the function parsePrice to readPrice
        ");
    });
    let newest = place.dirigent(["runs", "--limit", "1"]).with_code(0);
    assert_eq!(newest.stdout.lines().count(), 1);
    let next = newest.stderr.strip_prefix("1 of 3 runs; add --after ").unwrap();
    let next = next
        .strip_suffix(" for the next ones, or raise --limit\n")
        .unwrap();
    let rest = place.dirigent(["runs", "--after", next]).with_code(0);
    assert_eq!(
        format!("{}{}", newest.stdout, rest.stdout),
        place.dirigent(["runs"]).with_code(0).stdout
    );
    let failed = place
        .dirigent(["runs", "--state", "failed", "--search", "RENAME"])
        .with_code(0);
    assert!(
        failed.stdout.contains("nothing_here") && failed.stdout.lines().count() == 1,
        "{failed}"
    );
    let elsewhere = place.dirigent(["runs", "--workspace", "/"]).with_code(0);
    assert_eq!(
        (elsewhere.stdout.as_str(), elsewhere.stderr.as_str()),
        ("", "no such runs; see all with `dirigent runs`\n")
    );
    let unknown = place.dirigent(["runs", "--state", "done"]).with_code(2).stderr;
    assert!(unknown.contains("goal_achieved, iteration_limit"), "{unknown}");
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn host_3_the_json_output_of_a_run_is_one_event_per_line_in_order() {
    let place = Place::with_shop();
    let run = rename_in_shop(&place, &["--json"]);
    assert_eq!(run.stderr, "");
    let events = run.json_lines();
    let told: Vec<String> = events
        .iter()
        .map(|event| {
            assert_eq!(
                names(event)[..6],
                ["version", "run", "seq", "at", "scope", "event"]
            );
            format!(
                "{} {}",
                event["scope"].as_str().unwrap(),
                event["event"].as_str().unwrap()
            )
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
    let places: Vec<u64> = events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(events.last().unwrap()["reason"], "goal_achieved");
}

#[test]
fn host_3_json_of_runs_and_of_a_run_is_one_object_per_line() {
    let place = Place::with_shop();
    let _ = rename_in_shop(&place, &[]);
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    assert_eq!(runs.len(), 1);
    assert_eq!(
        names(&runs[0]),
        [
            "run",
            "state",
            "goal",
            "workspace",
            "created_at",
            "ended_at",
            "owner_pid",
            "entries",
            "forked_from",
            "worktree",
            "pending_messages",
            "problem",
            "waiting",
            "question",
            "questions"
        ]
    );
    assert_eq!(runs[0]["state"], "goal_achieved");

    let shown = place
        .dirigent(["show", "last", "--json"])
        .with_code(0)
        .json_lines();
    assert_eq!(shown.len(), 1);
    assert_eq!(
        names(&shown[0]),
        [
            "version",
            "goal",
            "phase",
            "reason",
            "summary",
            "changed",
            "confirmed_by",
            "remaining",
            "iteration_count",
            "usage",
            "account",
            "duration",
            "iterations",
            "run",
            "forked_from",
            "worktree",
            "pending_messages"
        ]
    );
    assert_eq!(shown[0]["run"], runs[0]["run"]);
    assert_eq!(
        shown[0]["changed"],
        serde_json::json!([{"path": "price.js", "kind": "edited"}])
    );
    let graph = place
        .dirigent(["show", "last", "--graph", "tree", "--json"])
        .with_code(0)
        .json_lines();
    assert_eq!(graph[0].as_array().unwrap().len(), 1);
}

// Terminals

/// Text that would change a terminal's colour and window title and reverse the writing direction.
const HOSTILE: &str = "\u{1b}[31mred\u{1b}[0m \u{1b}]0;owned\u{7} \u{202e}";

fn hostile_sample() -> Place {
    let place = Place::with_sample();
    let readme = place.read("README.md");
    place.write("README.md", &format!("{readme}\nIn parse_amount {HOSTILE}\n"));
    place
}

#[test]
fn host_3_without_a_terminal_there_are_no_escape_codes() {
    let place = hostile_sample();
    let run = ["run", GOAL, "--workspace", "work", "--verbose", "--diff"];
    let ended = place.dirigent(run).with_code(0);
    assert!(
        ended.stdout.contains("In parse_amount \u{fffd}[31mred"),
        "{ended}"
    );
    assert!(
        !ended.stdout.contains('\u{1b}') && !ended.stderr.contains('\u{1b}'),
        "{ended}"
    );
    assert!(!ended.stdout.contains('\u{202e}'), "{ended}");
}

/// The command's output in a terminal of 140 columns.
fn in_terminal(place: &Place, settings: &[(&str, &str)], arguments: &[&str]) -> Ended {
    let mut command = place.command(arguments);
    command.envs(settings.iter().copied());
    let size = Dimensions {
        rows: 50,
        columns: 140,
    };
    let (status, _, written) = Terminal::sized(command, size).end();
    Ended {
        status,
        stdout: String::from_utf8_lossy(&written).into_owned(),
        stderr: String::new(),
    }
}

/// The codes of a terminal's output, each without its `ESC`, and the text between them.
fn codes_and_text(output: &str) -> (Vec<String>, String) {
    let (mut codes, mut text) = (Vec::new(), String::new());
    let mut parts = output.split('\u{1b}');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part
            .char_indices()
            .skip(1)
            .find(|(_, c)| c.is_ascii_alphabetic())
            .map_or(part.len(), |(at, _)| at + 1);
        codes.push(part[..end].to_owned());
        text.push_str(&part[end..]);
    }
    (codes, text)
}

const TREE: [&str; 8] = [
    "✓ explore: Find every usage of parse_amount (explore)",
    "✓ baseline: Check the project before any change",
    "✓ edit-1: Rename parse_amount to parse_money in src/amount.rs and src/budget.rs",
    "✓ edit-2: Rename parse_amount to parse_money in src/entry.rs and src/import.rs",
    "✓ edit-3: Rename parse_amount to parse_money in src/lib.rs",
    "✓ edit-4: Rename parse_amount to parse_money in tests/book.rs",
    "✓ check: Build and test the project",
    "✓ verify: Verify that no usage of parse_amount is left (verify)",
];

#[test]
fn host_3_a_terminal_gets_a_coloured_live_tree_without_a_files_escape_codes() {
    let place = hostile_sample();
    let ended = in_terminal(&place, &[], &["run", GOAL, "--workspace", "work"]).with_code(0);
    let (codes, text) = codes_and_text(&ended.stdout);
    for line in TREE {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    assert!(codes.contains(&"[32m".to_owned()), "nothing is green: {codes:?}");
    assert!(
        codes.iter().any(|code| code.ends_with('A')),
        "nothing is redrawn: {codes:?}"
    );
    // The only allowed codes set colours, move the cursor, clear lines or change modes.
    let strange: Vec<_> = codes
        .iter()
        .filter(|code| !(code.starts_with('[') && code.ends_with(['m', 'A', 'B', 'K', 'J', 'G', 'l', 'h'])))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(
        text.contains("In parse_amount \u{fffd}[31mred\u{fffd}[0m \u{fffd}]0;owned\u{fffd} \u{fffd}"),
        "{text}"
    );
    assert!(text.contains("Goal achieved after 1 iteration"), "{text}");
}

fn is_colour(code: &str) -> bool {
    code.ends_with('m')
}

#[test]
fn host_3_no_color_is_respected_in_a_terminal() {
    let place = Place::with_sample();
    let run = ["run", GOAL, "--workspace", "work", "--diff"];
    let ended = in_terminal(&place, &[("NO_COLOR", "1")], &run).with_code(0);
    let (codes, text) = codes_and_text(&ended.stdout);
    assert!(!codes.iter().any(|code| is_colour(code)), "{codes:?}");
    assert!(text.contains(TREE[0]), "{text}");
}

#[test]
fn host_3_a_dumb_terminal_gets_plain_lines() {
    let place = Place::with_shop();
    let ended = in_terminal(&place, &[("TERM", "dumb"), ("NO_COLOR", "1")], &RENAME).with_code(0);
    assert!(!ended.stdout.contains('\u{1b}'), "{ended}");
    assert!(
        ended
            .stdout
            .contains("▶ edit-1: Rename parsePrice to readPrice in price.js"),
        "{ended}"
    );
}

#[test]
fn host_3_a_closed_pipe_is_not_an_error() {
    let place = Place::with_shop();
    let _ = rename_in_shop(&place, &[]);
    for arguments in [
        &["runs"][..],
        &["show", "last", "--verbose"],
        &["--help"],
        &["run", "count the files"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = place
            .command(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = child.wait().unwrap();
        let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert_eq!((status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn host_8_ctrl_c_while_a_run_starts_leaves_no_active_run() {
    let place = Place::with_sample();
    let _ = place.run("count the files").with_code(0);
    let starts = Journal::open(&place.db()).unwrap();
    let lock = starts.try_lock_starts().unwrap().unwrap();
    let mut run = place.command(["run", "count the files", "--workspace", "work"]);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = Pid::from_child(&child);
    assert!((0..).find_map(|_| catches_interrupts(process)).unwrap());
    // The run can start once the lock is free, but cannot be journaled before this transaction ends.
    let other = Connection::open(place.db()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    drop(lock);
    while starts.try_lock_starts().unwrap().is_some() {
        std::thread::yield_now();
    }
    kill_process(process, Signal::INT).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap());

    assert_eq!(ended.code(), Some(130), "{ended}");
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    match ended.stderr.contains("nothing was started") {
        true => assert_eq!(runs.len(), 1),
        false => assert_eq!(runs[0]["state"], "cancelled"),
    }
}

#[test]
fn host_8_ctrl_c_ends_the_wait_for_another_process_that_starts_a_run() {
    let place = Place::with_sample();
    let _ = place.run("count the files").with_code(0);
    let other = Journal::open(&place.db()).unwrap();
    let _lock = other.try_lock_starts().unwrap().unwrap();

    let mut run = place.command(["run", "count the files", "--workspace", "work"]);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = Pid::from_child(&child);
    assert!((0..).find_map(|_| catches_interrupts(process)).unwrap());
    kill_process(process, Signal::INT).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap());

    assert_eq!(ended.code(), Some(130), "{ended}");
    assert!(ended.stderr.contains("nothing was started"), "{ended}");
    let runs = place.dirigent(["runs", "--json"]).with_code(0).json_lines();
    assert_eq!(runs.len(), 1);
}

/// Returns whether the process catches SIGINT; `None` if this cannot be seen yet. False if the process has ended.
fn catches_interrupts(process: Pid) -> Option<bool> {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    // The process has ended.
    if line("State:").trim().starts_with('Z') {
        return Some(false);
    }
    // SIGINT is signal 2, the second bit of the mask.
    let caught = u64::from_str_radix(line("SigCgt:").trim(), 16).unwrap() & 2 != 0;
    caught.then_some(true)
}

#[test]
fn host_3_escape_codes_in_a_goal_or_an_answer_do_not_reach_the_terminal() {
    // The command itself never makes text blink.
    const BLINK: &str = "\u{1b}[5m";
    let place = Place::with_clash();
    let goal = format!("{} {BLINK}", RENAME[1]);
    for term in ["xterm-256color", "dumb"] {
        // The offline model does not understand the last word of this goal.
        let run = ["run", &goal, "--workspace", "work", "--non-interactive"];
        let run = in_terminal(&place, &[("TERM", term)], &run).with_code(1);
        let asking = ["run", RENAME[1], "--workspace", "work", "--non-interactive"];
        let _ = in_terminal(&place, &[("TERM", term)], &asking).with_code(4);
        let answer = format!("stop {BLINK}");
        let resume = ["resume", "last", "--answer", &answer, "--verbose"];
        let resumed = in_terminal(&place, &[("TERM", term)], &resume);
        for ended in [run, resumed] {
            assert!(ended.stdout.contains("\u{fffd}[5m"), "{ended}");
            assert!(!ended.stdout.contains(BLINK), "{ended}");
        }
    }
}

#[test]
fn paor_11_the_transcript_of_a_run_is_shown_verbatim() {
    let place = Place::with_sample();
    let readme = place.read("README.md");
    place.write("README.md", &format!("{readme}\nresume RUN: parse_amount\n"));
    let _ = place.run(GOAL).with_code(0);
    let shown = place.dirigent(["show", "last", "--verbose"]).with_code(0);
    assert!(shown.stdout.contains("resume RUN: parse_amount"), "{shown}");
}
