//! One budget for a run and all its agents (HOST-6): what a model request may use is reserved before it is sent, and settled
//! when its reply is there, so that siblings in parallel cannot overspend.
//!
//! Pure like the machines. Whoever owns the run keeps one [`Budget`] for the whole tree of agents and asks it before
//! each request; a refusal is an input of the agent that asked ([`crate::agent::AgentInput::OverBudget`]), so that a replay
//! decides as the run did.
//!
//! What a request will have sent is an estimate: by its text and, for each model, by the provider's own counts so far. Where the
//! provider counts more than was reserved, the limits can be exceeded: by that error, of those requests that are under way when the last
//! one is granted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::RunLimits;
use crate::message::Usage;
use crate::price::{Cost, Price};
use crate::token_ratio::TokenRatio;

/// Tokens of a reply below which a request is not worth sending, unless less is asked for.
const MIN_REPLY_TOKENS: u64 = 256;
/// Tokens that a reply is expected to have at most, where nobody says.
pub const TYPICAL_REPLY_TOKENS: u64 = 4_096;
/// Tokens that a reply is allowed at the most where nobody says and there is plenty.
const MAX_DEFAULT_REPLY_TOKENS: u64 = 32_768;
/// There is plenty where a reply takes no more than this part of what is free.
const FREE_TOKENS_DIVISOR: u64 = 8;
/// Estimated tokens from which on a provider's count says something of how it counts: in a shorter text, what stands around it weighs
/// too much.
const MIN_TOKENS_TO_CALIBRATE: u64 = 200;

/// What is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Tokens, sent and received.
    #[default]
    Tokens,
    /// Money, in nano-dollars.
    Cost,
    /// Model requests.
    ModelCalls,
}

impl BudgetKind {
    /// How much of it that is.
    pub fn used(self, usage: &Usage) -> u64 {
        match self {
            BudgetKind::Tokens => usage.tokens(),
            BudgetKind::Cost => usage.cost.0,
            BudgetKind::ModelCalls => usage.model_calls.into(),
        }
    }

    /// An amount of it for people: `12000 tokens`, `$0.50`, `1 model call`.
    pub fn amount(self, amount: u64) -> String {
        match self {
            BudgetKind::Tokens => format!("{amount} token{}", plural(amount)),
            BudgetKind::Cost => Cost(amount).to_string(),
            BudgetKind::ModelCalls => format!("{amount} model call{}", plural(amount)),
        }
    }

    /// How much of a limit was used, for people: `120 of 100 tokens`.
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

/// A request that would go beyond a limit, whatever comes back of what others have reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "the run's budget of {} has no room for another model request: {} used, and {} needed",
    budget.amount(*limit), budget.amount(*used), budget.amount(*needed)
)]
pub struct BudgetExceeded {
    /// What is limited.
    pub budget: BudgetKind,
    /// What the run has used of it.
    pub used: u64,
    /// What the request needs at least.
    pub needed: u64,
    /// The limit.
    pub limit: u64,
}

/// What a request may use. It is given back with [`Budget::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    reserved: Usage,
    model: Option<String>,
    size: RequestSize,
    /// The part of its cost that is for the tokens sent.
    input_cost: Cost,
    /// Tokens that the reply may have; `None` where nothing limits them.
    pub max_output_tokens: Option<u64>,
}

impl Reservation {
    /// Tokens that the request is expected to send.
    pub fn input_tokens(&self) -> u64 {
        self.reserved.input_tokens
    }

    /// What the request has used as soon as it is sent, whatever comes back: an estimate.
    pub fn usage_if_sent(&self) -> Usage {
        Usage {
            estimated_calls: 1,
            output_tokens: 0,
            cost: self.input_cost,
            ..self.reserved
        }
    }
}

/// The answer to a request for a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationOutcome {
    /// The request may be sent.
    Granted(Reservation),
    /// There may be room once another request is settled.
    Wait,
    /// There is no room, and there will be none.
    Refused(BudgetExceeded),
}

/// How long a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSize {
    /// Tokens of its beginning, as the provider has counted them in an earlier request.
    pub counted: u64,
    /// Tokens of the rest, as [estimated](crate::token_ratio::estimated_tokens).
    pub estimated: u64,
}

impl RequestSize {
    /// All its tokens, by that ratio.
    pub fn tokens(self, ratio: TokenRatio) -> u64 {
        self.counted.saturating_add(ratio.tokens(self.estimated))
    }
}

