//! HOST-6: one budget for a run and all its agents, reserved before it is used.

use dirigent_core::budget::BudgetKind;
use dirigent_core::call::CallForm;
use dirigent_core::end_reason::EndReason;
use dirigent_core::message::ModelReply;
use dirigent_core::observation::ObservationStatus;
use dirigent_core::price::{Cost, Price};
use dirigent_core::run::Report;
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use dirigent_runtime::{Resume, UserPresence};
use dirigent_tools::ToolRegistry;
use serde_json::{Value, json};

use crate::resuming::cut_off;
use crate::script::{Asked, Gate, Reply, Scripted, achieved, plan, plan_work, say, work};
use crate::world::{World, ended, start_up, within};

fn using(tokens: u64, reply: Reply) -> Reply {
    reply.map(|mut reply| {
        reply.usage.output_tokens = tokens;
        reply
    })
}

async fn plan_and_work(asked: Asked) -> Reply {
    match asked.who() {
        "lead" => plan_work(),
        "worker" => using(600, say("worked")),
        _ => achieved(),
    }
}

fn budget_exceeded(report: &Report) -> (BudgetKind, u64, u64) {
    match report.end {
        Some(EndReason::BudgetExhausted { budget, used, limit }) => (budget, used, limit),
        ref other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn host_6_a_request_that_has_no_room_is_not_sent() {
    let mut world = World::new(Scripted::new(plan_and_work), ToolRegistry::new()).await;
    world.spec.limits.max_tokens = Some(900);
    let report = world.run().await;
    assert_eq!(budget_exceeded(&report), (BudgetKind::Tokens, 625, 900));
    assert_eq!(world.model.asked(), 2, "the reflector was not asked");
    assert_eq!(report.usage.tokens(), 625);
}

#[tokio::test]
async fn host_6_tool_definitions_that_are_sent_with_a_request_are_reserved() {
    for (calls, asked) in [(CallForm::Native, 0), (CallForm::Json, 3)] {
        let mut world = World::new(Scripted::new(plan_and_work), ToolRegistry::new()).await;
        world.spec.limits.max_tokens = Some(5_000);
        world.spec.setup.lead.profile.calls = calls;
        world.spec.setup.lead.tools.push("look".to_owned());
        world.spec.setup.tools.push(ToolSpec {
            category: ToolCategory::Other,
            changes_where: None,
            read_only: None,
            name: "look".to_owned(),
            description: "Looks. ".repeat(3_000),
            parameters: json!({"type": "object"}),
            repeat: Repeat::Safe,
            access: Access::ReadOnly,
            requires_approval: false,
            approval_where: None,
            rules: Vec::new(),
            example: Value::Null,
        });
        let report = world.run().await;
        assert_eq!(world.model.asked(), asked, "{calls:?}: {:?}", report.end);
        assert_eq!(report.is_achieved(), asked > 0);
    }
}

#[tokio::test]
async fn host_6_model_calls_are_a_budget_too() {
    let mut world = World::new(Scripted::new(plan_and_work), ToolRegistry::new()).await;
    world.spec.limits.max_model_calls = Some(2);
    let report = world.run().await;
    assert_eq!(budget_exceeded(&report), (BudgetKind::ModelCalls, 2, 2));
    assert_eq!(world.model.asked(), 2);
}

#[tokio::test]
async fn host_6_money_is_reserved_at_the_price_of_the_model() {
    let dollar = Cost(1_000_000_000);
    let price = Price {
        input: Cost::ZERO,
        cached_input: Cost::ZERO,
        // A thousand tokens cost a dollar.
        output: Cost(1_000 * dollar.0),
    };
    let priced = move |reply: Reply| {
        reply.map(|mut reply: ModelReply| {
            reply.usage.cost = price.cost(0, 0, reply.usage.output_tokens);
            reply
        })
    };
    let model = Scripted::new(move |asked: Asked| async move {
        assert!(asked.max_output_tokens().unwrap() <= 1_000);
        priced(plan_and_work(asked).await)
    });
    let mut world = World::new(model, ToolRegistry::new()).await;
    let setup = &mut *world.spec.setup;
    for agent in [&mut setup.lead, &mut setup.reflector] {
        agent.profile.price = Some(price);
    }
    world.spec.setup.agents[0].profile.price = Some(price);
    world.spec.limits.max_cost = Some(dollar);
    world.spec.limits.max_iterations = 3;
    let report = world.run().await;
    // 605 tokens exceed the budget. The reflector's minimum of 256 would fit, so the run still ends as achieved within the dollar.
    assert!(report.is_achieved(), "{:?}", report.end);
    assert!(report.usage.cost <= dollar);
    world.spec.limits.max_cost = Some(Cost(700_000_000));
    let report = world.run().await;
    let (budget, used, _) = budget_exceeded(&report);
    assert_eq!((budget, Cost(used)), (BudgetKind::Cost, Cost(605_000_000)));
}

/// Two workers whose requests wait at the gate, in a budget that is sufficient for one of them at a time.
#[tokio::test]
async fn host_6_agents_wait_for_the_reservations_of_other_agents() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked: Asked, gate| async move {
        match asked.who() {
            "lead" => plan("both", json!([work("left", &[]), work("right", &[])])),
            "worker" => {
                gate.pass().await;
                using(100, say("worked"))
            }
            _ => achieved(),
        }
    });
    let mut world = World::new(model, ToolRegistry::new()).await;
    world.spec.setup.agents[0].profile.max_output_tokens = Some(4_000);
    world.spec.limits.max_tokens = Some(3_000);
    let run = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    // The other worker cannot reserve anything, which is not a failure.
    assert_eq!((gate.inside(), world.model.asked()), (1, 2));
    gate.open();
    let report = ended(&run).await.unwrap();
    assert!(report.is_achieved(), "{:?}", report.end);
    assert_eq!(world.model.asked(), 4);
}

