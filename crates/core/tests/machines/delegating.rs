//! Agents that delegate (PAOR-5).

use std::sync::Arc;

use dirigent_core::agent::{Agent, AgentInput, AgentTimer};
use dirigent_core::agent_report::{AgentAnswer, AgentFailure, AgentReport, AgentWork, CallSummary};
use dirigent_core::approval::{ApprovalAnswer, Decision};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::confirmation::Outdated;
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::AgentId;
use dirigent_core::machine::Machine;
use dirigent_core::observation::SubTaskResult;
use dirigent_core::recording::{Difference, Part, Recording, replay};
use dirigent_core::run::{Run, RunInput};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use dirigent_core::tool::{Access, StateChange, ToolResult};
use dirigent_core::user_request::UserRequestKind;
use serde_json::{Value, json};

use crate::driver::{acting, agent_ended, answered, brief_of, give, refused};
use crate::fixture::{
    agent_outline, agent_resumed, at, effect, replied, resumed, says_call, spec, started, tool_ended, usage,
};
use crate::journaled::{Journaled, RUN};

/// `implement` may delegate; `explore` is read-only.
fn delegating() -> RunSpec {
    let mut spec = spec();
    spec.setup.agents[0].access = Access::ReadOnly;
    spec.setup.agents[1].tools.push("delegate".to_owned());
    spec
}

fn implement() -> Agent {
    started(delegating(), AgentRole::Sub("implement".to_owned()))
}

fn says_delegate(agent: &str) -> dirigent_core::message::ModelReply {
    says_call("delegate", json!({"agent": agent, "task": "Find `a`."}), false)
}

fn gives(agent: &mut Agent, input: AgentInput) -> Vec<String> {
    agent_outline(&agent.handle(at(10), input).unwrap())
}

#[test]
fn paor_5_an_agent_is_offered_only_agents_to_which_it_may_delegate() {
    let agent = implement();
    let offered = agent.offered();
    let tool = offered.last().unwrap();
    assert_eq!(tool.name, "delegate");
    assert_eq!(
        tool.parameters["properties"]["agent"]["enum"],
        json!(["explore", "implement"])
    );
    insta::assert_snapshot!(tool.description);
}

#[test]
fn paor_5_an_agent_cannot_delegate_to_an_agent_with_more_access() {
    let mut spec = delegating();
    spec.setup.agents[0].tools.push("delegate".to_owned());
    let agent = started(spec, AgentRole::Sub("explore".to_owned()));
    let offered = agent.offered();
    assert_eq!(
        offered.last().unwrap().parameters["properties"]["agent"]["enum"],
        json!(["explore"])
    );
}

#[test]
fn paor_5_an_agent_at_the_maximum_depth_is_offered_no_delegation() {
    let mut spec = delegating();
    spec.limits.max_depth = 2;
    spec.setup.agents[1].deepest_prompt = Some("You work alone.".to_owned());
    let spec = Arc::new(spec);
    for (depth, offers, prompt) in [(1, true, "You are the implement."), (2, false, "You work alone.")] {
        let brief = AgentBrief {
            agent: AgentId(7),
            role: AgentRole::Sub("implement".to_owned()),
            task: "Do it.".to_owned(),
            agents_left: None,
            guidance: None,
            depth,
            caller: None,
        };
        let (mut agent, _) = Agent::start(at(0), spec.clone(), brief).unwrap();
        assert_eq!(agent.offered().iter().any(|tool| tool.name == "delegate"), offers);
        assert_eq!(agent.conversation()[0].content(), prompt);
        let commands = gives(&mut agent, replied("a7.1", says_delegate("explore")));
        let told = agent.conversation().last().unwrap().content();
        if offers {
            assert_eq!(commands, ["delegate a7.2 to explore: Find `a`."]);
        } else {
            assert_eq!(commands, ["ask a7.2"]);
            assert!(
                told.contains("there is no tool `delegate`: the tools are `look`"),
                "{told}"
            );
        }
    }
}

