//! HOST-6: which requests a run's budget grants, delays and refuses; and the cost of models.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_core::budget::{
    Budget, BudgetExceeded, BudgetKind, ExpectedUsage, RequestSize, Reservation, ReservationOutcome,
    TYPICAL_REPLY_TOKENS,
};
use dirigent_core::limits::RunLimits;
use dirigent_core::message::Usage;
use dirigent_core::price::{Cost, Price};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};

/// One dollar for a million tokens sent, half a dollar for cached tokens, four dollars for tokens received.
const PRICE: Price = Price {
    input: Cost(1_000_000_000),
    cached_input: Cost(500_000_000),
    output: Cost(4_000_000_000),
};

fn tokens(limit: u64) -> Budget {
    let limits = RunLimits {
        max_tokens: Some(limit),
        ..RunLimits::default()
    };
    Budget::new(&limits, Usage::default())
}

fn money(limit: Cost) -> Budget {
    let limits = RunLimits {
        max_cost: Some(limit),
        ..RunLimits::default()
    };
    Budget::new(&limits, Usage::default())
}

fn model_calls(limit: u32) -> Budget {
    let limits = RunLimits {
        max_model_calls: Some(limit),
        ..RunLimits::default()
    };
    Budget::new(&limits, Usage::default())
}

/// A request whose tokens the provider has already counted.
fn ask(input_tokens: u64) -> ExpectedUsage {
    ExpectedUsage {
        model: None,
        size: RequestSize {
            counted: input_tokens,
            estimated: 0,
        },
        max_output_tokens: None,
        price: None,
    }
}

fn ask_for(input_tokens: u64, reply: u64) -> ExpectedUsage {
    ExpectedUsage {
        max_output_tokens: Some(reply),
        ..ask(input_tokens)
    }
}

#[track_caller]
fn granted(grant: ReservationOutcome) -> Reservation {
    match grant {
        ReservationOutcome::Granted(reservation) => reservation,
        ReservationOutcome::Wait | ReservationOutcome::Refused(_) => panic!("{grant:?}"),
    }
}

#[track_caller]
fn allowed(grant: ReservationOutcome) -> Option<u64> {
    granted(grant).max_output_tokens
}

fn reply(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage {
        model_calls: 1,
        input_tokens,
        output_tokens,
        ..Usage::default()
    }
}

fn budget_exceeded(budget: BudgetKind, used: u64, needed: u64, limit: u64) -> ReservationOutcome {
    ReservationOutcome::Refused(BudgetExceeded {
        budget,
        used,
        needed,
        limit,
    })
}

#[test]
fn host_6_without_limits_every_request_is_granted_and_replies_are_unbounded() {
    let mut budget = Budget::new(&RunLimits::default(), Usage::default());
    assert!(!budget.is_limited());
    assert_eq!(allowed(budget.reserve(&ask(1_000_000_000))), None);
    assert_eq!(
        allowed(budget.reserve(&ask_for(1_000_000_000, 70_000))),
        Some(70_000)
    );
}

#[test]
fn host_6_the_last_request_may_use_the_remaining_token_budget() {
    let mut budget = tokens(5_000);
    assert!(budget.is_limited());
    for (input, left) in [
        (1_000, Some(4_000)),
        (4_744, Some(256)),
        (0, Some(TYPICAL_REPLY_TOKENS)),
    ] {
        let reservation = granted(budget.reserve(&ask(input)));
        assert_eq!(reservation.max_output_tokens, left);
        budget.settle(reservation, Usage::default());
    }
    assert_eq!(
        budget.reserve(&ask(4_745)),
        budget_exceeded(BudgetKind::Tokens, 0, 5_001, 5_000)
    );
}

#[test]
fn host_6_a_request_with_a_short_reply_limit_reserves_only_that_many_reply_tokens() {
    let mut budget = tokens(1_000);
    assert_eq!(allowed(budget.reserve(&ask_for(900, 100))), Some(100));
    let mut budget = tokens(1_000);
    assert_eq!(
        budget.reserve(&ask_for(901, 100)),
        budget_exceeded(BudgetKind::Tokens, 0, 1_001, 1_000)
    );
}

