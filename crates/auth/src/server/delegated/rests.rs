//! What a grant rests on: kept, renewed, asked about, and given back.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::asked::Tokens;
use super::{Failed, Provider};
use crate::resource::Flaw;
use crate::server::AuthServer;
use crate::server::store::{Kind, Record};
use crate::server::tokens::encode;

/// How often the other is asked whether its token still holds, in seconds.
const CHECK_SECONDS: u64 = 60;
/// How long one node may take to renew a token before another tries, in seconds; and after how long it gives up itself,
/// which is sooner, so that no two are at it.
const LEASE_SECONDS: u64 = 60;
const WORK: Duration = Duration::from_secs(45);
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
    /// By which rules they were let in.
    #[serde(default)]
    pub(super) admitted: String,
}

impl Upstream {
    /// Whether it has run out, or nobody has asked about it for a while.
    fn is_due(&self, now: u64) -> bool {
        self.expires_at <= now || self.checked_at + CHECK_SECONDS <= now
    }
}

/// How this process is called by others that wait for its lease.
fn holder() -> String {
    format!("process {}", std::process::id())
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
            expires_at: now.saturating_add(tokens.expires_in.unwrap_or(UNKNOWN_LIFETIME)),
            checked_at: now,
            admitted: provider.admission.mark(),
        })
    }

    /// Whether what a grant rests on still holds: what has run out is renewed, once for all nodes.
    pub(in crate::server) async fn check_upstream(&self, grant: &str) -> Result<(), Flaw> {
        let Some(provider) = self.provider() else { return Err(Flaw::Invalid) };
        match self.check_at(provider, grant).await {
            Ok(()) => Ok(()),
            Err(Failed::Denied | Failed::NotAdmitted) => Err(Flaw::Invalid),
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
            if !self.rests_on(provider, grant, now).await?.1.is_due(now) {
                return Ok(());
            }
            let until = now + LEASE_SECONDS;
            if self.store().claim(&lease, &holder(), until, now).await? {
                // In a task of its own: whoever called may go away, and a token that the provider has replaced by then
                // would be lost, and the grant with it.
                let (server, grant) = (self.clone(), grant.to_owned());
                let done = tokio::spawn(async move {
                    let done = tokio::time::timeout(WORK, server.look_after(&grant)).await;
                    // After that it may be another's.
                    if server.now() < until {
                        server.store().forget(Kind::Claim, &lease).await?;
                    }
                    done.unwrap_or_else(|_| Err(Failed::Unreachable("it takes too long".to_owned())))
                });
                return done.await.unwrap_or_else(|_| Err(Failed::Unreachable("it broke off".to_owned())));
            }
            // Somebody is at it.
            tokio::time::sleep(LOOK).await;
        }
        Err(Failed::Unreachable(self.who_has(&lease).await?))
    }

    /// Who is taking too long, for the log.
    async fn who_has(&self, lease: &str) -> Result<String, Failed> {
        let now = self.now();
        Ok(match self.store().get(Kind::Claim, lease, now).await? {
            Some(held) => {
                let left = held.until.saturating_sub(now);
                format!("{} takes too long to renew it, and may for {left} more seconds", held.value)
            }
            None => "it could not be renewed in time: others came first again and again".to_owned(),
        })
    }

    async fn rests_on(
        &self,
        provider: &Provider,
        grant: &str,
        now: u64,
    ) -> Result<(Record, Upstream), Failed> {
        let record = self.store().get(Kind::Upstream, grant, now).await?;
        let record = record.ok_or(Failed::Refused("nothing is known of it"))?;
        let known: Upstream =
            serde_json::from_str(&record.value).map_err(|_| Failed::Refused("it cannot be read"))?;
        if known.admitted != provider.admission.mark() {
            return Err(Failed::Refused("who is let in has changed"));
        }
        Ok((record, known))
    }

    /// Renews it or asks about it, as whoever has the lease.
    async fn look_after(&self, grant: &str) -> Result<(), Failed> {
        let provider = self.provider().ok_or(Failed::Refused("there is no provider"))?;
        let now = self.now();
        // Once more: until we had the lease, another may have renewed it, and the token that we know of is spent.
        let (record, known) = self.rests_on(provider, grant, now).await?;
        if !known.is_due(now) {
            return Ok(());
        }
        let upstream = match known.expires_at <= now {
            true => self.renew(provider, grant, &known).await?,
            false => self.ask_status(provider, grant, &known).await?,
        };
        let was_renewed = upstream.access != known.access;
        let kept = Record { value: encode(&upstream), ..record };
        if self.store().put(kept.clone()).await? {
            return Ok(());
        }
        // Whoever has ended the grant knew only of what this replaces.
        if was_renewed && let Some(token) = self.rested_on(grant, &kept) {
            self.give_back(&token).await;
        }
        Err(Failed::Refused("it was ended meanwhile"))
    }

    async fn renew(&self, provider: &Provider, grant: &str, known: &Upstream) -> Result<Upstream, Failed> {
        let refresh = known.refresh.as_deref().and_then(|sealed| provider.open(grant, sealed));
        let refresh = refresh.ok_or(Failed::Refused("it has expired"))?;
        let found = provider.find(self.now()).await?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        let tokens = provider.ask_tokens(&found, &fields).await?;
        self.upstream(provider, grant, known.subject.clone(), &tokens, Some(known))
    }

    async fn ask_status(
        &self,
        provider: &Provider,
        grant: &str,
        known: &Upstream,
    ) -> Result<Upstream, Failed> {
        let found = provider.find(self.now()).await?;
        let access = provider.open(grant, &known.access).ok_or(Failed::Refused("it cannot be opened"))?;
        match provider.is_active(&found, &access).await? {
            Some(false) => Err(Failed::Refused("it was taken back")),
            Some(true) | None => Ok(Upstream { checked_at: self.now(), ..known.clone() }),
        }
    }

    /// What the provider gave us for a grant and takes back, if it did: in the record of it.
    pub(in crate::server) fn rested_on(&self, grant: &str, record: &Record) -> Option<SecretString> {
        let known: Upstream = serde_json::from_str(&record.value).ok()?;
        self.provider()?.open(grant, known.refresh.as_deref().unwrap_or(&known.access))
    }

    /// Gives a token back to the provider.
    pub(in crate::server) async fn give_back(&self, token: &SecretString) {
        let Some(provider) = self.provider() else { return };
        let giving = async {
            match provider.find(self.now()).await {
                Ok(found) => provider.take_back(&found, token).await,
                Err(_) => {
                    tracing::warn!(provider = %provider.issuer, "a token could not be given back: the provider was not reached");
                }
            }
        };
        if tokio::time::timeout(WORK, giving).await.is_err() {
            tracing::warn!(provider = %provider.issuer, "a token could not be given back: the provider did not answer");
        }
    }
}
