//! Agents that ask the user (LEAD-4): the call waits, the answer is its result, and other agents continue.

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::brief::{AgentBrief, AgentRole};
use dirigent_core::end_reason::EndReason;
use dirigent_core::id::AgentId;
use dirigent_core::machine::{Machine, Refusal};
use dirigent_core::message::Message;
use dirigent_core::route::{Delivery, Resumption, Route};
use dirigent_core::run::RunInput;
use dirigent_core::run_tree::RunTree;
use dirigent_core::spec::RunSpec;
use dirigent_core::steering::Steering;
use dirigent_core::tool::ToolResult;
use dirigent_core::user_request::UserRequestKind;
use serde_json::{Value, json};

use crate::approvals::{absent, asked, asking, expiry, settled, tell};
use crate::driver::{acting, answered, ended, give, refused, running};
use crate::fixture::{
    agent_outline, agent_resumed, at, call, effect, native, replied, result_parts, resumed, says_call,
    started, text, tool_ended,
};

/// Like [`asking`], but every agent except the reflector may ask.
fn may_ask() -> RunSpec {
    let mut spec = asking();
    spec.setup.lead.tools.push("ask_user".to_owned());
    for agent in &mut spec.setup.agents {
        agent.tools.push("ask_user".to_owned());
    }
    spec
}

fn which() -> Value {
    json!({"question": "Which one?", "choices": ["a", "b"]})
}

/// Agent 7, which has been waiting since 10 for the answer to `a7.2`; a look at y follows.
fn waiting(role: AgentRole) -> Agent {
    let mut agent = started(may_ask(), role);
    let reply = native(vec![
        call("p", "ask_user", which()),
        call("q", "look", json!({"path": "y"})),
    ]);
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        ["approval until 61010", r#"ask user a7.2 Which one? ["a", "b"]"#]
    );
    agent
}

fn explorer() -> Agent {
    waiting(AgentRole::Sub("explore".to_owned()))
}

fn answer(of: &str, text: &str) -> AgentInput {
    AgentInput::UserAnswered {
        effect: effect(of),
        answer: text.to_owned(),
    }
}

/// Gives the agent an input that it must refuse, without a change of its state.
pub(crate) fn not_taken(agent: &mut Agent, after: u64, input: AgentInput) -> Refusal {
    let before = agent.clone();
    let refusal = agent.handle(at(after), input).unwrap_err();
    assert_eq!(*agent, before);
    refusal
}

