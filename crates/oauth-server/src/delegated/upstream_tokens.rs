//! Provider tokens that a grant depends on: storage, renewal, introspection and revocation.

use std::time::Duration;

use hospes_oauth_resource::VerifyTokenError;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::auth_server::AuthServer;
use crate::provider::{ProviderError, ProviderTokens, SignInProvider};
use crate::store::{AuthRecord, RecordKind, encode};

/// Interval at which the provider is asked whether its token is still valid, in seconds.
const CHECK_SECONDS: u64 = 60;
/// Time for which one node may renew a token before another tries, in seconds. The work itself times out earlier, so
/// that no two nodes renew at the same time.
const LEASE_SECONDS: u64 = 60;
const LEASE_WORK_TIMEOUT: Duration = Duration::from_secs(45);
/// Interval and maximum number of checks whether another node has renewed a token.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_LEASE_POLLS: u32 = 100;
/// Longest time for which groups that cannot be read again still count, in seconds.
const GROUPS_LIFETIME_SECONDS: u64 = 4 * 3600;
/// Assumed lifetime of a provider token without `expires_in`, in seconds.
const UNKNOWN_LIFETIME: u64 = 3600;

/// Tokens of the provider for one grant.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct UpstreamTokens {
    pub(super) subject: String,
    /// Encrypted, like `refresh`.
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) expires_at: u64,
    pub(super) checked_at: u64,
    /// Digest of the admission rules under which the user was admitted, and of the claim that has the groups.
    #[serde(default)]
    pub(super) admitted: String,
    /// Groups of the user when the tokens were issued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) groups: Vec<String>,
    /// Time since which the groups could not be read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    groups_unread_since: Option<u64>,
}

impl UpstreamTokens {
    /// Returns the groups, unless they are too old.
    fn known_groups(self, now: u64) -> Result<Vec<String>, ProviderError> {
        match self.groups_unread_since {
            Some(since) if since + GROUPS_LIFETIME_SECONDS <= now => {
                Err(ProviderError::Unreachable("the groups of the user cannot be read again".to_owned()))
            }
            _ => Ok(self.groups),
        }
    }

    /// Returns true if the token has expired or is due for introspection.
    fn is_due(&self, now: u64) -> bool {
        self.expires_at <= now || self.checked_at + CHECK_SECONDS <= now
    }
}

/// Returns the name of this process for others that wait for its lease.
fn lease_holder_name() -> String {
    format!("process {}", std::process::id())
}

impl AuthServer {
    pub(super) fn seal_provider_tokens(
        &self,
        provider: &SignInProvider,
        grant: &str,
        subject: String,
        tokens: &ProviderTokens,
        before: Option<&UpstreamTokens>,
    ) -> Result<UpstreamTokens, ProviderError> {
        let seal = |secret: &SecretString| {
            provider
                .seal(grant, secret.expose_secret())
                .ok_or(ProviderError::Refused("cannot encrypt the provider's tokens"))
        };
        let now = self.now();
        Ok(UpstreamTokens {
            subject,
            access: seal(&tokens.access_token)?,
            refresh: match &tokens.refresh_token {
                Some(refresh) => Some(seal(refresh)?),
                // A provider that does not replace refresh tokens sends none with a renewal (RFC 6749,
                // section 6).
                None => before.and_then(|before| before.refresh.clone()),
            },
            expires_at: now.saturating_add(tokens.expires_in.unwrap_or(UNKNOWN_LIFETIME)),
            checked_at: now,
            admitted: provider.admission_digest(),
            groups: before.map(|before| before.groups.clone()).unwrap_or_default(),
            groups_unread_since: before.and_then(|before| before.groups_unread_since),
        })
    }

