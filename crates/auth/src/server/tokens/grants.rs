//! What is handed in for a token: a code, a refresh token, or the client's own credentials.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::{Asker, By, CodeRecord, Given, NoToken, TokenRecord, decode, encode, refuse};
use crate::pkce::verify_challenge;
use crate::server::authorize::{resource, scopes};
use crate::server::clients::{AuthMethod, Client, Origin, REFRESH};
use crate::server::form::Form;
use crate::server::store::{Kind, Record, Swapped, Taken};
use crate::server::{AuthServer, hash, random_text};
use crate::{ErrorCode, Scopes, fingerprint};

/// Time after the first use of a code in which further uses count as sent at once with it, in seconds. They are refused and
/// end nothing.
const OVERLAP_SECONDS: u64 = 2;

impl AuthServer {
    pub(super) async fn redeem_code(&self, form: &Form, asker: &Asker) -> Result<Value, NoToken> {
        let client = &asker.client;
        let (Some(code), Some(verifier)) = (form.get("code"), form.get("code_verifier")) else {
            return refuse(ErrorCode::InvalidRequest, "code or code_verifier is missing");
        };
        let bad = "the code is not good, or no longer, or not for this request";
        let now = self.now();
        let (code_hash, redeemed) = (hash(code), format!("redeemed {}", hash(code)));
        let record = match self.store().take(Kind::Code, &code_hash, now).await? {
            Taken::First(record) => record,
            Taken::Again(record) => {
                // Without a mark the one who took it has no tokens yet.
                let mark = self.store().get(Kind::Claim, &redeemed, now).await?;
                let at = mark.and_then(|mark| mark.value.parse::<u64>().ok());
                // Clients send a request twice when they believe it lost. Of those that overlap one succeeds and keeps its tokens.
                if at.is_none_or(|at| now <= at.saturating_add(OVERLAP_SECONDS)) {
                    return refuse(ErrorCode::InvalidGrant, bad);
                }
                // Two have it, and one of them should not (RFC 6749, section 4.1.2; OAuth 2.1, section 4.1.3).
                tracing::warn!(code = fingerprint(code), client = %client.id, "a code was used again");
                self.revoke_grant_of(&record).await?;
                return refuse(ErrorCode::InvalidGrant, bad);
            }
            Taken::Unknown => return refuse(ErrorCode::InvalidGrant, bad),
        };
        // Before there are any tokens: a crash in between leaves none that a later use would not end.
        self.store().put(Record::new(Kind::Claim, redeemed, now.to_string(), record.until)).await?;
        let known: CodeRecord = decode(&record)?;
        if known.client_id != client.id {
            self.revoke_grant_of(&record).await?;
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        if !self.is_there(&known.given) {
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        let same_redirect = form.get("redirect_uri").is_none_or(|uri| uri == known.redirect_uri.as_str());
        if !same_redirect || !verify_challenge(verifier, &known.challenge) {
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        if known.key.is_some() && known.key != asker.key {
            return refuse(ErrorCode::InvalidDpopProof, "the code is for who proves another key");
        }
        self.check_resource(form, &known.given.resource)?;
        let grant = record.grant.unwrap_or_default();
        let refresh = client.may(REFRESH).then(random_text);
        self.keep_registration(client).await?;
        if let Some(refresh) = &refresh {
            self.put_refresh(refresh, asker, &known.given, &grant).await?;
        }
        self.issue(asker, &known.given, &known.given.scopes, &grant, refresh).await
    }

    pub(super) async fn refresh(&self, form: &Form, asker: &Asker) -> Result<Value, NoToken> {
        let client = &asker.client;
        let Some(old) = form.get("refresh_token") else {
            return refuse(ErrorCode::InvalidRequest, "refresh_token is missing");
        };
        let bad = "the refresh token is not good, or no longer";
        let (now, key) = (self.now(), hash(old));
        let salt = random_text();
        let next = successor(old, &salt);
        let record = match self.store().get(Kind::Refresh, &key, now).await? {
            Some(record) => {
                let known: TokenRecord = decode(&record)?;
                if known.client_id != client.id {
                    tracing::warn!(token = fingerprint(old), client = %client.id, "another client's refresh token");
                    self.revoke_grant_of(&record).await?;
                    return refuse(ErrorCode::InvalidGrant, bad);
                }
                let grant = record.grant.clone().unwrap_or_default();
                if !self.holds(&known.given, &grant).await? {
                    tracing::info!(token = fingerprint(old), "what it was given on is gone");
                    self.revoke_grant_of(&record).await?;
                    return refuse(ErrorCode::InvalidGrant, bad);
                }
                // Before anything changes.
                check_key(&known, asker)?;
                self.check_resource(form, &known.given.resource)?;
                narrowed(form, &known.given.scopes)?;
                self.refresh_record(&next, asker, &known.given, &grant)
            }
            // It was swapped, or it is none: nothing will be put in its place.
            None => Record::new(Kind::Claim, "", "", 0),
        };
        let window = self.settings().lifetimes.replay.as_secs();
        let (record, next) = match self.store().swap_refresh(&key, record, &salt, now, window).await? {
            Swapped::Done(record) => (record, next),
            // The answer was lost, or two of the client's tasks came at once.
            Swapped::Replayed(record, salt) => (record, successor(old, &salt)),
            Swapped::Reused(record) => {
                tracing::warn!(token = fingerprint(old), client = %client.id, "a refresh token was used again");
                self.revoke_grant_of(&record).await?;
                return refuse(ErrorCode::InvalidGrant, bad);
            }
            Swapped::Unknown => return refuse(ErrorCode::InvalidGrant, bad),
        };
        let known: TokenRecord = decode(&record)?;
        let grant = record.grant.clone().unwrap_or_default();
        // Asked already, but for an answer that is told again.
        if known.client_id != client.id || !self.holds(&known.given, &grant).await? {
            self.revoke_grant_of(&record).await?;
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        check_key(&known, asker)?;
        self.check_resource(form, &known.given.resource)?;
        let scopes = narrowed(form, &known.given.scopes)?;
        self.issue(asker, &known.given, &scopes, &grant, Some(next)).await
    }

    pub(super) async fn credentials(&self, form: &Form, asker: &Asker) -> Result<Value, NoToken> {
        let client = &asker.client;
        if client.auth == AuthMethod::None {
            return refuse(ErrorCode::UnauthorizedClient, "only a client with a secret acts for itself");
        }
        let Some(resource) = resource(form.get("resource"), self.settings()) else {
            return refuse(ErrorCode::InvalidTarget, "the resource is not one of this server's");
        };
        let Some(scopes) = scopes(form.get("scope"), client, self.settings()) else {
            return refuse(ErrorCode::InvalidScope, "a scope is not known, or not for this client");
        };
        let given = Given { subject: client.id.to_string(), resource, scopes, end: u64::MAX, by: By::Client };
        self.issue(asker, &given, &given.scopes, &random_text(), None).await
    }

    fn refresh_record(&self, token: &str, asker: &Asker, given: &Given, grant: &str) -> Record {
        let client = &asker.client;
        // A client without a secret shows with its key that it is itself (RFC 9449, section 5).
        let key = asker.key.clone().filter(|_| client.auth == AuthMethod::None);
        let until = (self.now() + self.settings().lifetimes.refresh.as_secs()).min(given.end);
        let value = encode(&TokenRecord { client_id: client.id.clone(), key, given: given.clone() });
        Record::new(Kind::Refresh, hash(token), value, until).of(grant)
    }

    async fn put_refresh(
        &self,
        token: &str,
        asker: &Asker,
        given: &Given,
        grant: &str,
    ) -> Result<(), NoToken> {
        if self.store().put(self.refresh_record(token, asker, given, grant)).await? {
            return Ok(());
        }
        refuse(ErrorCode::InvalidGrant, "what the user agreed to was taken back")
    }

    /// A registration that is used stays.
    async fn keep_registration(&self, client: &Client) -> Result<(), NoToken> {
        if client.origin == Origin::Registered {
            let lifetimes = &self.settings().lifetimes;
            let until = self.now() + lifetimes.grant.as_secs() + lifetimes.registration.as_secs();
            self.store().put(Record::new(Kind::Client, client.id.as_str(), encode(client), until)).await?;
        }
        Ok(())
    }
}

/// Whether whoever comes with a refresh token proves the key that it is bound to.
fn check_key(known: &TokenRecord, asker: &Asker) -> Result<(), NoToken> {
    match &known.key {
        Some(key) if asker.key.as_ref() != Some(key) => {
            refuse(ErrorCode::InvalidGrant, "the refresh token is for who proves another key")
        }
        _ => Ok(()),
    }
}

/// The scopes a refresh asks for: all, or fewer.
fn narrowed(form: &Form, granted: &Scopes) -> Result<Scopes, NoToken> {
    let Some(asked) = form.get("scope").map(Scopes::parse) else { return Ok(granted.clone()) };
    if granted.contains_all(&asked) && !asked.is_empty() {
        return Ok(asked);
    }
    refuse(ErrorCode::InvalidScope, "wider than what was agreed to")
}

/// What comes after a refresh token. Made of the token itself and of something that the store alone has: so it can be
/// made again if the answer was lost, without being kept, and neither of the two will do.
fn successor(old: &str, salt: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, old.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, salt.as_bytes()))
}
