//! Scopes of tokens.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list of scopes in OAuth's notation, separated by spaces. The order is kept and duplicates are removed.
///
/// ```
/// # use hospes_auth::Scopes;
/// let held = Scopes::parse("files:read files:write");
/// assert!(held.contains("files:read"));
/// assert_eq!(held.union(&Scopes::parse("mail files:read")).to_string(), "files:read files:write mail");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<Box<str>>);

impl Scopes {
    /// Creates an empty list.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Parses a `scope` parameter. Invalid scopes (RFC 6749, section 3.3) are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.split(' ').collect()
    }

    /// Returns true if there are no scopes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of scopes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if this scope is among them, by its exact name.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| &**known == scope)
    }

    /// Returns true if all of `others` are among them.
    #[must_use]
    pub fn contains_all(&self, others: &Self) -> bool {
        others.iter().all(|scope| self.contains(scope))
    }

    /// Returns these scopes, followed by those of `more` that are new.
    #[must_use]
    pub fn union(&self, more: &Self) -> Self {
        self.iter().chain(more.iter()).collect()
    }

    /// Iterates over the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|scope| &**scope)
    }
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<T: IntoIterator<Item = &'a str>>(scopes: T) -> Self {
        let mut list = Self::none();
        for scope in scopes {
            // The characters of `scope-token` (RFC 6749, section 3.3).
            let allowed = scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e));
            if allowed && !scope.is_empty() && !list.contains(scope) {
                list.0.push(scope.into());
            }
        }
        list
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(scope)?;
        }
        Ok(())
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::parse(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_each_scope_once() {
        let scopes = Scopes::parse("b a  b c");
        assert_eq!(scopes.to_string(), "b a c");
        assert_eq!(scopes.union(&Scopes::parse("d a")).to_string(), "b a c d");
    }

    #[test]
    fn leaves_out_what_no_scope_may_contain() {
        assert_eq!(Scopes::parse("good b\"ad back\\slash n\u{e4} tab\there").to_string(), "good");
    }

    #[test]
    fn knows_what_is_missing() {
        let held = Scopes::parse("files:read");
        assert!(held.contains_all(&Scopes::none()));
        assert!(!held.contains_all(&Scopes::parse("files:read files:write")));
        assert!(!held.contains("files"), "no scope is implied by another's name");
    }
}
