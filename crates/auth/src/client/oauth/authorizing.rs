//! A whole authorization: what the flow wants done is done.

use std::sync::Arc;

use secrecy::ExposeSecret as _;
use url::Url;

use super::{Got, OAuthClient, Turn, seed};
use crate::client::error::FlowError;
use crate::client::flow::{Cause, Effect, Flow, Input};
use crate::client::proof::ProofKey;
use crate::client::settings::{Grant, Settings};
use crate::client::sign_in::{Answer, Listening};
use crate::client::store;
use crate::client::tokens::Tokens;
use crate::client::workload::WorkloadToken;
use crate::{Challenge, Issuer, Scopes};

/// What became of a request whose answer may be tokens.
enum Stepped {
    Tokens(Arc<Tokens>),
    Flow(Box<Flow>),
}

impl OAuthClient {
    /// Runs a whole authorization.
    pub(super) async fn authorize(
        &self,
        turn: &Turn,
        challenge: Option<Challenge>,
        before: Scopes,
    ) -> Result<Got, FlowError> {
        let settings = self.settled().await?;
        let flow = self.begin(settings, challenge, before).await?;
        self.run(turn, flow).await
    }

    /// Which authorization server the MCP server names now, and its token endpoint.
    pub(super) async fn discover(&self) -> Result<(Issuer, Url), FlowError> {
        let mut flow = self.begin(Arc::clone(&self.0.settings), None, Scopes::none()).await?;
        loop {
            if let Some((issuer, token_endpoint)) = flow.server() {
                return Ok((issuer.clone(), token_endpoint));
            }
            let input = match flow.poll_effect().clone() {
                Effect::Fetch(request) => Input::Response(self.0.http.fetch(request).await),
                Effect::Failed(error) => return Err(error),
                _ => return Err(FlowError::OutOfOrder),
            };
            flow.handle(input, self.0.clock.now());
        }
    }

    /// The settings, with a platform's token as it is now.
    async fn settled(&self) -> Result<Arc<Settings>, FlowError> {
        let Grant::Workload(source) = &self.0.settings.grant else { return Ok(Arc::clone(&self.0.settings)) };
        let token = source.read().await.map_err(FlowError::Workload)?;
        let mut settings = Settings::clone(&self.0.settings);
        settings.grant = Grant::Workload(WorkloadToken::Given(token));
        Ok(Arc::new(settings))
    }

    async fn begin(
        &self,
        settings: Arc<Settings>,
        challenge: Option<Challenge>,
        before: Scopes,
    ) -> Result<Flow, FlowError> {
        let mut cause = Cause::new(self.0.endpoint.clone(), challenge);
        cause.requested_before = before;
        let beginning = store::registration_key("");
        let known = self.stored(move |store| store.names(&beginning)).await?;
        let issuers = known.iter().filter_map(|name| name.split_once(' ')).map(|(_, issuer)| issuer);
        cause.known = issuers.filter_map(|issuer| Issuer::new(issuer).ok()).collect();
        let held_key = self.held().tokens.as_ref().and_then(|tokens| tokens.proof_key.clone());
        cause.proof_key = Some(match held_key {
            Some(key) => key,
            None => Arc::new(ProofKey::generate()?),
        });
        if let Some(given) = &self.0.settings.given {
            let name = store::binding_key(&self.0.endpoint, &given.id);
            let bound = self.stored(move |store| store.read(&name)).await?;
            let bound =
                bound.and_then(|text| serde_json::from_str::<store::Binding>(text.expose_secret()).ok());
            cause.bound = bound.map(|bound| bound.issuer);
        }
        Ok(Flow::new(settings, cause, seed()?, self.0.clock.now()))
    }

    /// The answer has come; what it is worth is worth it only once.
    pub(super) async fn redeem(&self, turn: &Turn, mut flow: Flow) -> Result<Arc<Tokens>, FlowError> {
        loop {
            match self.step(turn, flow).await? {
                Stepped::Tokens(tokens) => return Ok(tokens),
                Stepped::Flow(next) => flow = *next,
            }
        }
    }