#[test]
fn paor_6_the_calls_of_a_delegate_are_observed_with_its_callers_calls() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "explore"));
    let digest = |of: Option<&str>, tool: &str, error: Option<&str>| CallSummary {
        outdates: Outdated::Nothing,
        shown_by_diff: false,
        effect: of.map(effect),
        tool: tool.to_owned(),
        parameters: Value::Null,
        success: error.is_none(),
        duration: Millis(1),
        error: error.map(str::to_owned),
        output: Value::Null,
        agent: None,
    };
    let mut own = report(text("In a.rs."), &[]);
    own.work.calls.push(digest(None, "change", Some("you may not")));
    give(&mut run, 20, agent_ended("run.3", own));
    let mut callers = report(text("Done."), &[]);
    callers.work.calls.push(digest(Some("a2.2"), "delegate", None));
    callers.work.calls.push(digest(Some("a2.3"), "look", None));
    give(&mut run, 30, agent_ended("run.2", callers));
    let SubTaskResult::Agent { work, .. } = &run.iterations()[0].observations[0].finding else {
        panic!("an agent's");
    };
    let observed: Vec<_> = work
        .calls
        .iter()
        .map(|call| (call.tool.as_str(), call.success))
        .collect();
    assert_eq!(
        observed,
        [("delegate", true), ("change", false), ("look", true)],
        "in the order of time"
    );
}

#[test]
fn paor_5_a_delegation_is_commanded_and_its_findings_are_the_calls_result() {
    let mut agent = implement();
    assert_eq!(
        gives(&mut agent, replied("a7.1", says_delegate("explore"))),
        ["delegate a7.2 to explore: Find `a`."]
    );
    let changed = StateChange::FileEdited {
        after: None,
        before: None,
        path: "a.rs".to_owned(),
        diff: None,
    };
    let result = ToolResult::success(json!({"agent": "explore", "findings": "In a.rs.", "calls": 2}))
        .with_changes(vec![changed.clone()]);
    let after = gives(&mut agent, tool_ended("a7.2", result));
    assert_eq!(after.last().unwrap(), "ask a7.3");
    assert_eq!(agent.work().changes, [changed]);
    let last = agent.conversation().last().unwrap().content().to_owned();
    assert_eq!(last, "Changes: edited a.rs\nOutput:\nIn a.rs.");
}

#[test]
fn paor_5_a_delegation_to_an_unknown_agent_is_sent_back_to_the_model() {
    let mut agent = implement();
    assert_eq!(
        gives(&mut agent, replied("a7.1", says_delegate("lead"))),
        ["ask a7.2"]
    );
    let last = agent.conversation().last().unwrap().content().to_owned();
    assert!(last.contains("explore"), "{last}");
}

#[test]
fn loop_5_an_agents_clock_is_paused_while_its_delegate_works() {
    let mut agent = implement();
    let minutes = |minutes: u64| at(minutes * 60_000);
    agent
        .handle(minutes(1), replied("a7.1", says_delegate("explore")))
        .unwrap();
    let overdue = AgentInput::TimerFired {
        timer: AgentTimer::Deadline,
    };
    agent.handle(minutes(5), overdue.clone()).unwrap_err();
    let result = ToolResult::success(json!("Found."));
    agent.handle(minutes(61), tool_ended("a7.2", result)).unwrap();
    // The agent had used one of its five minutes before it delegated.
    agent.handle(minutes(64), overdue.clone()).unwrap_err();
    let ended = agent.handle(minutes(65), overdue).unwrap();
    assert_eq!(
        agent_outline(&ended),
        [
            "finish, as the agent reached its time limit of 5 min before it finished: raise `timeout` in this agent's limits"
        ]
    );
}

#[test]
fn host_2_a_delegation_is_commanded_again_after_a_restart() {
    let mut agent = implement();
    gives(&mut agent, replied("a7.1", says_delegate("explore")));
    assert_eq!(
        gives(&mut agent, agent_resumed())[0],
        "delegate a7.2+1 to explore: Find `a`."
    );
}

/// A run in which `implement`, started by `run.2` as `a2`, may delegate.
fn calling(spec: RunSpec) -> Run {
    let one =
        json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "agent": "implement", "task": "t"}]});
    let (run, started) = acting(spec, &one);
    assert_eq!(started, ["start run.2 a2 implement"]);
    run
}

fn delegated(of: &str, agent: &str) -> RunInput {
    RunInput::Delegated {
        effect: effect(of),
        agent: agent.to_owned(),
        task: "Find `a`.".to_owned(),
    }
}

fn edited(path: &str) -> StateChange {
    StateChange::FileEdited {
        after: None,
        before: None,
        path: path.to_owned(),
        diff: None,
    }
}

