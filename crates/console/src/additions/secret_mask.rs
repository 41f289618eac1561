//! Removal of secrets from texts that go to a page.

use serde_json::Value;

/// Minimum length of a secret that is looked for, in bytes. A shorter one would fit parts of ordinary words.
const MIN_SECRET: usize = 4;
/// Text in place of a secret.
const MASK: &str = "•••";

/// Secrets that the person has typed. `Debug` is not implemented, because it would print them.
#[derive(Default)]
pub(super) struct SecretMask(Vec<String>);

impl SecretMask {
    /// Adds a secret.
    pub(super) fn add(&mut self, secret: &str) {
        if secret.len() >= MIN_SECRET && !self.0.iter().any(|known| known == secret) {
            self.0.push(secret.to_owned());
            // The longest first, because one may be a part of another.
            self.0.sort_by_key(|known| std::cmp::Reverse(known.len()));
        }
    }

    /// Replaces the secrets in all texts of a value, also in the names of members.
    pub(super) fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.apply_to_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.apply(member));
                if members.keys().any(|name| self.0.iter().any(|secret| name.contains(secret.as_str()))) {
                    let renamed = std::mem::take(members).into_iter().map(|(mut name, member)| {
                        self.apply_to_text(&mut name);
                        (name, member)
                    });
                    *members = renamed.collect();
                }
            }
            _ => {}
        }
    }

    fn apply_to_text(&self, text: &mut String) {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), MASK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_replaced_in_texts_and_names() {
        let mut mask = SecretMask::default();
        for secret in ["token", "token-long", "abc", "token"] {
            mask.add(secret);
        }
        let mut value = json!({ "a": ["x token-long y", 1, null], "the token": { "b": "abc token" } });
        mask.apply(&mut value);
        assert_eq!(value, json!({ "a": ["x ••• y", 1, null], "the •••": { "b": "abc •••" } }));
    }
}
