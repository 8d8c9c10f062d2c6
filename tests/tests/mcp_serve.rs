//! MCP-1 in reverse: another program delegates goals to `dirigent mcp serve` and never decides in the user's place (HOST-3, PAOR-8, PAOR-9, APPROVE-2, APPROVE-3).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use dirigent::config::{Config, Sources};
use dirigent::{ApprovalAnswer, Dirigent, RunState, Steering};
use dirigent_server::Decider;
use dirigent_tests::cli::{Place, binary};
use dirigent_tests::mcp_client::{McpClient, text};
use dirigent_tests::scripted::{Reply, Scripted, achieved, call, says};
use dirigent_tests::stage::{Stage, decision, pass, until_free};
use serde_json::{Value, json};

/// A client that can ask its user.
fn asks() -> Value {
    json!({"elicitation": {}})
}

fn accepted(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn serve(place: &Place, more: &[&str]) -> std::process::Command {
    let mut command = place.command(["mcp", "serve", "--workspace", "work"]);
    command.args(more);
    command
}

/// An orchestrator that asks before files are written.
async fn asking(stage: &Stage, model: &Scripted) -> Dirigent {
    let folder = tempfile::tempdir().unwrap();
    let settings = "[approvals]\nask = [\"file_operations(operation: write)\"]\n";
    std::fs::write(folder.path().join("dirigent.toml"), settings).unwrap();
    let config = Config::load(&Sources::none().folder(folder.path())).unwrap();
    stage
        .builder(model.clone())
        .config(&config)
        .build()
        .await
        .unwrap()
}

/// A lead that writes `a.txt`, which needs approval.
fn writes() -> Scripted {
    let write = json!({"operation": "write", "path": "a.txt", "content": "one\u{202e}\n"});
    Scripted::new()
        .lead([call("file_operations", write), says("Written.")])
        .reflector([achieved("The file is there.")])
}

/// A lead that asks the user for a town.
fn asks_for_a_town() -> Scripted {
    let question = json!({"question": "Which town?", "choices": ["Ulm", "Bonn"]});
    Scripted::new().lead([call("ask_user", question), says("It is decided.")])
}

async fn client(stage: &Stage, model: &Scripted, capabilities: Value) -> (Dirigent, McpClient) {
    let dirigent = asking(stage, model).await;
    let client = McpClient::of(dirigent.clone(), stage, Decider::Person, capabilities).await;
    (dirigent, client)
}

#[tokio::test]
async fn host_3_a_goal_is_delegated_waited_for_and_its_changes_are_read() {
    let place = Place::with_shop();
    let mut client = McpClient::start(serve(&place, &[]), json!({})).await;
    assert_eq!(client.initialized["serverInfo"]["name"], "dirigent");
    assert!(
        client.initialized["instructions"]
            .as_str()
            .unwrap()
            .contains("start_goal")
    );
    let goal = "rename the function parsePrice to readPrice";
    let started = client.call("start_goal", json!({"goal": goal})).await;
    let run = started["structuredContent"]["run"].as_str().unwrap().to_owned();
    assert!(text(&started).contains(&run), "{started}");

    let ended = client.wait(&run).await;
    assert_eq!(ended["state"], "goal_achieved", "{ended}");
    assert!(!ended["changed_files"].as_array().unwrap().is_empty(), "{ended}");

    let status = client.call("run_status", json!({"run": "last"})).await;
    assert_eq!(status["structuredContent"]["summary"], ended["summary"]);
    let diff = client.call("run_diff", json!({"run": run})).await;
    assert!(text(&diff).contains("readPrice"), "{diff}");
    let listed = client
        .call("list_runs", json!({"states": ["goal_achieved", "running"]}))
        .await;
    assert_eq!(listed["structuredContent"]["runs"][0]["run"], run);
    let (status, stderr) = client.end().await;
    assert!(status.success(), "{status} {stderr}");
    assert_eq!(stderr, "");
    // The command line sees the same run.
    assert_eq!(place.dirigent(["runs", "--json"]).json_lines()[0]["run"], run);
}

#[tokio::test]
async fn host_3_each_tool_has_schemas_a_description_and_hints() {
    let stage = Stage::new();
    let (_, mut client) = client(&stage, &Scripted::new(), json!({})).await;
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "start_goal",
            "wait_run",
            "run_status",
            "guide_run",
            "answer_run",
            "cancel_run",
            "list_runs",
            "run_diff"
        ]
    );
    for tool in tools {
        assert!(tool["description"].as_str().unwrap().len() > 20, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
        for parameter in tool["inputSchema"]["properties"].as_object().unwrap().values() {
            assert!(parameter["description"].is_string(), "{parameter}");
        }
    }
    client.close().await;
}