#[test]
fn host_6_a_request_waits_for_reserved_budget_but_fails_if_it_can_never_fit() {
    let mut budget = tokens(10_000);
    let first = granted(budget.reserve(&ask(3_000)));
    assert_eq!(budget.reserved().tokens(), 7_096);
    // The request could get 904 tokens at once, but it waits, because it can get a whole reply after the first request
    // is settled.
    assert_eq!(budget.reserve(&ask(2_000)), ReservationOutcome::Wait);
    assert_eq!(
        budget.reserve(&ask(9_800)),
        budget_exceeded(BudgetKind::Tokens, 0, 10_056, 10_000)
    );
    // The first request used less than it had reserved.
    budget.settle(first, reply(3_000, 500));
    assert_eq!(budget.used(), reply(3_000, 500));
    let second = granted(budget.reserve(&ask(2_000)));
    assert_eq!(second.max_output_tokens, Some(TYPICAL_REPLY_TOKENS));
    budget.settle(second, reply(2_000, 4_096));
    // 404 tokens are left: too few for another request.
    assert_eq!(
        budget.reserve(&ask(149)),
        budget_exceeded(BudgetKind::Tokens, 9_596, 405, 10_000)
    );
    assert_eq!(allowed(budget.reserve(&ask(148))), Some(256));
}

#[test]
fn host_6_a_long_reply_limit_is_reduced_to_the_free_budget_or_a_typical_reply() {
    let mut budget = tokens(100_000);
    assert_eq!(allowed(budget.reserve(&ask_for(1_000, 64_000))), Some(64_000));
    assert_eq!(allowed(budget.reserve(&ask_for(1_000, 30_000))), Some(30_000));
    // 4,000 tokens are free; 96,000 will be free later.
    assert_eq!(budget.reserve(&ask_for(1_000, 30_000)), ReservationOutcome::Wait);
    assert_eq!(allowed(budget.reserve(&ask_for(1_000, 2_000))), Some(2_000));

    let mut budget = tokens(100_000);
    assert_eq!(allowed(budget.reserve(&ask_for(1_000, 64_000))), Some(64_000));
    assert_eq!(allowed(budget.reserve(&ask_for(1_000, 64_000))), Some(34_000));
}

#[test]
fn host_6_money_is_reserved_at_the_models_price() {
    let priced = |input| ExpectedUsage {
        price: Some(PRICE),
        ..ask(input)
    };
    // One cent: 10,000 tokens sent, or 2,500 received.
    let mut budget = money(Cost(10_000_000));
    let reservation = granted(budget.reserve(&priced(2_000)));
    assert_eq!(reservation.max_output_tokens, Some(2_000));
    assert_eq!(budget.reserved().cost, Cost(10_000_000));
    let mut used = reply(2_000, 1_000);
    used.cost = PRICE.cost(2_000, 0, 1_000);
    budget.settle(reservation, used);
    assert_eq!(budget.used().cost, Cost(6_000_000));
    assert_eq!(allowed(budget.reserve(&priced(2_976))), Some(256));
    let mut budget = money(Cost(10_000_000));
    assert_eq!(
        budget.reserve(&priced(8_977)),
        budget_exceeded(BudgetKind::Cost, 0, 10_001_000, 10_000_000)
    );
}

#[test]
fn host_6_a_cost_limit_does_not_apply_to_a_model_without_a_price() {
    let mut budget = money(Cost(1));
    assert_eq!(allowed(budget.reserve(&ask(1_000_000))), None);
    assert_eq!(budget.reserved().cost, Cost::ZERO);
    // Nor is there a limit for a model whose replies are free.
    let free_replies = Price {
        output: Cost::ZERO,
        ..PRICE
    };
    let asked = ExpectedUsage {
        price: Some(free_replies),
        ..ask(1_000)
    };
    let mut budget = money(Cost(1_000_000));
    assert_eq!(allowed(budget.reserve(&asked)), None);
    assert_eq!(budget.reserve(&asked), ReservationOutcome::Wait);
}

