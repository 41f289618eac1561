//! Verification of the server's own tokens by lookup.

use hospes_auth::Resource;
use hospes_oauth_resource::{TokenPrincipal, TokenVerifier, VerifyFuture, VerifyTokenError};

use super::records::GrantSource;
use crate::auth_server::AuthServer;

/// Checks an [`AuthServer`]'s tokens for the resources of one guard. Made by [`AuthServer::tokens_for`].
#[derive(Clone, Debug)]
pub struct OwnTokenVerifier {
    server: AuthServer,
    resources: Vec<Resource>,
}

impl AuthServer {
    /// Returns a verifier that accepts tokens of this server for one of `resources`: those of the calling middleware,
    /// and no others. A server issues tokens for several resources, and a token for one is not valid at the rest (RFC
    /// 8707, section 2).
    #[must_use]
    pub fn tokens_for(&self, resources: impl IntoIterator<Item = Resource>) -> OwnTokenVerifier {
        OwnTokenVerifier { server: self.clone(), resources: resources.into_iter().collect() }
    }
}

impl OwnTokenVerifier {
    async fn check(&self, token: &str, now: u64) -> Result<TokenPrincipal, VerifyTokenError> {
        let server = &self.server;
        let found = server.find_access_token(token, now).await.map_err(|error| {
            tracing::warn!(?error, "cannot look up token");
            VerifyTokenError::Unavailable
        })?;
        let (record, until, grant) = found.ok_or(VerifyTokenError::Invalid)?;
        let resource = &record.given.resource;
        // A resource that the configuration has dropped since is refused, too.
        if !self.resources.contains(resource) || !server.settings().resources.contains(resource) {
            return Err(VerifyTokenError::Invalid);
        }
        if !server.is_source_valid(&record.given) {
            return Err(VerifyTokenError::Invalid);
        }
        // Last, because it may have to wait for the provider.
        let groups = match record.given.by {
            GrantSource::Upstream => server.check_upstream(&grant).await?,
            _ => Vec::new(),
        };
        let mut principal = TokenPrincipal::new(server.settings().issuer.clone(), record.given.subject);
        principal.is_client = record.given.by == GrantSource::Client;
        principal.client_id = Some(record.client_id);
        principal.proof_key = record.key;
        principal.scopes = record.given.scopes;
        principal.token_id = hospes_auth::fingerprint(token);
        principal.groups = groups;
        principal.expires_at = Some(until);
        Ok(principal)
    }
}

impl TokenVerifier for OwnTokenVerifier {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(self.check(token, now))
    }
}
