#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent::events::{Approval, Digest, Question};
use dirigent::events::{OpenQuestion, Timestamp};
use dirigent::report::WaitingCall;
use dirigent::{Policy, RunId};
use serde_json::{Value, json};

use super::*;

const TERMINAL_SIZE: TerminalSize = TerminalSize {
    rows: 30,
    columns: 100,
};

fn call(effect: &str, parameters: Value) -> PendingCall {
    let approval = Approval {
        effect: effect.parse().unwrap(),
        agent: Some("implement".to_owned()),
        tool: "execute_command".to_owned(),
        parameters,
        workspace: "/shop".to_owned(),
        asked_at: Timestamp(0),
        expires_at: None,
        digest: digest(effect),
    };
    let call = WaitingCall {
        approval: Arc::new(approval),
        subtask: None,
        dependents: 0,
        suggestions: Vec::new(),
    };
    PendingCall {
        call,
        affected_subtasks: Vec::new(),
        proposal: None,
        suggestions: Vec::new(),
    }
}

fn digest(effect: &str) -> Digest {
    Digest(format!("digest of {effect}"))
}

fn waiting<const N: usize>(calls: [&str; N]) -> PendingRequests {
    let calls = calls.map(|effect| call(effect, json!({"command": ["ls"]})));
    PendingRequests {
        calls: calls.to_vec(),
        questions: Vec::new(),
        policy: Policy::default(),
        folder: "/shop".to_owned(),
    }
}

fn asking(choices: &[&str]) -> PendingRequests {
    let question = Question {
        question: "Which name?".to_owned(),
        choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
    };
    PendingRequests {
        calls: Vec::new(),
        questions: vec![open("run.9", question)],
        policy: Policy::default(),
        folder: "/shop".to_owned(),
    }
}

fn open(effect: &str, question: Question) -> OpenQuestion {
    OpenQuestion {
        effect: effect.parse().unwrap(),
        agent: None,
        question,
        asked_at: Timestamp(0),
        expires_at: None,
    }
}

fn keys(text: &str) -> Vec<Key> {
    text.chars()
        .map(|c| match c {
            '\n' => Key::Enter,
            '\u{15}' => Key::Clear,
            '\u{4}' => Key::Eof,
            c => Key::Char(c),
        })
        .collect()
}

/// Presses the keys for a string after all output has become visible.
fn types(controller: &mut PromptController, text: &str) -> Vec<Action> {
    keys(text)
        .into_iter()
        .flat_map(|key| controller.press(key, TERMINAL_SIZE))
        .collect()
}

/// A controller with an open dialog for these requests.
fn opened(requests: PendingRequests) -> PromptController {
    let mut controller = PromptController::default();
    assert!(matches!(
        controller.update(requests, TERMINAL_SIZE)[..],
        [Action::Open(_)]
    ));
    assert_eq!(controller.open(), []);
    controller
}

fn decision(effect: &str, answer: ApprovalAnswer) -> Action {
    Action::Send(Steering::Decide {
        effect: effect.parse().unwrap(),
        decision: Decision {
            digest: digest(effect),
            answer,
        },
    })
}

fn guidance(text: &str) -> Action {
    Action::Send(Steering::Guide {
        guidance: text.to_owned(),
    })
}

fn message(action: &Action) -> &Steering {
    match action {
        Action::Send(message) => message,
        other => panic!("{other:?}"),
    }
}

/// The lines that the actions show.
fn shown(actions: &[Action]) -> String {
    let lines = actions.iter().flat_map(|action| match action {
        Action::Show(lines) | Action::Open(lines) => lines.clone(),
        _ => Vec::new(),
    });
    console::strip_ansi_codes(&lines.collect::<Vec<_>>().join("\n")).into_owned()
}

fn refused(error: DecisionError) -> DirigentError {
    let run: RunId = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse().unwrap();
    RuntimeError::Decision { run, error }.into()
}

#[test]
fn paor_8_a_typed_line_is_guidance_and_with_an_exclamation_mark_immediate_guidance() {
    let mut controller = PromptController::default();
    assert_eq!(
        types(&mut controller, "search only in src\n"),
        [guidance("search only in src")]
    );
    let now = Steering::Redirect {
        guidance: "stop that".to_owned(),
    };
    assert_eq!(types(&mut controller, "! stop that\n"), [Action::Send(now)]);
    assert_eq!(types(&mut controller, "\n  \n!\n"), []);
}

