//! A sub-agent that loops, panics, floods or hangs becomes an observation, and everything else continues (PAOR-7).

use std::time::Duration;

use dirigent::{AgentLimits, Millis, Report};
use dirigent_core::tool::Repeat;
use dirigent_tests::probes::{Notes, break_down, flood, note, wait};
use dirigent_tests::scripted::{Asked, Gate, Reply, Scripted, achieved, after, call, delegate, plan, says};
use dirigent_tests::stage::{Stage, achieved_report, agent, findings, passing};
use serde_json::json;

/// Maximum size of a request in bytes, however much output there was.
const MAX_REQUEST: usize = 1_200_000;

/// The outcome of a run with a misbehaving sub-agent next to one that works, which is followed by a third one.
struct Beside {
    report: Report,
    model: Scripted,
    notes: Notes,
}

async fn beside(limits: AgentLimits, wild: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Beside {
    beside_noting(&Notes::default(), limits, wild).await
}

/// Like `beside`, with notes that the test can read while the run is active.
async fn beside_noting(
    notes: &Notes,
    limits: AgentLimits,
    wild: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> Beside {
    let stage = Stage::new();
    let work = |text: &str| [call("note", json!({"text": text})), says(format!("I {text}."))];
    let model = Scripted::new()
        .lead([plan(
            "All three.",
            [
                delegate("wild", "wild", "Do what you do."),
                delegate("sow", "sower", "Sow."),
                after(delegate("reap", "reaper", "Reap."), ["sow"]),
            ],
        )])
        .agents("wild", wild)
        .agent("sower", work("sow"))
        .agent("reaper", work("reap"))
        .reflector([achieved("Reaped, whatever the wild one did.")]);
    let dirigent = stage
        .builder(model.clone())
        .tool(note(notes))
        .tool(break_down())
        .tool(flood(100_000_000))
        .tool(wait("hold", Repeat::Safe, notes, &Gate::shut()))
        .agent(agent("wild", &["note", "break_down", "flood", "hold"]).limits(limits))
        .agent(agent("sower", &["note"]))
        .agent(agent("reaper", &["note"]))
        .build()
        .await
        .unwrap();

    let run = dirigent.start(stage.goal("Reap")).await.unwrap();
    let report = achieved_report(&run).await;

    assert_eq!(findings(&report, 0, "sow").unwrap(), "I sow.");
    assert_eq!(findings(&report, 0, "reap").unwrap(), "I reap.");
    for asked in model.asked() {
        let length: usize = asked.messages.iter().map(|message| message.content().len()).sum();
        assert!(length < MAX_REQUEST, "{:?} was sent {length} bytes", asked.who);
    }
    Beside {
        report: Report::clone(&report),
        model,
        notes: notes.clone(),
    }
}

impl Beside {
    fn wild(&self) -> Result<String, String> {
        findings(&self.report, 0, "wild")
    }

    /// Checks the misbehaving agent's observation in the reflector's request.
    #[track_caller]
    fn assert_observed(&self, status: &str, text: &str) {
        let observed = self.model.reflector_asked()[0].observations("OBSERVATIONS");
        let wild = observed.iter().find(|line| line["subtask"] == "wild").unwrap();
        assert_eq!(wild["status"], status);
        assert!(wild.to_string().contains(text), "{wild}");
    }
}

fn within(timeout: Millis) -> AgentLimits {
    AgentLimits {
        timeout,
        ..AgentLimits::default()
    }
}

#[tokio::test]
async fn paor_7_loop_10_a_subagent_that_repeats_itself_is_an_observation() {
    let seen = beside(AgentLimits::default(), |_| call("note", json!({"text": "again"}))).await;

    let error =
        "the agent is stuck: it called `note` 6 times with the same parameters and got the same result";
    assert_eq!(seen.wild().unwrap_err(), error);
    seen.assert_observed("failed", error);
    assert_eq!(seen.notes.all().iter().filter(|text| *text == "again").count(), 6);
}

#[tokio::test]
async fn paor_7_a_sub_agent_that_never_ends_becomes_an_observation() {
    let seen = beside(AgentLimits::default(), |asked| {
        call("note", json!({"text": format!("step {}", asked.messages.len())}))
    })
    .await;

    let error = "the agent reached its limit of 10 model turns before it finished: raise `max_turns` in this agent's limits";
    assert_eq!(seen.wild().unwrap_err(), error);
    seen.assert_observed("failed", error);
}

#[tokio::test]
async fn paor_7_a_model_that_panics_is_an_observation() {
    let seen = beside(AgentLimits::default(), |_| {
        Reply::Panics("the wild one broke down")
    })
    .await;

    let error = seen.wild().unwrap_err();
    assert!(error.contains("the wild one broke down"), "{error}");
    seen.assert_observed("failed", "the wild one broke down");
}

#[tokio::test]
async fn paor_7_a_tool_that_panics_is_a_result_for_its_agent() {
    let seen = beside(AgentLimits::default(), |asked| match asked.messages.len() {
        2 => call("break_down", json!({})),
        _ => says(asked.result()["error"].as_str().unwrap()),
    })
    .await;

    assert_eq!(
        seen.wild().unwrap(),
        "the tool `break_down` panicked: the valve came off"
    );
    seen.assert_observed("succeeded", "the valve came off");
}

#[tokio::test]
async fn paor_7_a_model_that_hangs_is_an_observation() {
    let seen = beside(within(Millis(50)), |_| Reply::Never).await;

    assert!(
        seen.wild().unwrap_err().contains("time limit of 50 ms"),
        "{:?}",
        seen.wild()
    );
    seen.assert_observed("failed", "time limit of 50 ms");
    assert_eq!(seen.model.dropped(), 1, "nobody waits for it any more");
}

#[tokio::test]
async fn paor_7_a_tool_that_hangs_is_an_observation_and_is_cancelled() {
    let (notes, minute) = (Notes::default(), Duration::from_secs(60));
    let run = beside_noting(&notes, within(minute.into()), |_| call("hold", json!({})));
    let seen = passing(run, minute, notes.until("started")).await;

    let error = seen.wild().unwrap_err();
    assert!(error.contains("time limit of 1 min"), "{error}");
    let held: Vec<String> = seen
        .notes
        .all()
        .into_iter()
        .filter(|note| note != "sow" && note != "reap")
        .collect();
    assert_eq!(held, ["started", "cancelled"]);
}

#[tokio::test]
async fn paor_7_a_very_long_tool_output_is_passed_on_in_part() {
    let seen = beside(AgentLimits::default(), |asked| match asked.messages.len() {
        2 => call("flood", json!({})),
        _ => says("That was too much."),
    })
    .await;

    let told = seen.model.agent_asked("wild")[1].result();
    let output = told["output"].as_str().unwrap();
    assert!(output.contains(" characters left out: not shown]"), "{output}");
    assert!(output.len() < 20_000, "{}", output.len());
    assert_eq!(seen.wild().unwrap(), "That was too much.");
    seen.assert_observed("succeeded", "flood");
}

#[tokio::test]
async fn paor_7_a_very_long_reply_is_passed_on_in_part() {
    let seen = beside(AgentLimits::default(), |_| says("flood ".repeat(10_000_000 / 6))).await;

    assert!(seen.wild().unwrap().starts_with("flood flood"));
    seen.assert_observed("succeeded", "flood");
}
