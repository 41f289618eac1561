//! Redirect of a user to the provider and back.

use std::sync::Arc;

use bytes::Bytes;
use hospes_auth::pkce::CodeVerifier;
use hospes_auth::{ErrorCode, Seed};
use http::header::SET_COOKIE;
use http::request::Parts;
use http::{HeaderValue, Response};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::auth_server::AuthServer;
use crate::authorize::{AuthorizationRequest, redirect_url};
use crate::browser::cookie;
use crate::consent::{SignInPurpose, redirect};
use crate::form::RequestForm;
use crate::provider::{
    ProviderError, ProviderMetadata, ProviderRequest, ProviderResponse, ProviderTokens, ProviderUser,
    SignInProvider,
};
use crate::store::secrets::{hash, random_text};
use crate::store::{AuthRecord, AuthStoreError, RecordKind, TakeRecordResult, encode};

/// State of a user who has been redirected to the provider.
#[derive(Serialize, Deserialize)]
struct ProviderSignInRecord {
    errand: SignInPurpose,
    /// Verifier, encrypted.
    verifier: String,
    nonce: String,
}

impl SignInProvider {
    /// Returns the value of the cookie that the browser must return with the response. It is signed and bound to this
    /// state and this purpose.
    fn state_signature(&self, state: &str, errand: &SignInPurpose) -> String {
        let errand = match errand {
            SignInPurpose::Authorization(asked) => ("client", asked.client.id.as_str()),
            SignInPurpose::Connection(page) => ("page", page.as_str()),
        };
        self.sign(&encode(&(state, errand)))
    }
}