#[tokio::test]
async fn paor_9_the_client_asks_its_user_what_a_run_asks() {
    let stage = Stage::new();
    let (_, mut client) = client(&stage, &asks_for_a_town(), asks()).await;
    client.answers.push_back(accepted(&json!({"choice": "Bonn"})));
    let run = client.start_goal("Choose a town").await;
    let ended = client.wait(&run).await;
    assert_eq!(ended["state"], "goal_achieved", "{ended}");
    let form = &client.asked[0];
    assert_eq!(form["method"], "elicitation/create");
    assert!(
        form["params"]["message"]
            .as_str()
            .unwrap()
            .contains("Which town?"),
        "{form}"
    );
    let choice = &form["params"]["requestedSchema"]["properties"]["choice"];
    assert_eq!(choice["enum"], json!(["Ulm", "Bonn"]));
    client.close().await;
}

#[tokio::test]
async fn paor_9_without_elicitation_the_question_comes_back_and_is_answered_with_a_tool() {
    let stage = Stage::new();
    let (_, mut client) = client(&stage, &asks_for_a_town(), json!({})).await;
    let run = client.start_goal("Choose a town").await;
    let waiting = client.wait(&run).await;
    assert_eq!(waiting["state"], "needs_user", "{waiting}");
    assert_eq!(waiting["questions"][0]["text"], "Which town?");
    assert!(
        waiting["next"].as_str().unwrap().contains("answer_run"),
        "{waiting}"
    );
    let refused = client
        .call("answer_run", json!({"run": run, "answer": "3"}))
        .await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(
        text(&refused).contains("3 is not one of the 2 choices"),
        "{refused}"
    );
    let answered = client
        .call("answer_run", json!({"run": run, "answer": "2"}))
        .await;
    assert_eq!(answered["structuredContent"]["delivery"], "accepted");
    assert_eq!(client.wait(&run).await["state"], "goal_achieved");
    client.close().await;
}

#[tokio::test]
async fn paor_9_a_question_that_the_user_declines_stays_open() {
    let stage = Stage::new();
    let (_, mut client) = client(&stage, &asks_for_a_town(), asks()).await;
    client.answers.push_back(json!({"action": "decline"}));
    let run = client.start_goal("Choose a town").await;
    let waiting = client.wait(&run).await;
    assert_eq!(waiting["state"], "needs_user", "{waiting}");
    assert!(
        waiting["next"].as_str().unwrap().starts_with("The user declined"),
        "{waiting}"
    );
    assert_eq!(waiting["questions"].as_array().unwrap().len(), 1);
    client.close().await;
}

#[tokio::test]
async fn approve_2_the_user_sees_the_whole_call_and_approves_exactly_it() {
    let stage = Stage::new();
    let (_, mut client) = client(&stage, &writes(), asks()).await;
    client
        .answers
        .push_back(accepted(&json!({"decision": "approve"})));
    let run = client.start_goal("Write a.txt").await;
    let ended = client.wait(&run).await;
    assert_eq!(ended["state"], "goal_achieved", "{ended}");
    assert_eq!(stage.read("a.txt"), "one\u{202e}\n");
    let message = client.asked[0]["params"]["message"].as_str().unwrap();
    assert!(message.contains("\"path\": \"a.txt\""), "{message}");
    assert!(
        message.contains("one⟨U+202E⟩"),
        "an invisible character is shown: {message}"
    );
    client.close().await;
}

#[tokio::test]
async fn approve_2_the_user_rejects_or_guides_through_the_client() {
    let stage = Stage::new();
    let (_, mut rejecting) = client(&stage, &writes(), asks()).await;
    let rejection = json!({"decision": "reject", "text": "not here"});
    rejecting.answers.push_back(accepted(&rejection));
    let run = rejecting.start_goal("Write a.txt").await;
    let ended = rejecting.wait(&run).await;
    assert_eq!(ended["state"], "failed", "{ended}");
    assert!(ended["end"].as_str().unwrap().contains("not here"), "{ended}");
    rejecting.close().await;

    let stage = Stage::new();
    let model = writes();
    let (_, mut guiding) = client(&stage, &model, asks()).await;
    let guidance = json!({"decision": "guide", "text": "say it instead"});
    guiding.answers.push_back(accepted(&guidance));
    let run = guiding.start_goal("Write a.txt").await;
    assert_eq!(guiding.wait(&run).await["state"], "goal_achieved");
    assert!(!stage.workspace().join("a.txt").exists());
    assert!(model.lead_asked()[1].last().contains("say it instead"));
    guiding.close().await;
}

