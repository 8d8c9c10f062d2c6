//! HOST-3: the examples of `docs/service.md`, as they are pasted into a terminal.

use std::fs;
use std::process::Command;

use dirigent_tests::cli::{Place, Watched, binary, ended, root};

/// The commands of the page's `console` blocks, in order. A command goes on over several lines until its quotes are closed.
fn commands(page: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut in_block, mut is_open) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            assert!(!is_open, "a quote is not closed: {commands:?}");
            in_block = line == "```console";
        } else if let (true, false, Some(command)) = (in_block, is_open, line.strip_prefix("$ ")) {
            commands.push(command.to_owned());
            is_open = has_open_quote(command);
        } else if let (true, Some(command)) = (is_open, commands.last_mut()) {
            command.push('\n');
            command.push_str(line);
            is_open = has_open_quote(command);
        }
    }
    commands
}

fn has_open_quote(command: &str) -> bool {
    let mut open = None;
    for character in command
        .chars()
        .filter(|character| ['\'', '"'].contains(character))
    {
        match open {
            None => open = Some(character),
            Some(quote) if quote == character => open = None,
            Some(_) => {}
        }
    }
    open.is_some()
}

/// Runs commands in one shell, which ends with the first one that fails. `curl` fails where the answer is an error.
fn shell(place: &Place, commands: &[String]) -> String {
    let script = format!(
        "set -euo pipefail\ncurl() {{ command curl --fail-with-body --max-time 60 \"$@\"; echo; }}\n{}\n",
        commands.join("\n")
    );
    let mut command = Command::new("bash");
    place.settle(&mut command);
    command.env_remove("XDG_DATA_HOME").args(["-c", &script]);
    ended(&mut command).with_code(0).stdout
}

#[test]
fn host_3_the_examples_work_when_they_are_pasted_in_order_on_a_fresh_machine() {
    let page = fs::read_to_string(root().join("docs/service.md")).unwrap();
    let commands = commands(&page);
    let serve = commands
        .iter()
        .position(|command| command.starts_with("dirigent serve"))
        .unwrap();
    let place = Place::new();
    shell(&place, &commands[..serve]);
    // The same command, on a free port instead of that of the page.
    let project = place.folder().join("home/project");
    assert_eq!(commands[serve], "dirigent serve --workspace ~/project");
    let mut command = Command::new(binary());
    place.settle(&mut command);
    command
        .env_remove("XDG_DATA_HOME")
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--workspace"])
        .arg(project);
    let mut serving = Watched::start(&mut command);
    let announced = serving.wait_for(|line| line["event"] == "listening");
    let url = announced["url"].as_str().unwrap().trim_end_matches('/');
    let client: Vec<String> = commands[serve + 1..]
        .iter()
        .map(|command| command.replace("http://127.0.0.1:7341", url))
        .collect();
    assert!(client.iter().any(|command| command.contains(url)), "{client:?}");
    assert!(client.len() >= 9, "{client:?}");
    let printed = shell(&place, &client);
    serving.kill();
    for expected in [
        "\n2 lines in 1 text file in `notes.txt`.\n",
        "\"state\":\"answered\",\"answer\":\"2 lines in 1 text file in `notes.txt`.\"",
        "\"goal\":\"Count the lines in notes.txt\"",
        "\"object\":\"chat.completion\"",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}