    /// Checks that the provider tokens of a grant are still valid, and returns the groups of their user. Expired tokens are
    /// renewed, once for all nodes.
    pub(crate) async fn check_upstream(&self, grant: &str) -> Result<Vec<String>, VerifyTokenError> {
        let Some(provider) = self.provider() else { return Err(VerifyTokenError::Invalid) };
        match self.check_with_lease(provider, grant).await {
            Ok(groups) => Ok(groups),
            Err(ProviderError::Denied | ProviderError::NotAdmitted) => Err(VerifyTokenError::Invalid),
            Err(why @ (ProviderError::UnknownGroups | ProviderError::Refused(_))) => {
                tracing::warn!(
                    grant = hospes_auth::fingerprint(grant),
                    %why,
                    "provider tokens invalid; revoking the grant"
                );
                let until = self.now() + self.settings().lifetimes.grant.as_secs() + 3600;
                // If the store fails, the next check gets here again, and until then nothing is let in.
                let _ended = self.store().revoke_grant(grant, until).await;
                Err(VerifyTokenError::Invalid)
            }
            Err(ProviderError::Unreachable(why)) => {
                tracing::warn!(provider = %provider.issuer, why, "provider request failed");
                Err(VerifyTokenError::Unavailable)
            }
            Err(ProviderError::Store(error)) => {
                tracing::error!(%error, "cannot look up provider tokens");
                Err(VerifyTokenError::Unavailable)
            }
        }
    }

    async fn check_with_lease(
        &self,
        provider: &SignInProvider,
        grant: &str,
    ) -> Result<Vec<String>, ProviderError> {
        let lease = format!("upstream {grant}");
        // A caller waits for another node for about five seconds (LOOKS times LOOK), then learns that it is
        // not known.
        for _ in 0..MAX_LEASE_POLLS {
            let now = self.now();
            let (_, known) = self.load_upstream_tokens(provider, grant, now).await?;
            if !known.is_due(now) {
                return known.known_groups(now);
            }
            let until = now + LEASE_SECONDS;
            if self.store().claim(&lease, &lease_holder_name(), until, now).await? {
                // In a task of its own: whoever called may go away, and a token that the provider has replaced by then
                // would be lost, and the grant with it.
                let (server, grant) = (self.clone(), grant.to_owned());
                let done = tokio::spawn(async move {
                    let done =
                        tokio::time::timeout(LEASE_WORK_TIMEOUT, server.maintain_upstream_tokens(&grant))
                            .await;
                    // After that it may be another's.
                    if server.now() < until {
                        server.store().forget(RecordKind::Claim, &lease).await?;
                    }
                    done.unwrap_or_else(|_| {
                        Err(ProviderError::Unreachable("timed out at the provider".to_owned()))
                    })
                });
                return done.await.unwrap_or_else(|_| {
                    Err(ProviderError::Unreachable("the token check was aborted".to_owned()))
                });
            }
            // Somebody is at it.
            tokio::time::sleep(LEASE_POLL_INTERVAL).await;
        }
        Err(ProviderError::Unreachable(self.lease_timeout_message(&lease).await?))
    }

    /// Names the lease holder that takes too long, for the log.
    async fn lease_timeout_message(&self, lease: &str) -> Result<String, ProviderError> {
        let now = self.now();
        Ok(match self.store().get(RecordKind::Claim, lease, now).await? {
            Some(held) => {
                let left = held.until.saturating_sub(now);
                format!("{} is still refreshing the tokens; its lease expires in {left} seconds", held.value)
            }
            None => "timed out waiting for the lease to refresh the tokens".to_owned(),
        })
    }

    async fn load_upstream_tokens(
        &self,
        provider: &SignInProvider,
        grant: &str,
        now: u64,
    ) -> Result<(AuthRecord, UpstreamTokens), ProviderError> {
        let record = self.store().get(RecordKind::Upstream, grant, now).await?;
        let record = record.ok_or(ProviderError::Refused("no provider tokens are stored for the grant"))?;
        let known: UpstreamTokens = serde_json::from_str(&record.value)
            .map_err(|_| ProviderError::Refused("the stored tokens are malformed"))?;
        if known.admitted != provider.admission_digest() {
            return Err(ProviderError::Refused("the admission rules have changed"));
        }
        Ok((record, known))
    }