#[tokio::test]
async fn host_6_a_worker_without_budget_becomes_an_observation_and_the_run_ends() {
    let model = Scripted::new(|asked: Asked| async move {
        match asked.who() {
            "lead" => using(900, plan("one", json!([work("left", &[])]))),
            _ => say("never"),
        }
    });
    let mut world = World::new(model, ToolRegistry::new()).await;
    world.spec.limits.max_tokens = Some(1_000);
    let report = world.run().await;
    assert_eq!(budget_exceeded(&report).0, BudgetKind::Tokens);
    let observed = &report.iterations[0].observations[0];
    assert_eq!(observed.status(), ObservationStatus::Failed);
}

#[tokio::test]
async fn host_6_usage_before_a_restart_counts() {
    let gate = Gate::shut();
    let model = Scripted::gated(&gate, move |asked: Asked, gate| async move {
        match asked.who() {
            "lead" => using(700, plan_work()),
            _ => {
                gate.pass().await;
                say("never")
            }
        }
    });
    let mut world = World::new(model, ToolRegistry::new()).await;
    world.spec.limits.max_tokens = Some(1_000);
    let run = world.start(UserPresence::Absent).await;
    within(gate.entered()).await;
    let id = run.id();
    world.journal.flush().unwrap();
    let entries = world.entries(id);
    world.cancel(&run).await;

    let journal = cut_off(world.folder.path(), id, &entries);
    let model = Scripted::new(|_| async { using(290, say("worked")) });
    let again = start_up(&journal, &model, &ToolRegistry::new()).await;
    let run = again.resume(id, Resume::new()).await.unwrap();
    let report = ended(&run).await.unwrap();
    let (budget, used, limit) = budget_exceeded(&report);
    assert_eq!((budget, limit), (BudgetKind::Tokens, 1_000));
    assert!(used >= 710, "{used}");
}