fn report(result: Result<AgentAnswer, AgentFailure>, changed: &[&str]) -> AgentReport {
    AgentReport {
        result,
        work: AgentWork {
            changes: changed.iter().map(|path| edited(path)).collect(),
            usage: usage(10, 5),
            ..AgentWork::default()
        },
        duration: Millis(40),
        guidance: None,
    }
}

fn text(text: &str) -> Result<AgentAnswer, AgentFailure> {
    Ok(AgentAnswer::Text(text.to_owned()))
}

/// The observed changes of the only sub-task.
fn observed_changes(run: &Run) -> Vec<String> {
    let observation = &run.iterations()[0].observations[0];
    observation.changes().map(ToString::to_string).collect()
}

#[test]
fn paor_5_findings_are_returned_to_the_caller_and_usage_counts_once() {
    let mut run = calling(delegating());
    assert_eq!(
        give(&mut run, 10, delegated("a2.2", "explore")),
        ["start run.3 a3 explore"]
    );
    let brief = brief_of(&run, "run.3");
    assert_eq!((brief.depth, brief.caller), (2, Some(effect("a2.2"))));
    assert_eq!(brief.task, "<TASK>\nFind `a`.\n</TASK>");
    assert_eq!(
        give(
            &mut run,
            20,
            agent_ended("run.3", report(text("In a.rs."), &["a.rs"]))
        ),
        [
            "return a2.2 Changes: edited a.rs\nOutput:\n{\"agent\":\"explore\",\"findings\":\"In a.rs.\",\"calls\":0}"
        ]
    );
    assert_eq!(run.usage().tokens(), 30);
    // the caller's own report includes the change
    let mut own = report(text("Done."), &["a.rs"]);
    own.work.calls.push(CallSummary {
        outdates: Outdated::Nothing,
        shown_by_diff: false,
        effect: Some(effect("a2.2")),
        tool: "delegate".to_owned(),
        parameters: Value::Null,
        success: true,
        duration: Millis(40),
        error: None,
        output: Value::Null,
        agent: None,
    });
    give(&mut run, 30, agent_ended("run.2", own));
    assert_eq!(observed_changes(&run), ["edited a.rs"]);
    assert_eq!(run.usage().tokens(), 45);
}

#[test]
fn paor_7_an_agent_that_fails_is_a_failed_call_of_its_caller() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "explore"));
    let broken = report(
        Err(AgentFailure::Panicked {
            message: "boom".to_owned(),
        }),
        &["a.rs"],
    );
    assert_eq!(
        give(&mut run, 20, agent_ended("run.3", broken)),
        [
            "return a2.2 Error (agent_failed): the agent `explore` ended without findings: the agent panicked: boom\nChanges: edited a.rs"
        ]
    );
}

#[test]
fn paor_5_a_caller_that_ends_before_it_receives_findings_reports_their_changes() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "explore"));
    give(
        &mut run,
        20,
        agent_ended("run.3", report(text("In a.rs."), &["a.rs"])),
    );
    give(
        &mut run,
        30,
        agent_ended("run.2", report(Err(AgentFailure::Cancelled), &["b.rs"])),
    );
    assert_eq!(observed_changes(&run), ["edited b.rs", "edited a.rs"]);
}

#[test]
fn paor_5_an_ended_caller_stops_its_delegates_and_counts_after_their_reports() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "implement"));
    give(&mut run, 20, delegated("a3.2", "explore"));
    let over = AgentFailure::TimeLimit {
        timeout: Millis(300_000),
    };
    assert_eq!(
        give(&mut run, 30, agent_ended("run.2", report(Err(over), &["a.rs"]))),
        ["stop agent a3", "stop agent a4"]
    );
    refused(&mut run, 40, answered("run.2", "again"));
    assert_eq!(
        give(
            &mut run,
            50,
            agent_ended("run.3", report(Err(AgentFailure::Cancelled), &["b.rs"]))
        ),
        [""; 0]
    );
    assert_eq!(
        give(
            &mut run,
            60,
            agent_ended("run.4", report(Err(AgentFailure::Cancelled), &["c.rs"]))
        )[0],
        "Acting -> Observing (1)"
    );
    assert_eq!(
        observed_changes(&run),
        ["edited a.rs", "edited b.rs", "edited c.rs"]
    );
    assert_eq!(run.usage().tokens(), 60);
    let SubTaskResult::Agent { name, result, .. } = &run.iterations()[0].observations[0].finding else {
        panic!("{run:?}");
    };
    assert_eq!(name, "implement");
    assert!(matches!(result, Err(AgentFailure::TimeLimit { .. })));
}