impl AuthServer {
    /// Returns the redirect URI for the provider.
    #[must_use]
    pub fn provider_callback(&self) -> String {
        format!("{}/upstream/callback", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// Redirects the browser to the provider. For a client this happens only after the user has consented here. For a
    /// page of this server it only identifies the user.
    pub(crate) async fn redirect_to_provider(
        &self,
        provider: &SignInProvider,
        errand: SignInPurpose,
    ) -> Result<Response<Bytes>, AuthStoreError> {
        let failed = || match &errand {
            SignInPurpose::Authorization(asked) => {
                let fields = [("error", ErrorCode::ServerError.as_str())];
                redirect(&redirect_url(&asked.redirect_uri, self.settings(), asked.state.as_deref(), &fields))
            }
            SignInPurpose::Connection(_) => {
                self.unavailable_page("The sign-in provider is not available at the moment.")
            }
        };
        let found = match provider.load_metadata(self.now()).await {
            Ok(found) => found,
            Err(why) => {
                tracing::warn!(provider = %provider.issuer, %why, "provider discovery failed");
                return Ok(failed());
            }
        };
        let (state, nonce) = (random_text(), random_text());
        let verifier = CodeVerifier::new(
            &Seed::from_system().map_err(|_| AuthStoreError("no random numbers".into()))?.draw(),
        );
        let callback = self.provider_callback();
        // Who is there is learnt at once, and nothing that lasts is wanted for that.
        let is_lasting = !matches!(errand, SignInPurpose::Connection(_));
        let request = ProviderRequest {
            redirect_uri: &callback,
            state: &state,
            nonce: &nonce,
            verifier: &verifier,
            is_lasting,
        };
        // The verifier is sealed: together with the code, a reader of the store could redeem it.
        let (Some(to), Some(sealed)) =
            (provider.authorization_url(&found, &request), provider.seal(&state, verifier.expose()))
        else {
            return Ok(failed());
        };
        let mark = provider.state_signature(&state, &errand);
        let until = self.now() + self.settings().lifetimes.pending.as_secs();
        let away = ProviderSignInRecord { errand, verifier: sealed, nonce: nonce.clone() };
        let key = provider_sign_in_key(&state);
        self.make_room(&key).await?;
        self.store().put(AuthRecord::new(RecordKind::Pending, key, encode(&away), until)).await?;
        let mut response = redirect(&to);
        let secure = if self.is_https() { "; Secure" } else { "" };
        let seconds = self.settings().lifetimes.pending.as_secs();
        // Lax, because the provider's redirect is a navigation that begins at another site.
        let cookie = format!(
            "{}={mark}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}",
            self.state_cookie_name()
        );
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        Ok(response)
    }

    fn state_cookie_name(&self) -> String {
        self.named_cookie("hospes_up")
    }

    /// Handles the return of the browser from the provider.
    pub(crate) async fn handle_provider_callback(
        &self,
        parts: &Parts,
        form: &RequestForm,
    ) -> Result<Response<Bytes>, AuthStoreError> {
        let strange = || {
            self.problem_page("This page is no longer valid", "Return to the application and start again.")
        };
        let (Some(provider), None, Some(state)) = (self.provider(), form.repeated(), form.get("state"))
        else {
            return Ok(strange());
        };
        let key = provider_sign_in_key(state);
        let Some(record) = self.store().get(RecordKind::Pending, &key, self.now()).await? else {
            return Ok(strange());
        };
        let Ok(away) = serde_json::from_str::<ProviderSignInRecord>(&record.value) else {
            return Ok(strange());
        };
        // Only in the browser that was sent there.
        let mark = provider.state_signature(state, &away.errand);
        let brought = cookie(&parts.headers, &self.state_cookie_name());
        if !brought.is_some_and(|shown| bool::from(shown.as_bytes().ct_eq(mark.as_bytes()))) {
            tracing::warn!("provider response rejected: missing or wrong cookie");
            return Ok(strange());
        }
        // Taken only after the cookie was checked, so that nobody else can use up the answer.
        let TakeRecordResult::First(_) = self.store().take(RecordKind::Pending, &key, self.now()).await?
        else {
            return Ok(strange());
        };
        let redeemed = self.redeem_provider_code(provider, form, state, &away).await;
        match &away.errand {
            SignInPurpose::Authorization(asked) => {
                self.finish_authorization(provider, asked, &away.nonce, redeemed).await
            }
            SignInPurpose::Connection(page) => {
                let said = match redeemed {
                    Ok((found, tokens)) => self.admitted_user(provider, &found, &tokens, &away.nonce).await,
                    Err(why) => Err(why),
                };
                self.finish_page_sign_in(provider, parts, page, said).await
            }
        }
    }

    /// Issues the code to the client that the user has agreed to, if the sign-in succeeded.
    async fn finish_authorization(
        &self,
        provider: &SignInProvider,
        asked: &AuthorizationRequest,
        nonce: &str,
        redeemed: Result<(Arc<ProviderMetadata>, ProviderTokens), ProviderError>,
    ) -> Result<Response<Bytes>, AuthStoreError> {
        let back = |fields: &[(&str, &str)]| {
            redirect(&redirect_url(&asked.redirect_uri, self.settings(), asked.state.as_deref(), fields))
        };
        let kept = match redeemed {
            Ok((found, tokens)) => {
                let kept = self.store_provider_tokens(provider, &found, &tokens, nonce).await;
                if kept.is_err() {
                    // Nobody will use them.
                    let token = tokens.refresh_token.as_ref().unwrap_or(&tokens.access_token);
                    provider.revoke_token(&found, token).await;
                }
                kept
            }
            Err(why) => Err(why),
        };
        match kept {
            Ok((user, grant, end)) => self.issue_code_for_grant(&user, asked, grant, Some(end)).await,
            Err(ProviderError::Store(error)) => Err(error),
            Err(ProviderError::Denied) => Ok(back(&[("error", "access_denied")])),
            Err(why @ ProviderError::NotAdmitted) => {
                let words = format!("this account at {} is not allowed to use this server", provider.name());
                tracing::warn!(provider = %provider.issuer, %why, "sign-in rejected: user not allowed");
                Ok(back(&[("error", "access_denied"), ("error_description", &words)]))
            }
            Err(ProviderError::UnknownGroups) => {
                let words = format!(
                    "this account is in too many groups for {} to send them; its administrator can limit the groups that \
                     are sent to this server",
                    provider.name()
                );
                Ok(back(&[("error", "access_denied"), ("error_description", &words)]))
            }
            Err(why) => {
                tracing::warn!(provider = %provider.issuer, %why, "sign-in at the provider failed");
                Ok(back(&[("error", "server_error")]))
            }
        }
    }

    /// Redeems the authorization response of the provider for tokens.
    async fn redeem_provider_code(
        &self,
        provider: &SignInProvider,
        form: &RequestForm,
        state: &str,
        away: &ProviderSignInRecord,
    ) -> Result<(Arc<ProviderMetadata>, ProviderTokens), ProviderError> {
        let found = provider.load_metadata(self.now()).await?;
        let response = ProviderResponse::new(form.get("iss"), form.get("error"), form.get("code"));
        let code = provider.check_response(&found, response)?;
        let verifier = provider
            .open(state, &away.verifier)
            .ok_or(ProviderError::Refused("cannot decrypt the code verifier"))?;
        let callback = self.provider_callback();
        let tokens = provider.redeem_code(&found, code, &callback, verifier.expose_secret()).await?;
        Ok((found, tokens))
    }

    /// Returns the user of these tokens, if admitted.
    async fn admitted_user(
        &self,
        provider: &SignInProvider,
        found: &ProviderMetadata,
        tokens: &ProviderTokens,
        nonce: &str,
    ) -> Result<ProviderUser, ProviderError> {
        let person = provider.identify_user(found, tokens, nonce, self.now()).await?;
        match provider.admission.admits(&person.claims) {
            true => Ok(person),
            false => Err(ProviderError::NotAdmitted),
        }
    }

    /// Identifies the user of these tokens and creates a grant that depends on them. Returns the user, the grant and
    /// its end.
    async fn store_provider_tokens(
        &self,
        provider: &SignInProvider,
        found: &ProviderMetadata,
        tokens: &ProviderTokens,
        nonce: &str,
    ) -> Result<(String, String, u64), ProviderError> {
        let ProviderUser { subject, claims } = self.admitted_user(provider, found, tokens, nonce).await?;
        let groups = provider.groups_of(&claims)?;
        let grant = random_text();
        let forever = self.now() + self.settings().lifetimes.grant.as_secs();
        let mut upstream = self.seal_provider_tokens(provider, &grant, subject.clone(), tokens, None)?;
        upstream.groups = groups;
        // Without a way to renew it, nothing of ours outlives it.
        let end = if upstream.refresh.is_some() { forever } else { upstream.expires_at.min(forever) };
        let record = AuthRecord::new(RecordKind::Upstream, &grant, encode(&upstream), forever).of(&grant);
        self.store().put(record).await?;
        Ok((provider.user(&subject), grant, end))
    }
}

/// Returns the key of the record of a pending sign-in at the provider.
fn provider_sign_in_key(state: &str) -> String {
    hash(&format!("away {state}"))
}
