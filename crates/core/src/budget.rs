//! The shared budget of a run and all its agents (HOST-6). Each model request reserves its expected usage before it is sent, and the
//! reservation is settled when the reply arrives. So agents that work in parallel cannot overspend.
//!
//! The budget is pure, like the state machines. The owner of the run keeps one [`Budget`] for all agents and consults it before each request. A
//! refusal becomes an input of the requesting agent ([`crate::agent::AgentInput::OverBudget`]), so that a replay makes the same decision.
//!
//! The input tokens of a request are estimated from its text and the provider's earlier counts for the same model. If the provider counts
//! more tokens than were reserved, a limit can be exceeded. The excess is at most the sum of the estimation errors of the requests in
//! flight.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::RunLimits;
use crate::message::Usage;
use crate::price::{Cost, Price};
use crate::token_ratio::TokenRatio;

/// A request is sent only if the budget allows at least this many reply tokens, unless the request asks for fewer.
const MIN_REPLY_TOKENS: u64 = 256;
/// Number of reply tokens to reserve for a typical reply, if the request sets no maximum.
pub const TYPICAL_REPLY_TOKENS: u64 = 4_096;
/// Maximum number of reply tokens to allow while the budget is ample, if the request sets no maximum.
const MAX_DEFAULT_REPLY_TOKENS: u64 = 32_768;
/// If the budget is ample, the reply to a request that sets no maximum may use the free budget divided by this number.
const FREE_TOKENS_DIVISOR: u64 = 8;
/// Minimum number of estimated tokens of a request that updates the token ratio. In shorter requests, the tokens that the provider adds
/// distort the ratio.
const MIN_TOKENS_TO_CALIBRATE: u64 = 200;

/// A quantity that the budget of a run limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Input and output tokens.
    Tokens,
    /// Cost in nano-dollars.
    Cost,
    /// Model requests.
    ModelCalls,
}

impl BudgetKind {
    /// Returns the amount of this quantity in a usage.
    pub fn used(self, usage: &Usage) -> u64 {
        match self {
            BudgetKind::Tokens => usage.tokens(),
            BudgetKind::Cost => usage.cost.0,
            BudgetKind::ModelCalls => usage.model_calls.into(),
        }
    }

    /// Formats an amount for display: `12000 tokens`, `$0.50`, `1 model call`.
    pub fn amount(self, amount: u64) -> String {
        match self {
            BudgetKind::Tokens => format!("{amount} token{}", plural(amount)),
            BudgetKind::Cost => Cost(amount).to_string(),
            BudgetKind::ModelCalls => format!("{amount} model call{}", plural(amount)),
        }
    }

    /// Formats the used part of a limit for display: `120 of 100 tokens`.
    pub fn usage_of_limit(self, used: u64, limit: u64) -> String {
        let plural = plural(used.max(limit));
        match self {
            BudgetKind::Tokens => format!("{used} of {limit} token{plural}"),
            BudgetKind::Cost => format!("{} of {}", Cost(used), Cost(limit)),
            BudgetKind::ModelCalls => format!("{used} of {limit} model call{plural}"),
        }
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The refusal of a request that would exceed a limit even if all reservations were released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "the run's budget of {} has no room for another model request: {} used, and {} needed",
    budget.amount(*limit), budget.amount(*used), budget.amount(*needed)
)]
pub struct BudgetExceeded {
    /// The limited quantity.
    pub budget: BudgetKind,
    /// The amount that the run has used.
    pub used: u64,
    /// The minimum amount that the request needs.
    pub needed: u64,
    /// The maximum amount that the run may use.
    pub limit: u64,
}

/// The reserved usage of a model request in flight. [`Budget::settle`] ends the reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    reserved: Usage,
    model: Option<String>,
    size: RequestSize,
    /// The estimated cost of the input tokens.
    input_cost: Cost,
    /// Maximum number of reply tokens; `None` for no limit.
    pub max_output_tokens: Option<u64>,
}

impl Reservation {
    /// Returns the estimated number of input tokens.
    pub fn input_tokens(&self) -> u64 {
        self.reserved.input_tokens
    }

    /// Returns the estimated usage of the request once it is sent, even if no reply arrives.
    pub fn usage_if_sent(&self) -> Usage {
        Usage {
            estimated_calls: 1,
            output_tokens: 0,
            cost: self.input_cost,
            ..self.reserved
        }
    }
}