    /// Sends a request whose answer may be tokens, and keeps those.
    async fn step(&self, turn: &Turn, mut flow: Flow) -> Result<Stepped, FlowError> {
        let this = self.clone();
        let stepping = async move {
            match flow.poll_effect().clone() {
                Effect::Failed(error) => return Err(error),
                Effect::Fetch(request) => {
                    let response = this.0.http.fetch(request).await;
                    flow.handle(Input::Response(response), this.0.clock.now());
                }
                _ => return Err(FlowError::OutOfOrder),
            }
            match flow.poll_effect().clone() {
                Effect::Done(tokens) => this.keep_new(*tokens).await.map(Stepped::Tokens),
                Effect::Failed(error) => Err(error),
                _ => Ok(Stepped::Flow(Box::new(flow))),
            }
        };
        Self::to_the_end(turn, stepping).await
    }

    /// Somebody was asked, and it came to nothing.
    fn denied(&self, error: FlowError) -> FlowError {
        self.held().denied = Some((self.0.clock.now(), error.clone()));
        error
    }

    pub(super) async fn run(&self, turn: &Turn, mut flow: Flow) -> Result<Got, FlowError> {
        let mut listening: Option<Box<dyn Listening>> = None;
        let mut was_shown = false;
        // Whoever was shown a code has been asked.
        let failed = |was_shown: bool, error| if was_shown { self.denied(error) } else { error };
        loop {
            let input = match flow.poll_effect().clone() {
                Effect::Done(tokens) => return Ok(Got::Tokens(self.keep_new(*tokens).await?)),
                Effect::Failed(error) => return Err(failed(was_shown, error)),
                Effect::Fetch(_) if flow.is_redeeming() => {
                    match self.step(turn, flow).await.map_err(|error| failed(was_shown, error))? {
                        Stepped::Tokens(tokens) => return Ok(Got::Tokens(tokens)),
                        Stepped::Flow(next) => {
                            flow = *next;
                            continue;
                        }
                    }
                }
                Effect::Fetch(request) => Input::Response(self.0.http.fetch(request).await),
                Effect::Show(prompt) => match &self.0.sign_in {
                    None => Input::Failed(FlowError::NobodyToAsk),
                    Some(sign_in) => match sign_in.show(&prompt).await {
                        Ok(()) => {
                            was_shown = true;
                            Input::Shown
                        }
                        Err(error) => Input::Failed(FlowError::SignIn(error.to_string())),
                    },
                },
                Effect::Wait(time) => {
                    tokio::time::sleep(time).await;
                    Input::Waited
                }
                Effect::Recall(issuer) => {
                    let name = store::registration_key(issuer.as_str());
                    let document = self.stored(move |store| store.read(&name)).await?;
                    Input::Registration(
                        document.and_then(|text| store::read_registration(&text)).map(Box::new),
                    )
                }
                Effect::Keep(registration) => {
                    self.keep_registration(&registration).await?;
                    Input::Kept
                }
                Effect::Listen { preferred } => match &self.0.sign_in {
                    None => Input::Failed(FlowError::NobodyToAsk),
                    Some(sign_in) => match sign_in.listen(preferred.as_ref()).await {
                        Ok(ready) => Input::Listening(listening.insert(ready).redirect_uri()),
                        Err(error) => Input::Failed(FlowError::SignIn(error.to_string())),
                    },
                },
                Effect::Visit(visit) => {
                    let url = visit.url.clone();
                    // Where nothing would be sent nobody is sent either.
                    self.0.http.check(&url).map_err(|why| FlowError::Fetch {
                        what: "the page on which people sign in",
                        url: crate::exchange::without_query(&url),
                        why,
                    })?;
                    let max = self.0.settings.max_pending_sign_ins.max(1);
                    if let Some(same) = self.later().same(&visit, max, self.0.clock.now())? {
                        return Ok(Got::Later(same));
                    }
                    tracing::info!(issuer = %visit.issuer, scopes = %visit.scopes, "somebody is asked to sign in");
                    match listening.take() {
                        None => Input::Failed(FlowError::OutOfOrder),
                        Some(ready) => match ready.visit(visit).await {
                            Ok(Answer::Redirected(url)) => {
                                flow.handle(Input::Redirected(url), self.0.clock.now());
                                let redeemed = self.redeem(turn, flow).await;
                                return redeemed.map(Got::Tokens).map_err(|error| self.denied(error));
                            }
                            Ok(Answer::Later) => {
                                self.later().add(flow, self.0.clock.now());
                                return Ok(Got::Later(url));
                            }
                            Err(error) => {
                                return Err(self.denied(FlowError::SignIn(error.to_string())));
                            }
                        },
                    }
                }
            };
            flow.handle(input, self.0.clock.now());
        }
    }
}
