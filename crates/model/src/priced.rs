//! Costs of replies for which the provider reports no cost (HOST-6).

use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::price::Price;
use futures::future::{BoxFuture, FutureExt, TryFutureExt};

use crate::{ChatModel, ChatRequest};

/// A model with a price. Wrap each alternative of a [`Fallback`](crate::Fallback) separately, because each has its own price.
#[derive(Clone, Debug)]
pub struct Priced<M> {
    inner: M,
    price: Price,
}

impl<M: ChatModel> Priced<M> {
    /// Sets the cost of each reply without one to the price of its tokens. Failures cost nothing.
    pub fn new(inner: M, price: Price) -> Self {
        Priced { inner, price }
    }
}

impl<M: ChatModel> ChatModel for Priced<M> {
    fn chat(&self, request: ChatRequest) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let price = self.price;
        self.inner
            .chat(request)
            .map_ok(move |reply| priced(reply, price))
            .boxed()
    }
}

fn priced(mut reply: ModelReply, price: Price) -> ModelReply {
    let usage = &mut reply.usage;
    if usage.cost.is_zero() {
        usage.cost = price.cost(usage.input_tokens, usage.cached_input_tokens, usage.output_tokens);
    }
    reply
}