#[test]
fn host_6_model_calls_are_reserved_when_requested_and_released_if_they_fail() {
    let mut budget = model_calls(2);
    let first = granted(budget.reserve(&ask(10)));
    assert_eq!(first.max_output_tokens, None);
    let second = granted(budget.reserve(&ask(10)));
    assert_eq!(budget.reserve(&ask(10)), ReservationOutcome::Wait);
    budget.settle(first, Usage::default());
    let third = granted(budget.reserve(&ask(10)));
    budget.settle(second, reply(10, 10));
    budget.settle(third, reply(10, 10));
    assert_eq!(
        budget.reserve(&ask(10)),
        budget_exceeded(BudgetKind::ModelCalls, 2, 1, 2)
    );
}

#[test]
fn host_6_a_refusal_names_the_exhausted_limit_even_if_another_one_requires_waiting() {
    let limits = RunLimits {
        max_tokens: Some(5_000),
        max_model_calls: Some(1),
        ..RunLimits::default()
    };
    let mut budget = Budget::new(&limits, reply(100, 100));
    assert_eq!(
        budget.reserve(&ask(10)),
        budget_exceeded(BudgetKind::ModelCalls, 1, 1, 1)
    );
    let mut budget = Budget::new(&limits, Usage::default());
    let _ = granted(budget.reserve(&ask(100)));
    // The token budget would make the request wait.
    assert_eq!(budget.reserve(&ask(100)), ReservationOutcome::Wait);
}

#[test]
fn host_6_a_resumed_run_starts_with_its_earlier_usage() {
    let limits = RunLimits {
        max_tokens: Some(1_000),
        ..RunLimits::default()
    };
    let mut budget = Budget::new(&limits, reply(600, 200));
    assert_eq!(
        budget.reserve(&ask(10)),
        budget_exceeded(BudgetKind::Tokens, 800, 266, 1_000)
    );
}

#[test]
fn host_6_an_exceeded_budget_is_reported_in_readable_amounts() {
    for (budget, told) in [
        (
            BudgetKind::Tokens,
            "the run's budget of 500000000 tokens has no room for another model request: 499000000 tokens used, and \
             1 token needed",
        ),
        (
            BudgetKind::Cost,
            "the run's budget of $0.50 has no room for another model request: $0.4990 used, and less than \
             $0.0001 needed",
        ),
        (
            BudgetKind::ModelCalls,
            "the run's budget of 500000000 model calls has no room for another model request: 499000000 model calls \
             used, and 1 model call needed",
        ),
    ] {
        let budget_exceeded = BudgetExceeded {
            budget,
            used: 499_000_000,
            needed: 1,
            limit: 500_000_000,
        };
        assert_eq!(budget_exceeded.to_string(), told);
    }
    assert_eq!(BudgetKind::Tokens.usage_of_limit(120, 100), "120 of 100 tokens");
    assert_eq!(
        BudgetKind::Cost.usage_of_limit(1_240_000_000, 1_000_000_000),
        "$1.24 of $1.00"
    );
    assert_eq!(BudgetKind::ModelCalls.usage_of_limit(0, 1), "0 of 1 model call");
    assert_eq!(BudgetKind::ModelCalls.usage_of_limit(2, 1), "2 of 1 model calls");
}

// Prices

#[test]
fn a_cost_is_rounded_up_to_nano_dollars_once_for_all_tokens() {
    let nano = |input, cached, output| Price {
        input: Cost(input),
        cached_input: Cost(cached),
        output: Cost(output),
    };
    for (price, tokens, cost) in [
        (PRICE, (0, 0, 0), 0),
        (PRICE, (1_000_000, 0, 0), 1_000_000_000),
        (PRICE, (1_000_000, 400_000, 250_000), 1_800_000_000),
        // The cached tokens cannot exceed the tokens sent.
        (PRICE, (100, 1_000, 0), 50_000),
        // The total is rounded up to a nano-dollar, once, not for each part.
        (nano(1, 0, 0), (1, 0, 0), 1),
        (nano(1, 1, 1), (2, 1, 1), 1),
        (nano(1, 1, 1), (500_000, 0, 500_001), 2),
        (nano(u64::MAX, 0, u64::MAX), (u64::MAX, 0, u64::MAX), u64::MAX),
        (Price::default(), (u64::MAX, 0, u64::MAX), 0),
    ] {
        let (input, cached, output) = tokens;
        assert_eq!(
            price.cost(input, cached, output),
            Cost(cost),
            "{price:?} {tokens:?}"
        );
    }
}

