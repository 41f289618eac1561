//! Budgets.

use std::time::Duration;

use hospes_model::{CreateMessageParams, CreateMessageResult, SamplingMessage};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::{Model, ModelError, ScriptedProvider};

fn estimate(max_tokens: u64, prices: Option<f64>) -> RequestEstimate {
    let mut model = Model::new("m", ScriptedProvider::new(["x"]));
    if let Some(price) = prices.and_then(Money::units) {
        model = model.prices(TokenPrices::new(price, price));
    }
    RequestEstimate::of(&model, &CreateMessageParams::new(vec![SamplingMessage::user("x")], max_tokens))
}

fn files() -> BudgetAccount {
    BudgetAccount::server("files")
}

fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn later(millis: i64) -> Timestamp {
    start() + SignedDuration::from_millis(millis)
}

fn used(tokens: u64) -> ActualUsage {
    ActualUsage::Used(TokenUsage::new(tokens, 0))
}

#[test]
fn nothing_is_spent_until_something_is_set() {
    let mut budget = Budget::new();
    let error = budget.reserve(&[files()], &estimate(1, None), start()).unwrap_err();
    assert_eq!(error.to_string(), "server:files has no budget for models; without one it is 0");
    assert_eq!(budget.remaining(&files(), start()), None);
    budget.allow_principals(Some(Allowance::unlimited()));
    assert!(budget.check(&[BudgetAccount::principal("ann")], &estimate(1, None), start()).is_ok());
    assert!(
        budget.check(&[BudgetAccount::principal("ann"), files()], &estimate(1, None), start()).is_err(),
        "each has to pay"
    );
    budget.allow_servers(Some(Allowance::tokens(10_000)));
    assert!(budget.check(&[files()], &estimate(1, None), start()).is_ok());
    budget.allow(files(), Allowance::tokens(0));
    assert!(
        budget.check(&[files()], &estimate(1, None), start()).is_err(),
        "its own goes before that of all"
    );
    budget.forbid(&files());
    assert!(budget.check(&[files()], &estimate(1, None), start()).is_ok());
}

#[test]
fn what_is_reserved_cannot_be_spent_twice() {
    let mut budget = Budget::new();
    let one = estimate(100, None);
    budget.allow(files(), Allowance::tokens(one.most_tokens() * 2 - 1));
    let first = budget.reserve(&[files()], &one, start()).unwrap();
    let error = budget.reserve(&[files()], &one, start()).unwrap_err();
    assert!(matches!(error, BudgetError::Tokens { .. }), "{error}");
    assert_eq!(budget.settle(first, used(30), start()), (30, Money::ZERO));
    assert_eq!(budget.remaining(&files(), start()).unwrap().tokens, Some(one.most_tokens() * 2 - 31));
    let second = budget.reserve(&[files()], &one, start()).unwrap();
    budget.settle(second, ActualUsage::Nothing, start());
    assert_eq!(budget.remaining(&files(), start()).unwrap().tokens, Some(one.most_tokens() * 2 - 31));
    let third = budget.reserve(&[files()], &one, start()).unwrap();
    budget.settle(third, used(1_000_000), start());
    assert_eq!(
        budget.remaining(&files(), start()).unwrap().tokens,
        Some(0),
        "more than was reserved counts too"
    );
}

#[test]
fn money_counts_to_the_billionth_and_needs_prices() {
    let mut budget = Budget::new();
    budget.allow(files(), Allowance::money(Money::units(0.01).unwrap()));
    let error = budget.reserve(&[files()], &estimate(10, None), start()).unwrap_err();
    assert!(error.to_string().contains("(setting prices)"), "{error}");
    let priced = estimate(1_000, Some(3.0));
    let reserved = budget.reserve(&[files()], &priced, start()).unwrap();
    let (_, cost) = budget.settle(reserved, ActualUsage::Used(TokenUsage::new(7, 13)), start());
    assert_eq!(cost, Money::billionths(20 * 3_000));
    assert_eq!(budget.remaining(&files(), start()).unwrap().money.unwrap().to_string(), "0.00994");
    let error = budget.reserve(&[files()], &estimate(100_000, Some(3.0)), start()).unwrap_err();
    assert!(error.to_string().contains("0.00994 of 0.01 left"), "{error}");
}