#[tokio::test]
async fn approve_3_the_calling_model_decides_nothing() {
    let stage = Stage::new();
    let (dirigent, mut client) = client(&stage, &writes(), json!({})).await;
    let run = client.start_goal("Write a.txt").await;
    let waiting = client.wait(&run).await;
    assert_eq!(waiting["state"], "needs_user", "{waiting}");
    let call = &waiting["approvals"][0];
    assert!(
        waiting["next"]
            .as_str()
            .unwrap()
            .contains("Only the user can decide"),
        "{waiting}"
    );
    let arguments =
        json!({"run": run, "call": call["call"], "digest": call["digest"], "decision": "approve"});
    let refused = client.try_call("decide_call", arguments).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let answer = json!({"run": run, "answer": "approve", "question": call["call"]});
    let refused = client.call("answer_run", answer).await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(!stage.workspace().join("a.txt").exists());

    // The user decides elsewhere.
    let id = run.parse().unwrap();
    let (view, _) = dirigent.read(id).await.unwrap();
    let approval = view.waiting()[0].approval.clone();
    let decision = decision(&approval, ApprovalAnswer::Approve);
    let steering = Steering::Decide {
        effect: approval.effect,
        decision,
    };
    dirigent.steer(id, steering).await.unwrap();
    assert_eq!(client.wait(&run).await["state"], "goal_achieved");
    client.close().await;
}

#[tokio::test]
async fn approve_3_with_allow_decide_the_model_decides_about_exactly_the_call_it_saw() {
    let stage = Stage::new();
    let dirigent = asking(&stage, &writes()).await;
    let mut client = McpClient::of(dirigent, &stage, Decider::Model, asks()).await;
    let run = client.start_goal("Write a.txt").await;
    let waiting = client.wait(&run).await;
    let call = &waiting["approvals"][0];
    let mut decision =
        json!({"run": run, "call": call["call"], "digest": "0".repeat(64), "decision": "approve"});
    let refused = client.call("decide_call", decision.clone()).await;
    assert!(
        text(&refused).contains("has changed since it was shown"),
        "{refused}"
    );
    decision["digest"] = call["digest"].clone();
    decision["decision"] = json!("guide");
    let refused = client.call("decide_call", decision.clone()).await;
    assert!(text(&refused).contains("`guidance` is missing"), "{refused}");
    decision["decision"] = json!("approve");
    client.call("decide_call", decision).await;
    assert_eq!(client.wait(&run).await["state"], "goal_achieved");
    assert!(client.asked.is_empty(), "{:?}", client.asked);
    client.close().await;
}

#[tokio::test]
async fn approve_3_a_form_is_closed_when_somebody_else_has_decided() {
    let stage = Stage::new();
    let (dirigent, mut client) = client(&stage, &writes(), asks()).await;
    let run = client.start_goal("Write a.txt").await;
    let waiting = json!({"name": "wait_run", "arguments": {"run": run, "timeout": 60}});
    let wait = client.begin("tools/call", waiting).await;
    while client.asked.is_empty() {
        client.receive().await.unwrap();
    }
    let id = run.parse().unwrap();
    let (view, _) = dirigent.read(id).await.unwrap();
    let approval = view.waiting()[0].approval.clone();
    let decision = decision(&approval, ApprovalAnswer::Approve);
    let steering = Steering::Decide {
        effect: approval.effect,
        decision,
    };
    dirigent.steer(id, steering).await.unwrap();
    let ended = client.response(wait).await;
    assert_eq!(
        ended["result"]["structuredContent"]["state"], "goal_achieved",
        "{ended}"
    );
    let closed = client
        .notified
        .iter()
        .find(|message| message["method"] == "notifications/cancelled");
    assert_eq!(closed.unwrap()["params"]["requestId"], client.asked[0]["id"]);
    client.close().await;
}