#[test]
fn the_higher_price_is_chosen_for_each_kind_of_token() {
    let other = Price {
        input: Cost(2),
        cached_input: Cost(600_000_000),
        output: Cost(4_000_000_000),
    };
    let highest = Price {
        input: Cost(1_000_000_000),
        cached_input: Cost(600_000_000),
        output: Cost(4_000_000_000),
    };
    assert_eq!(PRICE.highest(other), highest);
    assert_eq!(other.highest(PRICE), highest);
}

#[test]
fn costs_are_formatted_to_a_hundredth_of_a_cent_or_from_a_dollar_on_to_a_cent() {
    for (nano, told) in [
        (0, "$0"),
        (1, "less than $0.0001"),
        (99_999, "less than $0.0001"),
        (100_000, "$0.0001"),
        (149_999, "$0.0001"),
        (150_000, "$0.0002"),
        (3_100_000, "$0.0031"),
        (10_000_000, "$0.01"),
        (125_000_000, "$0.1250"),
        (500_000_000, "$0.50"),
        (999_949_999, "$0.9999"),
        (999_950_000, "$1.00"),
        (1_000_000_000, "$1.00"),
        (1_004_999_999, "$1.00"),
        (1_005_000_000, "$1.01"),
        (12_345_678_901, "$12.35"),
        (u64::MAX, "$18446744073.71"),
    ] {
        assert_eq!(Cost(nano).to_string(), told, "{nano}");
    }
}

#[test]
fn only_valid_amounts_are_converted_to_costs() {
    for (dollars, nano) in [
        (0.0, Some(0)),
        (0.1, Some(100_000_000)),
        (1e-9, Some(1)),
        (4e-10, Some(0)),
        (1.24, Some(1_240_000_000)),
        (18e9, Some(18_000_000_000_000_000_000)),
        (18.1e9, None),
        (-1e-10, None),
        (-1.0, None),
        (f64::NAN, None),
        (f64::INFINITY, None),
    ] {
        assert_eq!(Cost::from_dollars(dollars), nano.map(Cost), "{dollars}");
    }
}

// Estimates

/// A request of this many estimated tokens, none of which the provider has counted.
fn uncounted(model: &str, estimated: u64) -> ExpectedUsage {
    ExpectedUsage {
        model: Some(model.to_owned()),
        size: RequestSize {
            counted: 0,
            estimated,
        },
        ..ask(0)
    }
}

/// The tokens that the budget reserves for a request of a thousand estimated tokens.
fn reserved_for_a_thousand(budget: &mut Budget, model: &str) -> u64 {
    let reservation = granted(budget.reserve(&uncounted(model, 1_000)));
    let input = reservation.input_tokens();
    budget.settle(reservation, Usage::default());
    input
}

/// Settles a request whose provider counted this many tokens.
fn counts(budget: &mut Budget, expected: &ExpectedUsage, input_tokens: u64) {
    let reservation = granted(budget.reserve(expected));
    budget.settle(reservation, reply(input_tokens, 10));
}

#[test]
fn host_6_an_estimate_is_cautious_first_and_then_follows_the_providers_counts() {
    let mut budget = tokens(100_000_000);
    assert_eq!(reserved_for_a_thousand(&mut budget, "a"), 1_250);
    counts(&mut budget, &uncounted("a", 2_000), 1_700);
    // The part that rounding may have added to the estimate is subtracted.
    assert_eq!(reserved_for_a_thousand(&mut budget, "a"), 1_201);
    assert_eq!(
        reserved_for_a_thousand(&mut budget, "b"),
        1_250,
        "each model has its own"
    );
    // A higher ratio applies at once, a lower one gradually.
    counts(&mut budget, &uncounted("a", 1_000), 1_700);
    assert_eq!(reserved_for_a_thousand(&mut budget, "a"), 1_714);
    counts(&mut budget, &uncounted("a", 1_000), 900);
    assert_eq!(reserved_for_a_thousand(&mut budget, "a"), 1_614);
}

