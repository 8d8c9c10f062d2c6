//! Several agents in one workspace (PAOR-5): no agent overwrites another's changes unseen.

use dirigent::{AgentDefinition, EventKind, Resume};
use dirigent_core::tool::Access;
use dirigent_tests::scripted::{Gate, Reply, Scripted, achieved, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings, until, until_free};
use serde_json::{Value, json};

const LIST: &str = "bread\nmilk\n";

fn stage() -> Stage {
    Stage::new().file("list.txt", LIST)
}

fn writer(name: &str, tools: &[&str]) -> AgentDefinition {
    agent(name, tools).access(Access::ReadWrite)
}

fn read() -> Reply {
    file(json!({"operation": "read", "path": "list.txt"}))
}

fn edit(old: &str, new: &str) -> Reply {
    file(json!({"operation": "edit", "path": "list.txt", "old": old, "new": new}))
}

fn file(parameters: Value) -> Reply {
    call("file_operations", parameters)
}

fn is_read(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ToolFinished { tool, success: true, .. } if tool == "file_operations")
}

/// Checks that the request's last message is the refusal, with this current content.
#[track_caller]
fn assert_refused(result: &Value, content: &str) {
    assert_eq!(result["success"], false);
    let error = result["error"].as_str().unwrap();
    assert!(
        error.starts_with("`list.txt` has changed since you last saw it"),
        "{error}"
    );
    let numbered: String = (1..)
        .zip(content.split_inclusive('\n'))
        .map(|(number, line)| format!("{number}\t{line}"))
        .collect();
    let lines = content.lines().count();
    assert_eq!(
        result["output"],
        format!("Lines 1-{lines} of {lines}\n{numbered}")
    );
}

#[tokio::test]
async fn paor_5_the_second_of_two_agents_that_change_a_file_is_refused_and_repeats_it() {
    // given two agents that read the same content, the second of which writes after the first has ended, unaware of its change
    let (stage, both_read, first_ended) = (stage(), Gate::shut(), Gate::shut());
    let as_it_was = json!({"operation": "write", "path": "list.txt", "content": "bread\nwhole milk\n"});
    let model = Scripted::new()
        .lead([plan(
            "Both.",
            [
                delegate("first", "baker", "Be exact about the bread."),
                delegate("second", "farmer", "Be exact about the milk."),
            ],
        )])
        .agent(
            "baker",
            [
                read(),
                edit("bread", "rye bread").behind(&both_read),
                says("Rye bread."),
            ],
        )
        .agent(
            "farmer",
            [
                read(),
                file(as_it_was).behind(&first_ended),
                edit("milk", "whole milk"),
                says("Whole milk."),
            ],
        )
        .reflector([achieved("The list is exact.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(writer("baker", &["file_operations"]))
        .agent(writer("farmer", &["file_operations"]))
        .build()
        .await
        .unwrap();

    // when
    let run = dirigent.start(stage.goal("Make the list exact")).await.unwrap();
    let mut events = run.events(0);
    until(&mut events, is_read).await;
    until(&mut events, is_read).await;
    both_read.open();
    until(&mut events, |kind| {
        matches!(kind, EventKind::SubTaskFinished { .. })
    })
    .await;
    first_ended.open();
    let report = achieved_report(&run).await;

    // then the second agent was told, and neither change is lost
    assert_refused(&model.agent_asked("farmer")[2].result(), "rye bread\nmilk\n");
    assert_eq!(stage.read("list.txt"), "rye bread\nwhole milk\n");
    assert_eq!(findings(&report, 0, "second").unwrap(), "Whole milk.");
    let changed: Vec<&str> = report.changed.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(changed, ["list.txt"]);
}

#[tokio::test]
async fn paor_5_files_changed_by_a_delegate_count_as_unseen_by_its_caller() {
    let stage = stage();
    let model = Scripted::new()
        .lead([plan("Shop.", [delegate("list", "cook", "Make the list exact.")])])
        .agent(
            "cook",
            [
                read(),
                call(
                    "delegate",
                    json!({"agent": "baker", "task": "Be exact about the bread."}),
                ),
                edit("milk", "whole milk"),
                edit("milk", "whole milk"),
                says("Exact."),
            ],
        )
        .agent("baker", [edit("bread", "rye bread"), says("Rye bread.")])
        .reflector([achieved("The list is exact.")]);
    let dirigent = stage
        .builder(model.clone())
        .agent(writer("cook", &["file_operations", "delegate"]))
        .agent(writer("baker", &["file_operations"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Make the list exact")).await.unwrap();
    achieved_report(&run).await;

    assert_refused(&model.agent_asked("cook")[3].result(), "rye bread\nmilk\n");
    assert_eq!(stage.read("list.txt"), "rye bread\nwhole milk\n");
}

#[tokio::test]
async fn paor_5_files_changed_while_no_process_ran_count_as_unseen() {
    // given an agent that has read the list when its process ends
    let stage = stage();
    let model = Scripted::new()
        .lead([plan("Shop.", [delegate("list", "cook", "Make the list exact.")])])
        .agent("cook", [read(), Reply::Never]);
    let builder = |model: &Scripted| {
        stage
            .builder(model.clone())
            .agent(writer("cook", &["file_operations"]))
    };
    let dirigent = builder(&model).build().await.unwrap();
    let run = dirigent.start(stage.goal("Make the list exact")).await.unwrap();
    until(&mut run.events(0), is_read).await;
    drop(dirigent);
    assert!(run.outcome().await.is_err());

    // when a person changes the list, and another process resumes the run
    std::fs::write(stage.workspace().join("list.txt"), "bread\nmilk\neggs\n").unwrap();
    let model = Scripted::new()
        .agent(
            "cook",
            [
                edit("milk", "whole milk"),
                edit("milk", "whole milk"),
                says("Exact."),
            ],
        )
        .reflector([achieved("The list is exact.")]);
    let dirigent = builder(&model).build().await.unwrap();
    until_free(&dirigent, run.id()).await;
    let resumed = dirigent.resume(run.id(), Resume::new()).await.unwrap();
    achieved_report(&resumed).await;

    // then
    assert_refused(&model.agent_asked("cook")[1].result(), "bread\nmilk\neggs\n");
    assert_eq!(stage.read("list.txt"), "bread\nwhole milk\neggs\n");
}
