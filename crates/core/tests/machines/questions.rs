//! Questions to the user and their answers (PAOR-9), and what a plan says about the user's guidance (PAOR-8).

use dirigent_core::agent::{Agent, AgentInput};
use dirigent_core::machine::Machine;
use dirigent_core::question::{AnswerError, Question};
use dirigent_core::run::{Run, RunInput};
use serde_json::json;

use crate::driver::{give, reflected, reflecting, refused, start_of, told};
use crate::fixture::{agent_outline, at, effect, replied, says_call, spec, text};

fn question(choices: &[&str]) -> Question {
    Question {
        question: "Which one?".to_owned(),
        choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
    }
}

/// A run that asks "Which one?" with the choices a and b, as `run.4`.
fn asking() -> Run {
    let mut run = reflecting(spec());
    give(&mut run, 10, reflected("run.3", "ask_user", "Not clear."));
    assert!(run.question().is_some());
    run
}

fn answer(text: &str) -> RunInput {
    RunInput::UserAnswered {
        effect: effect("run.4"),
        answer: text.to_owned(),
    }
}

#[test]
fn paor_9_a_number_selects_a_choice_and_any_other_text_is_the_answer() {
    let names = question(&["getPrice", "fetchPrice"]);
    for (text, chosen) in [
        ("1", "getPrice"),
        (" 2\n", "fetchPrice"),
        ("02", "fetchPrice"),
        ("fetchPrice", "fetchPrice"),
        ("neither", "neither"),
        ("2 of them", "2 of them"),
        ("1.5", "1.5"),
        ("", ""),
    ] {
        assert_eq!(names.choose(text).as_deref(), Ok(chosen), "{text:?}");
        assert_eq!(names.choose(chosen).as_deref(), Ok(chosen), "{text:?}");
    }
    for number in ["0", "3", "-1", "+3", "99999999999999999999999"] {
        let fault = names.choose(number).unwrap_err();
        assert!(
            matches!(&fault, AnswerError::NoSuchChoice { number: said, .. } if said == number),
            "{fault}"
        );
    }
    assert_eq!(
        names.choose("7").unwrap_err().to_string(),
        "7 is not one of the 2 choices: 1 `getPrice`, 2 `fetchPrice`. Answer with a number from 1 to 2, or with your own text"
    );
}

#[test]
fn paor_9_the_text_of_a_choice_takes_precedence_over_a_number() {
    let counts = question(&["10", "5", "1"]);
    assert_eq!(counts.choose("5").as_deref(), Ok("5"));
    assert_eq!(counts.choose("1").as_deref(), Ok("1"));
    assert_eq!(counts.choose("2").as_deref(), Ok("5"));
}

#[test]
fn paor_9_a_question_without_choices_takes_a_number_as_text() {
    assert_eq!(question(&[]).choose("7").as_deref(), Ok("7"));
}

#[test]
fn paor_9_the_next_plan_is_told_the_text_of_the_choice() {
    let mut run = asking();
    give(&mut run, 20, answer("2"));
    let task = &told(&run, "run.5");
    assert!(
        task.contains(
            r#"<ANSWERS>
{"question":"Which one?","answer":"b"}
</ANSWERS>"#
        ),
        "{task}"
    );
}

#[test]
fn paor_9_the_question_stays_open_after_a_number_that_is_not_a_choice() {
    let mut run = asking();
    let why = refused(&mut run, 20, answer("3"));
    assert!(
        why.starts_with("3 is not one of the 2 choices: 1 `a`, 2 `b`"),
        "{why}"
    );
    give(&mut run, 30, answer("1"));
    assert!(told(&run, "run.5").contains(r#""answer":"a""#));
}

#[test]
fn paor_8_a_lead_that_names_unknown_guidance_is_told_the_valid_numbers() {
    let mut run = asking();
    give(
        &mut run,
        20,
        RunInput::Guided {
            guidance: "only in src".to_owned(),
        },
    );
    give(&mut run, 30, answer("a"));
    let (brief, continuation) = start_of(&run, "run.5");
    let (mut lead, _) = Agent::start(at(0), run.spec().clone(), (*brief).clone()).unwrap();
    let continuation = (*continuation.unwrap()).clone();
    lead.handle(at(10), replied("a1.1", text("A plan, in words.")))
        .unwrap();
    lead.handle(at(40), AgentInput::Continued { continuation })
        .unwrap();
    let plan = |guidance| {
        let parameters = json!({"summary": "Look.", "answers_guidance": [guidance], "subtasks": []});
        says_call("submit_plan", parameters, true)
    };
    let refused = lead.handle(at(50), replied("a1.2", plan(2))).unwrap();
    assert_eq!(agent_outline(&refused), ["ask a1.3"]);
    let told = lead.conversation().last().unwrap().content();
    assert!(
        told.contains("`answers_guidance` contains 2, but the user gave only guidance 1"),
        "{told}"
    );
    let accepted = lead.handle(at(60), replied("a1.3", plan(1))).unwrap();
    assert_eq!(agent_outline(&accepted), ["finish with plan Look."]);
}

#[test]
fn paor_8_without_a_user_guidance_replaces_the_answer() {
    let mut run = asking();
    assert_eq!(
        run.user_absent_input(effect("run.4")),
        RunInput::UserAbsent {
            effect: effect("run.4"),
            guided: false
        }
    );
    let guidance = "only in src".to_owned();
    give(&mut run, 20, RunInput::Guided { guidance });
    assert!(run.question().is_some(), "a user may still answer");
    let absent = run.user_absent_input(effect("run.4"));
    assert_eq!(
        give(&mut run, 30, absent),
        ["Reflecting -> Planning (2)", "continue run.5 a1 lead"]
    );
    assert!(told(&run, "run.5").contains("only in src"));
}
