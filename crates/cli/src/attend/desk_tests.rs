#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dirigent::RunId;
use dirigent::core::approval::{Approval, Digest};
use dirigent::core::run::WaitingCall;
use dirigent::core::time::Timestamp;
use serde_json::{Value, json};

use super::*;

const SIGHT: Sight = Sight {
    rows: 30,
    columns: 100,
};

fn call(effect: &str, parameters: Value) -> Waiting {
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
    };
    Waiting {
        call,
        on_it: Vec::new(),
    }
}

fn digest(effect: &str) -> Digest {
    Digest(format!("digest of {effect}"))
}

fn waiting<const N: usize>(calls: [&str; N]) -> Waits {
    let calls = calls.map(|effect| call(effect, json!({"command": ["ls"]})));
    Waits {
        calls: calls.to_vec(),
        question: None,
    }
}

fn asking(choices: &[&str]) -> Waits {
    let question = Question {
        question: "Which name?".to_owned(),
        choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
    };
    Waits {
        calls: Vec::new(),
        question: Some(("run.9".parse().unwrap(), question)),
    }
}

fn keys(text: &str) -> Vec<Key> {
    text.chars()
        .map(|c| match c {
            '\n' => Key::Enter,
            '\u{15}' => Key::Clear,
            '\u{4}' => Key::Leave,
            c => Key::Char(c),
        })
        .collect()
}

/// Types, as someone does who sees what is on the table.
fn types(desk: &mut Desk, text: &str) -> Vec<Act> {
    keys(text)
        .into_iter()
        .flat_map(|key| desk.press(key, SIGHT))
        .collect()
}

/// A desk on which that lies, shown and open.
fn opened(waits: Waits) -> Desk {
    let mut desk = Desk::default();
    assert!(matches!(desk.look(waits, SIGHT)[..], [Act::Open(_)]));
    assert_eq!(desk.open(), []);
    desk
}

fn decision(effect: &str, answer: ApprovalAnswer) -> Act {
    Act::Say(Steering::Decide {
        effect: effect.parse().unwrap(),
        decision: Decision {
            digest: digest(effect),
            answer,
        },
    })
}

fn guidance(text: &str) -> Act {
    Act::Say(Steering::Guide {
        guidance: text.to_owned(),
    })
}

fn said(act: &Act) -> &Steering {
    match act {
        Act::Say(said) => said,
        Act::Show(_) | Act::Open(_) | Act::Leave => panic!("{act:?}"),
    }
}

/// What an act shows, if that is what it does.
fn shown(acts: &[Act]) -> String {
    let lines = acts.iter().flat_map(|act| match act {
        Act::Show(lines) | Act::Open(lines) => lines.clone(),
        Act::Say(_) | Act::Leave => Vec::new(),
    });
    console::strip_ansi_codes(&lines.collect::<Vec<_>>().join("\n")).into_owned()
}

fn refused(fault: DecisionFault) -> DirigentError {
    let run: RunId = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab".parse().unwrap();
    RuntimeError::Decision { run, fault }.into()
}

#[test]
fn paor_8_a_line_is_guidance_and_with_a_mark_at_once() {
    let mut desk = Desk::default();
    assert_eq!(
        types(&mut desk, "search only in src\n"),
        [guidance("search only in src")]
    );
    let now = Steering::Redirect {
        guidance: "stop that".to_owned(),
    };
    assert_eq!(types(&mut desk, "! stop that\n"), [Act::Say(now)]);
    assert_eq!(types(&mut desk, "\n  \n!\n"), []);
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
        let mut desk = opened(waiting(["a3.7"]));
        assert_eq!(types(&mut desk, typed), [decision("a3.7", answer)], "{typed:?}");
    }
}

#[test]
fn approve_3_enter_alone_and_what_is_not_understood_decide_nothing() {
    let mut desk = opened(waiting(["a3.7"]));
    for typed in ["\n", "y\n", "yes\n", "aa\n", "a now\n"] {
        let acts = types(&mut desk, typed);
        assert!(
            shown(&acts).contains("nothing was decided"),
            "{typed:?}: {acts:?}"
        );
        assert!(desk.is_asking());
    }
}

#[test]
fn approve_3_what_was_typed_before_a_dialog_could_be_seen_approves_nothing_and_is_kept() {
    let mut desk = Desk::default();
    desk.look(waiting(["a3.7"]), SIGHT);
    desk.typed_before(keys("a\n"));
    assert!(shown(&desk.open()).contains("Enter sends it as guidance"));
    assert_eq!(desk.prompt().text, "a");
    assert_eq!(desk.prompt().label, "guidance, before you answer a3.7: ");
    // Dropped, the keys are for the call.
    assert_eq!(types(&mut desk, "\u{15}"), []);
    assert_eq!(desk.prompt().label, "a3.7: ");
    assert_eq!(
        types(&mut desk, "a\n"),
        [decision("a3.7", ApprovalAnswer::Approve)]
    );
}

#[test]
fn approve_3_a_dialog_takes_no_key_from_a_line_that_is_being_typed() {
    let mut desk = Desk::default();
    types(&mut desk, "search only in ");
    desk.look(waiting(["a3.7"]), SIGHT);
    desk.open();
    assert_eq!(types(&mut desk, "src\n"), [guidance("search only in src")]);
    assert_eq!(types(&mut desk, "l\n"), []);
    assert!(!desk.is_asking());
}