/// The result of [`Budget::reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationOutcome {
    /// The request may be sent.
    Granted(Reservation),
    /// The budget may have room once another request is settled.
    Wait,
    /// The budget has no room for the request and never will.
    Refused(BudgetExceeded),
}

/// Size of a request in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSize {
    /// The provider's token count for the prefix that this request shares with an earlier one.
    pub counted: u64,
    /// [Estimated](crate::token_ratio::estimated_tokens) tokens of the remaining part, not scaled by the token ratio.
    pub estimated: u64,
}

impl RequestSize {
    /// Returns the number of all tokens of the request, with the estimated part scaled by the ratio.
    pub fn tokens(self, ratio: TokenRatio) -> u64 {
        self.counted.saturating_add(ratio.tokens(self.estimated))
    }
}

/// The expected usage of a model request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedUsage {
    /// The requested model; `None` for the default.
    pub model: Option<String>,
    /// Size of the whole request, including tool definitions and schemas.
    pub size: RequestSize,
    /// Requested maximum number of reply tokens; `None` if not configured.
    pub max_output_tokens: Option<u64>,
    /// The price of the model; the highest price if several models may reply. `None` if unknown.
    pub price: Option<Price>,
}

/// The limits of a run, its usage so far and the reservations of its requests in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    max_tokens: Option<u64>,
    max_cost: Option<Cost>,
    max_model_calls: Option<u32>,
    used: Usage,
    reserved: Usage,
    /// Token ratio by model.
    ratios: BTreeMap<Option<String>, TokenRatio>,
}

impl Budget {
    /// Creates the budget of a run with these limits. `used` is the usage so far, which is zero for a new run.
    pub fn new(limits: &RunLimits, used: Usage) -> Self {
        Budget {
            max_tokens: limits.max_tokens,
            max_cost: limits.max_cost,
            max_model_calls: limits.max_model_calls,
            used,
            reserved: Usage::default(),
            ratios: BTreeMap::new(),
        }
    }

    /// Returns true if any quantity is limited.
    pub fn is_limited(&self) -> bool {
        self.max_tokens.is_some() || self.max_cost.is_some() || self.max_model_calls.is_some()
    }

    /// Returns the settled usage.
    pub fn used(&self) -> Usage {
        self.used
    }

    /// Returns the sum of all open reservations.
    pub fn reserved(&self) -> Usage {
        self.reserved
    }

    /// Reserves the expected usage of a request. If other requests have reserved much of the budget, the request may be granted fewer reply
    /// tokens than it asked for. If not even a typical reply fits, the request waits until other requests are settled. A request is granted
    /// less than a typical reply only if the whole remaining budget is smaller than a typical reply.
    pub fn reserve(&mut self, expected: &ExpectedUsage) -> ReservationOutcome {
        let input = self.input_tokens(expected);
        let headrooms = self.headrooms(expected, input);
        let requested = expected
            .max_output_tokens
            .unwrap_or_else(|| default_reply_tokens(&headrooms));
        // The reply is limited only if the caller or a limit on tokens or cost requires it.
        let (mut output, mut bounded) = (requested, expected.max_output_tokens.is_some());
        let mut waits = false;
        for headroom in headrooms.into_iter().flatten() {
            match headroom.check(requested) {
                HeadroomCheck::Allowed(allowed) => output = output.min(allowed),
                HeadroomCheck::Wait => waits = true,
                HeadroomCheck::Exceeded(budget_exceeded) => {
                    return ReservationOutcome::Refused(budget_exceeded);
                }
            }
            bounded |= headroom.per_million > 0;
        }
        if waits {
            return ReservationOutcome::Wait;
        }
        let cost = |output| {
            let price = expected.price.unwrap_or_default();
            price.cost(input, 0, output)
        };
        let reserved = Usage {
            model_calls: 1,
            input_tokens: input,
            output_tokens: output,
            cost: cost(output),
            ..Usage::default()
        };
        self.reserved += reserved;
        ReservationOutcome::Granted(Reservation {
            reserved,
            model: expected.model.clone(),
            size: expected.size,
            input_cost: cost(0),
            max_output_tokens: bounded.then_some(output),
        })
    }

    /// Estimates the number of input tokens of the request, calibrated with the counts of the model's provider.
    fn input_tokens(&self, expected: &ExpectedUsage) -> u64 {
        let ratio = self.ratios.get(&expected.model);
        expected
            .size
            .tokens(ratio.copied().unwrap_or(TokenRatio::CAUTIOUS))
    }

