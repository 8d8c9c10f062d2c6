//! HOST-3: what a new user needs: the start screen, `init`, `doctor`, completions, manual pages, goals from files, and runs as documents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use dirigent_model_server::{Matcher, ModelServer, Rule, Script, Turn};
use dirigent_tests::cli::{Ended, Place, RENAME};
use dirigent_tests::pty::{CTRL_D, Dimensions, Terminal};

use crate::config::own_file;

/// The command with this text as its standard input.
fn with_input(place: &Place, arguments: &[&str], input: &[u8]) -> Ended {
    let mut command = place.command(arguments);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its input may have ended before it is written.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap().into()
}

#[test]
fn host_3_completions_of_each_shell_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.dirigent(["completions", shell]).with_code(0).stdout;
        for word in ["resume", "workflow", "--workspace"] {
            assert!(
                script.contains(word) || script.contains(&word[2..]),
                "{shell}: {word}"
            );
        }
    }
    assert!(!place.db().exists());
}

#[test]
fn host_3_each_command_has_a_manual_page() {
    let place = Place::new();
    let _ = place.dirigent(["man", "pages/man1"]).with_code(0);
    for (page, text) in [
        ("dirigent.1", "plan, act"),
        ("dirigent-run.1", "workspace"),
        ("dirigent-journal-prune.1", "older"),
    ] {
        let page = fs::read_to_string(place.folder().join("pages/man1").join(page)).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(text), "{page}");
    }
    fs::write(place.folder().join("file"), "").unwrap();
    let refused = place.dirigent(["man", "file/below"]).with_code(1);
    assert!(
        refused.stderr.contains("cannot write manual pages to file/below"),
        "{refused}"
    );
}

#[test]
fn host_3_a_goal_is_read_from_a_file_or_from_standard_input() {
    for from_file in [true, false] {
        let place = Place::with_shop();
        let ended = if from_file {
            fs::write(place.folder().join("goal.md"), format!("{}\n", RENAME[1])).unwrap();
            place.dirigent(["run", "--file", "goal.md", "--workspace", "work"])
        } else {
            with_input(&place, &["run", "-", "--workspace", "work"], RENAME[1].as_bytes())
        };
        let _ = ended.with_code(0);
        assert!(place.read("price.js").contains("readPrice"));
        let shown = &place.dirigent(["runs", "--json"]).with_code(0).json_lines()[0];
        assert_eq!(shown["goal"], RENAME[1]);
    }
}

#[test]
fn host_3_a_goal_that_cannot_be_read_starts_no_run() {
    let place = Place::new();
    let refused = |input: &[u8], arguments: &[&str], problem: &str| {
        let ended = with_input(&place, arguments, input).with_code(2);
        assert!(ended.stderr.contains(problem), "{ended}");
    };
    refused(
        b"",
        &["run", "--file", "missing.md"],
        "cannot read the goal from missing.md",
    );
    refused(b"", &["run", "--file", "work"], "cannot read the goal from work");
    refused(
        b"\xff\xfe",
        &["run", "-"],
        "the goal from standard input is not UTF-8",
    );
    refused(&vec![b'a'; 300 * 1024], &["run", "-"], "longer than 262144 bytes");
    refused(b" \n", &["run", "-"], "goal");
    refused(b"", &["run", "words", "--file", "goal.md"], "cannot be used with");
    assert!(place.dirigent(["runs", "--json"]).stdout.is_empty());
}

#[test]
fn host_3_runs_are_listed_since_a_time() {
    let place = Place::with_shop();
    let _ = place.dirigent(RENAME).with_code(0);
    let listed = |since: &str| {
        let ended = place.dirigent(["runs", "--json", "--since", since]).with_code(0);
        ended.stdout.lines().count()
    };
    assert_eq!(
        [
            listed("1h"),
            listed("2d"),
            listed("2020-01-31"),
            listed("2999-01-31")
        ],
        [1, 1, 1, 0]
    );
    for wrong in ["yesterday", "2026-13-01", "5", ""] {
        let refused = place.dirigent(["runs", "--since", wrong]).with_code(2);
        assert!(
            refused.stderr.contains("12h or 2d, or a day such as"),
            "{refused}"
        );
    }
}

