//! What a grant rests on: kept, renewed, asked about, and given back.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::asked::Tokens;
use super::{Failed, Provider};
use crate::resource::Flaw;
use crate::server::AuthServer;
use crate::server::store::{Kind, Record, StoreError};
use crate::server::tokens::encode;

/// How often the other is asked whether its token still holds, in seconds.
const CHECK_SECONDS: u64 = 60;
/// How long one node may take to renew a token before another tries, in seconds.
const LEASE_SECONDS: u64 = 30;
/// How often a node looks whether another has renewed a token, and how often at most.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 100;
/// How long a token lasts whose lifetime the other does not say, in seconds.
const UNKNOWN_LIFETIME: u64 = 3600;

/// What the provider gave us for one grant.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Upstream {
    pub(super) subject: String,
    /// Sealed, both.
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) expires_at: u64,
    pub(super) checked_at: u64,
}

impl AuthServer {
    pub(super) fn upstream(
        &self,
        provider: &Provider,
        grant: &str,
        subject: String,
        tokens: &Tokens,
        before: Option<&Upstream>,
    ) -> Result<Upstream, Failed> {
        let seal = |secret: &SecretString| {
            provider.seal(grant, secret.expose_secret()).ok_or(Failed::Refused("nothing can be sealed"))
        };
        let now = self.now();
        Ok(Upstream {
            subject,
            access: seal(&tokens.access_token)?,
            refresh: match &tokens.refresh_token {
                Some(refresh) => Some(seal(refresh)?),
                None => before.and_then(|before| before.refresh.clone()),
            },
            expires_at: now + tokens.expires_in.unwrap_or(UNKNOWN_LIFETIME),
            checked_at: now,
        })
    }

    /// Whether what a grant rests on still holds: what has run out is renewed, once for all nodes.
    pub(in crate::server) async fn check_upstream(&self, grant: &str) -> Result<(), Flaw> {
        let Some(provider) = self.provider() else { return Err(Flaw::Invalid) };
        match self.check_at(provider, grant).await {
            Ok(()) => Ok(()),
            Err(Failed::Refused(why)) => {
                tracing::warn!(grant = crate::fingerprint(grant), why, "what a grant rests on is gone");
                let until = self.now() + self.settings().lifetimes.grant.as_secs() + 3600;
                let _ended = self.store().revoke_grant(grant, until).await;
                Err(Flaw::Invalid)
            }
            Err(Failed::Unreachable(why)) => {
                tracing::warn!(provider = %provider.issuer, why, "the provider did not answer");
                Err(Flaw::Unavailable)
            }
            Err(Failed::Store(error)) => {
                tracing::error!(%error, "what a grant rests on could not be looked up");
                Err(Flaw::Unavailable)
            }
        }
    }

    async fn check_at(&self, provider: &Provider, grant: &str) -> Result<(), Failed> {
        let lease = format!("upstream {grant}");
        for _ in 0..LOOKS {
            let now = self.now();
            let record = self.store().get(Kind::Upstream, grant, now).await?;
            let record = record.ok_or(Failed::Refused("nothing is known of it"))?;
            let known: Upstream =
                serde_json::from_str(&record.value).map_err(|_| Failed::Refused("it cannot be read"))?;
            let expired = known.expires_at <= now;
            if !expired && known.checked_at + CHECK_SECONDS > now {
                return Ok(());
            }
            if !self.store().claim(&lease, now + LEASE_SECONDS, now).await? {
                // Somebody is at it.
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let renewed = if expired {
                self.renew(provider, grant, &known).await
            } else {
                self.ask_status(provider, grant, &known).await
            };
            let done = match renewed {
                Ok(upstream) => {
                    let kept = Record { value: encode(&upstream), ..record };
                    self.store().put(kept).await.map(drop).map_err(Failed::from)
                }
                Err(error) => Err(error),
            };
            self.store().forget(Kind::Claim, &lease).await?;
            return done;
        }
        Err(Failed::Unreachable("another node takes too long to renew it".to_owned()))
    }

    async fn renew(&self, provider: &Provider, grant: &str, known: &Upstream) -> Result<Upstream, Failed> {
        let refresh = known.refresh.as_deref().and_then(|sealed| provider.open(grant, sealed));
        let refresh = refresh.ok_or(Failed::Refused("it has expired"))?;
        let found = self.find(provider).await.map_err(Failed::Unreachable)?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        let tokens = self.ask_tokens(provider, &found, &fields).await?;
        self.upstream(provider, grant, known.subject.clone(), &tokens, Some(known))
    }

    async fn ask_status(
        &self,
        provider: &Provider,
        grant: &str,
        known: &Upstream,
    ) -> Result<Upstream, Failed> {
        let found = self.find(provider).await.map_err(Failed::Unreachable)?;
        let checked = Upstream { checked_at: self.now(), ..known.clone() };
        let endpoint = found.server.introspection_endpoint.as_deref().and_then(|url| Url::parse(url).ok());
        let Some(endpoint) = endpoint else { return Ok(checked) };
        let access = provider.open(grant, &known.access).ok_or(Failed::Refused("it cannot be opened"))?;
        let request = provider.form(endpoint, &[("token", access.expose_secret())]);
        let response = self.fetched(request).await.map_err(Failed::Unreachable)?;
        let said: serde_json::Value =
            response.decode().map_err(|error| Failed::Unreachable(error.to_string()))?;
        match said["active"].as_bool() {
            Some(true) => Ok(checked),
            Some(false) => Err(Failed::Refused("it was taken back")),
            None => Err(Failed::Unreachable("it does not say".to_owned())),
        }
    }

    /// Gives back to the provider what a grant rests on, where it takes it (RFC 7009).
    pub(in crate::server) async fn give_back(&self, grant: &str) -> Result<(), StoreError> {
        let Some(provider) = self.provider() else { return Ok(()) };
        let record = self.store().get(Kind::Upstream, grant, self.now()).await?;
        let known = record.and_then(|record| serde_json::from_str::<Upstream>(&record.value).ok());
        let (Some(known), Ok(found)) = (known, self.find(provider).await) else { return Ok(()) };
        let endpoint = found.server.revocation_endpoint.as_deref().and_then(|url| Url::parse(url).ok());
        let token = provider.open(grant, known.refresh.as_deref().unwrap_or(&known.access));
        if let (Some(endpoint), Some(token)) = (endpoint, token)
            && let Err(error) =
                self.fetched(provider.form(endpoint, &[("token", token.expose_secret())])).await
        {
            tracing::warn!(provider = %provider.issuer, error, "the provider did not take a token back");
        }
        Ok(())
    }
}
