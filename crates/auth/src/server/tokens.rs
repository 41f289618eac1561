//! What is handed in becomes tokens; and what is asked about tokens.

mod askers;
mod grants;
mod questions;

use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::authorize::resource;
use super::clients::{ASSERTION, CODE, CREDENTIALS, Client, REFRESH};
use super::form::Form;
use super::settings::AccessTokens;
use super::store::{Kind, Record, StoreError};
use super::{AuthServer, hash, random_text};
use crate::resource::Flaw;
use crate::{ClientId, ErrorBody, ErrorCode, RedirectUri, Resource, Scopes, fingerprint};
use askers::check_repeated;

/// What a code stands for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CodeRecord {
    pub(super) client_id: ClientId,
    pub(super) redirect_uri: RedirectUri,
    pub(super) challenge: String,
    /// The key that has to be proven, by its thumbprint.
    #[serde(default)]
    pub(super) key: Option<String>,
    #[serde(flatten)]
    pub(super) given: Given,
}

/// Who asks for a token.
pub(super) struct Asker {
    pub(super) client: Client,
    /// The key that they have proven, by its thumbprint.
    pub(super) key: Option<String>,
}

/// What was agreed to, which everything that comes of it carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) subject: String,
    pub(super) resource: Resource,
    pub(super) scopes: Scopes,
    /// When all of it ends, in seconds since 1970.
    pub(super) end: u64,
    /// On whose word.
    pub(super) by: By,
}

/// On whose word something was given, which holds as long as they are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    /// A user who signs in here, as they signed in then.
    User {
        /// What stands for their password.
        mark: String,
    },
    /// A client that acts for itself.
    Client,
    /// A user with an account at somebody else's.
    Upstream,
    /// A user of an identity provider that is trusted.
    Assertion {
        /// Which.
        issuer: String,
    },
}

/// What an access or a refresh token stands for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    pub(super) client_id: ClientId,
    /// The key that whoever shows it has to prove, by its thumbprint.
    #[serde(default)]
    pub(super) key: Option<String>,
    #[serde(flatten)]
    pub(super) given: Given,
}

/// Why there is no token.
#[derive(Debug)]
pub(super) enum NoToken {
    /// The request is refused.
    Refused(ErrorBody),
    /// The client did not show that it is itself; it tried HTTP Basic.
    Basic(ErrorBody),
    /// Who the client or the user is cannot be found out now.
    Later,
    /// The proof of a key has to carry this.
    Nonce(String),
    /// The store does not answer.
    Store(StoreError),
}

