//! The server's own tokens, checked: they are looked up, not read.

use super::AuthServer;
use super::tokens::By;
use crate::Resource;
use crate::resource::{Flaw, Principal, Verify, VerifyFuture};

/// Checks an [`AuthServer`]'s tokens for the resources of one guard. Made by [`AuthServer::tokens_for`].
#[derive(Clone, Debug)]
pub struct OwnTokens {
    server: AuthServer,
    resources: Vec<Resource>,
}

impl AuthServer {
    /// Lets in whoever shows a token of this server that was made out for one of `resources`: those of the guard that
    /// asks, and no others. A server makes out tokens for several resources, and a token for one opens none of the rest
    /// (RFC 8707, section 2).
    #[must_use]
    pub fn tokens_for(&self, resources: impl IntoIterator<Item = Resource>) -> OwnTokens {
        OwnTokens { server: self.clone(), resources: resources.into_iter().collect() }
    }
}

impl OwnTokens {
    async fn check(&self, token: &str, now: u64) -> Result<Principal, Flaw> {
        let server = &self.server;
        let found = server.access(token, now).await.map_err(|error| {
            tracing::warn!(?error, "a token could not be looked up");
            Flaw::Unavailable
        })?;
        let (record, until, grant) = found.ok_or(Flaw::Invalid)?;
        let resource = &record.given.resource;
        if !self.resources.contains(resource) || !server.settings().resources.contains(resource) {
            return Err(Flaw::Invalid);
        }
        if !server.is_there(&record.given) {
            return Err(Flaw::Invalid);
        }
        if record.given.by == By::Upstream {
            server.check_upstream(&grant).await?;
        }
        let mut principal = Principal::new(server.settings().issuer.clone(), record.given.subject);
        principal.is_client = record.given.by == By::Client;
        principal.client_id = Some(record.client_id);
        principal.proof_key = record.key;
        principal.scopes = record.given.scopes;
        principal.token_id = crate::fingerprint(token);
        principal.expires_at = Some(until);
        Ok(principal)
    }
}

impl Verify for OwnTokens {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(self.check(token, now))
    }
}