#[test]
fn host_11_several_calls_are_shown_one_after_the_other_and_later_is_no_decision() {
    let mut desk = opened(waiting(["a3.7", "a4.2"]));
    let next = types(&mut desk, "l\n");
    assert!(shown(&next).contains("a4.2"), "{next:?}");
    desk.open();
    let acts = types(&mut desk, "a\n");
    assert_eq!(acts, [decision("a4.2", ApprovalAnswer::Approve)]);
    // The run's view does not show it at once.
    assert_eq!(desk.told(said(&acts[0]), None, SIGHT), []);
    assert_eq!(desk.look(waiting(["a3.7", "a4.2"]), SIGHT), []);
    assert!(desk.prompt().hint.contains("Enter shows the call that waits"));
    assert!(shown(&types(&mut desk, "\n")).contains("a3.7"));
}

#[test]
fn approve_3_a_call_that_was_answered_elsewhere_leaves_the_table() {
    let mut desk = opened(waiting(["a3.7", "a4.2"]));
    types(&mut desk, "r becau");
    let acts = desk.look(waiting(["a4.2"]), SIGHT);
    assert!(
        shown(&acts).starts_with("  a3.7 needs no answer any more\n! a4.2:"),
        "{acts:?}"
    );
    desk.open();
    assert_eq!(desk.prompt().label, "a4.2: ");
}

#[test]
fn approve_3_a_refused_decision_says_why_and_parameters_can_be_corrected() {
    let mut desk = opened(waiting(["a3.7"]));
    let acts = types(&mut desk, "e\n\u{15}{\"command\": 1}\n");
    let fault = refused(DecisionFault::Parameters("`command` must be a list".to_owned()));
    let told = desk.told(said(&acts[0]), Some(&fault), SIGHT);
    assert!(shown(&told).contains("`command` must be a list"));
    assert_eq!(desk.prompt().text, r#"{"command":1}"#);
    let effect = "a3.7".parse().unwrap();
    let acts = types(&mut desk, "\u{15}[]\n");
    let late = refused(DecisionFault::Expired { effect });
    assert!(shown(&desk.told(said(&acts[0]), Some(&late), SIGHT)).contains("has expired"));
    assert!(!desk.is_asking());
}

#[test]
fn approve_2_parameters_that_are_no_json_or_not_changed_decide_nothing() {
    let mut desk = opened(waiting(["a3.7"]));
    types(&mut desk, "e\n");
    assert_eq!(desk.prompt().text, r#"{"command":["ls"]}"#);
    assert!(shown(&types(&mut desk, "\n")).contains("nothing was changed"));
    assert!(shown(&types(&mut desk, "e\n\u{15}{\"command\": \n")).contains("that is no JSON"));
    assert_eq!(desk.prompt().text, r#"{"command": "#);
    assert!(shown(&types(&mut desk, "\u{15}\n")).contains("nothing was changed"));
    assert_eq!(desk.prompt().label, "a3.7: ");
}

#[test]
fn approve_1_a_call_too_long_for_the_screen_is_not_approved_before_all_of_it_was_shown() {
    let lines: Vec<String> = (1..=100).map(|line| format!("line {line}")).collect();
    let mut desk = Desk::default();
    let waits = Waits {
        calls: vec![call("a3.7", json!({"content": lines.join("\n")}))],
        question: None,
    };
    let acts = desk.look(waits, SIGHT);
    let first = shown(&acts);
    assert!(
        first.contains("line 1\n") && !first.contains("line 100"),
        "{first}"
    );
    assert!(
        first.contains("more lines") && first.contains("are not shown: v shows all of it"),
        "{first}"
    );
    desk.open();
    assert!(shown(&types(&mut desk, "a\n")).contains("you have not seen all of it"));
    let all = shown(&types(&mut desk, "v\n"));
    assert!(
        all.contains("│ line 1\n") && all.contains("│ line 100\n"),
        "{all}"
    );
    assert_eq!(
        types(&mut desk, "a\n"),
        [decision("a3.7", ApprovalAnswer::Approve)]
    );
}

#[test]
fn paor_9_a_question_is_answered_in_words_or_by_a_number() {
    for (typed, answer) in [("neither\n", "neither"), ("\n2\n", "getPrice")] {
        let mut desk = opened(asking(&["readPrice", "getPrice"]));
        let said = Steering::Answer {
            effect: "run.9".parse().unwrap(),
            answer: answer.to_owned(),
        };
        assert_eq!(types(&mut desk, typed), [Act::Say(said)]);
    }
}

#[test]
fn paor_9_after_a_number_of_no_choice_the_question_is_still_on_the_table() {
    let mut desk = opened(asking(&["readPrice", "getPrice"]));
    let told = shown(&types(&mut desk, "3\n"));
    assert!(
        told.contains("3 is none of the 2 choices: 1 `readPrice`, 2 `getPrice`"),
        "{told}"
    );
    let said = Steering::Answer {
        effect: "run.9".parse().unwrap(),
        answer: "readPrice".to_owned(),
    };
    assert_eq!(types(&mut desk, "1\n"), [Act::Say(said)]);
}

#[test]
fn paor_9_who_leaves_is_asked_nothing_more() {
    let mut desk = opened(asking(&[]));
    assert_eq!(types(&mut desk, "\u{4}"), [Act::Leave]);
    assert_eq!(desk.look(asking(&[]), SIGHT), []);
    let mut desk = Desk::default();
    assert!(shown(&types(&mut desk, "\u{4}")).contains("nothing waits for you"));
}

#[test]
fn paor_9_a_question_that_is_answered_by_the_command_line_is_not_asked() {
    let mut desk = Desk::default();
    desk.settle("run.9".parse().unwrap());
    let waits = Waits {
        question: asking(&[])
            .question
            .map(|(_, question)| ("run.9+1".parse().unwrap(), question)),
        ..Waits::default()
    };
    assert_eq!(desk.look(waits, SIGHT), []);
}