#[test]
fn host_2_a_repeated_delegate_call_does_not_start_its_agent_twice() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "explore"));
    refused(&mut run, 10, delegated("a2.2", "explore"));
    give(&mut run, 20, resumed());
    assert_eq!(give(&mut run, 30, delegated("a2.2+1", "explore")), [""; 0]);
    let returned = give(&mut run, 40, answered("run.3+1", "found"));
    assert!(returned[0].starts_with("return a2.2+1 "), "{returned:?}");
}

#[test]
fn host_2_findings_that_the_caller_has_not_received_are_returned_again() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "explore"));
    let first = give(&mut run, 20, answered("run.3", "found"));
    give(&mut run, 30, resumed());
    let again = give(&mut run, 40, delegated("a2.2+1", "explore"));
    assert_eq!(again, [first[0].replace("a2.2", "a2.2+1")]);
}

#[test]
fn host_2_after_a_restart_an_ended_caller_stays_ended_and_stops_are_repeated() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "explore"));
    give(&mut run, 20, answered("run.2", "early"));
    assert_eq!(
        give(&mut run, 30, resumed()),
        ["start run.3+1 a3 explore", "stop agent a3"]
    );
    give(&mut run, 40, answered("run.3+1", "late"));
    assert_eq!(run.iterations()[0].observations.len(), 1);
}

#[test]
fn paor_5_depth_number_of_agents_and_budget_limit_delegation() {
    type Limit = fn(&mut RunSpec);
    let limited: [(Limit, &str); 3] = [
        (
            |spec| spec.limits.max_depth = 1,
            "you cannot delegate at this depth (`max_depth` is 1): do the task yourself",
        ),
        (
            |spec| spec.limits.max_agents = 1,
            "the run cannot start any more agents (`max_agents` is 1): do the task yourself",
        ),
        (
            |spec| spec.limits.max_tokens = Some(30),
            "no agent was started: budget: 30 of 30 tokens used",
        ),
    ];
    for (limit, reason) in limited {
        let mut spec = delegating();
        limit(&mut spec);
        let mut run = calling(spec);
        // another delegation is refused after an agent has ended, and the two have used 30 tokens
        give(&mut run, 10, delegated("a2.2", "explore"));
        let _ = run.handle(at(20), answered("run.3", "found"));
        let returned = give(&mut run, 30, delegated("a2.3", "explore"));
        assert_eq!(returned.len(), 1);
        assert!(returned[0].contains(reason), "{returned:?}");
    }
}

#[test]
fn paor_5_delegations_cannot_use_up_the_agents_that_the_plan_will_start() {
    let mut spec = delegating();
    spec.limits.max_agents = 2;
    spec.limits.max_parallel = 1;
    let two = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "implement", "task": "t"},
        {"id": "q", "title": "Q", "agent": "explore", "task": "t"}
    ]});
    let (mut run, _) = acting(spec, &two);
    let returned = give(&mut run, 10, delegated("a2.2", "explore"));
    assert!(returned[0].contains("`max_agents` is 2"), "{returned:?}");
    assert_eq!(
        give(&mut run, 20, answered("run.2", "Done."))[1],
        "start run.3 a3 explore"
    );
}

#[test]
fn paor_5_only_an_active_agent_can_delegate() {
    let mut run = calling(delegating());
    for foreign in ["a1.2", "a9.2", "run.2"] {
        refused(&mut run, 10, delegated(foreign, "explore"));
    }
}

#[test]
fn host_8_a_cancelled_run_ends_without_waiting_for_its_agents() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "explore"));
    give(&mut run, 20, RunInput::Cancelled);
    assert_eq!(run.end(), Some(&EndReason::Cancelled));
    refused(&mut run, 30, answered("run.3", "late"));
}

#[test]
fn approve_1_a_run_pauses_if_the_agent_that_others_wait_for_waits_for_the_user() {
    let mut run = calling(delegating());
    give(&mut run, 10, delegated("a2.2", "implement"));
    assert_eq!(
        give(
            &mut run,
            20,
            RunInput::CallAwaitsUser {
                effect: effect("a3.2"),
                guidance: None,
                request: UserRequestKind::Decision,
                allowed: 0,
            }
        ),
        ["await user a3.2"]
    );
    // its caller ends before the delegate has reported
    assert_eq!(give(&mut run, 30, answered("run.2", "early")), ["stop agent a3"]);
}