#[test]
fn approve_2_each_answer_goes_to_the_call_that_is_shown() {
    for (typed, answer) in [
        ("a\n", ApprovalAnswer::Approve),
        ("r\n", ApprovalAnswer::Reject { reason: None }),
        (
            "r not here\n",
            ApprovalAnswer::Reject {
                reason: Some("not here".to_owned()),
            },
        ),
        (
            "g use cargo check\n",
            ApprovalAnswer::Guide {
                guidance: "use cargo check".to_owned(),
            },
        ),
        (
            "e\n\u{15}{\"command\": [\"pwd\"]}\n",
            ApprovalAnswer::Edit {
                parameters: json!({"command": ["pwd"]}),
            },
        ),
    ] {
        let mut controller = opened(waiting(["a3.7"]));
        assert_eq!(
            types(&mut controller, typed),
            [decision("a3.7", answer)],
            "{typed:?}"
        );
    }
}

#[test]
fn approve_3_enter_alone_and_unknown_words_decide_nothing() {
    let mut controller = opened(waiting(["a3.7"]));
    for typed in ["\n", "y\n", "yes\n", "aa\n", "a now\n"] {
        let actions = types(&mut controller, typed);
        assert!(
            shown(&actions).contains("nothing was decided"),
            "{typed:?}: {actions:?}"
        );
        assert!(controller.has_dialog());
    }
}

#[test]
fn approve_3_keys_typed_before_a_dialog_was_visible_approve_nothing_and_are_kept() {
    let mut controller = PromptController::default();
    controller.update(waiting(["a3.7"]), TERMINAL_SIZE);
    controller.buffer_keys(keys("a\n"));
    assert!(shown(&controller.open()).contains("Enter sends it as guidance"));
    assert_eq!(controller.prompt().text, "a");
    assert_eq!(
        controller.prompt().label,
        "guidance (a3.7 is still waiting for your answer): "
    );
    // Once the draft is deleted, keys go to the dialog.
    assert_eq!(types(&mut controller, "\u{15}"), []);
    assert_eq!(controller.prompt().label, "a3.7: ");
    assert_eq!(
        types(&mut controller, "a\n"),
        [decision("a3.7", ApprovalAnswer::Approve)]
    );
}

#[test]
fn approve_3_a_dialog_takes_no_key_from_a_line_that_is_being_typed() {
    let mut controller = PromptController::default();
    types(&mut controller, "search only in ");
    controller.update(waiting(["a3.7"]), TERMINAL_SIZE);
    controller.open();
    assert_eq!(types(&mut controller, "src\n"), [guidance("search only in src")]);
    assert_eq!(types(&mut controller, "l\n"), []);
    assert!(!controller.has_dialog());
}

#[test]
fn host_11_calls_are_shown_one_after_the_other_and_later_is_not_a_decision() {
    let mut controller = opened(waiting(["a3.7", "a4.2"]));
    let next = types(&mut controller, "l\n");
    assert!(shown(&next).contains("a4.2"), "{next:?}");
    controller.open();
    let actions = types(&mut controller, "a\n");
    assert_eq!(actions, [decision("a4.2", ApprovalAnswer::Approve)]);
    // The run's view shows the decision only later.
    assert_eq!(
        controller.on_result(message(&actions[0]), None, TERMINAL_SIZE),
        []
    );
    assert_eq!(controller.update(waiting(["a3.7", "a4.2"]), TERMINAL_SIZE), []);
    assert!(controller.prompt().hint.contains("Enter: show the waiting call"));
    assert!(shown(&types(&mut controller, "\n")).contains("a3.7"));
}

#[test]
fn approve_3_a_call_that_was_answered_elsewhere_closes_its_dialog() {
    let mut controller = opened(waiting(["a3.7", "a4.2"]));
    types(&mut controller, "r becau");
    let actions = controller.update(waiting(["a4.2"]), TERMINAL_SIZE);
    assert!(
        shown(&actions).starts_with("  a3.7 no longer needs an answer\n! a4.2:"),
        "{actions:?}"
    );
    controller.open();
    assert_eq!(controller.prompt().label, "a4.2: ");
}

