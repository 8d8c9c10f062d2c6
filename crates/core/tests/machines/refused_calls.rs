//! Calls that did not run are recorded like those that did (PAOR-6), and are included in the counts that a model is told (LOOP-8).

use dirigent_core::agent::Agent;
use dirigent_core::approval::ApprovalAnswer;
use dirigent_core::policy::Ruling;
use dirigent_core::spec::RunSpec;
use dirigent_core::tool::ToolResult;
use serde_json::{Value, json};

use crate::approvals::{decided, expiry, guide, implementer, reject, rule, tell};
use crate::fixture::{call, native, replied, result_parts, says_call, spec, text, tool_ended};

/// Every `change` needs approval, and looking at /etc is denied.
fn asking() -> RunSpec {
    let mut spec = spec();
    spec.setup.tools[1].requires_approval = true;
    spec.setup.policy.rules = vec![rule(Ruling::Deny, "look(path: /etc/*)")];
    spec
}

/// The agent's calls: tool, handle, success and error of each.
fn calls(agent: &Agent) -> Vec<Value> {
    let calls = agent.work().calls.iter();
    calls
        .map(|call| json!([call.tool, call.effect, call.success, call.error]))
        .collect()
}

fn so_far(agent: &Agent) -> Value {
    result_parts(agent.conversation().last().unwrap())["so_far"].clone()
}

/// An agent whose reply changes x and looks at y; the first call waits for approval.
fn waiting() -> Agent {
    let mut agent = implementer(asking());
    let reply = native(vec![
        call("p", "change", json!({"path": "x"})),
        call("q", "look", json!({"path": "y"})),
    ]);
    tell(&mut agent, 10, replied("a7.1", reply));
    assert!(agent.approval().is_some());
    agent
}

fn given(agent: &mut Agent, answer: ApprovalAnswer) {
    let decision = decided(agent, answer);
    tell(agent, 20, decision);
}

#[test]
fn paor_6_an_invalid_or_disallowed_call_is_recorded_with_the_reason() {
    let mut agent = implementer(asking());
    let reply = native(vec![
        call("p", "look", json!({"file": "x"})),
        call("q", "lok", json!({"path": "x"})),
        call("r", "look", json!({"path": "/etc/shadow"})),
        call("s", "look", json!({"path": "x"})),
    ]);
    tell(&mut agent, 10, replied("a7.1", reply));
    tell(
        &mut agent,
        20,
        tool_ended("a7.2", ToolResult::success(json!("seen"))),
    );

    assert_eq!(so_far(&agent), "4 calls, 3 failed");
    let recorded = calls(&agent);
    for (call, tool, reason) in [
        (&recorded[0], "look", "the parameters of `look` are wrong"),
        (
            &recorded[1],
            "lok",
            "there is no tool `lok` (did you mean `look`?)",
        ),
        (
            &recorded[2],
            "look",
            "this run's rules deny `look` with path `/etc/*`",
        ),
    ] {
        assert_eq!(
            (&call[0], &call[1], &call[2]),
            (&json!(tool), &Value::Null, &json!(false))
        );
        assert!(call[3].as_str().unwrap().starts_with(reason), "{call}");
    }
    assert_eq!(recorded[3], json!(["look", "a7.2", true, null]));
    // Only calls that ran count as usage.
    assert_eq!(agent.work().usage.tool_calls, 1);
}

#[test]
fn paor_6_a_rejected_call_and_those_after_it_are_recorded() {
    let mut agent = waiting();
    given(&mut agent, reject());
    assert_eq!(
        calls(&agent),
        [
            json!(["change", null, false, "the user rejected the call: not that file"]),
            json!([
                "look",
                null,
                false,
                "the call did not run, because the user did not approve an earlier call of the reply"
            ]),
        ]
    );
}

#[test]
fn paor_6_a_guided_call_and_those_after_it_are_recorded() {
    let mut agent = waiting();
    given(&mut agent, guide());
    assert_eq!(
        calls(&agent),
        [
            json!([
                "change",
                null,
                false,
                "the user did not approve this call and says: Change z instead.\nThe call did not run. Go another way by these words, or finish and say what is left."
            ]),
            json!([
                "look",
                null,
                false,
                "the call did not run, because the user did not approve an earlier call of the reply"
            ]),
        ]
    );
    assert_eq!(so_far(&agent), "2 calls, 2 not carried out");
}

#[test]
fn paor_6_a_call_whose_approval_expired_is_recorded() {
    let mut agent = implementer(asking());
    tell(
        &mut agent,
        10,
        replied("a7.1", says_call("change", json!({"path": "x"}), false)),
    );
    let late = agent.approval().unwrap().expires_at.unwrap().0;
    tell(&mut agent, late, expiry());
    assert_eq!(
        calls(&agent),
        [json!([
            "change",
            null,
            false,
            "the call did not run: the user neither approved nor rejected it in time. Go another way, or finish and say what needs approval"
        ])]
    );
}

#[test]
fn paor_6_an_agents_report_and_its_observation_list_refused_calls() {
    let mut agent = implementer(asking());
    tell(
        &mut agent,
        10,
        replied("a7.1", says_call("look", json!({"file": "x"}), false)),
    );
    tell(&mut agent, 20, replied("a7.2", text("Nothing found.")));
    let report = agent.report().unwrap();
    let line = dirigent_core::prompt::whole_report(report);
    assert_eq!(line["findings"], "Nothing found.");
    assert_eq!(line["calls"][0]["success"], false);
    let error = line["calls"][0]["error"].as_str().unwrap();
    assert!(
        error.starts_with("the parameters of `look` are wrong: "),
        "{error}"
    );
    assert_eq!(line["calls"][0].get("handle"), None);
}
