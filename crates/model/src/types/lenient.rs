//! Lenient decoding of known deviations: `null` for absent members, and numbers of the wrong kind. Numbers are written
//! so that strict peers accept them.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serializer, ser};

use crate::RawJson;

/// Decodes `null` as the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Decodes any value that is present, including `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

/// Decodes a number of milliseconds. A negative or too large number counts as 0, that is, immediately stale (CACHE-03).
pub(crate) fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct MillisVisitor;
    impl<'de> Visitor<'de> for MillisVisitor {
        type Value = Option<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number of milliseconds")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Some(number))
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
            Ok(Some(u64::try_from(number).unwrap_or(0)))
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
            // A float-to-integer cast saturates, and NaN becomes 0.
            Ok(Some(number as u64))
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_any(self)
        }
    }
    deserializer.deserialize_any(MillisVisitor)
}

/// Decodes a string and passes it to `make` without an allocation.
pub(crate) fn text<'de, D, T>(deserializer: D, make: impl FnOnce(&str) -> T) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    struct StrVisitor<F>(F);
    impl<T, F: FnOnce(&str) -> T> Visitor<'_> for StrVisitor<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            Ok((self.0)(text))
        }
    }
    deserializer.deserialize_str(StrVisitor(make))
}

/// Writes a whole number without a fraction, as peers with integer types expect.
pub(crate) fn plain_number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    // serde_json would write `null`, which peers do not accept as a number.
    if !number.is_finite() {
        return Err(ser::Error::custom("a number that JSON cannot represent"));
    }
    if number.fract() == 0.0 && number.abs() <= EXACT {
        serializer.serialize_i64(*number as i64)
    } else {
        serializer.serialize_f64(*number)
    }
}

/// Writes an optional whole number without a fraction.
pub(crate) fn plain_number_if_any<S: Serializer>(
    number: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => plain_number(number, serializer),
        None => serializer.serialize_none(),
    }
}
