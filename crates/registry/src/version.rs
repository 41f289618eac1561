//! Comparison of versions for registries that do not say which one is the newest.

use std::cmp::Ordering;

use crate::entry::RegistryType;

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

/// Returns true if a package registry means the same version by both texts.
#[must_use]
pub fn is_same_version(kind: &RegistryType, left: &str, right: &str) -> bool {
    let normal = |text: &str| match kind {
        RegistryType::Pypi => normal_pypi(text),
        RegistryType::Go => text.strip_prefix('v').unwrap_or(text).to_owned(),
        // npm and NuGet leave build metadata out.
        _ => text.split('+').next().unwrap_or(text).to_ascii_lowercase(),
    };
    normal(left) == normal(right)
}

/// Returns a version of PyPI in one form (PEP 440): `1.0-alpha_1` and `1a1` are the same.
fn normal_pypi(version: &str) -> String {
    let version = version.trim().to_ascii_lowercase();
    let version = version.strip_prefix('v').unwrap_or(&version);
    let (public, local) = version.split_once('+').unwrap_or((version, ""));
    let (epoch, public) = public.split_once('!').unwrap_or(("0", public));
    let end = public.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(public.len());
    let (release, suffix) = public.split_at(end);
    let number = |part: &str| match part.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let mut release: Vec<String> = release.split('.').filter(|part| !part.is_empty()).map(number).collect();
    while release.len() > 1 && release.last().is_some_and(|last| last == "0") {
        release.pop();
    }
    let mut normal = format!("{}!{}", number(epoch), release.join("."));
    let mut rest = suffix.trim_start_matches(['.', '_']);
    // `1.0-1` is a post-release.
    if let Some(post) =
        rest.strip_prefix('-').filter(|post| post.starts_with(|digit: char| digit.is_ascii_digit()))
    {
        normal.push_str("post");
        rest = post;
    }
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_ascii_alphabetic();
        let is_same = |letter: char| {
            if is_word { letter.is_ascii_alphabetic() } else { letter.is_ascii_digit() }
        };
        let end = rest.find(|letter: char| !is_same(letter)).unwrap_or(rest.len());
        if end == 0 {
            // A separator, or a letter that no version has.
            if !matches!(first, '.' | '-' | '_') {
                normal.push(first);
            }
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (part, after) = rest.split_at(end);
        if is_word {
            normal.push_str(match part {
                "alpha" => "a",
                "beta" => "b",
                "c" | "pre" | "preview" => "rc",
                "rev" | "r" => "post",
                other => other,
            });
            // `1a` is `1a0`.
            if !after.trim_start_matches(['.', '-', '_']).starts_with(|next: char| next.is_ascii_digit()) {
                normal.push('0');
            }
        } else {
            normal.push_str(&number(part));
        }
        rest = after;
    }
    if !local.is_empty() {
        normal.push('+');
        normal.push_str(&local.replace(['-', '_'], "."));
    }
    normal
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

    #[test]
    fn registries_have_several_forms_of_one_version() {
        let same = |left, right| is_same_version(&RegistryType::Pypi, left, right);
        for (left, right) in [
            ("1.0", "1"),
            ("1.0.0-alpha_1", "1a1"),
            ("v1.02", "1.2.0"),
            ("1.0-1", "1.0.post1"),
            ("1.0rc", "1.0c0"),
            ("1.0.dev3", "1.0DEV3"),
            ("0!1.0+Ab-1", "1+ab.1"),
        ] {
            assert!(same(left, right), "{left} {right}");
        }
        for (left, right) in [("1.0", "1.0.1"), ("1.0a1", "1.0b1"), ("1", "1!1"), ("1.0.post1", "1.0.dev1")] {
            assert!(!same(left, right), "{left} {right}");
        }
        assert!(is_same_version(&RegistryType::Npm, "1.0.0+b", "1.0.0"));
        assert!(!is_same_version(&RegistryType::Npm, "1.0.0", "1.0"));
        assert!(is_same_version(&RegistryType::Go, "1.0.0", "v1.0.0"));
    }
}
