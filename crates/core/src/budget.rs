//! One budget for a run and all its agents (HOST-6): what a model request may use is reserved before it is sent, and settled
//! when its reply is there, so that siblings side by side cannot overspend.
//!
//! Pure like the machines. Whoever carries out the run keeps one [`Budget`] for the whole tree of agents and asks it before
//! each request; a refusal is an input of the agent that asked ([`crate::agent::AgentInput::OverBudget`]), so that a replay
//! decides as the run did.

use serde::{Deserialize, Serialize};

use crate::limits::RunLimits;
use crate::message::Usage;
use crate::price::{Cost, Price};

/// Tokens of a reply below which a request is not worth sending, unless less is asked for.
const LEAST_REPLY: u64 = 256;
/// Tokens that a reply is expected to have at most, where nobody says.
pub const EXPECTED_REPLY: u64 = 4_096;

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
    /// An amount of it for people: `12000 tokens`, `$0.50`, `3 model calls`.
    pub fn amount(self, amount: u64) -> String {
        match self {
            BudgetKind::Tokens => format!("{amount} tokens"),
            BudgetKind::Cost => Cost(amount).to_string(),
            BudgetKind::ModelCalls => format!("{amount} model calls"),
        }
    }

    /// How much of a limit was used, for people: `120 of 100 tokens`.
    pub fn share(self, used: u64, limit: u64) -> String {
        let used = match self {
            BudgetKind::Tokens | BudgetKind::ModelCalls => used.to_string(),
            BudgetKind::Cost => Cost(used).to_string(),
        };
        format!("{used} of {}", self.amount(limit))
    }
}

/// A request that would go beyond a limit, whatever comes back of what others have reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "the run's budget of {} has no room for another model request: {} used, and at least {} needed",
    budget.amount(*limit), budget.amount(*used), budget.amount(*needed)
)]
pub struct Overdrawn {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    held: Usage,
    /// Tokens that the reply may have; `None` where nothing limits them.
    pub max_output_tokens: Option<u64>,
}

/// The answer to a request for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The request may be sent.
    Granted(Reservation),
    /// There may be room once another request is settled.
    Wait,
    /// There is no room, and there will be none.
    Refused(Overdrawn),
}

/// What a request is expected to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Tokens to be sent.
    pub input_tokens: u64,
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

    /// Reserves what a request may use. A reply is allowed less than was asked for where only less is left.
    pub fn reserve(&mut self, expected: &Expected) -> Grant {
        let wanted = expected.max_output_tokens.unwrap_or(EXPECTED_REPLY);
        let mut limits = [None; 3];
        if let Some(limit) = self.max_tokens {
            let room = Room::new(
                BudgetKind::Tokens,
                limit,
                self.used.tokens(),
                self.reserved.tokens(),
            );
            limits[0] = Some((room, expected.input_tokens, 1_000_000));
        }
        if let (Some(limit), Some(price)) = (self.max_cost, expected.price) {
            let room = Room::new(BudgetKind::Cost, limit.0, self.used.cost.0, self.reserved.cost.0);
            let input = price.of(expected.input_tokens, 0, 0).0;
            limits[1] = Some((room, input, price.output.0));
        }
        if let Some(limit) = self.max_model_calls {
            let (used, reserved) = (self.used.model_calls, self.reserved.model_calls);
            let room = Room::new(BudgetKind::ModelCalls, limit.into(), used.into(), reserved.into());
            limits[2] = Some((room, 1, 0));
        }
        let (mut output, mut waits) = (wanted, false);
        for (room, fixed, per_million) in limits.into_iter().flatten() {
            let least = fixed.saturating_add(priced(wanted.min(LEAST_REPLY), per_million));
            match room.check(least) {
                Fit::Free => output = output.min(affordable(room.free() - fixed, per_million)),
                Fit::Later => waits = true,
                Fit::Never(overdrawn) => return Grant::Refused(overdrawn),
            }
        }
        if waits {
            return Grant::Wait;
        }
        let held = Usage {
            model_calls: 1,
            input_tokens: expected.input_tokens,
            output_tokens: output,
            cost: expected
                .price
                .map_or(Cost::ZERO, |price| price.of(expected.input_tokens, 0, output)),
            ..Usage::default()
        };
        self.reserved += held;
        // A reply is bounded where it must be: by who asks, or by what is left.
        let bounded =
            expected.max_output_tokens.is_some() || self.max_tokens.is_some() || self.max_cost.is_some();
        Grant::Granted(Reservation {
            held,
            max_output_tokens: bounded.then_some(output),
        })
    }

    /// Ends a reservation: `used` is what the request has used, nothing where no reply came.
    pub fn settle(&mut self, reservation: Reservation, used: Usage) {
        self.reserved = less(self.reserved, reservation.held);
        self.used += used;
    }
}

/// One limit, as it stands.
#[derive(Clone, Copy)]
struct Room {
    kind: BudgetKind,
    limit: u64,
    used: u64,
    reserved: u64,
}

enum Fit {
    Free,
    Later,
    Never(Overdrawn),
}

impl Room {
    fn new(kind: BudgetKind, limit: u64, used: u64, reserved: u64) -> Self {
        Room {
            kind,
            limit,
            used,
            reserved,
        }
    }

    fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used.saturating_add(self.reserved))
    }

    fn check(&self, needed: u64) -> Fit {
        if needed <= self.free() {
            Fit::Free
        } else if needed <= self.limit.saturating_sub(self.used) {
            Fit::Later
        } else {
            Fit::Never(Overdrawn {
                budget: self.kind,
                used: self.used,
                needed,
                limit: self.limit,
            })
        }
    }
}

/// What that many tokens of a reply take of a limit, of which a million take `per_million`.
fn priced(tokens: u64, per_million: u64) -> u64 {
    let all = u128::from(tokens) * u128::from(per_million);
    u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Tokens of a reply that a limit has room for.
fn affordable(room: u64, per_million: u64) -> u64 {
    match per_million {
        0 => u64::MAX,
        _ => u64::try_from(u128::from(room) * 1_000_000 / u128::from(per_million)).unwrap_or(u64::MAX),
    }
}

fn less(all: Usage, part: Usage) -> Usage {
    Usage {
        model_calls: all.model_calls.saturating_sub(part.model_calls),
        tool_calls: all.tool_calls.saturating_sub(part.tool_calls),
        input_tokens: all.input_tokens.saturating_sub(part.input_tokens),
        cached_input_tokens: all.cached_input_tokens.saturating_sub(part.cached_input_tokens),
        output_tokens: all.output_tokens.saturating_sub(part.output_tokens),
        cost: Cost(all.cost.0.saturating_sub(part.cost.0)),
    }
}
