//! Execution of an authorization flow.

use std::sync::Arc;

use hospes_auth::{Challenge, FetchRequest, Issuer, MAX_METADATA_BYTES, Scopes};
use http::StatusCode;
use secrecy::ExposeSecret as _;
use url::Url;

use super::{AuthorizationLock, AuthorizeResult, OAuthClient, seed};
use crate::error::FlowError;
use crate::flow::{AuthorizationCause, AuthorizationFlow, FlowEffect, FlowInput};
use crate::proof_key::ProofKey;
use crate::settings::{GrantType, OAuthClientSettings};
use crate::sign_in::{RedirectListener, SignInAnswer};
use crate::store;
use crate::tokens::TokenSet;
use crate::workload::WorkloadToken;

/// Result of a request whose response may contain tokens.
enum RedeemResult {
    Tokens(Arc<TokenSet>),
    Flow(Box<AuthorizationFlow>),
}

impl OAuthClient {
    /// Runs an authorization flow to its end.
    pub(super) async fn authorize(
        &self,
        turn: &AuthorizationLock,
        challenge: Option<Challenge>,
        before: Scopes,
    ) -> Result<AuthorizeResult, FlowError> {
        let settings = self.resolve_settings().await?;
        let flow = self.start_flow(settings, challenge, before).await?;
        self.run_flow(turn, flow).await
    }

    /// Returns the authorization server that the MCP server names now, and its token endpoint.
    pub(super) async fn discover(&self) -> Result<(Issuer, Url), FlowError> {
        let mut flow = self.start_flow(Arc::clone(&self.0.settings), None, Scopes::none()).await?;
        loop {
            if let Some((issuer, token_endpoint)) = flow.server() {
                return Ok((issuer.clone(), token_endpoint));
            }
            let input = match flow.poll_effect().clone() {
                FlowEffect::Fetch(request) => FlowInput::Response(self.0.http.fetch(request).await),
                FlowEffect::Failed(error) => return Err(error),
                _ => return Err(FlowError::OutOfOrder),
            };
            flow.handle(input, self.0.clock.now());
        }
    }

    /// Returns the settings with the current workload token.
    async fn resolve_settings(&self) -> Result<Arc<OAuthClientSettings>, FlowError> {
        let GrantType::Workload(source) = &self.0.settings.grant else {
            return Ok(Arc::clone(&self.0.settings));
        };
        let token = source.read().await.map_err(FlowError::Workload)?;
        let mut settings = OAuthClientSettings::clone(&self.0.settings);
        settings.grant = GrantType::Workload(WorkloadToken::Given(token));
        Ok(Arc::new(settings))
    }

    async fn start_flow(
        &self,
        settings: Arc<OAuthClientSettings>,
        challenge: Option<Challenge>,
        before: Scopes,
    ) -> Result<AuthorizationFlow, FlowError> {
        let mut cause = AuthorizationCause::new(self.0.endpoint.clone(), challenge);
        cause.requested_before = before;
        let beginning = store::registration_key("");
        let known = self.with_store(move |store| store.names(&beginning)).await?;
        let issuers = known.iter().filter_map(|name| name.split_once(' ')).map(|(_, issuer)| issuer);
        cause.known = issuers.filter_map(|issuer| Issuer::new(issuer).ok()).collect();
        let held_key = self.held().tokens.as_ref().and_then(|tokens| tokens.proof_key.clone());
        cause.proof_key = Some(match held_key {
            Some(key) => key,
            None => Arc::new(ProofKey::generate()?),
        });
        if let Some(given) = &self.0.settings.given {
            let name = store::binding_key(&self.0.endpoint, &given.id);
            let bound = self.with_store(move |store| store.read(&name)).await?;
            let bound = bound.and_then(|text| {
                serde_json::from_str::<store::ClientBindingRecord>(text.expose_secret()).ok()
            });
            cause.bound = bound.map(|bound| bound.issuer);
        }
        Ok(AuthorizationFlow::new(settings, cause, seed()?, self.0.clock.now()))
    }

    /// Continues with a response, whose code can be redeemed only once.
    pub(super) async fn redeem(
        &self,
        turn: &AuthorizationLock,
        mut flow: AuthorizationFlow,
    ) -> Result<Arc<TokenSet>, FlowError> {
        loop {
            match self.redeem_step(turn, flow).await? {
                RedeemResult::Tokens(tokens) => return Ok(tokens),
                RedeemResult::Flow(next) => flow = *next,
            }
        }
    }

    /// Sends a request whose response may contain tokens, and stores them.
    async fn redeem_step(
        &self,
        turn: &AuthorizationLock,
        mut flow: AuthorizationFlow,
    ) -> Result<RedeemResult, FlowError> {
        let this = self.clone();
        let stepping = async move {
            match flow.poll_effect().clone() {
                FlowEffect::Failed(error) => return Err(error),
                FlowEffect::Fetch(request) => {
                    let response = this.0.http.fetch(request).await;
                    flow.handle(FlowInput::Response(response), this.0.clock.now());
                }
                _ => return Err(FlowError::OutOfOrder),
            }
            match flow.poll_effect().clone() {
                FlowEffect::Done(tokens) => this.store_new_tokens(*tokens).await.map(RedeemResult::Tokens),
                FlowEffect::Failed(error) => Err(error),
                _ => Ok(RedeemResult::Flow(Box::new(flow))),
            }
        };
        Self::run_to_completion(turn, stepping).await
    }

