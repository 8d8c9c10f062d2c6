//! PAOR-5: agents delegate parts of their task, and a delegate's failure is a result for its caller (PAOR-7).

use std::sync::Arc;

use dirigent_core::agent::AgentInput;
use dirigent_core::agent_report::AgentFailure;
use dirigent_core::brief::AgentRole;
use dirigent_core::budget::BudgetKind;
use dirigent_core::end_reason::EndReason;
use dirigent_core::journal::Input;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::run::Report;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Repeat, ToolResult};
use dirigent_runtime::{Resume, UserPresence};
use dirigent_tools::ToolRegistry;
use serde_json::json;

use crate::resuming::cut_off;
use crate::script::{
    Asked, Gate, Reply, Scripted, Scriptool, achieved, call, plan, plan_work, say, tools, work,
};
use crate::world::{World, ended, start_up, within};

/// A timeout for calls that never end; nothing else depends on it.
const SOON: Millis = Millis(50);

fn delegate(agent: &str, task: &str) -> Reply {
    call("delegate", json!({"agent": agent, "task": task}))
}

/// A world in which `worker` may delegate to `worker` and `other`; `other` has the same tools but cannot delegate.
async fn delegating(model: Arc<Scripted>, tools: ToolRegistry) -> World {
    let mut world = World::new(model, tools).await;
    let mut other = world.spec.setup.agents[0].clone();
    (other.name, other.system_prompt) = ("other".to_owned(), "other".to_owned());
    world.spec.setup.agents[0].tools.push("delegate".to_owned());
    world.spec.setup.agents.push(other);
    world
}

