//! Agents that give up (LEAD-4).

use dirigent_core::agent::Agent;
use dirigent_core::agent_report::{AgentFailure, AgentReport, AgentWork};
use dirigent_core::brief::AgentRole;
use dirigent_core::call::CallForm;
use dirigent_core::end_reason::EndReason;
use dirigent_core::phase::Phase;
use dirigent_core::run::RunInput;
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Millis;
use serde_json::{Value, json};

use crate::approvals::tell;
use crate::driver::{acting, agent_ended, give, running, told};
use crate::fixture::{call, native, replied, says_call, spec, started, text};

fn may_give_up() -> RunSpec {
    let mut spec = spec();
    spec.setup.lead.tools.push("give_up".to_owned());
    for agent in &mut spec.setup.agents {
        agent.tools.push("give_up".to_owned());
    }
    spec
}

fn reason() -> Value {
    json!({"reason": "The server is down."})
}

fn explorer() -> Agent {
    started(may_give_up(), AgentRole::Sub("explore".to_owned()))
}

fn given_up() -> AgentReport {
    AgentReport {
        result: Err(AgentFailure::GaveUp {
            reason: "The server is down.".to_owned(),
        }),
        work: AgentWork::default(),
        duration: Millis(5),
        guidance: None,
    }
}

const END: &str = "finish, as the agent gave up: The server is down.";

#[test]
fn lead_4_giving_up_ends_the_agent_and_later_calls_of_the_reply_do_not_run() {
    let mut agent = explorer();
    let reply = native(vec![
        call("p", "give_up", reason()),
        call("q", "look", json!({"path": "x"})),
    ]);
    assert_eq!(tell(&mut agent, 10, replied("a7.1", reply)), [END]);
    let work = &agent.report().unwrap().work;
    assert_eq!(work.calls.len(), 2);
    assert_eq!(
        (work.calls[0].tool.as_str(), work.calls[0].success),
        ("give_up", true)
    );
    assert_eq!(
        work.calls[1].error.as_deref(),
        Some("the call did not run, because you gave up before it")
    );
}

#[test]
fn lead_4_giving_up_ends_the_agent_in_every_form_whatever_terminate_is() {
    for terminate in [false, true] {
        let mut agent = explorer();
        assert_eq!(
            tell(
                &mut agent,
                10,
                replied("a7.1", says_call("give_up", reason(), terminate))
            ),
            [END]
        );
    }
    let mut spec = may_give_up();
    spec.setup.agents[0].profile.calls = CallForm::ToolCall;
    let mut agent = started(spec, AgentRole::Sub("explore".to_owned()));
    let reply = text(&json!({"tool_call": {"name": "give_up", "arguments": reason()}}).to_string());
    assert_eq!(tell(&mut agent, 10, replied("a7.1", reply)), [END]);
}

#[test]
fn lead_4_a_json_answer_with_a_field_give_up_is_an_answer() {
    let mut agent = explorer();
    let answer = r#"{"give_up": {"files": 3}}"#;
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", text(answer))),
        [format!("finish with {answer}")]
    );
    let mut agent = explorer();
    let meant = text(&json!({"give_up": reason()}).to_string());
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", meant)),
        ["ask a7.2"],
        "that is no answer"
    );
}

#[test]
fn lead_4_findings_from_before_giving_up_are_kept() {
    let mut agent = explorer();
    let mut looks = native(vec![call("p", "look", json!({"path": "x"}))]);
    looks.content = "The address is in x.".to_owned();
    tell(&mut agent, 10, replied("a7.1", looks));
    let seen = dirigent_core::tool::ToolResult::success(json!("seen"));
    tell(&mut agent, 20, crate::fixture::tool_ended("a7.2", seen));
    tell(
        &mut agent,
        30,
        replied("a7.3", native(vec![call("q", "give_up", reason())])),
    );
    let work = &agent.report().unwrap().work;
    assert!(
        work.findings_so_far.contains("The address is in x."),
        "{}",
        work.findings_so_far
    );
}

#[test]
fn lead_4_if_an_agent_gives_up_its_sub_task_fails_with_the_agents_reason() {
    let plan = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "depends_on": ["p"], "agent": "explore", "task": "t"}
    ]});
    let (mut run, _) = acting(may_give_up(), &plan);
    assert_eq!(
        give(&mut run, 10, agent_ended("run.2", given_up())),
        [
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "start run.3 a3 reflector"
        ]
    );
    let judged = told(&run, "run.3");
    assert!(
        judged.contains("the agent gave up: The server is down."),
        "{judged}"
    );
    assert!(judged.contains(r#""status":"skipped""#), "{judged}");
}

#[test]
fn lead_4_if_the_lead_gives_up_the_run_fails_with_the_leads_reason() {
    let (mut run, _) = running(may_give_up());
    assert_eq!(
        give(&mut run, 10, agent_ended("run.1", given_up())),
        [
            "Planning -> Failed (1)",
            "finish, the lead gave up: The server is down."
        ]
    );
    assert_eq!(run.phase(), Phase::Failed);
    assert!(!run.end().is_some_and(EndReason::is_resumable));
    assert_eq!(run.report().summary, "the lead gave up: The server is down.");
}

#[test]
fn paor_8_guidance_unknown_to_the_lead_that_gives_up_leads_to_another_iteration() {
    let (mut run, _) = running(may_give_up());
    give(
        &mut run,
        10,
        RunInput::Guided {
            guidance: "Use the mirror.".to_owned(),
        },
    );
    assert_eq!(
        give(&mut run, 20, agent_ended("run.1", given_up())),
        [
            "Planning -> Acting (1)",
            "Acting -> Observing (1)",
            "Observing -> Reflecting (1)",
            "Reflecting -> Planning (2)",
            "continue run.2 a1 lead"
        ]
    );
}
