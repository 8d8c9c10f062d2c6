//! An agent's limits on turns and time: what its model is told about these limits, and the report of an agent that
//! reached a limit (LOOP-2, LOOP-5).

use dirigent_core::agent::{Agent, AgentInput, AgentTimer};
use dirigent_core::agent_report::AgentFailure;
use dirigent_core::brief::AgentRole;
use dirigent_core::limits::{AgentLimitSettings, AgentLimits, LimitSetting, LimitSettings};
use dirigent_core::machine::Machine;
use dirigent_core::message::{FinishReason, Message, ModelFailure, ModelFailureKind, ModelReply};
use dirigent_core::observation::{Observation, SubTaskResult};
use dirigent_core::prompt::observation_line;
use dirigent_core::time::Millis;
use dirigent_core::tool::ToolResult;
use serde_json::json;

use crate::fixture::{agent_outline, at, call, effect, replied, says_call, spec, started, text, tool_ended};

#[test]
fn loop_5_five_minutes_are_the_default() {
    assert_eq!(AgentLimits::default().timeout, Millis::from_secs(300));
}

const IMPLEMENT: fn() -> AgentRole = || AgentRole::Sub("implement".to_owned());

fn limited(role: AgentRole, max_turns: u32) -> Agent {
    let mut spec = spec();
    let setup = &mut *spec.setup;
    for agent in [&mut setup.lead, &mut setup.reflector]
        .into_iter()
        .chain(&mut setup.agents)
    {
        agent.limits.max_turns = max_turns;
    }
    started(spec, role)
}

fn last(agent: &Agent) -> &str {
    agent.conversation().last().unwrap().content()
}

/// The model makes a successful call, together with this text.
fn looks(agent: &mut Agent, words: &str, path: &str) -> Vec<String> {
    let step = 2 * agent.turns() - 1;
    let reply = ModelReply {
        content: words.to_owned(),
        calls: vec![call("", "look", json!({ "path": path }))],
        finish: FinishReason::ToolCalls,
        ..text("")
    };
    agent
        .handle(at(0), replied(&format!("a7.{step}"), reply))
        .unwrap();
    let ended = tool_ended(&format!("a7.{}", step + 1), ToolResult::success(json!(path)));
    agent_outline(&agent.handle(at(0), ended).unwrap())
}

const LAST: &str = "This is your last turn: after this reply you are not asked again, and no result of another call will reach you.\n";

#[test]
fn loop_2_the_model_is_told_before_its_last_turn() {
    let mut agent = limited(IMPLEMENT(), 3);
    looks(&mut agent, "", "a");
    assert!(
        !last(&agent).contains("last turn"),
        "not before the second of three"
    );
    let before = agent.request().to_vec();
    assert_eq!(looks(&mut agent, "", "b"), ["ask a7.5"]);

    assert_eq!(
        agent.request()[..before.len()],
        before,
        "each request begins with the one before it"
    );
    assert_eq!(
        last(&agent),
        format!(
            "{LAST}Finish now: answer in plain text without a call. Say what you found and did so far, and what is left to do."
        )
    );
    assert_eq!(
        looks(&mut agent, "", "c"),
        [
            "finish, as the agent reached its limit of 3 model turns before it finished: raise `max_turns` in this agent's limits"
        ]
    );
}

