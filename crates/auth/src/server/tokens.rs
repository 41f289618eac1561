//! Codes, refresh tokens and credentials become tokens; and what is asked about tokens.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::authorize::{resource, scopes};
use super::clients::{
    ASSERTION, AuthMethod, CODE, CREDENTIALS, Client, Credentials, NoClient, Origin, REFRESH,
};
use super::documents::Lookup;
use super::form::Form;
use super::settings::AccessTokens;
use super::store::{Kind, Record, StoreError, Swapped, Taken};
use super::{AuthServer, hash, random_text};
use crate::pkce::verify_challenge;
use crate::proofs::{PROOF_SECONDS, read_proof};
use crate::resource::Flaw;
use crate::{ClientId, ErrorBody, ErrorCode, RedirectUri, Resource, Scopes, fingerprint};

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

/// What an access token stands for, until when, and the grant that it came of.
type Access = (TokenRecord, u64, String);

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

    /// The key that a request proves, to which its token is bound (RFC 9449, section 5).
    async fn proven_key(&self, parts: &Parts) -> Result<Option<String>, NoToken> {
        let now = self.now();
        let bad = |why: &str| refuse(ErrorCode::InvalidDpopProof, why);
        let Ok(url) = self.endpoint("token").parse() else { return bad("there is no token endpoint") };
        let proof = match read_proof(&parts.headers, &parts.method, &url, None, now) {
            Ok(Some(proof)) => proof,
            Ok(None) => return Ok(None),
            Err(why) => return bad(why),
        };
        if self.settings().proof_nonces && !self.0.nonces.check(&proof, now) {
            return Err(NoToken::Nonce(self.0.nonces.make(now)));
        }
        let key = format!("proof {}", proof.once);
        if !self.store().claim(&key, now + 2 * PROOF_SECONDS, now).await? {
            return bad("the proof was used before");
        }
        Ok(Some(proof.key))
    }

    /// The client that a request is from.
    pub(super) async fn authenticate(&self, parts: &Parts, form: &Form) -> Result<Client, NoToken> {
        check_repeated(form)?;
        let credentials = match Credentials::read(&parts.headers, form) {
            Ok(credentials) => credentials,
            Err(NoClient::Malformed(why)) => return refuse(ErrorCode::InvalidRequest, why),
            Err(NoClient::Missing) => return refuse(ErrorCode::InvalidClient, "no client is named"),
        };
        match self.client(&credentials.id).await? {
            Lookup::Client(client) => {
                let itself = match &credentials.assertion {
                    Some(assertion) => self.has_signed(&client, assertion).await?,
                    None => credentials.are_of(&client),
                };
                if itself {
                    return Ok(*client);
                }
            }
            Lookup::Nobody => {}
            Lookup::Unavailable => return Err(NoToken::Later),
        }
        tracing::info!(client = %credentials.id, "a client did not show that it is itself");
        let body = ErrorBody::new(
            ErrorCode::InvalidClient,
            "the client is not known, or has not shown that it is itself",
        );
        Err(match credentials.method {
            AuthMethod::ClientSecretBasic => NoToken::Basic(body),
            _ => NoToken::Refused(body),
        })
    }

    async fn redeem_code(&self, form: &Form, asker: &Asker) -> Result<Value, NoToken> {
        let client = &asker.client;
        let (Some(code), Some(verifier)) = (form.get("code"), form.get("code_verifier")) else {
            return refuse(ErrorCode::InvalidRequest, "code or code_verifier is missing");
        };
        let bad = "the code is not good, or no longer, or not for this request";
        let now = self.now();
        let record = match self.store().take(Kind::Code, &hash(code), now).await? {
            Taken::First(record) => record,
            Taken::Again(record) => {
                // Two have it, and one of them should not (OAuth 2.1, section 4.1.3).
                tracing::warn!(code = fingerprint(code), client = %client.id, "a code was used again");
                self.revoke_grant_of(&record).await?;
                return refuse(ErrorCode::InvalidGrant, bad);
            }
            Taken::Unknown => return refuse(ErrorCode::InvalidGrant, bad),
        };
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

    async fn refresh(&self, form: &Form, asker: &Asker) -> Result<Value, NoToken> {
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

    async fn credentials(&self, form: &Form, asker: &Asker) -> Result<Value, NoToken> {
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

    pub(super) fn check_resource(&self, form: &Form, granted: &Resource) -> Result<(), NoToken> {
        match form.get("resource") {
            Some(_) if resource(form.get("resource"), self.settings()).as_ref() != Some(granted) => {
                refuse(ErrorCode::InvalidTarget, "the resource is not the one that was agreed to")
            }
            _ => Ok(()),
        }
    }

    /// Ends a grant, and all that came of it.
    async fn revoke_grant_of(&self, record: &Record) -> Result<(), StoreError> {
        let Some(grant) = &record.grant else { return Ok(()) };
        tracing::info!(grant = fingerprint(grant), "a grant was revoked");
        self.give_back(grant).await?;
        self.store().revoke_grant(grant, self.now() + self.settings().lifetimes.grant.as_secs() + 3600).await
    }

    /// Answers the revocation endpoint (RFC 7009): the grant ends that a token belongs to. Whether there was one is
    /// nobody's business.
    pub(super) async fn revoke(&self, parts: &Parts, form: &Form) -> Result<(), NoToken> {
        let client = self.authenticate(parts, form).await?;
        let Some(token) = form.get("token") else {
            return refuse(ErrorCode::InvalidRequest, "token is missing");
        };
        let key = hash(token);
        for kind in [Kind::Refresh, Kind::Access] {
            let Some(record) = self.store().get(kind, &key, self.now()).await? else { continue };
            let known: TokenRecord = decode(&record)?;
            if known.client_id == client.id {
                self.revoke_grant_of(&record).await?;
            }
        }
        Ok(())
    }

    /// Answers the introspection endpoint (RFC 7662), to clients that can keep a secret: about their own tokens, and about
    /// those for the resources that they serve.
    pub(super) async fn introspect(&self, parts: &Parts, form: &Form) -> Result<Value, NoToken> {
        let client = self.authenticate(parts, form).await?;
        if client.auth == AuthMethod::None || client.origin != Origin::Configured {
            return refuse(
                ErrorCode::InvalidClient,
                "only a client of the configuration, with a secret, may ask",
            );
        }
        let Some(token) = form.get("token") else {
            return refuse(ErrorCode::InvalidRequest, "token is missing");
        };
        let Some(record) = self.store().get(Kind::Access, &hash(token), self.now()).await? else {
            return Ok(json!({ "active": false }));
        };
        let TokenRecord { client_id, given, key } = decode(&record)?;
        // RFC 7662, section 2.2: what does not concern who asks is not active.
        let concerned = client_id == client.id || client.serves.contains(&given.resource);
        if !concerned || !self.holds(&given, record.grant.as_deref().unwrap_or_default()).await? {
            tracing::debug!(token = fingerprint(token), client = %client.id, concerned, "a token is not active");
            return Ok(json!({ "active": false }));
        }
        let mut said = json!({
            "active": true, "iss": self.settings().issuer, "sub": given.subject, "aud": given.resource,
            "client_id": client_id, "scope": given.scopes, "exp": record.until, "token_type": kind(key.as_deref()),
        });
        if let Some(key) = key {
            said["cnf"] = json!({ "jkt": key });
        }
        Ok(said)
    }

    /// What an access token stands for, and until when.
    pub(super) async fn access(&self, token: &str, now: u64) -> Result<Option<Access>, NoToken> {
        match self.store().get(Kind::Access, &hash(token), now).await? {
            Some(record) => Ok(Some((decode(&record)?, record.until, record.grant.unwrap_or_default()))),
            None => Ok(None),
        }
    }
}

/// Of what comes twice nobody knows which is meant (OAuth 2.1, section 3.2).
fn check_repeated(form: &Form) -> Result<(), NoToken> {
    let Some(name) = form.repeated() else { return Ok(()) };
    let why = format!("the parameter {} comes more than once", crate::shown(name));
    refuse(ErrorCode::InvalidRequest, &why)
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

/// The type of a token that is bound to this key.
fn kind(key: Option<&str>) -> &'static str {
    if key.is_some() { "DPoP" } else { "Bearer" }
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
