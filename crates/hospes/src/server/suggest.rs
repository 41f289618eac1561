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
            // Swapping two neighbours costs as much as changing one.
            let distance = strsim::osa_distance(given, name);
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
