//! Comparison of versions for registries that do not say which one is the newest.

use std::cmp::Ordering;

/// Compares two versions: numbers by value, other parts by text, and a pre-release before its release.
#[must_use]
pub fn compare_versions(left: &str, right: &str) -> Ordering {
    let (left, left_pre) = split(left);
    let (right, right_pre) = split(right);
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => break,
            // `1.0` and `1.0.0` are the same version.
            (Some(part), None) => compare_parts(part, "0"),
            (None, Some(part)) => compare_parts("0", part),
            (Some(left), Some(right)) => compare_parts(left, right),
        };
        if order.is_ne() {
            return order;
        }
    }
    match (left_pre, right_pre) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(left), Some(right)) => {
            let mut pairs =
                left.split('.').zip(right.split('.')).map(|(left, right)| compare_parts(left, right));
            pairs.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
    }
}

fn split(version: &str) -> (&str, Option<&str>) {
    let version = version.strip_prefix('v').unwrap_or(version);
    // Build metadata does not count.
    let version = version.split('+').next().unwrap_or(version);
    match version.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre)),
        None => (version, None),
    }
}

fn compare_parts(left: &str, right: &str) -> Ordering {
    match (left.parse::<u64>(), right.parse::<u64>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_semantic_ones() {
        let ordered =
            ["0.9", "1.0.0-alpha", "1.0.0-alpha.2", "1.0.0-alpha.10", "1.0.0-beta", "1.0.0", "1.2", "1.10.0"];
        for pair in ordered.windows(2) {
            assert_eq!(compare_versions(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare_versions(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare_versions("v1.0", "1.0.0+5"), Ordering::Equal);
    }
}
