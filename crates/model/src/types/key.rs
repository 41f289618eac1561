//! Validation of `_meta` keys and extension identifiers.

use super::meta_key;

/// Reason why a `_meta` key or an extension identifier is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadMetaKey {
    /// The prefix before the slash does not consist of dot-separated labels.
    #[error(
        "invalid `_meta` key {0:?}: the prefix before the `/` must consist of labels separated by dots; each label \
         starts with a letter, ends with a letter or digit, and contains only letters, digits and hyphens"
    )]
    Prefix(String),
    /// The name does not start and end with a letter or digit, or contains other characters than allowed.
    #[error(
        "invalid `_meta` key {0:?}: the name must start and end with a letter or digit and contain only letters, \
         digits, `-`, `_` and `.`"
    )]
    Name(String),
    /// The prefix is reserved, and the specification defines no such key.
    #[error("invalid `_meta` key {0:?}: its prefix is reserved for the specification")]
    Reserved(String),
    /// The identifier of an extension has no prefix.
    #[error("invalid extension identifier {0:?}: it must have a prefix, such as `com.example/`")]
    NoPrefix(String),
}

/// Checks the syntax of a `_meta` key: an optional prefix and a name (META-03, META-04).
///
/// # Errors
/// The invalid part.
pub(super) fn check(key: &str) -> Result<(), BadMetaKey> {
    let (prefix, name) = split(key);
    if !prefix.is_none_or(|prefix| prefix.split('.').all(is_label)) {
        return Err(BadMetaKey::Prefix(key.to_owned()));
    }
    // After a prefix, the name may be empty.
    if !(is_name(name) || prefix.is_some() && name.is_empty()) {
        return Err(BadMetaKey::Name(key.to_owned()));
    }
    Ok(())
}

/// Returns true if the specification reserves the prefix of the key in any revision (META-05, META-06). That is so if
/// the second label, or the last but one, is `modelcontextprotocol` or `mcp`.
pub(super) fn is_reserved(key: &str) -> bool {
    let Some(prefix) = split(key).0 else { return false };
    let labels: Vec<&str> = prefix.split('.').collect();
    let ours = |label: Option<&&str>| matches!(label, Some(&"modelcontextprotocol" | &"mcp"));
    ours(labels.get(1)) || ours(labels.len().checked_sub(2).and_then(|at| labels.get(at)))
}

/// Checks a key that is not defined by the specification itself. Keys under `io.modelcontextprotocol/` are allowed
/// because the official extensions use them.
///
/// # Errors
/// If the syntax is invalid or the prefix is reserved.
pub(super) fn check_chosen(key: &str) -> Result<(), BadMetaKey> {
    check(key)?;
    if is_reserved(key) && !key.starts_with(meta_key::OFFICIAL_PREFIX) {
        return Err(BadMetaKey::Reserved(key.to_owned()));
    }
    Ok(())
}

/// Checks the identifier of an extension: a key with a prefix (CAP-14).
///
/// # Errors
/// The errors of [`check_chosen`]; also if the prefix or the name is missing.
pub(super) fn check_extension(identifier: &str) -> Result<(), BadMetaKey> {
    match split(identifier) {
        (None, _) => Err(BadMetaKey::NoPrefix(identifier.to_owned())),
        (Some(_), "") => Err(BadMetaKey::Name(identifier.to_owned())),
        _ => check_chosen(identifier),
    }
}

fn split(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    }
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let inside = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Implementation, Prompt, PromptArgument, RawJson, Resource, ResourceTemplate, Tool};

    /// covers: META-03 META-04
    #[test]
    fn a_key_is_an_optional_prefix_and_a_name() {
        for good in [
            "a",
            "progressToken",
            "a-b_c.d",
            "7",
            "com.example/key",
            "c0m.ex-ample.x1/k.e-y_2",
            "example/key",
            "com.example/",
            meta_key::SERVER_INFO,
        ] {
            assert_eq!(meta_key::check(good), Ok(()), "{good}");
        }
        for bad in
            ["/a", "1com.example/a", "com..example/a", "com.example-/a", "-com/a", "c_m.x/a", "c\u{f6}m/a"]
        {
            assert_eq!(meta_key::check(bad), Err(BadMetaKey::Prefix(bad.into())), "{bad}");
        }
        for bad in
            ["", "-a", "a.", "_", "a b", "com.example/_a", "com.example/a-", "com.example/a/b", "\u{e4}"]
        {
            assert_eq!(meta_key::check(bad), Err(BadMetaKey::Name(bad.into())), "{bad}");
        }
    }

    /// covers: META-05 META-06
    #[test]
    fn prefixes_of_the_specification_cannot_be_chosen() {
        // 2025-06-18 reserves by the label before the last, 2025-11-25 and later by the second.
        let older =
            ["modelcontextprotocol.io/a", "mcp.dev/a", "api.modelcontextprotocol.org/a", "tools.mcp.com/a"];
        let newer = ["dev.mcp/a", "org.modelcontextprotocol.api/a", "com.mcp.tools/a"];
        for reserved in older.into_iter().chain(newer) {
            assert!(meta_key::is_reserved(reserved), "{reserved}");
            let chosen = meta_key::check_chosen(reserved);
            assert_eq!(chosen, Err(BadMetaKey::Reserved(reserved.into())), "{reserved}");
        }
        // Prefix of the specification's official extensions.
        assert!(meta_key::is_reserved("io.modelcontextprotocol/ui"));
        assert_eq!(meta_key::check_chosen("io.modelcontextprotocol/ui"), Ok(()));
        for free in ["com.example.mcp/a", "mcp/a", "mcp", "com.mcpx.tools/a", "com.example/mcp.io"] {
            assert!(!meta_key::is_reserved(free), "{free}");
            assert_eq!(meta_key::check_chosen(free), Ok(()), "{free}");
        }
    }

    #[test]
    fn an_extension_has_a_prefix() {
        assert_eq!(meta_key::check_extension("com.example/x"), Ok(()));
        assert_eq!(meta_key::check_extension("x"), Err(BadMetaKey::NoPrefix("x".into())));
        assert_eq!(meta_key::check_extension("com.example/"), Err(BadMetaKey::Name("com.example/".into())));
        assert_eq!(meta_key::check_extension("dev.mcp/x"), Err(BadMetaKey::Reserved("dev.mcp/x".into())));
    }

    /// covers: META-09
    #[test]
    fn the_title_is_shown_before_the_name() {
        let mut tool = Tool::new("name", RawJson::empty_object());
        assert_eq!(tool.display_name(), "name");
        let annotations = crate::ToolAnnotations::new().with_title("annotated");
        tool.annotations = Some(Box::new(annotations));
        assert_eq!(tool.display_name(), "annotated");
        assert_eq!(tool.with_title("title").display_name(), "title");
        macro_rules! titled {
            ($($plain:expr;)*) => { $(
                assert_eq!($plain.display_name(), "name");
                assert_eq!($plain.with_title("title").display_name(), "title");
            )* };
        }
        titled! {
            Prompt::new("name");
            PromptArgument::new("name");
            Resource::new("x://y", "name");
            ResourceTemplate::new("x://{y}", "name");
            Implementation::new("name", "1");
        }
    }
}
