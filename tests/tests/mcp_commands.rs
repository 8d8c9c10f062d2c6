//! MCP-1, HOST-3: `dirigent mcp`: services are added, listed, shown, stopped, started, imported, trusted and removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use dirigent_tests::cli::{Ended, Place, root};
use serde_json::{Value, json};

/// The arguments that run the test program as a service.
fn server(faults: &[&str]) -> Vec<String> {
    let script = root().join("crates/mcp/tests/server.py");
    ["/usr/bin/python3".to_owned(), script.display().to_string()]
        .into_iter()
        .chain(faults.iter().map(|fault| (*fault).to_owned()))
        .collect()
}

/// `dirigent mcp` with these arguments, in the project.
fn mcp(place: &Place, arguments: &[&str]) -> Ended {
    let needs_project = [
        "list", "show", "start", "stop", "logs", "trust", "untrust", "import",
    ]
    .contains(&arguments[0]);
    let project: &[&str] = if needs_project {
        &["--workspace", "work"]
    } else {
        &[]
    };
    place.dirigent(["mcp"].iter().chain(arguments).chain(project))
}

/// `dirigent mcp add NAME … -- SERVER`.
fn add(place: &Place, name: &str, options: &[&str], faults: &[&str]) -> Ended {
    let server = server(faults);
    let server = server.iter().map(String::as_str);
    let arguments: Vec<&str> = ["add", name]
        .into_iter()
        .chain(options.iter().copied())
        .chain(["--"])
        .chain(server)
        .collect();
    mcp(place, &arguments)
}

fn succeeds(ended: Ended) {
    assert_eq!(ended.code(), Some(0), "{ended}");
}

fn listed(place: &Place) -> Value {
    mcp(place, &["list", "--json"]).with_code(0).json_lines()[0].clone()
}