fn finding(report: &Report) -> &Result<String, AgentFailure> {
    match &report.iterations[0].observations[0].finding {
        SubTaskResult::Agent { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

/// Four workers, each of which delegates to four others, each of which delegates to five more, which try to delegate too: a hundred.
async fn tree(asked: Asked) -> Reply {
    let is = |level| asked.task().contains(level);
    match (asked.who(), asked.turn()) {
        ("lead", _) => plan(
            "four",
            json!([
                work("top 1", &[]),
                work("top 2", &[]),
                work("top 3", &[]),
                work("top 4", &[])
            ]),
        ),
        ("worker", turn) if is("top") && turn < 4 => delegate("worker", &format!("middle {turn}")),
        ("worker", turn) if is("middle") && turn < 5 => delegate("worker", &format!("leaf {turn}")),
        ("worker", 0) if is("leaf") => delegate("worker", "deeper"),
        ("worker", _) if is("leaf") && asked.last().contains("there is no tool `delegate`") => say("a leaf"),
        ("worker", _) if asked.last().contains("a leaf") => say("a leaf"),
        ("worker", _) => say("something else"),
        _ => achieved(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn paor_5_a_hundred_agents_on_three_levels_return_their_findings() {
    let world = delegating(Scripted::new(tree), tools([])).await;

    let handle = world.start(UserPresence::Absent).await;
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    assert_eq!(report.usage.model_calls, 1 + 4 * 5 + 16 * 6 + 80 * 2 + 1);
    for seen in &report.iterations[0].observations {
        match &seen.finding {
            SubTaskResult::Agent { result, .. } => assert_eq!(result.as_deref(), Ok("a leaf")),
            other => panic!("{other:?}"),
        }
    }
    let mut depths = [0; 4];
    for entry in world.entries(handle.id()) {
        if let Input::Agent(AgentInput::Started { brief }) = entry.input
            && brief.role == AgentRole::Sub("worker".to_owned())
        {
            depths[brief.depth as usize] += 1;
        }
    }
    assert_eq!(depths, [0, 4, 16, 80]);
    world.all_tasks_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn host_6_a_hundred_agents_three_deep_have_one_budget() {
    let mut world = delegating(Scripted::new(tree), tools([])).await;
    world.spec.limits.max_model_calls = Some(150);

    let report = world.run().await;

    let exhausted = EndReason::BudgetExhausted {
        budget: BudgetKind::ModelCalls,
        used: 150,
        limit: 150,
    };
    assert_eq!(report.end, Some(exhausted));
    assert_eq!(world.model.asked(), 150);
    world.all_tasks_end().await;
}

#[tokio::test]
async fn paor_5_a_delegate_sees_only_its_task_and_returns_its_findings() {
    let model = Scripted::new(|asked| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan("secret", json!([work("the whole secret", &[])])),
            ("worker", 0) => delegate("other", "count the files"),
            ("other", _) if asked.all().contains("secret") => say("I know too much."),
            ("other", _) if asked.task().contains("count the files") => say("seven files"),
            ("worker", _) if asked.last().contains("seven files") => say("seven"),
            ("worker", _) => say(asked.last()),
            _ => achieved(),
        }
    });
    let world = delegating(model, tools([])).await;

    let report = world.run().await;

    assert_eq!(finding(&report), &Ok("seven".to_owned()));
}

#[derive(Clone, Copy)]
enum Fault {
    Panics,
    Hangs,
    Floods,
    Loops,
}

#[tokio::test]
async fn paor_7_a_delegates_failure_is_a_result_for_its_caller() {
    for (fault, told) in [
        (Fault::Panics, "the model client panicked: broken on purpose"),
        (Fault::Hangs, "reached its time limit of 50 ms"),
        (Fault::Floods, "flood"),
        (Fault::Loops, "reached its limit of 3 model turns"),
    ] {
        let gate = Gate::shut();
        let model = Scripted::gated(&gate, move |asked, gate| async move {
            match (asked.who(), asked.turn()) {
                ("lead", _) => plan_work(),
                ("worker", 0) => delegate("other", "try it"),
                ("worker", _) if asked.last().contains(told) => say("told"),
                ("worker", _) => say(asked.last()),
                ("other", _) => match fault {
                    Fault::Panics => panic!("broken on purpose"),
                    Fault::Hangs => {
                        gate.pass().await;
                        say("too late")
                    }
                    Fault::Floods => say(&"flood ".repeat(200_000)),
                    Fault::Loops => call("none", json!({})),
                },
                _ => achieved(),
            }
        });
        let (none, _) = crate::script::counting("none", Repeat::Safe);
        let mut world = delegating(model, tools([none])).await;
        world.spec.setup.agents[1].limits.max_turns = 3;
        if let Fault::Hangs = fault {
            world.spec.setup.agents[1].limits.timeout = SOON;
        }

        let report = world.run().await;

        assert_eq!(finding(&report), &Ok("told".to_owned()));
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(gate.inside(), 0);
    }
}

#[tokio::test]
async fn paor_5_a_delegate_is_stopped_with_its_caller_and_leaves_nothing_behind() {
    let gate = Gate::shut();
    let tool = Scriptool::waiting("it", Repeat::Safe, &gate);
    let model = Scripted::new(|asked| async move {
        match asked.who() {
            "lead" if asked.task().contains("leave it") => say("As you said."),
            "lead" => plan_work(),
            "worker" => delegate("other", "wait"),
            "other" => call("it", json!({})),
            _ => achieved(),
        }
    });
    let world = delegating(model, tools([tool])).await;

    let handle = world.start(UserPresence::Present).await;
    within(gate.entered()).await;
    handle.guide_now("leave it").unwrap();
    let report = ended(&handle).await.unwrap();

    assert_eq!(finding(&report), &Err(AgentFailure::Redirected));
    assert_eq!(report.summary, "It is done.");
    world.all_tasks_end().await;
    assert_eq!(gate.inside(), 0);
}

/// The worker delegates to two others, one after the other, and counts their findings.
async fn two_delegations(asked: Asked) -> Reply {
    match (asked.who(), asked.turn()) {
        ("lead", _) => plan_work(),
        ("worker", 0) => delegate("other", "look left"),
        ("worker", 1) => delegate("other", "look right"),
        ("worker", _) if asked.all().contains("left is noted") && asked.last().contains("right is noted") => {
            say("both")
        }
        ("other", 0) => call("note", json!({})),
        ("other", _) if asked.task().contains("left") => say("left is noted"),
        ("other", _) => say("right is noted"),
        _ => achieved(),
    }
}

#[tokio::test]
async fn host_2_a_run_with_delegations_interrupted_at_any_entry_repeats_no_request() {
    let note = || {
        let noted = |_, _| std::future::ready(ToolResult::success(json!("noted")));
        tools([Scriptool::new("note", Repeat::Safe, noted)])
    };
    let world = delegating(Scripted::new(two_delegations), note()).await;
    let handle = world.start(UserPresence::Absent).await;
    let whole = ended(&handle).await.unwrap();
    assert_eq!(finding(&whole), &Ok("both".to_owned()));
    let entries = world.entries(handle.id());
    let replies = |entries: &[dirigent_core::journal::Entry]| {
        let inputs = entries.iter().map(|entry| &entry.input);
        let replies = inputs.filter(|input| matches!(input, Input::Agent(AgentInput::ModelReplied { .. })));
        replies.count()
    };

    for cut in 1..=entries.len() {
        let past = &entries[..cut];
        let journal = cut_off(world.folder.path(), handle.id(), past);
        let model = Scripted::new(two_delegations);
        let orchestrator = start_up(&journal, &model, &note()).await;

        let resume = orchestrator.resume(handle.id(), Resume::new());
        let report = ended(&resume.await.unwrap()).await.unwrap();

        assert_eq!(finding(&report), &Ok("both".to_owned()), "cut off after {cut}");
        assert_eq!(report.end, Some(EndReason::GoalAchieved));
        assert_eq!(report.usage, whole.usage, "cut off after {cut}");
        assert_eq!(
            model.asked(),
            replies(&entries) - replies(past),
            "cut off after {cut}"
        );
    }
}

#[tokio::test]
async fn lead_4_a_delegate_that_gives_up_ends_only_the_delegate_and_becomes_the_callers_result() {
    let model = Scripted::new(|asked: Asked| async move {
        match (asked.who(), asked.turn()) {
            ("lead", _) => plan_work(),
            ("worker", 0) => delegate("other", "look"),
            ("worker", _) => say(asked.last()),
            ("other", _) => call("give_up", json!({"reason": "The server is down."})),
            _ => achieved(),
        }
    });
    let mut world = delegating(model, tools([])).await;
    world.spec.setup.agents[1].tools.push("give_up".to_owned());
    let handle = world.start(UserPresence::Absent).await;
    let report = ended(&handle).await.unwrap();

    assert_eq!(report.end, Some(EndReason::GoalAchieved));
    let told = finding(&report).as_ref().unwrap();
    assert!(told.starts_with("Error (agent_failed)"), "{told}");
    assert!(told.contains("the agent gave up: The server is down."), "{told}");
}
