//! Admission of a provider's users.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::store::encode;
use crate::store::secrets::hash;

/// Rules that determine which users of a provider are admitted, by their claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserAdmissionRules(BTreeMap<String, Vec<String>>);

impl UserAdmissionRules {
    /// Admits all users of the provider.
    #[must_use]
    pub fn everybody() -> Self {
        Self::default()
    }

    /// Admits users for whom each of these claims has one of the given values. A claim that is a list has to contain
    /// one of them.
    ///
    /// An `email` counts only if the provider has verified it, and is case-insensitive; `@example.org` matches every
    /// address of that domain.
    #[must_use]
    pub fn only(claims: impl IntoIterator<Item = (String, Vec<String>)>) -> Self {
        Self(claims.into_iter().collect())
    }

    /// Returns true if the rules need claims that are missing here.
    pub(super) fn wants_more(&self, claims: &Map<String, Value>) -> bool {
        let absent = |name: &str| !claims.contains_key(name);
        self.0.keys().any(|name| absent(name) || (name == EMAIL && absent(VERIFIED)))
    }

    pub(crate) fn admits(&self, claims: &Map<String, Value>) -> bool {
        self.0.iter().all(|(name, wanted)| match (name.as_str(), claims.get(name)) {
            (EMAIL, Some(Value::String(email))) => {
                // Apple and Amazon Cognito send the flag as a text.
                let verified = matches!(claims.get(VERIFIED), Some(Value::Bool(true)))
                    || claims.get(VERIFIED).is_some_and(|said| said == "true");
                verified && wanted.iter().any(|wanted| is_email(email, wanted))
            }
            (EMAIL, _) | (_, None) => false,
            (_, Some(Value::Array(many))) => many.iter().any(|one| is_one(one, wanted)),
            (_, Some(one)) => is_one(one, wanted),
        })
    }

    /// Returns a digest of the rules, which changes with them.
    pub(crate) fn rules_digest(&self) -> String {
        hash(&encode(&self.0))
    }
}

pub(super) const EMAIL: &str = "email";
pub(super) const VERIFIED: &str = "email_verified";

fn is_one(said: &Value, wanted: &[String]) -> bool {
    match said {
        Value::String(text) => wanted.contains(text),
        Value::Bool(_) | Value::Number(_) => wanted.contains(&said.to_string()),
        _ => false,
    }
}

fn is_email(email: &str, wanted: &str) -> bool {
    match wanted.strip_prefix('@') {
        // The last `@`, because a quoted local part may hold others.
        Some(domain) => email.rsplit_once('@').is_some_and(|(_, of)| of.eq_ignore_ascii_case(domain)),
        None => email.eq_ignore_ascii_case(wanted),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn admits(rules: &[(&str, &[&str])], claims: &Value) -> bool {
        let own = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let rules = rules.iter().map(|(name, values)| ((*name).to_owned(), own(values)));
        UserAdmissionRules::only(rules).admits(claims.as_object().unwrap())
    }

    #[test]
    fn every_claim_has_to_have_one_of_its_values() {
        let ann = json!({ "sub": "1", "groups": ["staff", "mcp"], "hd": "example.org", "level": 3 });
        assert!(admits(&[], &ann));
        assert!(admits(&[("groups", &["mcp", "admins"]), ("hd", &["example.org"])], &ann));
        assert!(admits(&[("level", &["3"])], &ann));
        assert!(!admits(&[("groups", &["mcp"]), ("hd", &["example.com"])], &ann), "every claim");
        assert!(!admits(&[("groups", &["mc"])], &ann), "whole values");
        assert!(!admits(&[("groups", &[])], &ann), "nobody");
        assert!(!admits(&[("team", &["mcp"])], &ann), "what is not said is not so");
        assert!(!admits(&[("groups", &["mcp"])], &json!({ "groups": { "mcp": true } })));
    }

    /// An unverified address must not count: users who can enter any address in their account could impersonate others.
    #[test]
    fn an_address_counts_when_it_is_verified() {
        let of = |verified: Value| json!({ "email": "Ann@Example.org", "email_verified": verified });
        let rules: &[(&str, &[&str])] = &[("email", &["ann@example.org"])];
        assert!(admits(rules, &of(json!(true))) && admits(rules, &of(json!("true"))));
        assert!(!admits(rules, &of(json!(false))) && !admits(rules, &of(json!("false"))));
        assert!(!admits(rules, &json!({ "email": "ann@example.org" })));
        assert!(!admits(rules, &json!({ "email": ["ann@example.org"], "email_verified": true })));
        let domain: &[(&str, &[&str])] = &[("email", &["@example.org"])];
        assert!(admits(domain, &of(json!(true))));
        for other in
            ["ann@mail.example.org", "ann@example.org.evil.example", "example.org", "ann@evilexample.org"]
        {
            assert!(!admits(domain, &json!({ "email": other, "email_verified": true })), "{other}");
        }
    }
}
