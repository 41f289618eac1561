//! Spending of one account over time.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::RequestRate;
use crate::Money;

/// Number of parts of a window. Amounts spent in one part count until its end is a window old. So the allowance is
/// never exceeded in any window, and amounts count for up to a 64th of the window too long.
const WINDOW_PARTS: u32 = 64;

/// Amounts by time, oldest first. It has at most [`WINDOW_PARTS`] and a few intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SpendingLedger {
    slots: VecDeque<LedgerInterval>,
    /// Time at which the next call would be due if all had been evenly spaced, in microseconds. This is the only state
    /// of the generic cell rate algorithm.
    due: i64,
}

/// Amounts spent until `end`, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LedgerInterval {
    end: i64,
    tokens: u64,
    money: Money,
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl SpendingLedger {
    /// Returns the amounts that still count.
    pub(super) fn spent(&self, window: Duration, now: Timestamp) -> (u64, Money) {
        let counted = self.slots.iter().filter(|slot| slot.counts(window, now));
        counted.fold((0, Money::ZERO), |(tokens, money), slot| {
            (tokens.saturating_add(slot.tokens), money.plus(slot.money))
        })
    }

    /// Adds spent amounts. If the clock was set back, they are added to the latest interval.
    pub(super) fn spend(&mut self, tokens: u64, money: Money, window: Duration, now: Timestamp) {
        let now = now.as_microsecond();
        match self.slots.back_mut() {
            Some(slot) if now < slot.end => {
                slot.tokens = slot.tokens.saturating_add(tokens);
                slot.money = slot.money.plus(money);
            }
            _ => {
                // At least 1, because an interval without a length could hold nothing.
                let end = now.saturating_add(micros(window / WINDOW_PARTS).max(1));
                self.slots.push_back(LedgerInterval { end, tokens, money });
            }
        }
    }

    /// Returns the time that a call would have to wait, or `None` if it is allowed now.
    pub(super) fn wait(&self, rate: RequestRate, now: Timestamp) -> Option<Duration> {
        if rate.calls == 0 {
            return Some(Duration::MAX);
        }
        let step = micros(rate.per / rate.calls);
        // All calls of a period may be sent at the same time, so one may be early by the period without its own share.
        let early = self.due.saturating_sub(micros(rate.per).saturating_sub(step));
        let wait = early.saturating_sub(now.as_microsecond());
        u64::try_from(wait).ok().filter(|wait| *wait > 0).map(Duration::from_micros)
    }

    /// Counts a call.
    pub(super) fn record_call(&mut self, rate: RequestRate, now: Timestamp) {
        let step = micros(rate.per / rate.calls.max(1));
        self.due = self.due.max(now.as_microsecond()).saturating_add(step);
    }

    /// Removes amounts that no longer count.
    pub(super) fn remove_expired(&mut self, window: Duration, now: Timestamp) {
        self.slots.retain(|slot| slot.counts(window, now));
    }

    pub(super) fn is_empty(&self, now: Timestamp) -> bool {
        self.slots.is_empty() && self.due <= now.as_microsecond()
    }
}

impl LedgerInterval {
    fn counts(&self, window: Duration, now: Timestamp) -> bool {
        self.end.saturating_add(micros(window)) > now.as_microsecond()
    }
}