    /// Records that an authorization was refused or failed.
    fn record_denial(&self, error: FlowError) -> FlowError {
        self.held().denied = Some((self.0.clock.now(), error.clone()));
        error
    }

    /// Returns the error of a flow that needs a person where there is none. Without metadata a sign-in helps only if the
    /// server has the endpoint that is assumed then.
    async fn nobody_to_ask(&self, flow: &AuthorizationFlow) -> FlowError {
        let Some(endpoint) = flow.assumed_endpoint() else { return FlowError::NobodyToAsk };
        let answer = self.0.http.fetch(FetchRequest::get(endpoint.clone(), MAX_METADATA_BYTES)).await;
        let is_missing = |status: StatusCode| {
            matches!(status, StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND | StatusCode::GONE)
        };
        match answer {
            Ok(response) if is_missing(response.status) => FlowError::NoMetadata,
            // A page that is too large, for one, is a page.
            Ok(_) | Err(_) => FlowError::NobodyToAsk,
        }
    }

    pub(super) async fn run_flow(
        &self,
        turn: &AuthorizationLock,
        mut flow: AuthorizationFlow,
    ) -> Result<AuthorizeResult, FlowError> {
        let mut listening: Option<Box<dyn RedirectListener>> = None;
        let mut was_shown = false;
        // Whoever was shown a code has been asked.
        let failed = |was_shown: bool, error| if was_shown { self.record_denial(error) } else { error };
        loop {
            let input = match flow.poll_effect().clone() {
                FlowEffect::Done(tokens) => {
                    return Ok(AuthorizeResult::Tokens(self.store_new_tokens(*tokens).await?));
                }
                FlowEffect::Failed(error) => return Err(failed(was_shown, error)),
                // In a task of its own: a caller that is dropped now must not lose tokens that are given
                // only once.
                FlowEffect::Fetch(_) if flow.is_redeeming() => {
                    match self.redeem_step(turn, flow).await.map_err(|error| failed(was_shown, error))? {
                        RedeemResult::Tokens(tokens) => return Ok(AuthorizeResult::Tokens(tokens)),
                        RedeemResult::Flow(next) => {
                            flow = *next;
                            continue;
                        }
                    }
                }
                FlowEffect::Fetch(request) => FlowInput::Response(self.0.http.fetch(request).await),
                FlowEffect::Show(prompt) => match &self.0.sign_in {
                    None => FlowInput::Failed(self.nobody_to_ask(&flow).await),
                    Some(sign_in) => match sign_in.show(&prompt).await {
                        Ok(()) => {
                            was_shown = true;
                            FlowInput::Shown
                        }
                        Err(error) => FlowInput::Failed(FlowError::SignIn(error.to_string())),
                    },
                },
                FlowEffect::Wait(time) => {
                    tokio::time::sleep(time).await;
                    FlowInput::Waited
                }
                FlowEffect::Recall(issuer) => {
                    let name = store::registration_key(issuer.as_str());
                    let document = self.with_store(move |store| store.read(&name)).await?;
                    FlowInput::Registration(
                        document.and_then(|text| store::read_registration(&text)).map(Box::new),
                    )
                }
                FlowEffect::Keep(registration) => {
                    self.keep_registration(&registration).await?;
                    FlowInput::Kept
                }
                FlowEffect::Listen { preferred } => match &self.0.sign_in {
                    None => FlowInput::Failed(self.nobody_to_ask(&flow).await),
                    Some(sign_in) => match sign_in.listen(preferred.as_ref()).await {
                        Ok(ready) => FlowInput::Listening(listening.insert(ready).redirect_uri()),
                        Err(error) => FlowInput::Failed(FlowError::SignIn(error.to_string())),
                    },
                },
                FlowEffect::Visit(visit) => {
                    let url = visit.url.clone();
                    // Where nothing would be sent nobody is sent either.
                    self.0.http.check(&url).map_err(|why| FlowError::Fetch {
                        what: "the authorization endpoint",
                        url: hospes_auth::without_query(&url),
                        why,
                    })?;
                    if let Some(same) = self.find_same_page(&visit).await? {
                        return Ok(AuthorizeResult::Later(same));
                    }
                    let page = (url.clone(), visit.state.clone());
                    tracing::info!(issuer = %visit.issuer, scopes = %visit.scopes, "sign-in requested");
                    match listening.take() {
                        None => FlowInput::Failed(FlowError::OutOfOrder),
                        Some(ready) => match ready.visit(visit).await {
                            Ok(SignInAnswer::Redirected(url)) => {
                                flow.handle(FlowInput::Redirected(url), self.0.clock.now());
                                let redeemed = self.redeem(turn, flow).await;
                                return redeemed
                                    .map(AuthorizeResult::Tokens)
                                    .map_err(|error| self.record_denial(error));
                            }
                            Ok(SignInAnswer::Later) => {
                                self.defer_sign_in(&flow, page).await?;
                                return Ok(AuthorizeResult::Later(url));
                            }
                            Err(error) => {
                                return Err(self.record_denial(FlowError::SignIn(error.to_string())));
                            }
                        },
                    }
                }
            };
            flow.handle(input, self.0.clock.now());
        }
    }
}