#[test]
fn approve_1_a_delegation_needs_approval_if_the_policy_says_so() {
    let mut spec = delegating();
    spec.setup.policy = serde_json::from_value(json!([{"tool": "delegate", "ruling": "ask"}])).unwrap();
    let mut agent = started(spec, AgentRole::Sub("implement".to_owned()));
    let asked = gives(&mut agent, replied("a7.1", says_delegate("explore")));
    assert!(
        asked
            .iter()
            .any(|line| line.starts_with("ask to approve a7.2 delegate")),
        "{asked:?}"
    );
    let decision = Decision {
        digest: agent.approval().unwrap().digest.clone(),
        answer: ApprovalAnswer::Approve,
    };
    let decided = gives(
        &mut agent,
        dirigent_core::agent::AgentInput::Decided {
            effect: effect("a7.2"),
            decision,
        },
    );
    assert!(
        decided.contains(&"delegate a7.2 to explore: Find `a`.".to_owned()),
        "{decided:?}"
    );
}

/// A run in which `implement` delegated to `explore`, which found nothing, and both ended.
fn delegated_and_ended() -> Journaled {
    let one = json!({"summary": "s", "subtasks": [{"id": "p", "title": "P", "agent": "implement", "task": "Tidy up."}]});
    let mut run = Journaled::acting(delegating(), &one);
    run.start(2, "run.2");
    run.replies(2, "a2.1", says_delegate("explore"));
    run.run(delegated("a2.2", "explore"));
    run.start(3, "run.3");
    run.replies(3, "a3.1", crate::fixture::text("There is no `a`."));
    run.report(3, "run.3");
    let result = json!({"agent": "explore", "findings": "There is no `a`.", "calls": 0});
    let mut result = ToolResult::success(result);
    result.duration = Millis(1);
    result.metadata.insert("started_agent".to_owned(), json!(3));
    run.agent(2, tool_ended("a2.2", result));
    run.replies(2, "a2.3", crate::fixture::text("Nothing to do."));
    run.report(2, "run.2");
    run
}

/// Replaces `from` with `to` in the only line of the recording that contains all of `marks`, and returns the difference that the replay
/// finds.
fn replayed_with(marks: [&str; 2], from: &str, to: &str) -> Difference {
    let recorded = delegated_and_ended().recording().to_string();
    let (mut changed, mut times) = (String::new(), 0);
    for line in recorded.lines() {
        let is_it = marks.iter().all(|mark| line.contains(mark)) && line.contains(from);
        times += usize::from(is_it);
        changed.push_str(&if is_it {
            line.replace(from, to)
        } else {
            line.to_owned()
        });
        changed.push('\n');
    }
    assert_eq!(times, 1, "{recorded}");
    *replay(&Recording::parse(changed).unwrap(), delegating(), RUN).unwrap_err()
}

#[test]
fn host_9_a_recording_with_a_delegation_replays() {
    let run = delegated_and_ended();
    assert_eq!(replay(&run.recording(), delegating(), RUN).unwrap(), run.entries);
}

#[test]
fn host_9_a_replay_reports_a_different_task_of_a_delegation() {
    let difference = replayed_with([r#""delegated""#, "a2.2"], "Find `a`.", "Delete `a`.");
    assert_eq!(difference.part, Part::Call);
    assert!(
        difference.diff.contains("-agent `explore`: Delete `a`."),
        "{difference}"
    );
    assert!(
        difference.diff.contains("+agent `explore`: Find `a`."),
        "{difference}"
    );
}

#[test]
fn host_9_a_replay_reports_different_findings_of_a_delegation() {
    let difference = replayed_with([r#""tool_finished""#, "a2.2"], "There is no", "There was an");
    assert_eq!(difference.part, Part::Report);
}

#[test]
fn paor_5_the_conversations_of_caller_and_delegate_are_separate() {
    let run = delegated_and_ended();
    let said = |agent| {
        let agent = run.view.agent(dirigent_core::id::AgentId(agent)).unwrap();
        let messages = agent.conversation().iter().skip(1);
        messages
            .map(|message| message.content())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let (caller, other) = (said(2), said(3));
    // the delegate knows its own task, and nothing about its caller's
    assert_eq!(other, "<TASK>\nFind `a`.\n</TASK>\nThere is no `a`.");
    assert!(
        caller.contains("Tidy up.") && caller.contains("There is no `a`."),
        "{caller}"
    );
}