/// A run that has stopped with an open question, because its process has ended.
async fn stopped_with_a_question(stage: &Stage) -> dirigent::RunId {
    let dirigent = stage.builder(asks_for_a_town()).build().await.unwrap();
    let goal = stage.goal("Choose a town").user(dirigent::UserPresence::Present);
    let run = dirigent.start(goal).await.unwrap();
    let mut events = run.events(0);
    dirigent_tests::stage::until(&mut events, |kind| {
        matches!(kind, dirigent::EventKind::QuestionAsked { .. })
    })
    .await;
    dirigent.shutdown().await.unwrap();
    until_free(&dirigent, run.id()).await;
    run.id()
}

#[tokio::test]
async fn paor_9_a_form_about_a_stopped_run_stays_open_with_heartbeats_until_another_process_goes_on() {
    let stage = Stage::new();
    let run = stopped_with_a_question(&stage).await;
    let (_dirigent, mut client) = client(&stage, &Scripted::new(), asks()).await;
    let wait = json!({"name": "wait_run", "arguments": {"run": run, "timeout": 60}, "_meta": {"progressToken": "p"}});
    let wait = client.begin("tools/call", wait).await;
    while client.asked.is_empty() {
        client.receive().await.unwrap();
    }
    // While nothing happens, the client is told only that the call still waits.
    for beats in 1..=2 {
        pass(std::time::Duration::from_secs(11)).await;
        let is_beat = |message: &&Value| message["params"]["message"] == "Still waiting";
        while client.notified.iter().filter(is_beat).count() < beats {
            client.receive().await.unwrap();
        }
    }
    let model = Scripted::new().lead([says("It is decided.")]);
    let other = stage.builder(model).build().await.unwrap();
    other.answer(run, None, "1").await.unwrap();
    let resume = dirigent::Resume::new().user(dirigent::UserPresence::Present);
    other.resume(run, resume).await.unwrap().outcome().await.unwrap();
    let ended = client.response(wait).await;
    let state = &ended["result"]["structuredContent"]["state"];
    assert_eq!(state, "goal_achieved", "{ended}");
    let closed = client
        .notified
        .iter()
        .find(|message| message["method"] == "notifications/cancelled");
    assert_eq!(closed.unwrap()["params"]["requestId"], client.asked[0]["id"]);
    client.close().await;
}

#[tokio::test]
async fn host_3_the_roots_are_learnt_by_the_first_call_that_needs_them_and_when_they_change() {
    let (stage, root, other) = (Stage::new(), Stage::new(), Stage::new());
    let model = Scripted::new().lead([says("One.")]);
    let dirigent = stage.builder(model).build().await.unwrap();
    let run = dirigent.start(root.goal("Say one")).await.unwrap();
    run.outcome().await.unwrap();
    let capabilities = json!({"roots": {"listChanged": true}});
    let mut client = McpClient::of(dirigent, &stage, Decider::Person, capabilities).await;
    let named =
        |stage: &Stage| json!({"roots": [{"uri": format!("file://{}", stage.workspace().display())}]});
    client.answers.push_back(named(&root));
    let status = client.call("run_status", json!({"run": run.id()})).await;
    assert_eq!(status["structuredContent"]["state"], "goal_achieved", "{status}");
    // It is asked once.
    client.call("run_status", json!({"run": run.id()})).await;
    assert_eq!(client.asked.len(), 1, "{:?}", client.asked);

    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    client.send(&changed).await;
    client.answers.push_back(named(&other));
    let refused = client.call("run_status", json!({"run": run.id()})).await;
    assert!(text(&refused).contains("this server is limited to"), "{refused}");
    assert_eq!(client.asked.len(), 2, "{:?}", client.asked);
    client.close().await;
}

/// Versions with `initialize` are negotiated down to the newest that the server has.
#[tokio::test]
async fn host_3_initialize_agrees_on_a_version_that_both_sides_have() {
    let stage = Stage::new();
    let (_dirigent, client) = client(&stage, &Scripted::new(), json!({})).await;
    assert_eq!(client.initialized["protocolVersion"], "2025-06-18");
    client.close().await;
    for (offered, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        // It has no `initialize`, so a client that sends one nevertheless gets the newest version that has it.
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let dirigent = stage.builder(Scripted::new()).build().await.unwrap();
        let client = McpClient::with_version(dirigent, &stage, offered).await;
        assert_eq!(client.initialized["protocolVersion"], agreed, "{offered}");
        client.close().await;
    }
}