#[test]
fn host_6_tokens_that_the_provider_has_counted_are_not_estimated_again() {
    let mut budget = tokens(100_000_000);
    let further = ExpectedUsage {
        size: RequestSize {
            counted: 50_000,
            estimated: 1_000,
        },
        ..uncounted("a", 0)
    };
    assert_eq!(granted(budget.reserve(&further)).input_tokens(), 51_250);
    // The ratio applies to the thousand estimated tokens only: they count double.
    counts(&mut budget, &further, 52_000);
    assert_eq!(granted(budget.reserve(&further)).input_tokens(), 52_017);
}

#[test]
fn host_6_the_token_ratio_ignores_implausible_estimated_and_short_counts() {
    let mut budget = tokens(u64::MAX);
    counts(&mut budget, &uncounted("a", 1_000), u64::MAX / 2);
    assert_eq!(reserved_for_a_thousand(&mut budget, "a"), 4_000);
    for _ in 0..100 {
        counts(&mut budget, &uncounted("b", 1_000), 1);
    }
    let least = reserved_for_a_thousand(&mut budget, "b");
    assert!((500..510).contains(&least), "{least}");
    counts(&mut budget, &uncounted("c", 199), 796);
    counts(&mut budget, &uncounted("c", 1_000), 0);
    let reservation = granted(budget.reserve(&uncounted("c", 1_000)));
    let sent = reservation.usage_if_sent();
    budget.settle(reservation, sent);
    let estimated = Usage {
        estimated_calls: 1,
        ..reply(3_000, 10)
    };
    let reservation = granted(budget.reserve(&uncounted("c", 1_000)));
    budget.settle(reservation, estimated);
    assert_eq!(reserved_for_a_thousand(&mut budget, "c"), 1_250);
}

// Properties for arbitrary requests

#[derive(Clone, Debug)]
enum Step {
    /// Makes a request, and waits if the budget says so.
    Ask { input: u64, reply: Option<u64> },
    /// Ends one of the outstanding requests, with this share of its allowed reply; `None` if it failed.
    End { pick: usize, percent: Option<u64> },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wishes = proptest::option::of(0..20_000_u64);
    let ask = (0..5_000_u64, wishes).prop_map(|(input, reply)| Step::Ask { input, reply });
    let shares = proptest::option::weighted(0.9, 0..=100_u64);
    let end = (any::<usize>(), shares).prop_map(|(pick, percent)| Step::End { pick, percent });
    proptest::collection::vec(proptest::prop_oneof![3 => ask, 2 => end], 0..100)
}

fn prices() -> impl Strategy<Value = Price> {
    (0..5_000_000_u64, 0..=100_u64, 0..20_000_000_u64).prop_map(|(input, cached, output)| Price {
        input: Cost(input),
        cached_input: Cost(input * cached / 100),
        output: Cost(output),
    })
}

fn limits() -> impl Strategy<Value = RunLimits> {
    let tokens = proptest::option::of(0..100_000_u64);
    let cost = proptest::option::of(0..1_000_000_u64);
    let calls = proptest::option::of(0..30_u32);
    (tokens, cost, calls).prop_map(|(tokens, cost, calls)| RunLimits {
        max_tokens: tokens,
        max_cost: cost.map(Cost),
        max_model_calls: calls,
        ..RunLimits::default()
    })
}

fn within(budget: &Budget, limits: &RunLimits) -> bool {
    let mut all = budget.used();
    all += budget.reserved();
    limits.max_tokens.is_none_or(|limit| all.tokens() <= limit)
        && limits.max_cost.is_none_or(|limit| all.cost <= limit)
        && limits
            .max_model_calls
            .is_none_or(|limit| all.model_calls <= limit)
}

