//! The cost of replies.

use std::sync::Arc;

use dirigent_core::message::{ModelFailureKind, Usage};
use dirigent_core::price::{Cost, Price};
use dirigent_model::{Alternative, ChatModel, Fallback, Priced};

use super::script::{Reply, Script, Scripted, fails, ok, request, unavailable};

/// Per million tokens: ten dollars for tokens sent, one dollar for cached tokens, a hundred dollars for tokens received.
const DEAR: Price = Price {
    input: Cost(10_000_000_000),
    cached_input: Cost(1_000_000_000),
    output: Cost(100_000_000_000),
};

/// A tenth of [`DEAR`].
const CHEAP: Price = Price {
    input: Cost(1_000_000_000),
    cached_input: Cost(100_000_000),
    output: Cost(10_000_000_000),
};

fn used(cached_input_tokens: u64, cost: Cost) -> Reply {
    ok().map(|mut reply| {
        reply.usage = Usage {
            cached_input_tokens,
            cost,
            ..reply.usage
        };
        reply
    })
}

async fn cost(reply: Reply) -> Cost {
    let model = Priced::new(Script(Scripted::new([reply])), DEAR);
    model.chat(request()).await.unwrap().usage.cost
}

#[tokio::test(start_paused = true)]
async fn host_6_a_reply_costs_what_its_tokens_do() {
    // 100 tokens sent and 100 received.
    assert_eq!(cost(used(0, Cost::ZERO)).await, Cost(11_000_000));
    assert_eq!(cost(used(40, Cost::ZERO)).await, Cost(10_640_000));
}

#[tokio::test(start_paused = true)]
async fn a_cost_reported_by_the_provider_is_kept() {
    assert_eq!(cost(used(0, Cost(7))).await, Cost(7));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_returned_unchanged() {
    let model = Priced::new(Script(Scripted::new([unavailable(Some(3))])), DEAR);
    assert_eq!(model.chat(request()).await, unavailable(Some(3)));
}

#[tokio::test(start_paused = true)]
async fn each_of_several_models_has_its_own_price() {
    let dear = Scripted::new([ok(), fails(ModelFailureKind::TooLong, "too long")]);
    let cheap = Alternative {
        model: Arc::new(Priced::new(Script(Scripted::new([ok()])), CHEAP)),
        name: None,
    };
    let model = Fallback::new(Arc::new(Priced::new(Script(dear), DEAR)), [cheap]);
    let mut costs = Vec::new();
    for _ in 0..2 {
        costs.push(model.chat(request()).await.unwrap().usage.cost);
    }
    assert_eq!(costs, [Cost(11_000_000), Cost(1_100_000)]);
}