impl From<StoreError> for NoToken {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

pub(super) fn refuse<T>(code: ErrorCode, why: &str) -> Result<T, NoToken> {
    Err(NoToken::Refused(ErrorBody::new(code, why)))
}

fn decode<T: for<'de> Deserialize<'de>>(record: &Record) -> Result<T, NoToken> {
    serde_json::from_str(&record.value).map_err(|_| StoreError("a record cannot be read".into()).into())
}

pub(super) fn encode(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl AuthServer {
    /// Answers the token endpoint.
    pub(super) async fn redeem(&self, parts: &Parts, form: &Form) -> Result<Value, NoToken> {
        check_repeated(form)?;
        let Some(grant) = form.get("grant_type") else {
            return refuse(ErrorCode::InvalidRequest, "grant_type is missing");
        };
        if !self.grants().contains(&grant) {
            return refuse(ErrorCode::UnsupportedGrantType, "no such grant is spoken");
        }
        let client = self.authenticate(parts, form).await?;
        if !client.may(grant) {
            return refuse(ErrorCode::UnauthorizedClient, "the client may not use this grant");
        }
        let asker = Asker { key: self.proven_key(parts).await?, client };
        if asker.key.is_none() && self.settings().require_proofs {
            return refuse(
                ErrorCode::InvalidDpopProof,
                "tokens are bound to a key here: the proof of one is missing",
            );
        }
        match grant {
            CODE => self.redeem_code(form, &asker).await,
            REFRESH => self.refresh(form, &asker).await,
            ASSERTION => self.redeem_assertion(form, &asker).await,
            _ => self.credentials(form, &asker).await,
        }
    }

    /// What may be asked of the token endpoint.
    pub(super) fn grants(&self) -> Vec<&'static str> {
        let mut grants = vec![CODE, REFRESH, CREDENTIALS];
        if !self.0.trusted.is_empty() {
            grants.push(ASSERTION);
        }
        grants
    }

    /// Whether on whose word something was given is still one of ours: who has left the configuration takes nothing along,
    /// and a new password ends what was given under the old one.
    pub(super) fn is_there(&self, given: &Given) -> bool {
        match &given.by {
            By::User { mark } => self.0.sign_in.mark(&given.subject).as_ref() == Some(mark),
            By::Client => {
                let mut clients = self.settings().clients.iter();
                clients.any(|client| client.id.as_str() == given.subject && client.may(CREDENTIALS))
            }
            By::Upstream => self.provider().is_some(),
            By::Assertion { issuer } => self.trusts(issuer),
        }
    }

    /// Whether what a grant rests on still holds: on whose word it was given, and what somebody else gave us for it.
    async fn holds(&self, given: &Given, grant: &str) -> Result<bool, NoToken> {
        if !self.is_there(given) || given.by != By::Upstream {
            return Ok(self.is_there(given));
        }
        match self.check_upstream(grant).await {
            Ok(()) => Ok(true),
            Err(Flaw::Unavailable) => Err(NoToken::Later),
            Err(Flaw::Invalid | Flaw::Expired) => Ok(false),
        }
    }

    /// Makes out an access token.
    pub(super) async fn issue(
        &self,
        asker: &Asker,
        given: &Given,
        scopes: &Scopes,
        grant: &str,
        refresh: Option<String>,
    ) -> Result<Value, NoToken> {
        let Asker { client, key } = asker;
        let now = self.now();
        let until = (now + self.settings().access_seconds()).min(given.end);
        let given = Given { scopes: scopes.clone(), ..given.clone() };
        let record = TokenRecord { client_id: client.id.clone(), key: key.clone(), given };
        let token = match self.settings().access_tokens {
            AccessTokens::Opaque => random_text(),
            AccessTokens::Jwt => self.sign_access(&record, until).await?,
        };
        // Signed or not, it is looked up here.
        let value = encode(&record);
        let record = Record::new(Kind::Access, hash(&token), value, until).of(grant);
        if !self.store().put(record).await? {
            return refuse(ErrorCode::InvalidGrant, "what the user agreed to was taken back");
        }
        tracing::info!(
            token = fingerprint(&token), client = %client.id, %scopes, grant = fingerprint(grant), "a token was made out"
        );
        let mut answer = json!({
            "access_token": token, "token_type": kind(key.as_deref()), "expires_in": until.saturating_sub(now), "scope": scopes,
        });
        if let Some(refresh) = refresh {
            answer["refresh_token"] = refresh.into();
        }
        Ok(answer)
    }

    pub(super) fn check_resource(&self, form: &Form, granted: &Resource) -> Result<(), NoToken> {
        match form.get("resource") {
            Some(_) if resource(form.get("resource"), self.settings()).as_ref() != Some(granted) => {
                refuse(ErrorCode::InvalidTarget, "the resource is not the one that was agreed to")
            }
            _ => Ok(()),
        }
    }

    /// Ends a grant, and all that came of it. What is ours ends at once; the provider is told afterwards, and may take
    /// its time.
    async fn revoke_grant_of(&self, record: &Record) -> Result<(), StoreError> {
        let Some(grant) = record.grant.clone() else { return Ok(()) };
        tracing::info!(grant = fingerprint(&grant), "a grant was revoked");
        let server = self.clone();
        // In a task of its own: whoever asked may hang up, and it is done all the same.
        let done = tokio::spawn(async move {
            let until = server.now() + server.settings().lifetimes.grant.as_secs() + 3600;
            // What it rested on goes with it. Whoever is renewing that now gives back what they get.
            let rested = server.store().revoke_grant(&grant, until).await?;
            if let Some(token) = rested.and_then(|record| server.rested_on(&grant, &record)) {
                tokio::spawn(async move { server.give_back(&token).await });
            }
            Ok(())
        });
        done.await.unwrap_or_else(|_| Err(StoreError("a revocation broke off".into())))
    }
}

/// The type of a token that is bound to this key.
fn kind(key: Option<&str>) -> &'static str {
    if key.is_some() { "DPoP" } else { "Bearer" }
}