#[test]
fn an_account_that_cannot_pay_leaves_the_others_as_they_were() {
    let mut budget = Budget::new();
    let rate = RequestRate::new(1, Duration::from_secs(60));
    budget.allow(files(), Allowance::tokens(1_000).rate(rate));
    let (ann, before) = (BudgetAccount::principal("ann"), budget.clone());
    assert!(budget.reserve(&[files(), ann.clone()], &estimate(1, None), start()).is_err());
    assert_eq!(budget, before);
    budget.allow(ann.clone(), Allowance::tokens(1_000));
    let both = budget.reserve(&[files(), ann.clone()], &estimate(1, None), start()).unwrap();
    budget.settle(both, used(5), start());
    for account in [files(), ann] {
        assert_eq!(budget.remaining(&account, start()).unwrap().tokens, Some(995));
    }
}

/// covers: SAMP-26
#[test]
fn who_asks_too_often_is_told_when_to_come_back() {
    let mut budget = Budget::new();
    budget.allow(files(), Allowance::unlimited().rate(RequestRate::new(3, Duration::from_secs(60))));
    let one = estimate(1, None);
    for _ in 0..3 {
        let reserved = budget.reserve(&[files()], &one, start()).unwrap();
        budget.settle(reserved, ActualUsage::Nothing, start());
    }
    let error = budget.reserve(&[files()], &one, later(5_000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "server:files is limited to 3 requests per 60s; the next one is possible in 15s"
    );
    assert!(budget.check(&[files()], &one, later(20_000)).is_ok());
    budget.allow(files(), Allowance::unlimited().rate(RequestRate::new(0, Duration::from_secs(60))));
    assert!(budget.check(&[files()], &one, later(1_000_000)).is_err(), "0 is never");
}

#[test]
fn what_was_spent_counts_for_a_window_and_is_then_forgotten() {
    let mut budget = Budget::new();
    budget.allow(files(), Allowance::tokens(1_000).every(Duration::from_secs(64)));
    let reserved = budget.reserve(&[files()], &estimate(1, None), start()).unwrap();
    budget.settle(reserved, used(900), start());
    assert_eq!(budget.remaining(&files(), later(63_999)).unwrap().tokens, Some(100));
    assert_eq!(
        budget.remaining(&files(), later(65_000)).unwrap().tokens,
        Some(1_000),
        "a window and a 64th of it"
    );
    // A clock that goes back forgives nothing.
    assert_eq!(budget.remaining(&files(), later(-1_000_000)).unwrap().tokens, Some(100));
    let reserved = budget.reserve(&[files()], &estimate(1, None), later(70_000)).unwrap();
    assert!(budget.spending.ledgers.is_empty(), "nothing is kept of what no longer counts");
    budget.settle(reserved, ActualUsage::Nothing, later(70_000));
}

/// Returns the budget as another process of the same store, or this one after a restart, restores it.
fn restarted(budget: &Budget) -> Budget {
    let kept = serde_json::to_string(budget.spending()).unwrap();
    let mut again = Budget { spending: SpendingRecord::default(), ..budget.clone() };
    again.replace_spending(serde_json::from_str(&kept).unwrap());
    again
}

#[test]
fn what_nobody_can_settle_any_more_counts_until_its_window_ends() {
    let mut budget = Budget::new();
    let day = Duration::from_secs(24 * 3600);
    budget.allow(
        files(),
        Allowance::tokens(1_000).every(day).rate(RequestRate::new(9, Duration::from_secs(1))),
    );
    let one = estimate(100, Some(1.0));
    let _lost = budget.reserve(&[files()], &one, start()).unwrap();
    let mut again = restarted(&budget);
    assert_eq!(again, budget);
    let day = day.as_millis() as i64;
    for when in [1, day - 1] {
        assert_eq!(again.remaining(&files(), later(when)).unwrap().tokens, Some(1_000 - one.most_tokens()));
    }
    assert_eq!(again.status(&files(), later(1)).reserved_tokens, one.most_tokens());
    assert_eq!(again.remaining(&files(), later(day)).unwrap().tokens, Some(1_000));
    let _another = again.reserve(&[files()], &one, later(day)).unwrap();
    assert_eq!(again.spending.open.len(), 1, "what is lost is not kept for ever");
    assert!(
        serde_json::from_str::<SpendingRecord>(r#"{"ledgers":{"files":{}}}"#).is_err(),
        "no account has such a name"
    );
}

#[test]
fn what_takes_longer_than_its_window_is_reserved_all_the_while_and_counted_at_its_end() {
    let mut budget = Budget::new();
    budget.allow(files(), Allowance::tokens(1_000).every(Duration::from_secs(1)));
    let one = estimate(100, None);
    let long = budget.reserve(&[files()], &one, start()).unwrap();
    let hour = 3_600_000;
    assert_eq!(budget.remaining(&files(), later(hour - 1)).unwrap().tokens, Some(1_000 - one.most_tokens()));
    let other = budget.reserve(&[files()], &one, later(hour)).unwrap();
    assert_eq!(budget.settle(long, used(70), later(hour)), (70, Money::ZERO));
    budget.settle(other, ActualUsage::Nothing, later(hour));
    assert_eq!(budget.remaining(&files(), later(hour)).unwrap().tokens, Some(930));
}

#[test]
fn an_outcome_says_what_it_took() {
    let one = estimate(100, None);
    let counted = ModelAnswer::new(CreateMessageResult::new("m", "x"), Some(TokenUsage::new(3, 4)));
    assert_eq!(ActualUsage::of_answer(&counted, &one), ActualUsage::Used(TokenUsage::new(3, 4)));
    let text = "word ".repeat(200);
    let ActualUsage::Used(usage) =
        ActualUsage::of_answer(&ModelAnswer::new(CreateMessageResult::new("m", text), None), &one)
    else {
        panic!("it is estimated")
    };
    assert!(usage.output_tokens >= 200, "{usage:?}");
    let mut failure = GenerationFailure::new(ModelError::Scripted("x".into()));
    assert_eq!(ActualUsage::of_failure(&failure), ActualUsage::Nothing);
    failure.may_have_cost = true;
    failure.usage = Some(TokenUsage::new(1, 1));
    assert_eq!(ActualUsage::of_failure(&failure), ActualUsage::Unknown);
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    Settle(usize, Option<u64>),
    Wait(i64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u64..200).prop_map(Step::Reserve),
        4 => (any::<usize>(), proptest::option::of(0_u64..250)).prop_map(|(which, spent)| Step::Settle(which, spent)),
        2 => (0_i64..20_000).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    /// In any sequence of steps, the amounts let through within a window, together with the reserved amounts, never
    /// exceed the allowance. The remaining amounts equal those of a plain list of all events, or are lower by the
    /// amounts at the window's edge.
    #[test]
    fn no_window_holds_more_than_the_allowance(steps in proptest::collection::vec(step(), 1..80)) {
        const LIMIT: u64 = 1_000;
        const WINDOW: i64 = 64_000;
        let mut budget = Budget::new();
        budget.allow(files(), Allowance::tokens(LIMIT).every(Duration::from_millis(WINDOW as u64)));
        let (mut now, mut open, mut spent) = (0_i64, Vec::new(), Vec::<(i64, u64)>::new());
        // What was reserved before a restart and nobody settles; no hour passes here.
        let mut lost = 0;
        for step in steps {
            match step {
                Step::Reserve(max) => {
                    let one = estimate(max, None);
                    let held = lost + open.iter().map(|(_, tokens)| tokens).sum::<u64>();
                    let within = |edge: i64| -> u64 {
                        spent.iter().filter(|(when, _)| *when > now - edge).map(|(_, tokens)| tokens).sum()
                    };
                    match budget.reserve(&[files()], &one, later(now)) {
                        Ok(reserved) => {
                            prop_assert!(held + within(WINDOW) + one.most_tokens() <= LIMIT);
                            open.push((reserved, one.most_tokens()));
                        }
                        Err(_) => prop_assert!(held + within(WINDOW + WINDOW / 64) + one.most_tokens() > LIMIT),
                    }
                }
                Step::Settle(which, took) if !open.is_empty() => {
                    let (reserved, tokens) = open.swap_remove(which % open.len());
                    // No more than was reserved: what is over is counted, but could not be prevented.
                    let took = took.map(|took| took.min(tokens));
                    let outcome = took.map_or(ActualUsage::Unknown, used);
                    let (counted, _) = budget.settle(reserved, outcome, later(now));
                    prop_assert_eq!(counted, took.unwrap_or(tokens));
                    spent.push((now, counted));
                }
                Step::Settle(..) => {}
                Step::Wait(millis) => now += millis,
                Step::Restart => {
                    budget = restarted(&budget);
                    lost += open.drain(..).map(|(_, tokens)| tokens).sum::<u64>();
                }
            }
        }
    }
}