#[test]
fn mcp_1_a_service_is_added_listed_shown_updated_and_removed() {
    let place = Place::new();
    let empty = mcp(&place, &["list"]).with_code(0);
    assert!(empty.stderr.contains("no services yet"), "{}", empty.stderr);

    let options = [
        "--keyword",
        "parrot",
        "--timeout",
        "5s",
        "--env",
        "HOST=${HOST:-here}",
    ];
    let added = add(&place, "echo", &options, &["bad-schema"]).with_code(0);
    assert!(
        added.stdout.starts_with("Added echo  running, 10 tools  (yours)"),
        "{}",
        added.stdout
    );
    assert!(
        added.stdout.contains("  mcp__echo__echo  Does echo\n"),
        "{}",
        added.stdout
    );

    let list = mcp(&place, &["list"]).with_code(0).stdout;
    assert!(
        list.starts_with("echo  not started, 10 tools  (yours)  /usr/bin/python3 "),
        "{list}"
    );
    let shown = mcp(&place, &["show", "echo"]).with_code(0).stdout;
    for part in [
        "version 1",
        "  keywords: parrot\n",
        "  env: HOST=${HOST:-here}\n",
        "  timeout: 5.0 s, of a start 1 min\n",
        "  mcp__echo__wait  Does wait\n",
        "  bad  cannot be called: the schema of its parameters is invalid",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    succeeds(mcp(
        &place,
        &["update", "echo", "--description", "Repeats words", "--trust"],
    ));
    let service = &listed(&place)["services"][0];
    assert_eq!(service["settings"]["description"], "Repeats words");
    assert_eq!(service["settings"]["trust"], true);
    assert_eq!(service["settings"]["trigger_keywords"], json!(["parrot"]));
    assert_eq!(service["origin"]["version"], 2);
    assert_eq!(service["state"], "not_started");
    assert_eq!(service["tools"][0]["name"], "mcp__echo__ask");

    succeeds(mcp(&place, &["remove", "echo"]));
    assert_eq!(listed(&place)["services"], json!([]));
    let gone = mcp(&place, &["show", "echo"]).with_code(2).stderr;
    assert!(
        gone.contains("there is no service echo") && gone.contains("next: dirigent mcp list"),
        "{gone}"
    );
    assert!(place.processes().is_empty());
}

#[test]
fn mcp_1_a_service_that_cannot_start_is_saved_with_its_reason_and_its_last_messages() {
    let place = Place::new();
    let added = add(&place, "broken", &[], &["fails"]).with_code(1);
    assert!(
        added
            .stderr
            .contains("the service broken is saved, but cannot be started"),
        "{}",
        added.stderr
    );
    assert!(
        added.stderr.ends_with("\nnext: dirigent mcp update broken\n"),
        "{}",
        added.stderr
    );
    let list = mcp(&place, &["list"]).with_code(0).stdout;
    assert!(list.starts_with("broken  error, 0 tools"), "{list}");
    let logs = mcp(&place, &["logs", "broken"]).with_code(0);
    assert_eq!(logs.stdout, "cannot find the token\n");
    assert!(
        added.stderr.contains("starting broken to learn its tools\n")
            && added.stderr.contains("| cannot find the token\n"),
        "{}",
        added.stderr
    );
    assert_eq!(added.stdout.lines().count(), 1, "{}", added.stdout);
    let failed = mcp(&place, &["start", "broken"]).with_code(1).stderr;
    assert!(
        failed.contains("cannot find the token") && failed.contains("dirigent mcp logs broken"),
        "{failed}"
    );

    let repaired = server(&["greets"]);
    let update: Vec<&str> = ["update", "broken", "--"]
        .into_iter()
        .chain(repaired.iter().map(String::as_str))
        .collect();
    succeeds(mcp(&place, &update));
    let logs = mcp(&place, &["logs", "broken"]).with_code(0);
    assert_eq!(logs.stdout, "ready to serve\n");
}

#[test]
fn mcp_1_a_stopped_service_is_stopped_until_it_is_started() {
    let place = Place::new();
    succeeds(add(&place, "echo", &[], &[]));
    succeeds(mcp(&place, &["stop", "echo"]));
    assert_eq!(listed(&place)["services"][0]["state"], "stopped");
    let started = mcp(&place, &["start", "echo"]).with_code(0);
    assert!(started.stdout.contains("mcp__echo__echo"), "{}", started.stdout);
    assert_eq!(listed(&place)["services"][0]["state"], "not_started");
}

#[test]
fn mcp_1_bad_input_is_refused_with_what_to_do() {
    let place = Place::new();
    let check = |ended: Ended, parts: &[&str]| {
        let stderr = ended.with_code(2).stderr;
        for part in parts {
            assert!(stderr.contains(part), "{part}: {stderr}");
        }
    };
    check(add(&place, "a b", &[], &[]), &["`a b` is not a service name"]);
    check(
        add(&place, "a", &["--env", "API_KEY=canary"], &[]),
        &["env.API_KEY seems to contain a password", "${VARIABLE}"],
    );
    check(add(&place, "a", &["--env", "=x"], &[]), &["NAME=VALUE"]);
    check(
        mcp(&place, &["add", "a"]),
        &["the command after `--` is not set", "or set --url to its address"],
    );
    check(
        add(&place, "a", &["--keyword", " "], &[]),
        &["--keyword contains an empty word"],
    );
    check(
        mcp(&place, &["add", "a", "--url", "no address"]),
        &["--url is not an address"],
    );
    check(
        mcp(
            &place,
            &["add", "a", "--url", "https://example.com", "--env", "A=B"],
        ),
        &["--env"],
    );
    check(
        mcp(&place, &["update", "a", "--trust"]),
        &["there is no service a: there are none yet"],
    );
    let stored = fs::read(place.db()).unwrap();
    assert!(!String::from_utf8_lossy(&stored).contains("canary"));

    succeeds(add(&place, "a", &[], &[]));
    check(
        add(&place, "a", &[], &[]),
        &["a service named a already exists", "dirigent mcp update a"],
    );
}

#[test]
fn mcp_1_a_file_of_another_client_is_imported_and_what_is_skipped_is_said() {
    let place = Place::new();
    let server = server(&[]);
    let file = json!({"mcpServers": {
        "my echo": {"command": server[0], "args": [server[1]]},
        "secret": {"command": "x", "env": {"TOKEN": "canary"}},
        "old": {"type": "sse", "url": "http://localhost:1/sse"},
    }});
    place.write("claude.json", &file.to_string());
    let imported = mcp(&place, &["import", "work/claude.json"]).with_code(1);
    assert!(
        imported.stdout.starts_with("Added my-echo  running"),
        "{}",
        imported.stdout
    );
    for part in [
        "the service `my echo` is called my-echo here",
        "skipped old: the old transport SSE is not supported",
        "skipped secret: the service secret was not saved: env.TOKEN seems to contain a password",
    ] {
        assert!(imported.stderr.contains(part), "{part}: {}", imported.stderr);
    }
    place.write("broken.json", "{\"mcpServers\": ");
    let broken = mcp(&place, &["import", "work/broken.json"]).with_code(2).stderr;
    assert!(broken.contains("work/broken.json: line 1, column "), "{broken}");
    let missing = mcp(&place, &["import", "work/missing.json"]).with_code(2).stderr;
    assert!(missing.contains("work/missing.json: No such file"), "{missing}");
}

#[test]
fn mcp_1_a_program_that_is_no_server_is_an_error_without_words_of_the_protocol_library() {
    let place = Place::new();
    let added = mcp(&place, &["add", "cat", "--start-timeout", "1s", "--", "cat"]).with_code(1);
    assert_eq!(
        added.stderr,
        "starting cat to learn its tools\n\
         error: the service cat is saved, but cannot be started: it did not answer as an MCP server within 1 s: check its command or URL, or \
         raise --start-timeout if it needs longer\n\
         next: dirigent mcp update cat\n"
    );
}

#[test]
fn mcp_1_a_file_without_services_is_refused_and_says_so() {
    let place = Place::new();
    place.write("none.json", "{\"mcpServers\": {}}");
    let imported = mcp(&place, &["import", "work/none.json"]).with_code(2);
    assert_eq!(imported.stderr, "error: work/none.json has no services\n");
    place.write(".mcp.json", "{\"mcpServers\": {}}");
    let trusted = mcp(&place, &["trust", "--yes"]).with_code(2);
    assert!(
        trusted.stderr.contains(".mcp.json has no services"),
        "{}",
        trusted.stderr
    );
}

#[test]
fn mcp_1_a_projects_service_is_changed_in_its_file_and_its_trust_can_be_withdrawn() {
    let place = Place::new();
    let broken = server(&["fails"]);
    let file = json!({"mcpServers": {
        "parrot": {"command": broken[0], "args": broken[1..], "cwd": "${workspaceFolder}"},
        "asks": {"command": "x", "env": {"KEY": "${input:key}"}},
    }});
    place.write(".mcp.json", &file.to_string());
    let trusted = mcp(&place, &["trust", "--yes"]).with_code(1);
    assert!(
        trusted
            .stdout
            .contains("asks  cannot be used: ${input:key} asks for the input `key`"),
        "{}",
        trusted.stdout
    );
    for part in [
        "starting parrot to learn its tools",
        "the service parrot cannot be started",
        ".mcp.json, then dirigent mcp trust",
    ] {
        assert!(trusted.stderr.contains(part), "{part}: {}", trusted.stderr);
    }
    for command in [
        &["update", "parrot", "--timeout", "5s"][..],
        &["remove", "parrot"],
    ] {
        let project = ["--workspace", "work"];
        let refused = place
            .dirigent(["mcp"].iter().chain(command).chain(&project))
            .with_code(2)
            .stderr;
        assert!(
            refused.contains("can only be changed there")
                && refused.contains(".mcp.json, then dirigent mcp trust"),
            "{refused}"
        );
    }

    let withdrawn = mcp(&place, &["untrust"]).with_code(0).stdout;
    assert!(
        withdrawn.contains(".mcp.json is no longer trusted"),
        "{withdrawn}"
    );
    assert_eq!(listed(&place)["services"], json!([]));
    assert_eq!(listed(&place)["untrusted"]["changed"], false);
    let again = mcp(&place, &["untrust"]).with_code(0).stderr;
    assert!(again.contains("is not trusted"), "{again}");
}

#[test]
fn mcp_1_a_projects_file_is_shown_and_used_only_once_it_is_trusted() {
    let place = Place::new();
    let server = server(&[]);
    let env = json!({"TOKEN": "canary", "NODE_OPTIONS": "--require=./first.js"});
    let parrot = json!({"command": server[0], "args": [server[1]], "env": env, "cwd": "/srv"});
    let file = json!({"mcpServers": {"parrot": parrot}});
    place.write(".mcp.json", &file.to_string());
    place.write("notes.txt", "one\ntwo\n");
    let list = mcp(&place, &["list"]).with_code(0);
    assert!(
        list.stdout.contains("not trusted yet") && list.stdout.contains(": parrot"),
        "{}",
        list.stdout
    );
    assert_eq!(listed(&place)["untrusted"]["services"], json!(["parrot"]));
    let run = place.run("Count the lines in notes.txt").with_code(0);
    assert!(
        run.stderr
            .contains("are not used, because the file is not trusted yet"),
        "{}",
        run.stderr
    );

    let asked = mcp(&place, &["trust"]).with_code(2);
    assert!(asked.stderr.contains("nothing was trusted"), "{}", asked.stderr);
    let command = server.join(" ");
    for part in [
        &*command,
        "variable: NODE_OPTIONS=--require=./first.js",
        "variable: TOKEN=(hidden)",
        "folder: /srv",
    ] {
        assert!(asked.stdout.contains(part), "{}", asked.stdout);
    }
    assert!(!asked.stdout.contains("canary"), "{}", asked.stdout);
    assert_eq!(listed(&place)["untrusted"]["services"], json!(["parrot"]));

    let file = json!({"mcpServers": {"parrot": {"command": server[0], "args": [server[1]]}}});
    place.write(".mcp.json", &file.to_string());
    let trusted = mcp(&place, &["trust", "--yes"]).with_code(0).stdout;
    assert!(
        trusted.contains("is trusted") && trusted.contains("mcp__parrot__echo"),
        "{trusted}"
    );
    let service = &listed(&place)["services"][0];
    assert_eq!(
        (&service["name"], &service["origin"]["kind"]),
        (&json!("parrot"), &json!("project"))
    );
    assert_eq!(listed(&place)["untrusted"], Value::Null);

    place.write(".mcp.json", &format!("{file}\n"));
    let list = mcp(&place, &["list"]).with_code(0).stdout;
    assert!(list.contains("changed since you trusted it"), "{list}");
    assert_eq!(listed(&place)["services"], json!([]));
}

#[test]
fn mcp_1_each_service_of_an_import_that_cannot_start_is_reported() {
    const COUNT: usize = 24;
    let place = Place::new();
    let server = server(&["fails"]);
    let broken = |number| {
        let settings = json!({"command": server[0], "args": server[1..]});
        (format!("broken{number}"), settings)
    };
    let services: serde_json::Map<String, Value> = (0..COUNT).map(broken).collect();
    place.write("many.json", &json!({"mcpServers": services}).to_string());
    let imported = mcp(&place, &["import", "work/many.json"]).with_code(1);
    let reports = imported.stderr.matches("is saved, but cannot be started").count();
    assert_eq!(reports, COUNT, "{imported}");
}

#[test]
fn mcp_1_list_says_why_runs_do_not_use_a_service_and_what_to_do() {
    let place = Place::new();
    succeeds(add(&place, "idle", &[], &[]));
    succeeds(mcp(&place, &["stop", "idle"]));
    succeeds(add(&place, "off", &[], &[]));
    succeeds(mcp(&place, &["update", "off", "--enabled", "false"]));
    let _ = add(&place, "broken", &[], &["fails"]).with_code(1);
    place.write(
        ".mcp.json",
        &json!({"mcpServers": {"parrot": {"command": "parrot"}}}).to_string(),
    );
    let list = mcp(&place, &["list"]).with_code(0).stdout;
    for part in [
        "you have stopped it: dirigent mcp start idle",
        "its settings disable it: dirigent mcp update off --enabled true",
        "dirigent mcp logs broken, then dirigent mcp start broken",
        "not trusted yet, so it is not used: read it, then dirigent mcp trust",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let shown = mcp(&place, &["show", "idle"]).with_code(0).stdout;
    assert!(shown.contains("you have stopped it"), "{shown}");
}

#[test]
fn mcp_2_the_mark_of_changed_tools_goes_away_when_the_user_has_seen_them() {
    let place = Place::new();
    let source = fs::read_to_string(root().join("crates/mcp/tests/server.py")).unwrap();
    place.write("server.py", &source);
    let script = place.folder().join("work/server.py").display().to_string();
    succeeds(mcp(&place, &["add", "echo", "--", "/usr/bin/python3", &script]));
    place.write("server.py", &source.replace("Does ", "Now does "));
    succeeds(mcp(&place, &["start", "echo"]));
    let list = mcp(&place, &["list"]).with_code(0).stdout;
    assert!(
        list.contains("some changed") && list.contains("dirigent mcp show echo"),
        "{list}"
    );
    let shown = mcp(&place, &["show", "echo"]).with_code(0);
    assert!(shown.stdout.contains("check what it does now"), "{shown}");
    let again = mcp(&place, &["show", "echo"]).with_code(0);
    assert!(!again.stdout.contains("changed"), "{again}");
    assert!(again.stdout.contains("Now does echo"), "{again}");
}

#[test]
fn mcp_2_config_check_and_prompts_know_the_services_of_the_journal_that_the_option_names() {
    let place = Place::new();
    let server = server(&[]);
    // The place's journal is not the default one.
    let with_journal = |arguments: &[&str]| place.dirigent(arguments);
    let _ = with_journal(&["mcp", "add", "echo", "--", &server[0], &server[1]]).with_code(0);
    let agent =
        "---\nname: parrot\ndescription: Repeats words\ntools: [mcp__echo__echo]\n---\nYou are a parrot.\n";
    let folder = place.folder().join("home/.config/dirigent/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("parrot.md"), agent).unwrap();
    let checked = with_journal(&["config", "check", "--offline"]).with_code(0);
    assert!(
        !checked.stdout.contains("mcp__echo__echo"),
        "no complaint: {checked}"
    );
    let shown = with_journal(&[
        "prompts",
        "show",
        "--agent",
        "parrot",
        "--workspace",
        "work",
        "--json",
    ])
    .with_code(0);
    assert!(shown.stdout.contains("mcp__echo__echo"), "{shown}");
    assert!(shown.stdout.contains("Does echo"), "{shown}");
}

#[test]
fn mcp_1_help_says_when_services_run() {
    let help = Place::new().dirigent(["mcp", "--help"]).with_code(0).stdout;
    insta::assert_snapshot!(help);
}

#[test]
fn mcp_1_config_check_lists_the_services_without_values_of_their_variables() {
    let place = Place::new();
    let server = server(&[]);
    let settings = format!(
        "[mcp.memory]\ncommand = {:?}\nargs = [{:?}]\nenabled = false\nenv = {{ MEMORY_FILE = \"canary\" }}\n",
        server[0], server[1]
    );
    let config = place.folder().join("services.toml");
    std::fs::write(&config, settings).unwrap();
    let check = |place: &Place| {
        let config = config.to_str().unwrap();
        let checked = place.dirigent(["--config", config, "config", "check", "--offline"]);
        let text = checked.with_code(0).stdout;
        let (_, services) = text.split_once("MCP services\n").unwrap();
        services.split("\n\n").next().unwrap().to_owned()
    };
    let expected = format!(
        "  memory\n    command     {}\n    from        the configuration\n    variables   MEMORY_FILE\n    enabled     no\n    \
         trust       each call asks, unless a rule allows it",
        server.join(" ")
    );
    assert_eq!(check(&place).trim_end(), expected, "without a journal");
    succeeds(add(&place, "parrot", &[], &[]));
    let listed = check(&place);
    assert!(
        listed.contains(&expected) && listed.contains("  parrot\n"),
        "{listed}"
    );
    assert!(!listed.contains("canary"), "{listed}");
}
