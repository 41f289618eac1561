//! Exact amounts of money, in the currency of the prices.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::TokenUsage;

const UNIT: u64 = 1_000_000_000;

/// An amount of money in billionths of a unit, such as a dollar or euro. Sums are exact and saturate at 18 billion
/// units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// No money.
    pub const ZERO: Self = Self(0);
    /// The largest amount.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates an amount of this many billionths of a unit.
    #[must_use]
    pub const fn billionths(billionths: u64) -> Self {
        Self(billionths)
    }

    /// Converts an amount such as `1.5`, rounded to the nearest billionth. Returns `None` if it is negative, not a
    /// number, or too large.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    pub fn units(units: f64) -> Option<Self> {
        let billionths = (units * 1e9).round();
        (0.0..1e19).contains(&billionths).then_some(Self(billionths as u64))
    }

    /// Returns the amount in billionths.
    #[must_use]
    pub const fn as_billionths(self) -> u64 {
        self.0
    }

    /// Returns the sum of the amounts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference of the amounts, or zero if `other` is larger.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the cost of this many tokens, rounded up. The amount is the price of a million tokens.
    fn for_tokens(self, tokens: u64) -> Self {
        // In 128 bits, because the product may exceed 64.
        let cost = (u128::from(self.0) * u128::from(tokens)).div_ceil(1_000_000);
        Self(u64::try_from(cost).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Money {
    /// Formats as `1.50` or `0.000037`: at least two decimals, and no more than needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:09}", self.0 % UNIT);
        let decimals = decimals.trim_end_matches('0');
        write!(f, "{}.{decimals:0<2}", self.0 / UNIT)
    }
}

/// Reads an amount written as `"1.5"`, or as a number. A number without decimals counts units too. Only
/// [`Budget`](crate::Budget) reads the amounts that this type has serialized, which are in billionths.
pub(crate) fn from_units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum WrittenAmount {
        Number(f64),
        Text(String),
    }
    let units = match WrittenAmount::deserialize(deserializer) {
        Ok(WrittenAmount::Number(units)) => Some(units),
        Ok(WrittenAmount::Text(text)) => text.trim().parse().ok(),
        Err(_) => None,
    };
    units
        .and_then(Money::units)
        .ok_or_else(|| serde::de::Error::custom("it must be an amount of 0 or more, such as 1.5"))
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}

/// Prices of a model for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenPrices {
    /// Price of the prompt.
    #[serde(deserialize_with = "from_units")]
    pub input: Money,
    /// Price of the answer.
    #[serde(deserialize_with = "from_units")]
    pub output: Money,
}

impl TokenPrices {
    /// Creates prices for a million tokens of input and output.
    #[must_use]
    pub fn new(input: Money, output: Money) -> Self {
        Self { input, output }
    }

    /// Returns the cost of this usage.
    #[must_use]
    pub fn of(&self, usage: TokenUsage) -> Money {
        self.input.for_tokens(usage.input_tokens).plus(self.output.for_tokens(usage.output_tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_readable() {
        for (units, shown) in
            [(0.0, "0.00"), (1.5, "1.50"), (0.000_037, "0.000037"), (12.0, "12.00"), (0.15, "0.15")]
        {
            assert_eq!(Money::units(units).unwrap().to_string(), shown);
        }
        for wrong in [-0.1, f64::NAN, f64::INFINITY, 2e10] {
            assert_eq!(Money::units(wrong), None, "{wrong}");
        }
        let tenth = Money::units(0.1).unwrap();
        assert_eq!((0..10).fold(Money::ZERO, |sum, _| sum.plus(tenth)), Money::units(1.0).unwrap());
    }

    #[test]
    fn tokens_cost_what_the_price_list_says_rounded_up() {
        let prices = TokenPrices::new(Money::units(3.0).unwrap(), Money::units(15.0).unwrap());
        assert_eq!(prices.of(TokenUsage::new(1_000_000, 0)).to_string(), "3.00");
        assert_eq!(prices.of(TokenUsage::new(1_000, 100)).to_string(), "0.0045");
        let odd = TokenPrices::new(Money::billionths(1), Money::ZERO);
        assert_eq!(odd.of(TokenUsage::new(1, 0)), Money::billionths(1), "never nothing for something");
        assert_eq!(prices.of(TokenUsage::new(u64::MAX, u64::MAX)), Money::MAX);
    }
}
