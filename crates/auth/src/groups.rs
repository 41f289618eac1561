//! Groups of a person, from the claims of a provider.

use serde_json::{Map, Value};

/// Maximum number of groups that a claim may have.
pub const MAX_GROUPS: usize = 1000;

/// Claim that has the groups of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupsClaim(String);

/// Reasons that the groups of a person are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadGroupsError {
    /// The claim is missing, or is neither a text nor a list.
    #[error("the provider does not send the claim")]
    Missing,
    /// The provider sends a reference in place of the groups (OpenID Connect Core, section 5.6.2).
    #[error("the person is in too many groups: the provider sends a reference in place of them")]
    Overage,
    /// There are more than [`MAX_GROUPS`].
    #[error("the person is in more than {MAX_GROUPS} groups")]
    TooMany,
}

impl GroupsClaim {
    /// Creates a claim with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name of the claim.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the groups of these claims: the text of the claim, or the texts of its list.
    ///
    /// # Errors
    /// If they are not known.
    pub fn read(&self, claims: &Map<String, Value>) -> Result<Vec<String>, ReadGroupsError> {
        match claims.get(&self.0) {
            Some(Value::String(one)) => Ok(vec![one.clone()]),
            Some(Value::Array(many)) if many.len() > MAX_GROUPS => Err(ReadGroupsError::TooMany),
            Some(Value::Array(many)) => {
                Ok(many.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ if claims.get("_claim_names").is_some_and(|names| names.get(&self.0).is_some()) => {
                Err(ReadGroupsError::Overage)
            }
            _ => Err(ReadGroupsError::Missing),
        }
    }

    /// Returns the groups of these claims. A person without the claim has none.
    ///
    /// # Errors
    /// If there are too many. An incomplete list would leave out a group that is denied something.
    pub fn read_or_none(&self, claims: &Map<String, Value>) -> Result<Vec<String>, ReadGroupsError> {
        match self.read(claims) {
            Err(ReadGroupsError::Missing) => Ok(Vec::new()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_are_texts_and_a_reference_is_not_the_same_as_none() {
        let of = |claims: Value| GroupsClaim::new("groups").read(claims.as_object().unwrap());
        assert_eq!(of(json!({ "groups": ["a", 3, ["b"], "c"] })), Ok(vec!["a".to_owned(), "c".to_owned()]));
        assert_eq!(of(json!({ "groups": "a b" })), Ok(vec!["a b".to_owned()]));
        for none in [json!({}), json!({ "groups": { "a": true } }), json!({ "roles": ["a"] })] {
            assert_eq!(of(none.clone()), Err(ReadGroupsError::Missing));
            let claims = none.as_object().unwrap();
            assert_eq!(GroupsClaim::new("groups").read_or_none(claims), Ok(Vec::new()));
        }
        let overage = json!({ "_claim_names": { "groups": "src1" } });
        assert_eq!(of(overage.clone()), Err(ReadGroupsError::Overage));
        let overage = overage.as_object().unwrap();
        assert_eq!(GroupsClaim::new("groups").read_or_none(overage), Err(ReadGroupsError::Overage));
        let many = |number: usize| json!({ "groups": vec!["a"; number] });
        assert_eq!(of(many(MAX_GROUPS)).map(|groups| groups.len()), Ok(MAX_GROUPS));
        assert_eq!(of(many(MAX_GROUPS + 1)), Err(ReadGroupsError::TooMany));
    }
}