#[test]
fn host_3_a_run_is_exported_as_one_document_in_which_nothing_acts() {
    let place = Place::with_shop();
    place.write(
        "price.js",
        "export function parsePrice(text) { return '<script>alert(1)</script>```'; }\n",
    );
    let _ = place.dirigent(RENAME).with_code(0);
    let export = |format: &str| {
        place
            .dirigent(["export", "last", "--format", format])
            .with_code(0)
            .stdout
    };

    let page = export("html");
    assert!(
        page.starts_with("<!doctype html>") && page.contains("default-src 'none'"),
        "{page}"
    );
    assert!(
        page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"),
        "{page}"
    );
    for part in ["Outcome", "Plan", "Steps", "Changes", "Usage and costs"] {
        assert!(page.contains(&format!("<h2>{part}</h2>")), "{part}: {page}");
    }
    let markdown = export("md");
    assert!(
        markdown.starts_with("# rename the function parsePrice to readPrice\n"),
        "{markdown}"
    );
    // A fence is longer than the backticks in the text.
    assert!(
        markdown.contains("\n````diff\n") && markdown.contains("\n```mermaid\nflowchart"),
        "{markdown}"
    );
    let object: serde_json::Value = serde_json::from_str(&export("json")).unwrap();
    assert_eq!(object["reason"], "goal_achieved");
    assert!(
        object["diff"]
            .as_str()
            .unwrap()
            .contains("+export function readPrice")
    );
    assert!(object["graphs"][0].as_str().unwrap().starts_with("flowchart"));
}

async fn model_server() -> ModelServer {
    let script =
        Script::rules([Rule::always(Matcher::any(), Turn::text("OK"))]).with_models(["small", "large"]);
    ModelServer::start(script).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_init_tests_a_model_and_adds_it_to_the_configuration() {
    let server = model_server().await;
    let place = Place::new();
    let file = own_file(&place);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "# mine\n[limits]\nmax_parallel = 2").unwrap();
    let url = server.url();
    let init =
        |name: &str| place.dirigent(["init", "--provider", "openai", "--name", name, "--base-url", &url]);

    let done = init("small").with_code(0);
    assert!(done.stdout.contains("runs use small now"), "{done}");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        format!(
            "# mine\n[limits]\nmax_parallel = 2\n\n[model]\nprovider = \"openai\"\nname = \"small\"\nbase_url = \"{url}\"\n"
        )
    );
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let checked = place.dirigent(["config", "check"]).with_code(0).stdout;
    assert!(checked.contains("it responds"), "{checked}");

    let again = init("large").with_code(2);
    assert!(again.stderr.contains("has a [model] already"), "{again}");
    assert!(!fs::read_to_string(&file).unwrap().contains("large"));
}

