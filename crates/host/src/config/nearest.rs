//! Suggestions in messages about unknown names.

pub use hospes_policy::nearest;

/// Returns `; did you mean `…`?`, or an empty string, to be appended to a message.
pub(super) fn hint<'a>(asked: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(asked, candidates).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Returns the known key that an unknown key of a file was most likely meant to be. A known key is none, even if it was
/// not read there: its own spelling is no correction.
pub(super) fn misspelt_key<'a>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    if known.clone().any(|name| name == key) { None } else { nearest(key, known) }
}
