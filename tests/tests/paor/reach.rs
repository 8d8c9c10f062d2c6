//! PAOR-5, PAOR-6: which results of other agents an agent can read, in the same iteration and in later ones, and what it is not offered.

use dirigent_core::tool::ModelToolResult;
use dirigent_model_server::{Request, Script, ToolCall, Turn};
use dirigent_tests::approving::RUN;
use dirigent_tests::scripted::{calls, delegate};
use dirigent_tests::served::{Served, achieved, call, command, go_on, is_lead, is_reflector, mentions, plan};
use serde_json::{Value, json};

/// The output in the last message of a request, which is a tool's result.
fn output(request: &Request) -> String {
    let last = request.messages().last().unwrap().clone();
    let content = last["content"].as_str().unwrap().to_owned();
    let result = ModelToolResult::from_text(content.split_once(":\n").unwrap().1);
    result.output.unwrap().as_str().unwrap().to_owned()
}

fn look() -> Value {
    calls("look", [("search", json!({"pattern": "x"}))])
}

#[test]
fn paor_6_findings_of_two_iterations_ago_can_be_read_completely_by_their_handle() {
    let found = format!(
        "Found it in the first iteration. {}THE END OF IT",
        "And more.\n".repeat(200)
    );
    let said = found.clone();
    let script = Script::from_fn(move |request| match () {
        () if is_lead(request) && mentions(request, "<ITERATION>3 of") => {
            plan("Third.", [delegate("third", "explore", "Read a2.")])
        }
        () if is_lead(request) && mentions(request, "<ITERATION>2 of") => plan("Second.", [look()]),
        () if is_lead(request) => plan("First.", [delegate("first", "explore", "Look around.")]),
        () if is_reflector(request) && mentions(request, "<ITERATION>3 of") => {
            achieved("The judgement is in.")
        }
        () if is_reflector(request) => go_on("Not yet."),
        () if mentions(request, "Look around.") => Turn::text(said.clone()),
        () => match request.turn {
            1 => call("read_output", &json!({"handle": "a2", "start_line": 200})),
            2 => call(
                "read_output",
                &json!({"handle": "iteration.1", "pattern": "THE END"}),
            ),
            _ => Turn::text("Read."),
        },
    });
    let served = Served::new("", script);
    let _ = served.place.dirigent(RUN).with_code(0);
    let requests = served.requests();
    let reader: Vec<_> = requests
        .iter()
        .filter(|request| mentions(request, "Read a2.") && request.turn > 1)
        .collect();
    let reader: Vec<_> = reader
        .into_iter()
        .filter(|request| !is_lead(request) && !is_reflector(request))
        .collect();
    let whole = output(reader[0]);
    let total = found.lines().count();
    assert!(
        whole.starts_with(&format!("Lines 200-{total} of {total}\n")),
        "{whole}"
    );
    assert!(whole.ends_with("\n\nAnd more.\nTHE END OF IT\n"), "{whole}");
    let matched = output(reader[1]);
    assert!(matched.starts_with("1 of "), "{matched}");
}

#[test]
fn paor_6_the_parameters_of_a_call_can_be_read_by_their_handle() {
    let script = Script::from_fn(|request| match () {
        () if is_lead(request) => plan("Count.", [delegate("one", "implement", "Count.")]),
        () if is_reflector(request) => achieved("The judgement is in."),
        () => match request.turn {
            1 => command(&["seq", "1", "3"]),
            2 => call("read_output", &json!({"handle": "a2.2.parameters"})),
            _ => Turn::text("Counted."),
        },
    });
    let served = Served::new("", script);
    let _ = served.place.dirigent(RUN).with_code(0);
    let requests = served.requests();
    let mut readers = requests
        .iter()
        .filter(|request| !is_lead(request) && !is_reflector(request));
    let parameters = output(readers.find(|request| request.turn == 3).unwrap());
    assert!(parameters.contains("seq"), "{parameters}");
}

#[test]
fn paor_6_read_output_counts_the_lines_of_what_a_command_printed() {
    let script = Script::from_fn(|request| match () {
        () if is_lead(request) => plan("Count.", [delegate("one", "implement", "Count.")]),
        () if is_reflector(request) => achieved("The judgement is in."),
        () => match request.turn {
            1 => command(&["seq", "1", "9000"]),
            2 => call(
                "read_output",
                &json!({"handle": "a2.2", "start_line": 4000, "end_line": 4002}),
            ),
            3 => call("read_output", &json!({"handle": "a2.2", "pattern": "^8888$"})),
            _ => Turn::text("Counted."),
        },
    });
    let served = Served::new("", script);
    let _ = served.place.dirigent(RUN).with_code(0);
    let requests = served.requests();
    let agents: Vec<_> = requests
        .iter()
        .filter(|request| !is_lead(request) && !is_reflector(request))
        .collect();
    assert!(
        output(agents[1]).contains("characters left out: read them with read_output, handle a2.2] …\n"),
        "{}",
        output(agents[1])
    );
    assert_eq!(output(agents[2]), "Lines 4000-4002 of 9000\n\n4000\n4001\n4002\n");
    assert_eq!(output(agents[3]), "1 of 9000 lines match\n\n8888:8888");
}

#[test]
fn paor_5_delegation_is_offered_only_if_the_maximum_depth_allows_it() {
    let boss =
        "---\nname: boss\ndescription: Has others work.\ntools: [search, delegate]\n---\nYou are the boss.\n";
    for form in ["json", "native"] {
        for (depth, offered) in [(1, false), (2, true)] {
            let submit = move |tool: &str, parameters: Value| match form {
                "native" => Turn::calls([ToolCall::new(tool, &parameters)]),
                _ => {
                    Turn::text(json!({"tool": tool, "parameters": parameters, "terminate": true}).to_string())
                }
            };
            let script = Script::from_fn(move |request| match () {
                () if mentions(request, "You are the boss.") => Turn::text("Done."),
                () if mentions(request, "You judge whether") => submit(
                    "submit_reflection",
                    json!({"verdict": "achieved", "summary": "Done."}),
                ),
                () => submit(
                    "submit_plan",
                    json!({"summary": "Do it.", "subtasks": [delegate("one", "boss", "Do it.")]}),
                ),
            });
            let settings = format!("[limits]\nmax_depth = {depth}\n");
            let served = Served::new(&settings, script);
            let file = served.place.folder().join("home/.config/dirigent/dirigent.toml");
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(
                &file,
                text.replace("calls = \"json\"", &format!("calls = \"{form}\"")),
            )
            .unwrap();
            let agents = served.place.folder().join("home/.config/dirigent/agents");
            std::fs::create_dir_all(&agents).unwrap();
            std::fs::write(agents.join("boss.md"), boss).unwrap();
            let _ = served.place.dirigent(RUN).with_code(0);
            let requests = served.requests();
            let asked = requests
                .iter()
                .find(|request| mentions(request, "You are the boss."))
                .unwrap();
            assert_eq!(
                asked.body.to_string().contains("Assigns a part of your task"),
                offered,
                "{form}, {depth}"
            );
            assert_eq!(
                asked.body.to_string().contains("delegate"),
                offered,
                "{form}, {depth}"
            );
            // Nor is the lead told that an agent may delegate.
            assert_eq!(
                requests[0].body.to_string().contains("; may delegate"),
                offered,
                "{form}, {depth}"
            );
        }
    }
}
