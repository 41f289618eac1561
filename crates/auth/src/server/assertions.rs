//! What others have signed: clients, to show that they are themselves (RFC 7523), and identity providers, about their
//! users.

use std::sync::{Arc, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use super::authorize::{resource, scopes};
use super::clients::{AuthMethod, Client, ClientKeys, Origin, unchecked};
use super::form::Form;
use super::tokens::{Asker, By, Given, NoToken, refuse};
use super::{AuthServer, hash, random_text};
use crate::clock::CLOCK_SKEW;
use crate::fetch::Fetch;
use crate::keys::{Place, PublishedKeys};
use crate::resource::{ALGORITHMS, Flaw, JwtFlaw, read_signed};
use crate::{ClientId, ErrorCode, Issuer, Scopes};

/// How long an assertion may be good, in seconds.
const MAX_SECONDS: u64 = 300;
/// How long an assertion's identifier may be, in bytes.
const MAX_ID: usize = 256;

/// An identity provider whose word about its users is taken.
#[derive(Debug)]
pub(super) struct Trusted {
    issuer: Issuer,
    keys: PublishedKeys,
}

#[derive(Deserialize)]
struct ClientClaims {
    iss: String,
    sub: String,
    /// One, and as a text: an assertion for several servers could be used by one of them at the others.
    aud: String,
    exp: u64,
    nbf: Option<u64>,
    jti: String,
}

/// Of an identity assertion authorization grant.
#[derive(Deserialize)]
struct UserClaims {
    iss: Issuer,
    sub: String,
    aud: String,
    client_id: ClientId,
    resource: String,
    scope: Option<Scopes>,
    exp: u64,
    iat: u64,
    jti: String,
}

impl AuthServer {
    /// Takes the word of the identity provider that calls itself `issuer` about its users, in place of their consent:
    /// clients that may hand it in ([`Client::with_assertions`]) get tokens for what it says. Its keys are fetched with
    /// `fetch`.
    #[must_use]
    pub fn trust(self, issuer: Issuer, fetch: impl Fetch) -> Self {
        let keys = PublishedKeys::new(Place::Of(issuer.clone()), Arc::new(fetch));
        self.with(|inner| inner.trusted.push(Trusted { issuer, keys }))
    }

    pub(super) fn trusts(&self, issuer: &str) -> bool {
        self.0.trusted.iter().any(|trusted| trusted.issuer.as_str() == issuer)
    }

    /// Whether a client has signed that it is itself.
    pub(super) async fn has_signed(&self, client: &Client, assertion: &str) -> Result<bool, NoToken> {
        if client.auth != AuthMethod::PrivateKeyJwt {
            return Ok(false);
        }
        let now = self.now();
        let check = |keys: &_| -> Result<ClientClaims, JwtFlaw> {
            let is_type =
                |kind: Option<&str>| matches!(kind, None | Some("JWT" | "client-authentication+jwt"));
            let claims: ClientClaims = read_signed(assertion, keys, &ALGORITHMS, is_type)?;
            let id = client.id.as_str();
            if claims.iss != id || claims.sub != id {
                return Err(JwtFlaw::Invalid("it is about somebody else"));
            }
            if claims.aud != self.settings().issuer.as_str() {
                return Err(JwtFlaw::Invalid("it was made out for somebody else"));
            }
            if claims.nbf.is_some_and(|begin| begin > now + CLOCK_SKEW) {
                return Err(JwtFlaw::Invalid("it is not good yet"));
            }
            check_times(claims.exp, &claims.jti, now)?;
            Ok(claims)
        };
        let checked = match &client.keys {
            Some(ClientKeys::Set(keys)) => check(keys).map_err(Flaw::from),
            Some(ClientKeys::At(url)) => match self.keys_at(url, client.origin) {
                Some(keys) => keys.check(assertion, now, check).await,
                None => return Ok(false),
            },
            None => return Ok(false),
        };
        match checked {
            Ok(claims) => self.is_new(&format!("{} signs", client.id), &claims.jti, claims.exp).await,
            Err(Flaw::Unavailable) => Err(NoToken::Later),
            Err(flaw) => {
                tracing::info!(client = %client.id, %flaw, "a client's assertion was refused");
                Ok(false)
            }
        }
    }

    /// The keys that are published there. Where a stranger has said so, no more is fetched than of their documents.
    fn keys_at(&self, url: &str, said_by: Origin) -> Option<PublishedKeys> {
        let is_known = said_by == Origin::Configured;
        let named = self.0.named.as_ref().filter(|_| is_known);
        let fetch = named.or(self.0.fetch.as_ref())?;
        let place = Place::At(url.parse().ok()?);
        let mut all = self.0.client_keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = all.get(&(is_known, url.to_owned())) {
            return Some(keys.clone());
        }
        let fetch = if is_known { Arc::clone(fetch) } else { self.0.documents.in_turn(fetch) };
        let keys = PublishedKeys::new(place, fetch);
        all.put((is_known, url.to_owned()), keys.clone());
        Some(keys)
    }

    /// Makes tokens of what an identity provider says about a user.
    pub(super) async fn redeem_assertion(&self, form: &Form, asker: &Asker) -> Result<Value, NoToken> {
        let bad = "the assertion is not good, or no longer, or not for this client";
        let client = &asker.client;
        if client.auth == AuthMethod::None {
            return refuse(
                ErrorCode::UnauthorizedClient,
                "only a client that shows who it is hands in assertions",
            );
        }
        let Some(assertion) = form.get("assertion") else {
            return refuse(ErrorCode::InvalidRequest, "assertion is missing");
        };
        let now = self.now();
        let said = unchecked(assertion).and_then(|claims| claims["iss"].as_str().map(str::to_owned));
        let trusted = self.0.trusted.iter().find(|known| Some(known.issuer.as_str()) == said.as_deref());
        let Some(trusted) = trusted else { return refuse(ErrorCode::InvalidGrant, bad) };
        let check = |keys: &_| -> Result<UserClaims, JwtFlaw> {
            let is_type = |kind: Option<&str>| kind == Some("oauth-id-jag+jwt");
            let claims: UserClaims = read_signed(assertion, keys, &ALGORITHMS, is_type)?;
            if claims.iss != trusted.issuer || claims.aud != self.settings().issuer.as_str() {
                return Err(JwtFlaw::Invalid("it was made out by or for somebody else"));
            }
            if claims.client_id != client.id {
                return Err(JwtFlaw::Invalid("it was given to another client"));
            }
            if claims.iat > now + CLOCK_SKEW || claims.iat + MAX_SECONDS + CLOCK_SKEW <= now {
                return Err(JwtFlaw::Invalid("it is not of this time"));
            }
            check_times(claims.exp, &claims.jti, now)?;
            Ok(claims)
        };
        let claims = match trusted.keys.check(assertion, now, check).await {
            Ok(claims) => claims,
            Err(Flaw::Unavailable) => return Err(NoToken::Later),
            Err(flaw) => {
                tracing::info!(client = %client.id, issuer = %trusted.issuer, %flaw, "an assertion was refused");
                return refuse(ErrorCode::InvalidGrant, bad);
            }
        };
        let Some(granted) = resource(Some(&claims.resource), self.settings()) else {
            return refuse(ErrorCode::InvalidGrant, bad);
        };
        self.check_resource(form, &granted)?;
        // Of what it says, what is known here and the client may have; and no more than is asked for.
        let allowed = match &claims.scope {
            Some(said) => {
                let known =
                    said.iter().filter(|scope| scopes(Some(scope), client, self.settings()).is_some());
                known.collect::<Scopes>()
            }
            None => scopes(None, client, self.settings()).unwrap_or_default(),
        };
        let scopes = match form.get("scope").map(Scopes::parse) {
            Some(asked) if !allowed.contains_all(&asked) => {
                return refuse(ErrorCode::InvalidScope, "wider than what the assertion says");
            }
            Some(asked) if !asked.is_empty() => asked,
            _ => allowed,
        };
        if !self.is_new(trusted.issuer.as_str(), &claims.jti, claims.exp).await? {
            tracing::warn!(client = %client.id, issuer = %trusted.issuer, "an assertion was used again");
            return refuse(ErrorCode::InvalidGrant, bad);
        }
        let given = Given {
            // No issuer has a space in it, so that nobody else's user has this name.
            subject: format!("{} {}", claims.iss, claims.sub),
            resource: granted,
            scopes,
            end: u64::MAX,
            by: By::Assertion { issuer: claims.iss.to_string() },
        };
        // Without a refresh token: whether the user is still there, the provider says.
        self.issue(asker, &given, &given.scopes, &random_text(), None).await
    }

    /// Whether nobody has used this identifier before.
    async fn is_new(&self, of: &str, id: &str, until: u64) -> Result<bool, NoToken> {
        let key = format!("assertion {}", hash(&format!("{of} {id}")));
        Ok(self.store().claim(&key, "", until + 2 * CLOCK_SKEW, self.now()).await?)
    }
}

fn check_times(exp: u64, id: &str, now: u64) -> Result<(), JwtFlaw> {
    if exp.saturating_add(CLOCK_SKEW) <= now {
        return Err(JwtFlaw::Expired);
    }
    if exp > now + MAX_SECONDS + CLOCK_SKEW {
        return Err(JwtFlaw::Invalid("it is good for longer than 5 minutes"));
    }
    if id.is_empty() || id.len() > MAX_ID {
        return Err(JwtFlaw::Invalid("it has no identifier of up to 256 bytes"));
    }
    Ok(())
}