#[tokio::test]
async fn paor_8_guidance_reaches_the_run_and_cancelling_the_wait_does_not_end_it() {
    let stage = Stage::new();
    let model = Scripted::new().lead([Reply::Never]);
    let (dirigent, mut client) = client(&stage, &model, json!({})).await;
    let run = client.start_goal("Wait for me").await;
    let waiting = json!({"name": "wait_run", "arguments": {"run": run, "timeout": 600}});
    let wait = client.begin("tools/call", waiting).await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": wait}});
    client.send(&cancelled).await;
    let guided = client
        .call("guide_run", json!({"run": run, "guidance": "Hurry"}))
        .await;
    assert_eq!(guided["structuredContent"]["delivery"], "accepted");
    let status = client.call("run_status", json!({"run": run})).await;
    assert_eq!(status["structuredContent"]["state"], "running");
    let still = client.call("wait_run", json!({"run": run, "timeout": 0})).await;
    assert_eq!(still["structuredContent"]["state"], "running");

    client.call("cancel_run", json!({"run": run})).await;
    assert_eq!(client.wait(&run).await["state"], "cancelled");
    until_free(&dirigent, run.parse().unwrap()).await;
    let refused = client
        .call("guide_run", json!({"run": run, "guidance": "More"}))
        .await;
    assert_eq!(refused["isError"], true, "{refused}");
    client.close().await;
}