#[test]
fn approve_3_a_refused_decision_says_why_and_parameters_can_be_corrected() {
    let mut controller = opened(waiting(["a3.7"]));
    let actions = types(&mut controller, "e\n\u{15}{\"command\": 1}\n");
    let fault = refused(DecisionError::Parameters("`command` must be a list".to_owned()));
    let told = controller.on_result(message(&actions[0]), Some(&fault), TERMINAL_SIZE);
    assert!(shown(&told).contains("`command` must be a list"));
    assert_eq!(controller.prompt().text, r#"{"command":1}"#);
    let effect = "a3.7".parse().unwrap();
    let actions = types(&mut controller, "\u{15}[]\n");
    let late = refused(DecisionError::Expired { effect });
    assert!(
        shown(&controller.on_result(message(&actions[0]), Some(&late), TERMINAL_SIZE))
            .contains("has expired")
    );
    assert!(!controller.has_dialog());
}

#[test]
fn approve_2_unchanged_parameters_or_parameters_that_are_not_json_decide_nothing() {
    let mut controller = opened(waiting(["a3.7"]));
    types(&mut controller, "e\n");
    assert_eq!(controller.prompt().text, r#"{"command":["ls"]}"#);
    assert!(shown(&types(&mut controller, "\n")).contains("nothing was changed"));
    assert!(shown(&types(&mut controller, "e\n\u{15}{\"command\": \n")).contains("this is not JSON"));
    assert_eq!(controller.prompt().text, r#"{"command": "#);
    assert!(shown(&types(&mut controller, "\u{15}\n")).contains("nothing was changed"));
    assert_eq!(controller.prompt().label, "a3.7: ");
}

#[test]
fn approve_1_a_call_too_long_for_the_screen_is_approved_only_once_fully_shown() {
    let lines: Vec<String> = (1..=100).map(|line| format!("line {line}")).collect();
    let mut controller = PromptController::default();
    let requests = PendingRequests {
        calls: vec![call("a3.7", json!({"content": lines.join("\n")}))],
        questions: Vec::new(),
        policy: Policy::default(),
        folder: "/shop".to_owned(),
    };
    let actions = controller.update(requests, TERMINAL_SIZE);
    let first = shown(&actions);
    assert!(
        first.contains("line 1\n") && !first.contains("line 100"),
        "{first}"
    );
    assert!(
        first.contains("more lines") && first.contains("are not shown: v shows the whole call"),
        "{first}"
    );
    controller.open();
    assert!(shown(&types(&mut controller, "a\n")).contains("you have not seen the whole call"));
    let all = shown(&types(&mut controller, "v\n"));
    assert!(
        all.contains("│ line 1\n") && all.contains("│ line 100\n"),
        "{all}"
    );
    assert_eq!(
        types(&mut controller, "a\n"),
        [decision("a3.7", ApprovalAnswer::Approve)]
    );
}

#[test]
fn paor_9_a_question_is_answered_in_words_or_by_a_number() {
    for (typed, answer) in [("neither\n", "neither"), ("\n2\n", "getPrice")] {
        let mut controller = opened(asking(&["readPrice", "getPrice"]));
        let message = Steering::Answer {
            effect: "run.9".parse().unwrap(),
            answer: answer.to_owned(),
        };
        assert_eq!(types(&mut controller, typed), [Action::Send(message)]);
    }
}

#[test]
fn paor_9_the_question_stays_open_after_a_number_that_is_not_a_choice() {
    let mut controller = opened(asking(&["readPrice", "getPrice"]));
    let told = shown(&types(&mut controller, "3\n"));
    assert!(
        told.contains("3 is not one of the 2 choices: 1 `readPrice`, 2 `getPrice`"),
        "{told}"
    );
    let message = Steering::Answer {
        effect: "run.9".parse().unwrap(),
        answer: "readPrice".to_owned(),
    };
    assert_eq!(types(&mut controller, "1\n"), [Action::Send(message)]);
}

#[test]
fn paor_9_a_user_who_has_left_is_not_asked_any_more() {
    let mut controller = opened(asking(&[]));
    assert_eq!(types(&mut controller, "\u{4}"), [Action::SetUserAbsent]);
    assert_eq!(controller.update(asking(&[]), TERMINAL_SIZE), []);
    let mut controller = PromptController::default();
    assert!(shown(&types(&mut controller, "\u{4}")).contains("no request is waiting for you"));
}

#[test]
fn paor_9_a_question_that_is_answered_by_the_command_line_is_not_asked() {
    let mut controller = PromptController::default();
    controller.mark_answered("run.9".parse().unwrap());
    let requests = PendingRequests {
        questions: vec![open("run.9+1", asking(&[]).questions.remove(0).question)],
        policy: Policy::default(),
        folder: "/shop".to_owned(),
        ..PendingRequests::default()
    };
    assert_eq!(controller.update(requests, TERMINAL_SIZE), []);
}

#[test]
fn host_11_questions_of_several_agents_are_asked_one_after_the_other() {
    let question = |text: &str| Question {
        question: text.to_owned(),
        choices: Vec::new(),
    };
    let of_agent = |effect: &str, name: &str, text: &str| OpenQuestion {
        agent: Some(name.to_owned()),
        ..open(effect, question(text))
    };
    let requests = PendingRequests {
        questions: vec![
            of_agent("a3.2", "explore", "Which folder?"),
            of_agent("a4.2", "implement", "Which name?"),
        ],
        ..PendingRequests::default()
    };
    let mut controller = PromptController::default();
    let first = shown(&controller.update(requests, TERMINAL_SIZE));
    assert!(
        first.contains("a3.2: explore (a3) asks: Which folder?"),
        "{first}"
    );
    controller.open();
    let message = Steering::Answer {
        effect: "a3.2".parse().unwrap(),
        answer: "src".to_owned(),
    };
    assert_eq!(types(&mut controller, "src\n"), [Action::Send(message.clone())]);
    let second = shown(&controller.on_result(&message, None, TERMINAL_SIZE));
    assert!(
        second.contains("a4.2: implement (a4) asks: Which name?"),
        "{second}"
    );
}

#[test]
fn esc_cancels_a_turn_of_a_chat_and_nothing_else() {
    let press = |in_chat| PromptController::new(in_chat).press(Key::Escape, TERMINAL_SIZE);
    assert_eq!(press(true), [Action::Cancel]);
    assert_eq!(press(false), []);
}

#[test]
fn approve_1_no_dialog_opens_for_calls_that_a_saved_rule_approves() {
    let mut requests = waiting(["a2.2", "a3.2"]);
    let rule: CallPattern = "execute_command(command: ls)".parse().unwrap();
    requests.calls[0].suggestions = vec![rule.clone()];
    let mut controller = PromptController::default();
    let _ = controller.update(requests.clone(), TERMINAL_SIZE);
    let _ = controller.open();
    let offered = types(&mut controller, "always\n");
    assert!(
        shown(&offered).contains("1  execute_command(command: ls)"),
        "{offered:?}"
    );
    assert!(shown(&types(&mut controller, "1 everywhere\n")).contains("in all runs, in any folder"));
    let kept = types(&mut controller, "y\n");
    let within = Within::Everywhere;
    assert_eq!(
        kept,
        [Action::Always {
            calls: rule.clone(),
            within
        }]
    );

    requests.calls.push(call("a4.2", json!({"command": ["rm"]})));
    assert_eq!(controller.update(requests.clone(), TERMINAL_SIZE), []);
    // The second waiting call is allowed as well; the third is not.
    let asked = controller.rule_saved(&rule, TERMINAL_SIZE);
    assert!(
        matches!(&asked[..], [Action::Open(lines)] if lines[0].contains("a4.2")),
        "{asked:?}"
    );
}

#[test]
fn approve_1_always_is_not_offered_for_calls_that_no_rule_can_allow() {
    let mut controller = PromptController::default();
    let _ = controller.update(waiting(["a2.2"]), TERMINAL_SIZE);
    let _ = controller.open();
    let refused = shown(&types(&mut controller, "always\n"));
    assert!(refused.contains("no rule can allow this call"), "{refused}");
}

#[test]
fn approve_1_esc_leaves_the_choice_of_a_rule_and_not_the_turn() {
    let mut requests = waiting(["a2.2"]);
    requests.calls[0].suggestions = vec!["execute_command(command: ls)".parse().unwrap()];
    let mut controller = PromptController::new(true);
    let _ = controller.update(requests, TERMINAL_SIZE);
    let _ = controller.open();
    for step in ["always\n", "always\n1 run\n", "e\n"] {
        let _ = types(&mut controller, step);
        let left = controller.press(Key::Escape, TERMINAL_SIZE);
        assert_eq!(shown(&left), "  nothing was decided", "{step}");
        assert_eq!(left.len(), 1);
    }
    assert_eq!(controller.press(Key::Escape, TERMINAL_SIZE), [Action::Cancel]);
}