    /// Renews or introspects the token, while this node holds the lease.
    async fn maintain_upstream_tokens(&self, grant: &str) -> Result<Vec<String>, ProviderError> {
        let provider = self.provider().ok_or(ProviderError::Refused("no sign-in provider is configured"))?;
        let now = self.now();
        // Once more: until we had the lease, another may have renewed it, and the token that we know of is spent.
        let (record, known) = self.load_upstream_tokens(provider, grant, now).await?;
        if !known.is_due(now) {
            return known.known_groups(now);
        }
        let upstream = match known.expires_at <= now {
            true => self.renew(provider, grant, &known).await?,
            false => self.ask_status(provider, grant, &known).await?,
        };
        let was_renewed = upstream.access != known.access;
        let kept = AuthRecord { value: encode(&upstream), ..record };
        if self.store().put(kept.clone()).await? {
            return upstream.known_groups(now);
        }
        // Whoever has ended the grant knew only of what this replaces.
        if was_renewed && let Some(token) = self.revocable_token(grant, &kept) {
            self.revoke_upstream_token(&token).await;
        }
        Err(ProviderError::Refused("the grant was revoked in the meantime"))
    }

    async fn renew(
        &self,
        provider: &SignInProvider,
        grant: &str,
        known: &UpstreamTokens,
    ) -> Result<UpstreamTokens, ProviderError> {
        let refresh = known.refresh.as_deref().and_then(|sealed| provider.open(grant, sealed));
        let refresh = refresh.ok_or(ProviderError::Refused("no valid refresh token"))?;
        let found = provider.load_metadata(self.now()).await?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        let tokens = provider.request_tokens(&found, &fields).await?;
        let mut upstream =
            self.seal_provider_tokens(provider, grant, known.subject.clone(), &tokens, Some(known))?;
        let now = self.now();
        match provider.read_groups_again(&found, &tokens, &known.subject, now).await {
            Ok(groups) => (upstream.groups, upstream.groups_unread_since) = (groups, None),
            // The tokens are kept all the same: the provider has replaced those of before. It is asked again soon.
            Err(ProviderError::Unreachable(why)) => {
                tracing::warn!(provider = %provider.issuer, why, "the groups of a user cannot be read again");
                upstream.groups_unread_since.get_or_insert(now);
                upstream.expires_at = upstream.expires_at.min(now + CHECK_SECONDS);
            }
            Err(why) => {
                // What was just issued is not stored, so that nobody else could give it back.
                provider
                    .revoke_token(&found, tokens.refresh_token.as_ref().unwrap_or(&tokens.access_token))
                    .await;
                return Err(why);
            }
        }
        Ok(upstream)
    }

    async fn ask_status(
        &self,
        provider: &SignInProvider,
        grant: &str,
        known: &UpstreamTokens,
    ) -> Result<UpstreamTokens, ProviderError> {
        let found = provider.load_metadata(self.now()).await?;
        let access = provider
            .open(grant, &known.access)
            .ok_or(ProviderError::Refused("cannot decrypt the access token"))?;
        match provider.is_active(&found, &access).await? {
            Some(false) => Err(ProviderError::Refused("the provider revoked the token")),
            Some(true) | None => Ok(UpstreamTokens { checked_at: self.now(), ..known.clone() }),
        }
    }

    /// Returns the token of a grant that the provider can revoke, from its record.
    pub(crate) fn revocable_token(&self, grant: &str, record: &AuthRecord) -> Option<SecretString> {
        let known: UpstreamTokens = serde_json::from_str(&record.value).ok()?;
        self.provider()?.open(grant, known.refresh.as_deref().unwrap_or(&known.access))
    }

    /// Gives a token back to the provider.
    pub(crate) async fn revoke_upstream_token(&self, token: &SecretString) {
        let Some(provider) = self.provider() else { return };
        let giving = async {
            match provider.load_metadata(self.now()).await {
                Ok(found) => provider.revoke_token(&found, token).await,
                Err(_) => {
                    tracing::warn!(provider = %provider.issuer, "cannot revoke token: provider discovery failed");
                }
            }
        };
        if tokio::time::timeout(LEASE_WORK_TIMEOUT, giving).await.is_err() {
            tracing::warn!(provider = %provider.issuer, "cannot revoke token: the provider did not respond in time");
        }
    }
}
