//! Validation of a provider's token counts. Missing and implausible counts are replaced with estimates (HOST-6), never with zero.

use dirigent_core::message::Usage;

use crate::ChatRequest;

/// Maximum number of tokens that any model reads or writes in one request.
const MAX_REQUEST_TOKENS: u64 = 10_000_000;
/// Allowance for tokens that an estimate cannot include: tokens that a provider adds to a request, or that a model spends on thinking.
const HIDDEN_TOKENS: u64 = 32_768;

/// A provider's token counts for one reply; `None` for a count that is missing or not a whole number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenCounts {
    /// Input tokens.
    pub(crate) input: Option<u64>,
    /// Input tokens that were read from the provider's cache.
    pub(crate) cached: Option<u64>,
    /// Output tokens.
    pub(crate) output: Option<u64>,
}

impl TokenCounts {
    /// Computes a reply's usage. A missing or implausible count is replaced with its estimate; `reply_estimate` is the
    /// estimated number of tokens in the reply.
    ///
    /// An input count of up to eight times the request's estimate is plausible: see [`TokenRatio`](dirigent_core::token_ratio::TokenRatio).
    pub(crate) fn usage(self, request: &ChatRequest, reply_estimate: u64) -> Usage {
        let request_estimate = request.estimated_tokens();
        let cached = self.cached.unwrap_or(0);
        let most_input = request_estimate
            .saturating_mul(8)
            .saturating_add(HIDDEN_TOKENS)
            .min(MAX_REQUEST_TOKENS);
        let input = self
            .input
            .filter(|count| (1..=most_input).contains(count) && cached <= *count);
        let most_output = request.max_output_tokens.map_or(MAX_REQUEST_TOKENS, |allowed| {
            let most = allowed.max(reply_estimate).saturating_mul(4);
            most.saturating_add(HIDDEN_TOKENS).min(MAX_REQUEST_TOKENS)
        });
        let output = self
            .output
            .filter(|count| *count <= most_output && (*count > 0 || reply_estimate == 0));
        Usage {
            model_calls: 1,
            estimated_calls: u32::from(input.is_none() || output.is_none()),
            input_tokens: input.unwrap_or(request_estimate),
            cached_input_tokens: if input.is_some() { cached } else { 0 },
            output_tokens: output.unwrap_or(reply_estimate),
            ..Usage::default()
        }
    }
}