/// The usage of a request that stayed within its reservation.
fn used(expected: &ExpectedUsage, reservation: &Reservation, percent: u64) -> Usage {
    let most = reservation.max_output_tokens.unwrap_or(TYPICAL_REPLY_TOKENS);
    let (input, output) = (expected.size.counted, most * percent / 100);
    let cached = input * (100 - percent) / 100;
    Usage {
        cached_input_tokens: cached,
        cost: expected
            .price
            .map_or(Cost::ZERO, |price| price.cost(input, cached, output)),
        ..reply(input, output)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn host_6_parallel_requests_within_their_reservations_never_exceed_a_limit(
        limits in limits(),
        price in prices(),
        steps in steps(),
    ) {
        let mut budget = Budget::new(&limits, Usage::default());
        let mut under_way: Vec<(ExpectedUsage, Reservation)> = Vec::new();
        for step in steps {
            match step {
                Step::Ask { input, reply } => {
                    let expected = ExpectedUsage { max_output_tokens: reply, price: Some(price), ..ask(input) };
                    let mut alone = Budget::new(&limits, budget.used());
                    // Without a requested maximum, assume one that is larger than any reply here.
                    let wanted = reply.unwrap_or(32_768);
                    match budget.reserve(&expected) {
                        ReservationOutcome::Granted(reservation) => {
                            let allowed = reservation.max_output_tokens.unwrap_or(wanted);
                            prop_assert!(allowed <= wanted && allowed >= wanted.min(256));
                            under_way.push((expected, reservation));
                        }
                        // Another request is outstanding, and after it is settled the budget is sufficient.
                        ReservationOutcome::Wait => {
                            prop_assert!(!under_way.is_empty());
                            prop_assert!(matches!(alone.reserve(&expected), ReservationOutcome::Granted(_)));
                        }
                        ReservationOutcome::Refused(budget_exceeded) => {
                            prop_assert_eq!(alone.reserve(&expected), ReservationOutcome::Refused(budget_exceeded));
                        }
                    }
                }
                Step::End { pick, percent } if !under_way.is_empty() => {
                    let (expected, reservation) = under_way.swap_remove(pick % under_way.len());
                    let usage = percent.map_or_else(Usage::default, |percent| used(&expected, &reservation, percent));
                    budget.settle(reservation, usage);
                }
                Step::End { .. } => {}
            }
            prop_assert!(within(&budget, &limits), "{budget:?}");
        }
        for (_, reservation) in under_way {
            budget.settle(reservation, Usage::default());
        }
        prop_assert_eq!(budget.reserved(), Usage::default());
    }

    /// If a provider counts more than estimated, the run exceeds its limit at most by the difference between count and reservation of the
    /// requests that were outstanding together.
    #[test]
    fn host_6_a_limit_is_exceeded_at_most_by_the_estimation_errors_of_parallel_requests(
        limit in 1_000..200_000_u64,
        side_by_side in 1..20_usize,
        requests in proptest::collection::vec((1..5_000_u64, 100..400_u64, 0..=100_u64, any::<usize>()), 1..200),
    ) {
        let mut budget = tokens(limit);
        let mut under_way: Vec<(Reservation, Usage)> = Vec::new();
        let mut greatest_error = 0;
        let mut end = |budget: &mut Budget, under_way: &mut Vec<(Reservation, Usage)>, pick: usize| {
            let (reservation, used) = under_way.swap_remove(pick % under_way.len());
            greatest_error = greatest_error.max(used.input_tokens.saturating_sub(reservation.input_tokens()));
            budget.settle(reservation, used);
            let most = limit + greatest_error * side_by_side as u64;
            prop_assert!(budget.used().tokens() <= most, "{} of {limit}, {greatest_error}", budget.used().tokens());
            Ok(())
        };
        for (estimated, counted_percent, reply_percent, pick) in requests {
            while under_way.len() >= side_by_side {
                end(&mut budget, &mut under_way, pick)?;
            }
            let expected = uncounted("a", estimated);
            let grant = match budget.reserve(&expected) {
                ReservationOutcome::Wait => {
                    end(&mut budget, &mut under_way, pick)?;
                    budget.reserve(&expected)
                }
                grant => grant,
            };
            if let ReservationOutcome::Granted(reservation) = grant {
                let output = reservation.max_output_tokens.unwrap_or(0) * reply_percent / 100;
                under_way.push((reservation, reply(estimated * counted_percent / 100, output)));
            }
        }
        while !under_way.is_empty() {
            end(&mut budget, &mut under_way, 0)?;
        }
    }
}
