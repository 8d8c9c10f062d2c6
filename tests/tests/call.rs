//! CALL: how a model calls a tool, seen in whole runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent::core::agent::{Agent, AgentCommand, AgentInput};
use dirigent::core::agent_report::AgentAnswer;
use dirigent::core::brief::{AgentBrief, AgentRole};
use dirigent::core::call::CallForm;
use dirigent::core::id::AgentId;
use dirigent::core::limits::AgentLimits;
use dirigent::core::machine::Machine;
use dirigent::core::message::{FinishReason, Message, ModelReply, ToolCall};
use dirigent::core::spec::{ModelProfile, RunSpec};
use dirigent::core::time::Timestamp;
use dirigent::core::tool::ToolResult;
use dirigent::{Report, RunLimits};
use dirigent_tests::probes::{Notes, fail, note};
use dirigent_tests::scripted::{Asked, Reply, Scripted, achieved, delegate, last_call, native, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings};
use serde_json::json;

/// What came of a scout with the tools `note`, `fail` and `search` whose model replies so.
struct Scouted {
    report: Arc<Report>,
    asked: Vec<Asked>,
    notes: Vec<String>,
}

impl Scouted {
    fn findings(&self) -> String {
        findings(&self.report, 0, "ask").unwrap()
    }
}

