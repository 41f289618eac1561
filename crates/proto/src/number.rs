//! Canonical spelling of numbers.

use serde_json::Number;

/// Writes a number in canonical form. `42.0` and `4.2e1` are the number 42; an intermediary may write either.
pub(crate) fn canonical(number: &Number) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        // Beyond 2^53 one float stands for several integers, so the text stays unchanged.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
            let whole = float as i64;
            whole.to_string()
        }
        _ => number.to_string(),
    }
}