#[test]
fn host_3_init_writes_nothing_for_a_model_that_does_not_answer() {
    let place = Place::new();
    // Nothing listens on this port.
    let unreachable = [
        "init",
        "--provider",
        "openai",
        "--name",
        "m",
        "--base-url",
        "http://127.0.0.1:9/v1",
    ];
    let failed = place.dirigent(unreachable).with_code(7);
    assert!(failed.stderr.contains("the model cannot be used: "), "{failed}");
    let folder = own_file(&place);
    let left: Vec<_> = fs::read_dir(folder.parent().unwrap()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let _ = place
        .dirigent(unreachable.iter().chain(&["--no-test"]))
        .with_code(0);
    assert!(own_file(&place).exists());

    let place = Place::new();
    let unknown = place.dirigent(["init", "--provider", "openia"]).with_code(2);
    assert!(
        unknown
            .stderr
            .contains("there is no provider `openia`: use one of openai"),
        "{unknown}"
    );
    let silent = place.dirigent(["init"]).with_code(2);
    assert!(
        silent.stderr.contains("there is no terminal to ask in"),
        "{silent}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn host_3_init_asks_at_a_terminal_and_hides_the_key() {
    let server = model_server().await;
    let url = server.url();
    let place = Place::new();
    let db = place.db();
    let file = own_file(&place);
    let command = place.command(["init"]);
    tokio::task::spawn_blocking(move || {
        // Wide enough for the path of the file.
        let wide = Dimensions {
            rows: 30,
            columns: 300,
        };
        let terminal = Terminal::sized(command, wide);
        let choices = terminal.wait_until("the choices", |all| all.contains("Number:"));
        let other = choices
            .lines()
            .find(|line| line.contains("another server"))
            .unwrap();
        let number = other.split_whitespace().next().unwrap().to_owned();
        terminal.enters("0");
        terminal.wait_for("type a number from 1 to");
        terminal.enters(&number);
        terminal.wait_for("Address");
        terminal.enters(&url);
        terminal.wait_for("API key:");
        terminal.enters("sk-very-secret-key-123456");
        terminal.wait_for("Model, a name or a number");
        terminal.enters("2");
        let contents = terminal.end_with(0);
        assert!(contents.contains("runs use large now"), "{contents}");
        assert!(!contents.contains("very-secret"), "{contents}");
        let written = fs::read_to_string(&file).unwrap();
        assert!(
            written.contains("api_key = \"sk-very-secret-key-123456\""),
            "{written}"
        );
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!db.exists());
    })
    .await
    .unwrap();

    let place = Place::new();
    let command = place.command(["init"]);
    let left = own_file(&place);
    tokio::task::spawn_blocking(move || {
        let terminal = Terminal::start(command);
        terminal.wait_for("Number:");
        terminal.types(CTRL_D);
        let _ = terminal.end_with(130);
        assert!(!left.exists());
    })
    .await
    .unwrap();
}

#[test]
fn host_3_doctor_says_what_is_wrong_and_what_to_do() {
    let place = Place::with_shop();
    let well = place.dirigent(["doctor"]).with_code(0).stdout;
    assert!(well.contains("journal: not there yet"), "{well}");
    assert!(well.contains("dirigent init"), "{well}");
    let _ = place.dirigent(RENAME).with_code(0);

    let file = own_file(&place);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(
        &file,
        "[model]\nprovider = \"openai\"\nname = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\nattempts = 1\n",
    )
    .unwrap();
    let ill = place.dirigent(["doctor", "--json"]).with_code(7).json_lines();
    let findings = ill[0]["findings"].as_array().unwrap();
    let model = findings
        .iter()
        .find(|finding| finding["health"] == "bad")
        .unwrap();
    assert_eq!(model["subject"], "model default");
    fs::write(&file, "[modle]\n").unwrap();
    let invalid = place.dirigent(["doctor"]).with_code(7).stdout;
    assert!(
        invalid.contains("✗ configuration: ") && invalid.contains("modle"),
        "{invalid}"
    );
    fs::remove_file(&file).unwrap();

    fs::write(place.db(), "no journal").unwrap();
    let damaged = place.dirigent(["doctor"]).with_code(5).stdout;
    assert!(damaged.contains("✗ journal: "), "{damaged}");
}

#[test]
fn host_3_the_command_alone_says_what_to_do_next() {
    let place = Place::with_shop();
    let help = place.dirigent::<&str>([]).with_code(2);
    assert!(
        help.stdout.is_empty() && help.stderr.contains("Usage: dirigent"),
        "{help}"
    );

    let _ = place.dirigent(RENAME).with_code(0);
    let mut command = place.command::<&str>([]);
    command.current_dir(place.work());
    let screen = Terminal::start(command).end_with(0);
    for part in [
        "offline model",
        "dirigent init",
        "Last runs in this folder",
        "achieved",
        "dirigent chat",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn host_3_the_version_names_the_commit_and_the_target() {
    let version = Place::new().dirigent(["--version"]).with_code(0).stdout;
    assert!(
        version.starts_with("dirigent 0.") && version.contains("\ncommit: "),
        "{version}"
    );
    assert!(
        version.contains("\ntarget: ") && version.contains("linux"),
        "{version}"
    );
}