#[test]
fn loop_2_an_agent_with_one_turn_is_told_so_together_with_its_task() {
    let told: Vec<String> = [IMPLEMENT(), AgentRole::Lead, AgentRole::Reflector]
        .into_iter()
        .map(|role| {
            let agent = limited(role, 1);
            let [
                Message::System { .. },
                Message::User { content },
                Message::User { content: notice },
            ] = &agent.request()[..]
            else {
                panic!("{:?}", agent.request());
            };
            assert_eq!(content, "Do it.");
            notice.strip_prefix(LAST).unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        told,
        [
            "Finish now: answer in plain text without a call. Say what you found and did so far, and what is left to do.",
            "If the goal is reached, answer in plain text without a call. Otherwise call `submit_plan` now, with what you know so far.",
            "Call `submit_reflection` now, with what you know so far.",
        ]
    );
}

#[test]
fn loop_2_the_notice_of_the_last_turn_follows_guidance_and_corrections() {
    let mut agent = limited(IMPLEMENT(), 2);
    let guided = AgentInput::Guided {
        guidance: "Look in src.".to_owned(),
    };
    agent.handle(at(0), guided).unwrap();
    agent
        .handle(at(0), replied("a7.1", text(r#"{"tool": "look"}"#)))
        .unwrap();
    let said: Vec<&str> = agent.conversation()[3..].iter().map(Message::content).collect();
    assert!(
        said[0].starts_with("Your last reply could not be used"),
        "{said:?}"
    );
    assert_eq!(said[1], "The user says: Look in src.");
    assert!(said[2].starts_with(LAST), "{said:?}");
    assert_eq!(said.len(), 3);
}

#[test]
fn loop_2_the_last_turn_is_announced_once_even_if_its_request_is_repeated() {
    let mut spec = spec();
    spec.setup.agents[1].limits.max_turns = 2;
    let mut agent = started(spec, IMPLEMENT());
    let long = ToolResult::success(json!("x".repeat(12_000)));
    agent
        .handle(
            at(0),
            replied("a7.1", says_call("look", json!({"path": "a"}), false)),
        )
        .unwrap();
    agent.handle(at(0), tool_ended("a7.2", long)).unwrap();
    let too_long = AgentInput::ModelFailed {
        effect: effect("a7.3"),
        failure: ModelFailure {
            kind: ModelFailureKind::TooLong,
            message: "too long".to_owned(),
        },
    };
    let again = agent.handle(at(0), too_long).unwrap();
    assert_eq!(agent_outline(&again), ["ask a7.4"]);
    let notices = agent
        .conversation()
        .iter()
        .filter(|message| message.content().starts_with(LAST));
    assert_eq!(notices.count(), 1);
    assert!(last(&agent).starts_with(LAST));
}

#[test]
fn loop_2_findings_from_before_the_limit_are_in_the_observation() {
    let mut agent = limited(IMPLEMENT(), 3);
    looks(&mut agent, "Two callers in src/a.rs:3 and src/b.rs:9.", "a");
    looks(&mut agent, "", "b");
    looks(&mut agent, "None in src/c.rs. Now the tests.", "c");
    let report = agent.report().unwrap().clone();
    assert_eq!(report.result, Err(AgentFailure::TurnLimit { max_turns: 3 }));
    assert_eq!(
        report.work.findings_so_far,
        "Two callers in src/a.rs:3 and src/b.rs:9.\n\nNone in src/c.rs. Now the tests."
    );

    let line = observation_line(&Observation {
        subtask: "find".into(),
        title: "Find the callers".to_owned(),
        duration: Millis(10),
        may_fail: false,
        finding: SubTaskResult::Agent {
            agent: agent.id(),
            name: "implement".to_owned(),
            result: Err(AgentFailure::TurnLimit { max_turns: 3 }),
            work: report.work,
        },
    });
    assert_eq!(line["status"], "failed");
    assert_eq!(
        line["findings_so_far"],
        "Two callers in src/a.rs:3 and src/b.rs:9.\n\nNone in src/c.rs. Now the tests."
    );
    let handles: Vec<&str> = line["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["handle"].as_str().unwrap())
        .collect();
    assert_eq!(handles, ["a7.2", "a7.4", "a7.6"]);
}

#[test]
fn loop_5_findings_from_before_the_time_limit_are_kept() {
    let mut agent = limited(IMPLEMENT(), 10);
    looks(&mut agent, "It is in src/a.rs:3.", "a");
    let deadline = AgentInput::TimerFired {
        timer: AgentTimer::Deadline,
    };
    agent.handle(at(300_000), deadline).unwrap();
    let report = agent.report().unwrap();
    assert!(matches!(report.result, Err(AgentFailure::TimeLimit { .. })));
    assert_eq!(report.work.findings_so_far, "It is in src/a.rs:3.");
    assert_eq!(report.work.calls.len(), 1);
}

#[test]
fn loop_2_a_call_without_text_is_not_a_finding_and_an_answer_has_no_findings() {
    // given a model that makes calls in its text
    let mut agent = limited(IMPLEMENT(), 2);
    for (step, path) in [(1, "a"), (3, "b")] {
        let reply = says_call("look", json!({ "path": path }), false);
        agent
            .handle(at(0), replied(&format!("a7.{step}"), reply))
            .unwrap();
        let ended = tool_ended(&format!("a7.{}", step + 1), ToolResult::success(json!(1)));
        agent.handle(at(0), ended).unwrap();
    }
    assert_eq!(agent.report().unwrap().work.findings_so_far, "");

    let mut agent = limited(IMPLEMENT(), 2);
    looks(&mut agent, "It is in src/a.rs:3.", "a");
    agent
        .handle(at(0), replied("a7.3", text("In src/a.rs:3.")))
        .unwrap();
    assert_eq!(agent.report().unwrap().work.findings_so_far, "");
}

#[test]
fn loop_2_each_limit_is_declared_once_and_the_first_source_that_sets_it_wins() {
    let names: Vec<&str> = AgentLimitSettings::ALL.iter().map(|limit| limit.name).collect();
    let json = serde_json::to_value(AgentLimits::default()).unwrap();
    let fields: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let sorted = |mut names: Vec<&'static str>| {
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(names.clone()).len(), fields.len());
    assert!(
        names.iter().all(|name| fields.contains(name)),
        "{names:?} {fields:?}"
    );

    let mut first = AgentLimitSettings::default();
    for limit in AgentLimitSettings::ALL {
        match limit.setting {
            LimitSetting::Count(_) | LimitSetting::Tokens(_) | LimitSetting::Money(_) => {}
            LimitSetting::Time(setting) => *setting(&mut first) = Some(Millis(7)),
        }
    }
    let second = AgentLimitSettings {
        max_turns: Some(3),
        timeout: Some(Millis(9)),
        ..AgentLimitSettings::default()
    };
    let limits = first.or(second).unwrap_or(AgentLimits::default());
    assert_eq!(
        limits,
        AgentLimits {
            max_turns: 3,
            timeout: Millis(7),
            ..AgentLimits::default()
        }
    );
    assert_eq!(
        limits.differing(&AgentLimits::default()),
        [("max_turns", "3".to_owned()), ("timeout", "7 ms".to_owned())]
    );
}