    /// Returns the headroom of each configured limit for the request.
    fn headrooms(&self, expected: &ExpectedUsage, input: u64) -> [Option<LimitHeadroom>; 3] {
        let tokens = self.max_tokens.map(|limit| LimitHeadroom {
            kind: BudgetKind::Tokens,
            limit,
            used: self.used.tokens(),
            reserved: self.reserved.tokens(),
            fixed: input,
            per_million: 1_000_000,
        });
        let cost = self
            .max_cost
            .zip(expected.price)
            .map(|(limit, price)| LimitHeadroom {
                kind: BudgetKind::Cost,
                limit: limit.0,
                used: self.used.cost.0,
                reserved: self.reserved.cost.0,
                fixed: price.cost(input, 0, 0).0,
                per_million: price.output.0,
            });
        let model_calls = self.max_model_calls.map(|limit| LimitHeadroom {
            kind: BudgetKind::ModelCalls,
            limit: limit.into(),
            used: self.used.model_calls.into(),
            reserved: self.reserved.model_calls.into(),
            fixed: 1,
            per_million: 0,
        });
        [tokens, cost, model_calls]
    }

    /// Ends a reservation and adds the actual usage, which is zero if no reply arrived. The provider's token count calibrates later
    /// estimates.
    pub fn settle(&mut self, reservation: Reservation, used: Usage) {
        self.reserved = self.reserved - reservation.reserved;
        self.used += used;
        let Reservation { model, size, .. } = reservation;
        let is_counted = used.estimated_calls == 0 && used.input_tokens > 0;
        if is_counted && size.estimated >= MIN_TOKENS_TO_CALIBRATE {
            let counted = used.input_tokens.saturating_sub(size.counted);
            let ratio = self.ratios.entry(model).or_insert(TokenRatio::CAUTIOUS);
            ratio.update(TokenRatio::from_counts(counted, size.estimated));
        }
    }
}

/// Returns the number of reply tokens to allow if the request sets no maximum. An ample budget allows more than a typical reply.
fn default_reply_tokens(headrooms: &[Option<LimitHeadroom>]) -> u64 {
    let bounded = headrooms
        .iter()
        .flatten()
        .filter(|headroom| headroom.per_million > 0);
    let shares = bounded.map(|headroom| headroom.affordable(headroom.free()) / FREE_TOKENS_DIVISOR);
    shares
        .min()
        .unwrap_or(TYPICAL_REPLY_TOKENS)
        .clamp(TYPICAL_REPLY_TOKENS, MAX_DEFAULT_REPLY_TOKENS)
}

/// One limit with its current usage, and the amounts that a request needs.
struct LimitHeadroom {
    kind: BudgetKind,
    limit: u64,
    used: u64,
    reserved: u64,
    /// Amount that the request needs regardless of its reply.
    fixed: u64,
    /// Amount per million reply tokens.
    per_million: u64,
}

enum HeadroomCheck {
    /// The request may have up to this number of reply tokens.
    Allowed(u64),
    Wait,
    Exceeded(BudgetExceeded),
}

impl LimitHeadroom {
    /// Checks whether the limit has room for a request with this many reply tokens.
    fn check(&self, requested: u64) -> HeadroomCheck {
        let (remaining, free) = (self.limit.saturating_sub(self.used), self.free());
        let [typical, minimum] =
            [TYPICAL_REPLY_TOKENS, MIN_REPLY_TOKENS].map(|reply| self.needed(requested.min(reply)));
        if minimum > remaining {
            return HeadroomCheck::Exceeded(BudgetExceeded {
                budget: self.kind,
                used: self.used,
                needed: minimum,
                limit: self.limit,
            });
        }
        if free < if typical > remaining { minimum } else { typical } {
            return HeadroomCheck::Wait;
        }
        HeadroomCheck::Allowed(self.affordable(free - self.fixed))
    }

    /// Returns the amount that is neither used nor reserved.
    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used.saturating_add(self.reserved))
    }

    /// Returns the number of reply tokens that the amount covers.
    fn affordable(&self, amount: u64) -> u64 {
        match self.per_million {
            0 => u64::MAX,
            per_million => {
                let tokens = u128::from(amount) * 1_000_000 / u128::from(per_million);
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
        }
    }

    /// Returns the amount that the request needs with a reply of this many tokens.
    fn needed(&self, reply: u64) -> u64 {
        let reply = (u128::from(reply) * u128::from(self.per_million)).div_ceil(1_000_000);
        self.fixed
            .saturating_add(u64::try_from(reply).unwrap_or(u64::MAX))
    }
}
