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
            (Some(part), None) => compare_numbers(part, "0"),
            (None, Some(part)) => compare_numbers("0", part),
            (Some(left), Some(right)) => compare_numbers(left, right),
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

/// Returns true for a version before a release, such as `1.0.0-beta`, or `1.0rc1` of PyPI.
#[must_use]
pub fn is_prerelease(version: &str) -> bool {
    split(version).1.is_some()
}

/// Returns true if `newer` only corrects `older`: both are releases of three numbers, of which only the last one is larger.
#[must_use]
pub fn is_patch(older: &str, newer: &str) -> bool {
    let numbers = |version: &str| -> Option<[u64; 3]> {
        let (numbers, pre) = split(version);
        let parts = numbers.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        pre.is_none().then_some(parts)?.try_into().ok()
    };
    match (numbers(older), numbers(newer)) {
        (Some(older), Some(newer)) => older[..2] == newer[..2] && older[2] < newer[2],
        _ => false,
    }
}

/// Splits a version into its numbers and the name of a pre-release.
fn split(version: &str) -> (&str, Option<&str>) {
    let version = version.strip_prefix('v').unwrap_or(version);
    // Build metadata does not count.
    let version = version.split('+').next().unwrap_or(version);
    if let Some((numbers, pre)) = version.split_once('-') {
        return (numbers, Some(pre));
    }
    // PyPI writes `1.0rc1`, `1.0a2` and `1.0.dev3`. `1.0.post1` comes after `1.0`.
    let letters = version.find(|letter: char| letter.is_ascii_alphabetic());
    match letters.map(|at| version.split_at(at)) {
        Some((numbers, pre)) if ["a", "b", "c", "rc", "dev"].iter().any(|kind| is_kind(pre, kind)) => {
            (numbers.trim_end_matches('.'), Some(pre))
        }
        _ => (version, None),
    }
}

/// Returns true if a text is a kind of pre-release with its number.
fn is_kind(text: &str, kind: &str) -> bool {
    text.strip_prefix(kind).is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
}

/// Compares two parts of a release. `post1` of PyPI is between 0 and 1.
fn compare_numbers(left: &str, right: &str) -> Ordering {
    let is_some = |part: &str| part.parse::<u64>().is_ok_and(|number| number > 0);
    let is_text = |part: &str| part.parse::<u64>().is_err();
    match (is_some(left) && is_text(right), is_some(right) && is_text(left)) {
        (true, _) => Ordering::Greater,
        (_, true) => Ordering::Less,
        _ => compare_parts(left, right),
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
        let python = ["1.0a1", "1.0rc1", "1.0", "1.0.post1", "1.0.1rc1", "1.0.1"];
        for pair in python.windows(2) {
            assert_eq!(compare_versions(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn a_patch_is_a_larger_third_number_of_a_release() {
        for (older, newer) in [("1.2.3", "1.2.4"), ("v0.0.9", "v0.0.10"), ("1.2.3", "1.2.4+build")] {
            assert!(is_patch(older, newer), "{older} {newer}");
        }
        for (older, newer) in [
            ("1.2.3", "1.3.0"),
            ("1.2.3", "1.2.3"),
            ("1.2.4", "1.2.3"),
            ("1.2.3", "1.2.4-rc.1"),
            ("1.2.3-rc.1", "1.2.3"),
            ("1.2.3rc1", "1.2.4"),
            ("1.2", "1.2.1"),
            ("1.2.3", "1.2.3.1"),
            ("1.2.3", "1.2.x"),
            ("latest", "1.2.3"),
        ] {
            assert!(!is_patch(older, newer), "{older} {newer}");
        }
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
