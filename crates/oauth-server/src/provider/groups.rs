//! Groups of the provider's users, for the policy of a gateway.

use hospes_auth::GroupsClaim;
use serde_json::{Map, Value};

use super::{ProviderError, ProviderMetadata, ProviderTokens, SignInProvider};
use crate::store::encode;
use crate::store::secrets::hash;

impl SignInProvider {
    /// Reads the groups of users from this claim, at sign-in and whenever their tokens are renewed. Without it no groups
    /// are read. After a change of the claim, everybody has to sign in again.
    #[must_use]
    pub fn reading_groups(mut self, claim: GroupsClaim) -> Self {
        self.required_claims.push(claim.name().to_owned());
        self.groups = Some(claim);
        self
    }

    /// Returns the groups of a user with these claims. Empty if none are read.
    pub(crate) fn groups_of(&self, claims: &Map<String, Value>) -> Result<Vec<String>, ProviderError> {
        let Some(claim) = &self.groups else { return Ok(Vec::new()) };
        claim.read_or_none(claims).map_err(|error| {
            tracing::warn!(
                provider = %self.issuer, claim = claim.name(), %error,
                "the groups of a user are not known; limit the groups that the provider sends to this client"
            );
            ProviderError::UnknownGroups
        })
    }

    /// Reads the groups of a user again, with renewed tokens.
    pub(crate) async fn read_groups_again(
        &self,
        found: &ProviderMetadata,
        tokens: &ProviderTokens,
        subject: &str,
        now: u64,
    ) -> Result<Vec<String>, ProviderError> {
        let Some(claim) = &self.groups else { return Ok(Vec::new()) };
        let is_of_another =
            |claims: &Map<String, Value>| claims.get("sub").and_then(Value::as_str) != Some(subject);
        let of_another = ProviderError::Refused("the subject of the tokens has changed");
        // A provider need not send an ID token with a renewal (OpenID Connect Core, section 12.2).
        let mut claims = self.id_token_claims(tokens, None, now)?.unwrap_or_default();
        if !claims.is_empty() && is_of_another(&claims) {
            return Err(of_another);
        }
        if !claims.contains_key(claim.name())
            && let Some(said) = self.fetch_userinfo(found, tokens).await?
        {
            if is_of_another(&said) {
                return Err(of_another);
            }
            claims.extend(said);
        }
        self.groups_of(&claims)
    }

    /// Returns a digest of the rules under which users are admitted, and of what is read of them. It changes with them.
    pub(crate) fn admission_digest(&self) -> String {
        let rules = self.admission.rules_digest();
        match &self.groups {
            Some(claim) => hash(&encode(&(rules, claim.name()))),
            None => rules,
        }
    }
}