/// What a request is expected to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedUsage {
    /// The model that is asked; `None` for the default.
    pub model: Option<String>,
    /// How long the request is, all that is sent with it included.
    pub size: RequestSize,
    /// Tokens that the reply may have; `None` where nobody has said.
    pub max_output_tokens: Option<u64>,
    /// The model's price, where it is known; the dearest where several models may answer.
    pub price: Option<Price>,
}

/// What a run has used, what its requests under way may use, and what it is limited to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    max_tokens: Option<u64>,
    max_cost: Option<Cost>,
    max_model_calls: Option<u32>,
    used: Usage,
    reserved: Usage,
    /// How the providers of the models count.
    ratios: BTreeMap<Option<String>, TokenRatio>,
}

impl Budget {
    /// The budget of a run with those limits that has used so much, resumed runs included.
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

    /// Whether anything is limited at all.
    pub fn is_limited(&self) -> bool {
        self.max_tokens.is_some() || self.max_cost.is_some() || self.max_model_calls.is_some()
    }

    /// What was used.
    pub fn used(&self) -> Usage {
        self.used
    }

    /// What the requests under way may use together.
    pub fn reserved(&self) -> Usage {
        self.reserved
    }

    /// Reserves what a request may use. Where others have reserved much, a reply is allowed less than was asked for, but no
    /// less than one usually has: it rather waits for what they give back. Only where no more than that is left in all, less
    /// will do.
    pub fn reserve(&mut self, expected: &ExpectedUsage) -> ReservationOutcome {
        let input = self.input_tokens(expected);
        let headrooms = self.headrooms(expected, input);
        let wanted = expected
            .max_output_tokens
            .unwrap_or_else(|| default_reply_tokens(&headrooms));
        // A reply is bounded where it must be: by who asks, or by what is left.
        let (mut output, mut bounded) = (wanted, expected.max_output_tokens.is_some());
        let mut waits = false;
        for headroom in headrooms.into_iter().flatten() {
            match headroom.check(wanted) {
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

    /// Tokens that the request is expected to send, by what the model's provider has counted so far.
    fn input_tokens(&self, expected: &ExpectedUsage) -> u64 {
        let ratio = self.ratios.get(&expected.model);
        expected
            .size
            .tokens(ratio.copied().unwrap_or(TokenRatio::CAUTIOUS))
    }

    /// Each limit that there is, with what the request takes of it.
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

    /// Ends a reservation: `used` is what the request has used, nothing where no reply came. What its provider counted decides how later
    /// requests are estimated.
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

/// What a reply is allowed where nobody says: more than one usually has, as long as there is plenty.
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

/// One limit as it stands, and what a request takes of it.
struct LimitHeadroom {
    kind: BudgetKind,
    limit: u64,
    used: u64,
    reserved: u64,
    /// What it takes whatever comes back.
    fixed: u64,
    /// What a million tokens of its reply take.
    per_million: u64,
}

enum HeadroomCheck {
    /// That many tokens of a reply.
    Allowed(u64),
    Wait,
    Exceeded(BudgetExceeded),
}

impl LimitHeadroom {
    /// How long a reply may be of which so much is wanted.
    fn check(&self, wanted: u64) -> HeadroomCheck {
        let (left, free) = (self.limit.saturating_sub(self.used), self.free());
        let [usual, least] =
            [TYPICAL_REPLY_TOKENS, MIN_REPLY_TOKENS].map(|reply| self.needs(wanted.min(reply)));
        if least > left {
            return HeadroomCheck::Exceeded(BudgetExceeded {
                budget: self.kind,
                used: self.used,
                needed: least,
                limit: self.limit,
            });
        }
        if free < if usual > left { least } else { usual } {
            return HeadroomCheck::Wait;
        }
        HeadroomCheck::Allowed(self.affordable(free - self.fixed))
    }

    /// What neither was used nor is reserved.
    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used.saturating_add(self.reserved))
    }

    /// Tokens of a reply for which so much of the limit is enough.
    fn affordable(&self, amount: u64) -> u64 {
        match self.per_million {
            0 => u64::MAX,
            per_million => {
                let tokens = u128::from(amount) * 1_000_000 / u128::from(per_million);
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
        }
    }

    /// What the request takes with a reply of that many tokens.
    fn needs(&self, reply: u64) -> u64 {
        let reply = (u128::from(reply) * u128::from(self.per_million)).div_ceil(1_000_000);
        self.fixed
            .saturating_add(u64::try_from(reply).unwrap_or(u64::MAX))
    }
}
