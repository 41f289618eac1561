//! "Did you mean": the nearest of the known names.

/// The name among `known` that `given` was most likely meant to be.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // What is longer than any name there can be is nobody's slip of the finger, and would cost much to compare.
    if given.len() > 128 {
        return None;
    }
    let limit = (given.chars().count() / 3).max(1);
    known
        .filter_map(|name| {
            if simplified(name) == simplified(given) {
                return Some((0, name));
            }
            let distance = distance(given, name);
            (distance <= limit).then_some((distance, name))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The sentence's end: `; did you mean `x`?`, or nothing.
pub(crate) fn did_you_mean<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(given, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

fn simplified(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Number of characters that must be changed, inserted, removed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_name_that_was_meant() {
        let known = ["get_weather", "add", "remove"];
        assert_eq!(nearest("getWeather", known.into_iter()), Some("get_weather"));
        assert_eq!(nearest("get_waether", known.into_iter()), Some("get_weather"));
        assert_eq!(nearest("ad", known.into_iter()), Some("add"));
        assert_eq!(nearest("subtract", known.into_iter()), None);
        assert_eq!(nearest(&"a".repeat(10_000), known.into_iter()), None);
    }
}
