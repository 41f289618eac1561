//! Suggestions in messages about unknown names.

pub use hospes_policy::nearest;

/// Returns `; did you mean `…`?`, or an empty string, to be appended to a message.
pub(super) fn hint<'a>(asked: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(asked, candidates).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