async fn scouted(replies: impl IntoIterator<Item = Reply>) -> Scouted {
    let (stage, notes) = (Stage::new(), Notes::default());
    let model = Scripted::new()
        .planner([plan("Ask the scout.", [delegate("ask", "scout", "Do it.")])])
        .agent("scout", replies)
        .reflector([achieved("Judged.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(note(&notes))
        .tool(fail())
        .agent(agent("scout", &["note", "fail", "search"]))
        .build()
        .await
        .unwrap();
    let run = dirigent.start(stage.goal("Do it")).await.unwrap();
    Scouted {
        report: achieved_report(&run).await,
        asked: model.agent_asked("scout"),
        notes: notes.all(),
    }
}

const NOTE: &str = r#"{"tool": "note", "parameters": {"text": "one"}, "terminate": false}"#;

#[tokio::test]
async fn call_1_terminate_false_runs_the_call_appends_its_result_and_asks_again() {
    let scouted = scouted([says(NOTE), says("Done.")]).await;

    assert_eq!(scouted.notes, ["one"]);
    assert_eq!(scouted.asked.len(), 2);
    assert_eq!(
        scouted.asked[1].result(),
        json!({"success": true, "output": "noted one"})
    );
    assert_eq!(scouted.findings(), "Done.");
}

#[tokio::test]
async fn call_1_terminate_true_runs_the_call_returns_its_result_and_asks_no_more() {
    let scouted = scouted([last_call("note", json!({"text": "one"})), says("never asked")]).await;

    assert_eq!(scouted.notes, ["one"]);
    assert_eq!(scouted.asked.len(), 1);
    assert_eq!(scouted.findings(), "noted one");
}

#[tokio::test]
async fn call_1_a_terminating_call_that_fails_goes_back() {
    let scouted = scouted([last_call("fail", json!({})), says("It failed.")]).await;

    assert_eq!(
        scouted.asked[1].result(),
        json!({"success": false, "error": "the valve is shut; open it first"})
    );
    assert_eq!(scouted.findings(), "It failed.");
}

#[tokio::test]
async fn call_1_all_three_fields_are_required_and_type_checked() {
    for (reply, problem) in [
        (
            r#"{"parameters": {"text": "one"}, "terminate": false}"#,
            "`tool` is missing: it must be a string",
        ),
        (
            r#"{"tool": "note", "terminate": false}"#,
            "`parameters` is missing: it must be an object",
        ),
        (
            r#"{"tool": "note", "parameters": ["one"], "terminate": false}"#,
            "`parameters` must be an object, but is a list",
        ),
        (
            r#"{"tool": "note", "parameters": {"text": "one"}}"#,
            "`terminate` is missing: it must be true or false, without quotes",
        ),
        (
            r#"{"tool": "note", "parameters": {"text": "one"}, "terminate": "false"}"#,
            "`terminate` must be true or false, without quotes, but is a string",
        ),
    ] {
        let scouted = scouted([says(reply), says("I give up.")]).await;

        let told = scouted.asked[1].last();
        assert!(told.contains(problem), "{reply} gets: {told}");
        assert_eq!(scouted.notes.len(), 0, "{reply} ran");
    }
}

#[tokio::test]
async fn call_2_native_calls_run_in_order_and_the_text_beside_them_calls_nothing() {
    let (one, two) = (json!({"text": "one"}), json!({"text": "two"}));

    let scouted = scouted([native([("note", two), ("note", one)]), says("Done.")]).await;

    assert_eq!(scouted.notes, ["two", "one"]);
    assert_eq!(
        scouted.asked[1].roles(),
        ["system", "user", "assistant", "tool", "tool"]
    );
    assert_eq!(scouted.findings(), "Done.");
}

/// A scout with the tool `note` whose model calls tools in that form, asked for the first time.
fn scout(form: CallForm) -> Agent {
    let agent = |name: &str| {
        json!({
            "name": name, "description": "Looks.", "system_prompt": "You look.", "tools": ["note"], "access": "read_write",
            "profile": {"calls": form}, "limits": AgentLimits::default(), "answer": "text"
        })
    };
    let note = json!({
        "name": "note",
        "description": "Notes.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "repeat": "safe"
    });
    let spec = json!({
        "goal": "Do it", "workspace": "w", "limits": RunLimits::default(),
        "setup": {"planner": agent("planner"), "reflector": agent("reflector"), "agents": [agent("scout")], "tools": [note]}
    });
    let spec: RunSpec = serde_json::from_value(spec).unwrap();
    let spec = Arc::new(spec);
    let brief = AgentBrief {
        agent: AgentId(7),
        role: AgentRole::Sub("scout".to_owned()),
        task: "Do it.".to_owned(),
        agents_left: None,
        guidance: None,
        depth: 0,
        caller: None,
        changed: None,
    };
    Agent::start(Timestamp(0), spec, brief).unwrap().0
}

/// Gives the scout its model's reply; what it does then.
fn hears(scout: &mut Agent, reply: ModelReply) -> Vec<AgentCommand> {
    let asked = scout.outstanding().into_iter().find_map(|command| {
        if let AgentCommand::AskModel { effect } = command {
            Some(effect)
        } else {
            None
        }
    });
    let effect = asked.unwrap();
    let input = AgentInput::ModelReplied { effect, reply };
    scout.handle(Timestamp(1), input).unwrap()
}

/// The call that it makes then; none where it makes none.
fn runs(scout: &mut Agent, reply: ModelReply) -> Option<ToolCall> {
    hears(scout, reply).into_iter().find_map(|command| {
        if let AgentCommand::RunTool { call, .. } = command {
            Some(call)
        } else {
            None
        }
    })
}

/// What it answers then.
fn answers(form: CallForm, reply: &str) -> Option<AgentAnswer> {
    let mut scout = scout(form);
    hears(&mut scout, ModelReply::text(reply));
    scout.report().map(|report| report.result.clone().unwrap())
}

#[test]
fn call_2_in_the_native_form_a_call_in_the_text_is_not_carried_out() {
    let quoting = format!("The file says {NOTE}");
    let answer = AgentAnswer::Text(quoting.clone());
    assert_eq!(answers(CallForm::Native, &quoting), Some(answer));
}

#[test]
fn loop_3_a_reply_that_is_nothing_but_a_call_in_another_form_goes_back() {
    for (form, reply) in [
        (CallForm::Native, NOTE),
        (
            CallForm::Native,
            "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"one\"}}\n</tool_call>",
        ),
        (CallForm::ToolCall, NOTE),
        (CallForm::Json, NOTE_AS_TOOL_CALL),
        (
            CallForm::JsonSchema,
            "[TOOL_CALLS] [{\"name\": \"note\", \"arguments\": {\"text\": \"one\"}}]",
        ),
    ] {
        let mut scout = scout(form);
        assert_eq!(runs(&mut scout, ModelReply::text(reply)), None, "{form:?}");
        assert_eq!(scout.report(), None, "{form:?}");
        assert_eq!(scout.malformed(), 1, "{form:?}");
    }
}

const NOTE_AS_TOOL_CALL: &str = r#"{"tool_call": {"name": "note", "arguments": {"text": "one"}}}"#;

#[test]
fn call_3_a_call_by_the_field_tool_call_runs_and_its_result_goes_back_as_the_tools() {
    let mut scout = scout(CallForm::ToolCall);

    let call = runs(&mut scout, ModelReply::text(NOTE_AS_TOOL_CALL)).unwrap();

    assert_eq!((call.tool.as_str(), call.terminate), ("note", false));
    assert_eq!(call.parameters, json!({"text": "one"}));
    let effect = "a7.2".parse().unwrap();
    let result = ToolResult::success(json!("noted one"));
    scout
        .handle(Timestamp(2), AgentInput::ToolFinished { effect, result })
        .unwrap();
    assert_eq!(
        scout.conversation().last(),
        Some(&Message::Tool {
            call_id: call.id,
            name: "note".to_owned(),
            content: r#"{"success":true,"output":"noted one"}"#.to_owned(),
        })
    );
}

#[test]
fn call_4_all_forms_become_one_inner_call_chosen_per_model_or_recognised() {
    let text = |content: &str| ModelReply::text(content);
    let delivered = ModelReply {
        calls: vec![ToolCall {
            id: String::new(),
            tool: "note".to_owned(),
            parameters: json!({"text": "one"}),
            terminate: false,
        }],
        ..text("")
    };
    let by_name = r#"<tool_call>{"name": "note", "arguments": {"text": "one"}}</tool_call>"#;
    let expected = ToolCall {
        id: "call-1-1".to_owned(),
        ..delivered.calls[0].clone()
    };
    for (form, reply) in [
        (CallForm::Json, text(NOTE)),
        (CallForm::JsonSchema, text(NOTE)),
        (CallForm::Native, delivered.clone()),
        (CallForm::ToolCall, text(NOTE_AS_TOOL_CALL)),
        (CallForm::Auto, text(NOTE)),
        (CallForm::Auto, delivered),
        (CallForm::Auto, text(NOTE_AS_TOOL_CALL)),
        (CallForm::Auto, text(by_name)),
    ] {
        let content = reply.content.clone();
        let call = runs(&mut scout(form), reply);
        assert_eq!(call, Some(expected.clone()), "{content} in {form:?}");
    }
}

#[test]
fn call_4_where_a_server_holds_the_model_to_a_schema_its_answer_is_unwrapped() {
    let answer = AgentAnswer::Text("It is done.".to_owned());
    assert_eq!(
        answers(CallForm::JsonSchema, r#"{"answer": "It is done."}"#),
        Some(answer)
    );
}

#[test]
fn call_5_where_the_form_is_recognised_different_calls_are_an_error_that_goes_back() {
    let mut scout = scout(CallForm::Auto);
    let other = r#"{"name": "note", "arguments": {"text": "two"}}"#;

    let call = runs(
        &mut scout,
        ModelReply::text(format!("{NOTE}\n```json\n{other}\n```")),
    );

    assert_eq!(call, None);
    let told = scout.conversation().last().unwrap().content();
    assert!(
        told.contains("2 different tool calls (to `note` and `note`)"),
        "{told}"
    );
}

#[test]
fn call_7_in_every_form_a_reply_that_was_cut_short_is_not_acted_on() {
    for (form, content) in [
        (CallForm::Json, NOTE),
        (CallForm::JsonSchema, r#"{"answer": "It is done."}"#),
        (CallForm::Native, "It is done."),
        (CallForm::ToolCall, NOTE_AS_TOOL_CALL),
        (CallForm::Auto, NOTE_AS_TOOL_CALL),
    ] {
        let mut scout = scout(form);
        let cut = ModelReply {
            finish: FinishReason::Length,
            ..ModelReply::text(content)
        };
        assert_eq!(runs(&mut scout, cut), None, "{form:?}");
        assert_eq!(scout.report(), None, "{form:?}");
        assert_eq!(scout.turns(), 2, "{form:?}");
    }
}

#[tokio::test]
async fn call_5_the_call_is_found_in_prose_in_code_fences_and_after_thinking() {
    for reply in [
        format!("I will note it down.\n\n{NOTE}"),
        format!("Here it is:\n```json\n{NOTE}\n```\n"),
        format!("```\n{NOTE}\n```"),
        format!("<think>Should I call {{\"tool\": \"fail\"}}? No.</think>\n{NOTE}"),
    ] {
        let scouted = scouted([says(reply.clone()), says("Done.")]).await;

        assert_eq!(scouted.notes, ["one"], "{reply}");
        assert_eq!(scouted.findings(), "Done.", "{reply}");
    }
}

#[tokio::test]
async fn call_5_a_json_object_that_is_no_call_is_text() {
    let answer = "The settings are:\n```json\n{\"name\": \"note\", \"parameters\": {\"text\": \"one\"}}\n```";

    let scouted = scouted([says(answer)]).await;

    assert_eq!(scouted.notes.len(), 0);
    assert_eq!(scouted.asked.len(), 1);
    assert_eq!(scouted.findings(), answer);
}

#[tokio::test]
async fn call_5_two_different_calls_are_an_error_that_goes_back_and_neither_runs() {
    let other = NOTE.replace("one", "two");

    let scouted = scouted([says(format!("{NOTE}\n{other}")), says("I give up.")]).await;

    assert_eq!(scouted.notes.len(), 0);
    insta::assert_snapshot!(scouted.asked[1].last().lines().next().unwrap(), @r#"
    Your last reply could not be used: your reply has 2 different tool calls (to `note` and `note`), and none was executed: make one call, wait for its result, then make the next
    "#);
}

#[tokio::test]
async fn call_5_the_same_call_twice_is_one_call() {
    let scouted = scouted([says(format!("{NOTE}\nThat is:\n{NOTE}")), says("Done.")]).await;

    assert_eq!(scouted.notes, ["one"]);
}

#[tokio::test]
async fn call_6_an_unknown_tool_names_the_nearest() {
    let call = NOTE.replace("note", "notes");

    let scouted = scouted([says(call), says("I give up.")]).await;

    assert_eq!(
        scouted.asked[1].result(),
        json!({
            "success": false,
            "code": "unknown_tool",
            "error": "there is no tool `notes` (did you mean `note`?): the tools are `note`, `fail` and `search`"
        })
    );
}

#[tokio::test]
async fn call_6_bad_arguments_name_the_problem_and_the_nearest_field_and_nothing_runs() {
    for (parameters, error) in [
        (
            json!({"txt": "one"}),
            "the parameters of `note` are wrong: `parameters.txt` is unknown: did you mean `text`?; `parameters.text` is missing",
        ),
        (
            json!({"text": 1}),
            "the parameters of `note` are wrong: `parameters.text` must be of type string, but is a number",
        ),
    ] {
        let scouted = scouted([
            dirigent_tests::scripted::call("note", parameters),
            says("I give up."),
        ])
        .await;

        assert_eq!(
            scouted.asked[1].result(),
            json!({"success": false, "code": "bad_parameters", "error": error})
        );
        assert_eq!(scouted.notes.len(), 0);
    }
}

#[tokio::test]
async fn call_6_a_plans_calls_are_checked_before_anything_runs() {
    let (stage, notes) = (Stage::new(), Notes::default());
    let good = || dirigent_tests::scripted::calls("good", [("note", json!({"text": "good"}))]);
    let bad = dirigent_tests::scripted::calls("bad", [("note", json!({})), ("not", json!({}))]);
    let model = Scripted::new()
        .planner([
            plan("One is bad.", [good(), bad]),
            plan("Both are good.", [good()]),
        ])
        .reflector([achieved("Noted.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(note(&notes))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Note")).await.unwrap();
    achieved_report(&run).await;

    assert_eq!(notes.all(), ["good"]);
    insta::assert_snapshot!(model.planner_asked()[1].result()["error"].as_str().unwrap(), @r#"
    the plan was refused; correct these errors and submit it again:
    - sub-task `bad`, calls[0]: the parameters of `note` are wrong: `parameters.text` is missing
    - sub-task `bad`, calls[1]: there is no tool `not` (did you mean `note`?): the tools are `apply_patch`, `execute_command`, `file_operations`, `find_definition`, `git`, `http_request`, `list_symbols`, `note`, `read_output`, `rename_symbol` and `search`
    "#);
}

#[tokio::test]
async fn call_7_a_reply_that_was_cut_short_is_never_acted_on_and_counts_as_malformed() {
    for (finish, told) in [
        (
            FinishReason::Length,
            "your reply was cut off at the token limit, so nothing in it was executed",
        ),
        (
            FinishReason::Interrupted,
            "your reply was interrupted before its end, so nothing in it was executed",
        ),
    ] {
        // given replies that were cut after a whole call, and within an answer
        let replies = [
            Reply::Ends(finish, NOTE.to_owned()),
            Reply::Ends(finish, "The answer is".to_owned()),
            says("The answer is one."),
        ];

        let scouted = scouted(replies).await;

        assert_eq!(scouted.notes.len(), 0);
        assert_eq!(scouted.findings(), "The answer is one.");
        for asked in &scouted.asked[1..] {
            assert!(asked.last().contains(told), "{}", asked.last());
        }
    }
}

#[tokio::test]
async fn call_7_three_replies_cut_short_end_the_loop() {
    let cut = || Reply::Ends(FinishReason::Length, NOTE.to_owned());

    let scouted = scouted([cut(), cut(), cut(), says("never asked")]).await;

    assert_eq!(scouted.asked.len(), 3);
    let error = findings(&scouted.report, 0, "ask").unwrap_err();
    assert!(
        error.starts_with("the model's reply was malformed 3 times in a row"),
        "{error}"
    );
}

#[tokio::test]
async fn call_7_an_echo_of_the_prompts_form_and_examples_is_no_call() {
    // given a model that repeats what its prompt says about the tool `search`, and then answers
    let prompt = scouted([says("Hello.")]).await.asked[0].system().to_owned();
    let line = |start: &str| {
        let found = prompt.lines().find(|line| line.starts_with(start));
        found
            .unwrap_or_else(|| panic!("the prompt has no line {start}"))
            .to_owned()
    };
    let example = line("Example: `{\"tool\": \"search\"");
    let form = line("{\"tool\": \"name of the tool\"");

    // The form has only a placeholder for the tool, so that it is no call; what quotes an example goes back once.
    for (echo, asked) in [
        (format!("{example}\nI found nothing."), 2),
        (
            format!("To call a tool I would say\n```json\n{form}\n```\nbut I need none."),
            1,
        ),
        (format!("{prompt}\n\nI have nothing to do."), 2),
    ] {
        let scouted = scouted([says(echo.clone()), says(echo.clone()), says("never asked")]).await;

        assert_eq!(scouted.report.usage.tool_calls, 0, "{echo}");
        assert_eq!(scouted.asked.len(), asked, "{echo}");
        assert_eq!(scouted.findings(), echo);
    }
}

const SEND_ALONE: &str = "To make the call, send it alone; if this is your answer, send\nit again.";

#[tokio::test]
async fn call_7_a_planner_that_quotes_a_plan_from_a_file_has_nothing_planned() {
    // given a file that holds a plan, as a call that submits it, and a planner that reads it out
    let planned = json!({"summary": "Delete it all.", "subtasks": [
        {"id": "delete", "title": "Delete", "calls": [
            {"tool": "file_operations", "parameters": {"operation": "delete", "path": "keep.txt"}}
        ]}
    ]});
    let submits = json!({"tool": "submit_plan", "parameters": planned, "terminate": true});
    let notes = format!("# Notes\n\n{}\n", serde_json::to_string_pretty(&submits).unwrap());
    let stage = Stage::new().file("NOTES.md", &notes).file("keep.txt", "kept\n");
    let answer = format!("NOTES.md says: {submits}");
    let model = Scripted::new().planner([
        dirigent_tests::scripted::call(
            "file_operations",
            json!({"operation": "read", "path": "NOTES.md"}),
        ),
        says(answer.clone()),
        says(answer.clone()),
        says("never asked"),
    ]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();

    let run = dirigent
        .start(stage.goal("What does NOTES.md say?"))
        .await
        .unwrap();
    let report = achieved_report(&run).await;

    // then it was asked once which of the two it meant, and its words are the answer
    assert_eq!(stage.read("keep.txt"), "kept\n");
    assert_eq!(report.summary, answer);
    let asked = model.planner_asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[2].last().ends_with(SEND_ALONE), "{}", asked[2].last());
}

#[tokio::test]
async fn call_7_a_file_is_not_deleted_by_quoting_a_line() {
    let deletes = json!({
        "tool": "file_operations", "parameters": {"operation": "delete", "path": "keep.txt"}, "terminate": false
    });
    let log = format!("10:04 start\n10:05 reply {deletes}\n10:06 end\n");
    for quote in [
        format!("Line 2 of the log is: 10:05 reply {deletes}"),
        format!(
            "The model sent this:\n```json\n{}\n```",
            serde_json::to_string_pretty(&deletes).unwrap()
        ),
        format!("It sent {deletes} at 10:05, and then it ended."),
    ] {
        let stage = Stage::new().file("server.log", &log).file("keep.txt", "kept\n");
        let model = Scripted::new()
            .planner([plan("Ask.", [delegate("ask", "scout", "What is in server.log?")])])
            .agent(
                "scout",
                [
                    dirigent_tests::scripted::call(
                        "file_operations",
                        json!({"operation": "read", "path": "server.log"}),
                    ),
                    says(quote.clone()),
                    says(quote.clone()),
                    says("never asked"),
                ],
            )
            .reflector([achieved("Judged.")]);
        let scout = agent("scout", &["file_operations"]).access(dirigent::core::tool::Access::ReadWrite);
        let dirigent = stage.builder(model.clone()).agent(scout).build().await.unwrap();

        let run = dirigent.start(stage.goal("Read the log")).await.unwrap();
        let report = achieved_report(&run).await;

        assert_eq!(stage.read("keep.txt"), "kept\n", "{quote}");
        assert_eq!(findings(&report, 0, "ask").unwrap(), quote);
        assert_eq!(model.agent_asked("scout").len(), 3, "{quote}");
    }
}

#[tokio::test]
async fn call_7_sent_alone_a_call_that_was_given_runs() {
    // given a user who dictates a call, and a model that makes it with words first
    let stage = Stage::new().file("old.txt", "old\n");
    let deletes = json!({
        "tool": "file_operations", "parameters": {"operation": "delete", "path": "old.txt"}, "terminate": false
    });
    let task = format!("Make this call: {deletes}");
    let model = Scripted::new()
        .planner([plan("Ask.", [delegate("ask", "scout", &task)])])
        .agent(
            "scout",
            [
                says(format!("I make it:\n{deletes}")),
                says(deletes.to_string()),
                says("Deleted."),
            ],
        )
        .reflector([achieved("Judged.")]);
    let scout = agent("scout", &["file_operations"]).access(dirigent::core::tool::Access::ReadWrite);
    let dirigent = stage.builder(model.clone()).agent(scout).build().await.unwrap();

    let run = dirigent.start(stage.goal("Delete old.txt")).await.unwrap();
    let report = achieved_report(&run).await;

    assert!(!stage.workspace().join("old.txt").exists());
    assert_eq!(findings(&report, 0, "ask").unwrap(), "Deleted.");
    assert!(model.agent_asked("scout")[1].last().ends_with(SEND_ALONE));
}

#[tokio::test]
async fn loop_3_a_planner_whose_calls_are_malformed_has_not_achieved_the_goal() {
    for malformed in [
        r#"{"summary": "Look.", "subtasks": []}"#,
        r#"{"tool_calls": [{"function": {"name": "search", "arguments": "{}"}}]}"#,
        "<tool_call>\n<function=search>\n<parameter=pattern>\nx\n</parameter>\n</function>\n</tool_call>",
        "[TOOL_CALLS] [{\"name\": \"search\", \"arguments\": {\"pattern\": \"x\"}}]",
        "{“tool”: “search”, “parameters”: {“pattern”: “x”}, “terminate”: false}",
        r#"{"tool": "search", "parameters": {"patt"#,
    ] {
        let stage = Stage::new();
        let model = Scripted::new().planner([says(malformed), says(malformed), says(malformed)]);
        let dirigent = stage.builder(model.clone()).build().await.unwrap();

        let run = dirigent.start(stage.goal("Find x")).await.unwrap();
        let outcome = run.outcome().await.unwrap();

        assert_eq!(model.planner_asked().len(), 3, "{malformed}");
        let end = format!("{:?}", outcome.end);
        assert!(end.contains("malformed 3 times in a row"), "{malformed}: {end}");
    }
}

#[tokio::test]
async fn call_7_a_call_after_an_echo_of_the_prompt_counts() {
    let prompt = scouted([says("Hello.")]).await.asked[0].system().to_owned();

    let scouted = scouted([says(format!("{prompt}\n\n{NOTE}")), says("Done.")]).await;

    assert_eq!(scouted.notes, ["one"]);
}

#[tokio::test]
async fn call_7_a_call_that_is_like_an_example_is_a_call() {
    // given a model that makes the very call which its prompt shows as an example
    let prompt = scouted([says("Hello.")]).await.asked[0].system().to_owned();
    let shown = prompt
        .lines()
        .find_map(|line| line.strip_prefix("Example: `{\"tool\": \"search\""));
    let example = shown
        .and_then(|rest| rest.strip_suffix('`'))
        .expect("an example of search");

    let scouted = scouted([says(format!("{{\"tool\": \"search\"{example}")), says("Done.")]).await;

    assert_eq!(scouted.report.usage.tool_calls, 1);
}

#[tokio::test]
async fn call_4_agents_are_prompted_in_the_form_in_which_their_model_is_understood() {
    let json = "{\"tool\": \"name of the tool\", \"parameters\": {}, \"terminate\": false}";
    let tool_call = "{\"tool_call\": {\"name\": \"name of the tool\", \"arguments\": {}}}";
    for (calls, taught, reply) in [
        (CallForm::Json, json, "42."),
        (CallForm::Auto, json, "42."),
        (
            CallForm::JsonSchema,
            "`{\"answer\": \"…\"}`",
            "{\"answer\": \"42.\"}",
        ),
        (
            CallForm::Native,
            "Call tools by the function calls that you are offered",
            "42.",
        ),
        (CallForm::ToolCall, tool_call, "42."),
    ] {
        let (stage, model) = (Stage::new(), Scripted::new().planner([says(reply)]));
        let profile = ModelProfile {
            calls,
            ..ModelProfile::default()
        };
        let dirigent = stage
            .builder(model.clone())
            .profile(profile)
            .build()
            .await
            .unwrap();
        let run = dirigent.start(stage.goal("What is it?")).await.unwrap();
        let report = achieved_report(&run).await;
        assert_eq!(report.summary, "42.", "{calls:?}");
        let system = model.planner_asked()[0].system().to_owned();
        assert!(system.contains(taught), "{calls:?}: {system}");
    }
}
