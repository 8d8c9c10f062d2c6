//! What replies cost (HOST-6), where the provider does not say. It never changes what is asked.

use dirigent_core::message::{ModelFailure, ModelReply};
use dirigent_core::price::Price;
use futures::future::{BoxFuture, FutureExt, TryFutureExt};

use crate::{ChatModel, ChatRequest};

/// A model of a known price. Of several that may answer, each is wrapped by itself, as each has its own.
#[derive(Clone, Debug)]
pub struct Priced<M> {
    inner: M,
    price: Price,
}

impl<M: ChatModel> Priced<M> {
    /// That model at that price: a reply that says nothing of its cost costs what its tokens do. Failures cost nothing.
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