fn results(agent: &Agent) -> Vec<Value> {
    let messages = agent.conversation().iter();
    messages
        .filter_map(|message| match message {
            Message::Tool { .. } => Some(result_parts(message)),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect()
}

#[test]
fn lead_4_the_answer_is_the_calls_result_and_the_next_call_runs() {
    let mut agent = explorer();
    assert_eq!(
        tell(&mut agent, 50_010, answer("a7.2", "2")),
        [
            "settled a7.2",
            "deadline 351000",
            r#"run a7.3 q: look {"path":"y"}"#
        ]
    );
    assert_eq!(
        results(&agent),
        [json!({"success": true, "output": r#"{"answer":"b"}"#})]
    );
    not_taken(&mut agent, 50_020, answer("a7.2", "1"));
    assert_eq!(agent.question(), None);
}

#[test]
fn lead_4_questions_work_in_every_call_form_and_an_invalid_one_is_refused() {
    let mut agent = started(may_ask(), AgentRole::Lead);
    let reply = says_call("ask_user", which(), false);
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        ["approval until 61010", r#"ask user a7.2 Which one? ["a", "b"]"#]
    );
    let mut agent = started(may_ask(), AgentRole::Lead);
    let wrong = says_call("ask_user", json!({"choices": ["a"]}), false);
    assert_eq!(tell(&mut agent, 10, replied("a7.1", wrong)), ["ask a7.2"]);
}

#[test]
fn lead_4_an_agent_without_the_tool_ask_user_cannot_ask() {
    let mut agent = started(asking(), AgentRole::Sub("explore".to_owned()));
    let reply = native(vec![call("p", "ask_user", which())]);
    assert_eq!(tell(&mut agent, 10, replied("a7.1", reply)), ["ask a7.2"]);
    assert_eq!(results(&agent)[0]["code"], "unknown_tool");
}

#[test]
fn paor_9_a_number_that_is_not_a_choice_leaves_the_question_open() {
    let mut agent = explorer();
    let refusal = not_taken(&mut agent, 20, answer("a7.2", "3"));
    assert!(matches!(refusal, Refusal::Answer(_)), "{refusal}");
    assert!(agent.question().is_some());
    // an answer to another question or a tool result does not count
    not_taken(&mut agent, 20, answer("a7.1", "a"));
    not_taken(
        &mut agent,
        20,
        tool_ended("a7.2", ToolResult::success(json!("a"))),
    );
}

#[test]
fn loop_5_a_question_expires_and_its_waiting_time_does_not_count() {
    let mut agent = explorer();
    not_taken(&mut agent, 61_009 - 1_000, expiry());
    not_taken(&mut agent, 70_000, answer("a7.2", "a"));
    assert_eq!(
        tell(&mut agent, 70_000, expiry()),
        [
            "settled a7.2",
            "deadline 370990",
            r#"run a7.3 q: look {"path":"y"}"#
        ]
    );
    assert_eq!(
        results(&agent),
        [
            json!({"success": false, "code": "not_answered", "error": "the question was not answered: the user did not answer in time"})
        ]
    );
}

#[test]
fn host_2_a_question_stays_open_over_a_restart_and_its_expiry_is_extended() {
    let mut agent = explorer();
    assert_eq!(
        tell(&mut agent, 100_000, agent_resumed()),
        [r#"ask user a7.2 Which one? ["a", "b"]"#, "approval until 161000"]
    );
    assert_eq!(
        tell(&mut agent, 100_010, answer("a7.2", "a"))[0],
        "settled a7.2",
        "the answer is for the question before the restart, too"
    );
}

#[test]
fn host_9_a_fork_asks_its_open_question_again() {
    let mut agent = explorer();
    let forked = AgentInput::Resumed {
        last_seen: at(10),
        forked: true,
    };
    assert_eq!(
        tell(&mut agent, 40_010, forked),
        [r#"ask user a7.2 Which one? ["a", "b"]"#, "approval until 101010"]
    );
}

#[test]
fn lead_4_the_end_of_an_agent_withdraws_its_question() {
    let mut agent = explorer();
    assert_eq!(
        tell(&mut agent, 20, AgentInput::Cancelled),
        ["settled a7.2", "finish, as cancelled"]
    );
    not_taken(&mut agent, 30, answer("a7.2", "a"));
}

#[test]
fn paor_8_guidance_settles_the_leads_question_and_urgent_guidance_too() {
    for urgent in [false, true] {
        let mut agent = started(may_ask(), AgentRole::Lead);
        tell(
            &mut agent,
            10,
            replied("a7.1", native(vec![call("p", "ask_user", which())])),
        );
        let (number, guidance) = (1, "Take b.".to_owned());
        let input = match urgent {
            false => AgentInput::RunGuided { number, guidance },
            true => AgentInput::Redirected { number, guidance },
        };
        assert_eq!(
            tell(&mut agent, 20, input),
            ["settled a7.2", "deadline 301010", "ask a7.3"]
        );
        let last = agent.conversation().last().unwrap().content().to_owned();
        assert!(last.contains("Take b."), "{last}");
    }
}

#[test]
fn paor_8_guidance_for_an_agent_settles_its_open_question() {
    let mut agent = explorer();
    let guidance = "Look at a alone.".to_owned();
    assert_eq!(
        tell(&mut agent, 20, AgentInput::Guided { guidance }),
        ["settled a7.2", "deadline 301010", "ask a7.3"]
    );
    assert_eq!(
        results(&agent)[1]["code"],
        "not_answered",
        "the call after it did not run"
    );
}

/// Two agents and a call, of which one can run at a time.
fn two_and_a_call() -> Value {
    json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "agent": "explore", "task": "t"},
        {"id": "r", "title": "R", "calls": [{"tool": "look", "parameters": {"path": "x"}}]}
    ]})
}

#[test]
fn host_11_agents_that_ask_free_their_slots_and_others_continue_until_all_wait() {
    let mut spec = may_ask();
    spec.limits.max_parallel = 1;
    let (mut run, commands) = acting(spec, &two_and_a_call());
    assert_eq!(commands, ["start run.2 a2 explore"]);
    assert_eq!(give(&mut run, 10, asked("a2.2")), ["start run.3 a3 explore"]);
    assert_eq!(
        give(&mut run, 20, asked("a3.2")),
        [r#"run run.4 for r: look {"path":"x"}"#, "timer Call(4) 901020"]
    );
    assert_eq!(
        give(&mut run, 30, ended("run.4", ToolResult::success(json!("seen")))),
        ["Acting -> Observing (1)", "await user a2.2"]
    );
    assert_eq!(
        give(&mut run, 40, absent("a2.2")),
        ["finish, user intervention required"]
    );
    assert_eq!(run.end(), Some(&EndReason::UserRequired));
    give(&mut run, 50, resumed());
    give(&mut run, 60, asked("a3.2"));
    give(&mut run, 60, asked("a2.2"));
    give(&mut run, 70, settled("a3.2"));
    assert_eq!(
        give(&mut run, 80, answered("run.3+1", "Found.")),
        ["await user a2.2"]
    );
}

/// Delivers an input and everything that it causes, as the actors do.
fn deliver(tree: &mut RunTree, after: u64, delivery: Delivery) {
    let mut queue = vec![delivery];
    while let Some(delivery) = queue.pop() {
        let routes = tree.handle(at(after), delivery, &Resumption::default()).unwrap();
        queue.extend(routes.into_iter().rev().filter_map(|route| match route {
            Route::Deliver(delivery) => Some(delivery),
            Route::Effect(_) | Route::Watchers => None,
        }));
    }
}

/// A run whose two agents, a2 and a3, both wait for an answer.
fn both_ask() -> RunTree {
    let (mut tree, commands) = RunTree::start(at(0), may_ask().into()).unwrap();
    for route in tree.route(commands, &Resumption::default()) {
        if let Route::Deliver(delivery) = route {
            deliver(&mut tree, 0, delivery);
        }
    }
    let plan = json!({"summary": "s", "subtasks": [
        {"id": "p", "title": "P", "agent": "explore", "task": "t"},
        {"id": "q", "title": "Q", "agent": "explore", "task": "t"}
    ]});
    let submitted = replied("a1.1", says_call("submit_plan", plan, true));
    deliver(&mut tree, 0, Delivery::Agent(AgentId(1), submitted));
    for agent in [2, 3] {
        let reply = says_call("ask_user", which(), false);
        let id = AgentId(agent);
        let asks = replied(&format!("a{agent}.1"), reply);
        deliver(&mut tree, 10, Delivery::Agent(id, asks));
    }
    assert_eq!(tree.run().awaited_call(), Some(effect("a2.2")));
    tree
}

#[test]
fn host_11_each_question_is_answered_on_its_own_in_any_order() {
    let mut tree = both_ask();
    for of in ["a3.2", "a2.2"] {
        let steering = Steering::Answer {
            effect: effect(of),
            answer: "1".to_owned(),
        };
        let delivery = steering.route(tree.run()).unwrap();
        deliver(&mut tree, 20, delivery);
    }
    assert_eq!(tree.run().awaited_call(), None);
    for agent in tree.agents().values().skip(1) {
        let told = agent.conversation().last().unwrap().content();
        assert!(told.contains(r#""answer":"a""#), "{told}");
    }
}

fn asked_question(of: &str) -> RunInput {
    RunInput::CallAwaitsUser {
        effect: effect(of),
        guidance: None,
        request: UserRequestKind::Answer,
        allowed: 0,
    }
}

fn guided(guidance: &str) -> RunInput {
    RunInput::Guided {
        guidance: guidance.to_owned(),
    }
}

#[test]
fn paor_8_guidance_replaces_the_answers_to_open_questions_of_sub_agents() {
    let mut tree = both_ask();
    let guidance = "Look at a alone.".to_owned();
    let delivery = Steering::Guide { guidance }.route(tree.run()).unwrap();
    deliver(&mut tree, 20, delivery);
    assert_eq!(tree.run().awaited_call(), None);
    for agent in tree.agents().values().skip(1) {
        assert_eq!(agent.question(), None);
        assert_eq!(results(agent)[0]["code"], "not_answered");
        let last = agent.conversation().last().unwrap().content();
        assert!(last.contains("Look at a alone."), "{last}");
    }
}

#[test]
fn paor_8_while_others_work_guidance_leaves_a_sub_agents_question_open() {
    let (mut run, _) = acting(may_ask(), &two_and_a_call());
    give(&mut run, 10, asked_question("a2.2"));
    assert_eq!(give(&mut run, 20, guided("Only a.")), [""; 0]);
    give(&mut run, 30, asked_question("a3.2"));
    // the second agent also began before the guidance
    assert_eq!(
        give(&mut run, 40, ended("run.4", ToolResult::success(json!("seen")))),
        [
            "Acting -> Observing (1)",
            "guide agent a2: Only a.",
            "guide agent a3: Only a."
        ]
    );
    refused(&mut run, 50, absent("a2.2"));
    assert_eq!(give(&mut run, 60, settled("a2.2")), [""; 0]);
    assert_eq!(give(&mut run, 62, settled("a3.2")), [""; 0]);
    // the agent knows the guidance now
    assert_eq!(give(&mut run, 64, asked_question("a3.4")), [""; 0]);
    assert_eq!(
        give(&mut run, 70, answered("run.2", "Found.")),
        ["await user a3.4"]
    );
}

#[test]
fn paor_8_guidance_for_a_stopped_run_applies_before_its_agents_ask_again() {
    let (mut run, _) = acting(may_ask(), &two_and_a_call());
    give(&mut run, 10, asked_question("a2.2"));
    give(&mut run, 20, asked("a3.2"));
    give(&mut run, 30, ended("run.4", ToolResult::success(json!("seen"))));
    assert_eq!(
        give(&mut run, 40, absent("a2.2")),
        ["finish, user intervention required"]
    );
    give(&mut run, 50, resumed());
    give(&mut run, 60, guided("Only a."));
    give(&mut run, 70, guided("Not b."));
    give(&mut run, 80, asked("a3.2"));
    // a call that waits for a decision continues to wait
    assert_eq!(
        give(&mut run, 90, asked_question("a2.2")),
        ["guide agent a2: Only a.\nNot b."]
    );
    // a run that crashes before its agent got the guidance sends it again
    give(&mut run, 100, resumed());
    give(&mut run, 110, asked("a3.2"));
    assert_eq!(
        give(&mut run, 120, asked_question("a2.2")),
        ["guide agent a2: Only a.\nNot b."]
    );
}

#[test]
fn lead_2_a_run_does_not_stop_between_guidance_and_the_withdrawal_of_a_request() {
    let mut spec = may_ask();
    spec.setup.lead.tools.push("change".to_owned());
    let (mut run, _) = running(spec.clone());
    let asks = |known| RunInput::CallAwaitsUser {
        effect: effect("a1.2"),
        guidance: Some(known),
        request: UserRequestKind::Answer,
        allowed: 0,
    };
    assert_eq!(give(&mut run, 10, asks(0)), ["await user a1.2"]);
    let guided = RunInput::Guided {
        guidance: "Take b.".to_owned(),
    };
    give(&mut run, 20, guided);
    // the lead has not received the guidance yet
    refused(&mut run, 30, absent("a1.2"));
    refused(&mut run, 30, asks(0));
    // an approval that the guidance did not change is requested again
    assert_eq!(give(&mut run, 40, asks(1)), ["await user a1.2"]);
    give(&mut run, 50, absent("a1.2"));

    let brief = AgentBrief {
        guidance: Some(0),
        ..started(spec.clone(), AgentRole::Lead).brief().clone()
    };
    let (mut lead, _) = Agent::start(at(0), spec.into(), brief).unwrap();
    let reply = native(vec![call("p", "change", json!({"path": "x"}))]);
    tell(&mut lead, 10, replied("a7.1", reply));
    let guided = AgentInput::RunGuided {
        number: 1,
        guidance: "Go on.".to_owned(),
    };
    assert_eq!(
        agent_outline(&lead.handle(at(20), guided).unwrap()),
        [r#"ask to approve a7.2 change {"path":"x"}"#]
    );
}

#[test]
fn lead_4_after_the_users_answer_the_model_is_asked_whatever_terminate_is() {
    for terminate in [false, true] {
        let mut agent = started(may_ask(), AgentRole::Lead);
        tell(
            &mut agent,
            10,
            replied("a7.1", says_call("ask_user", which(), terminate)),
        );
        assert_eq!(
            tell(&mut agent, 20, answer("a7.2", "neither")),
            ["settled a7.2", "deadline 301010", "ask a7.3"]
        );
        assert_eq!(
            tell(&mut agent, 30, replied("a7.3", text("Then I leave it."))),
            ["finish with Then I leave it."]
        );
    }
}

#[test]
fn loop_1_two_questions_of_one_reply_are_asked_one_after_the_other() {
    let mut agent = started(may_ask(), AgentRole::Lead);
    let second = json!({"question": "And then?"});
    let reply = native(vec![
        call("p", "ask_user", which()),
        call("q", "ask_user", second),
    ]);
    assert_eq!(
        tell(&mut agent, 10, replied("a7.1", reply)),
        ["approval until 61010", r#"ask user a7.2 Which one? ["a", "b"]"#]
    );
    assert_eq!(
        tell(&mut agent, 20, answer("a7.2", "1")),
        [
            "settled a7.2",
            "deadline 301010",
            "approval until 61020",
            "ask user a7.3 And then? []"
        ]
    );
    not_taken(&mut agent, 25, answer("a7.2", "1"));
    assert_eq!(
        tell(&mut agent, 30, answer("a7.3", "Nothing.")),
        ["settled a7.3", "deadline 301020", "ask a7.4"]
    );
    assert_eq!(
        results(&agent),
        [
            json!({"success": true, "output": r#"{"answer":"a"}"#}),
            json!({"success": true, "output": r#"{"answer":"Nothing."}"#, "so_far": "2 calls"})
        ]
    );
}