#[tokio::test]
async fn host_3_bad_input_is_a_result_that_says_what_to_do() {
    let stage = Stage::new();
    let (_, mut client) = client(&stage, &Scripted::new(), json!({})).await;
    for (tool, arguments, expected) in [
        ("start_goal", json!({}), "missing field `goal`"),
        ("start_goal", json!({"goal": " "}), "the goal is empty"),
        (
            "start_goal",
            json!({"goal": "x", "wrkspace": "/"}),
            "unknown field `wrkspace`",
        ),
        (
            "start_goal",
            json!({"goal": "x", "mode": "fast"}),
            "`mode` is invalid",
        ),
        (
            "start_goal",
            json!({"goal": "x", "limits": {"steps": 1}}),
            "`limits.steps` is invalid",
        ),
        (
            "start_goal",
            json!({"goal": "x", "workspace": "/"}),
            "outside the folders that you may use",
        ),
        (
            "start_goal",
            json!({"goal": "x", "workspace": ".."}),
            "outside the folders that you may use",
        ),
        (
            "start_goal",
            json!({"goal": "x", "workspace": "gone"}),
            "is not a folder",
        ),
        ("wait_run", json!({"run": "0badcafe"}), "no run `0badcafe`"),
        (
            "wait_run",
            json!({"run": "last", "timeout": -1}),
            "`timeout` is invalid",
        ),
        ("answer_run", json!({"run": "last", "answer": "x"}), "no run"),
        ("list_runs", json!({"states": ["good"]}), "is not a state of runs"),
    ] {
        let result = client.call(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        assert!(text(&result).contains(expected), "{tool} {arguments}: {result}");
    }
    let unknown = client.try_call("fly", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    client.close().await;
}

#[tokio::test]
async fn host_3_the_roots_of_the_client_are_its_folders_too_and_runs_elsewhere_are_not_its_business() {
    let (stage, root) = (Stage::new(), Stage::new());
    let model = Scripted::new().lead([says("One."), says("Two.")]);
    let (dirigent, mut client) = client(&stage, &model, json!({"roots": {}})).await;
    let roots = json!({"roots": [{"uri": format!("file://{}", root.workspace().display())}]});
    client.answers.extend([roots.clone(), roots]);
    let goal = json!({"goal": "Say one", "workspace": root.workspace()});
    let started = client.call("start_goal", goal).await;
    let run = started["structuredContent"]["run"].as_str().unwrap().to_owned();
    assert_eq!(client.wait(&run).await["summary"], "One.");
    let elsewhere = Stage::new();
    let refused = client
        .call(
            "start_goal",
            json!({"goal": "x", "workspace": elsewhere.workspace()}),
        )
        .await;
    assert_eq!(refused["isError"], true, "{refused}");

    let other = dirigent.start(elsewhere.goal("Say two")).await.unwrap();
    other.outcome().await.unwrap();
    let refused = client.call("run_status", json!({"run": other.id()})).await;
    assert!(text(&refused).contains("this server is limited to"), "{refused}");
    let listed = client.call("list_runs", json!({})).await;
    assert_eq!(
        listed["structuredContent"]["runs"].as_array().unwrap().len(),
        1,
        "{listed}"
    );
    client.close().await;
}

#[tokio::test]
async fn host_2_at_the_end_of_the_input_runs_stop_and_guidance_resumes_them() {
    let stage = Stage::new();
    let (dirigent, mut first) = client(&stage, &Scripted::new().lead([Reply::Never]), json!({})).await;
    let run = first.start_goal("Say done").await;
    // Before its first journal entry, a run has not begun.
    while first.call("run_status", json!({"run": run})).await["structuredContent"]["phase"] == "idle" {}
    let waiting = json!({"name": "wait_run", "arguments": {"run": run, "timeout": 3600}});
    first.begin("tools/call", waiting).await;
    first.close().await;
    let id = run.parse().unwrap();
    let record = dirigent.record(id).await.unwrap();
    assert_eq!(RunState::from_record(&record), RunState::Interrupted);
    drop(dirigent);

    // The guidance may come before or after the first answer, which is then not the last one.
    let (_, mut second) = client(
        &stage,
        &Scripted::new().lead([says("Done."), says("Done.")]),
        json!({}),
    )
    .await;
    let status = second.wait(&run).await;
    assert_eq!(status["state"], "interrupted", "{status}");
    let guided = second
        .call("guide_run", json!({"run": run, "guidance": "Go on"}))
        .await;
    assert_eq!(guided["structuredContent"]["delivery"], "resumed", "{guided}");
    assert_eq!(second.wait(&run).await["summary"], "Done.");
    second.close().await;
}

#[tokio::test]
async fn host_8_a_signal_ends_the_command_in_order() {
    let place = Place::new();
    let client = McpClient::start(serve(&place, &[]), json!({})).await;
    let pid = rustix::process::Pid::from_raw(client.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (status, stderr) = client.end().await;
    assert!(status.success(), "{status} {stderr}");
}

#[test]
fn host_3_help_says_how_to_add_it_and_without_a_client_it_ends() {
    let place = Place::new();
    let help = place.dirigent(["mcp", "serve", "--help"]).with_code(0);
    assert!(
        help.stdout
            .contains("claude mcp add dirigent -- dirigent mcp serve"),
        "{help}"
    );
    let ended = place
        .dirigent(["mcp", "serve", "--workspace", "work"])
        .with_code(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let refused = place
        .dirigent(["mcp", "serve", "--workspace", "gone"])
        .with_code(2);
    assert!(refused.stderr.contains("name an existing folder"), "{refused}");
}

/// Dirigent as a service of Dirigent.
#[tokio::test]
async fn mcp_3_a_run_delegates_a_goal_to_another_dirigent() {
    let (stage, inner) = (Stage::new(), Place::new());
    inner.write("notes.txt", "one\ntwo\n");
    let args = |path: &Path| path.to_str().unwrap().to_owned();
    let command = [
        "--db".to_owned(),
        args(&inner.db()),
        "mcp".to_owned(),
        "serve".to_owned(),
        "--workspace".to_owned(),
        args(&inner.work()),
        "--model".to_owned(),
        "offline".to_owned(),
    ];
    let settings = format!(
        "[mcp.nested]\ncommand = {:?}\nargs = {command:?}\ntrust = true\n[approvals]\nallow = [\"mcp__*\"]\n",
        binary()
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dirigent.toml"), settings).unwrap();
    let config = Config::load(&Sources::none().folder(folder.path())).unwrap();
    let tool = |name: &str, arguments: Value| {
        call(
            "call_tool",
            json!({"name": format!("mcp__nested__{name}"), "arguments": arguments}),
        )
    };
    let model = Scripted::new()
        .lead([
            tool("start_goal", json!({"goal": "Count the lines in notes.txt"})),
            tool("wait_run", json!({"run": "last"})),
            says("It has counted."),
        ])
        .reflector([achieved("It has counted.")]);
    let dirigent = stage
        .builder(model.clone())
        .config(&config)
        .build()
        .await
        .unwrap();
    let run = dirigent
        .start(stage.goal("Use the nested tool to count lines"))
        .await
        .unwrap();
    run.outcome().await.unwrap();
    let waited = model.lead_asked()[2].result()["output"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(waited.contains("2 lines"), "{waited}");
    dirigent.shutdown().await.unwrap();
}
