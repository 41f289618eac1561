//! Requests of the older revisions, in a session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{
    Implementation, InitializeParams, InitializeResult, Method, RawJson, Reply, RequestId, Revision,
    RpcError, ServerCapabilities, SetLevelParams, SubscribeParams, message,
};
use hospes_proto::session::server::RequestAction as Verdict;

use super::client_info_cache::MAX_CLIENT_BYTES;
use super::listen::is_subscribable;
use super::modern::read_meta;
use super::service_adapter::{ServiceAdapter, server_info};
use super::session::{LegacySession, ServerOffers};
use super::tasks::LegacyTasks;
use super::{RunningCall, write};
use crate::context::Context;
use crate::exchange::Exchange;
use crate::params::{Params, decode_part};
use crate::peer::RequestSender;
use crate::service::{BoxService, Call, Outcome, Service};

/// Result of admitting a request of a session.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved on at once, and a box would be one more per call")]
pub(crate) enum AdmittedRequest {
    /// Its answer was appended, without any framing.
    Answered,
    /// It is for the service.
    Call(RunningCall),
}

/// A session that has just been opened.
#[derive(Debug)]
pub(crate) struct InitializedSession {
    pub(crate) session: Arc<LegacySession>,
    /// The answer to `initialize`, without any framing.
    pub(crate) answer: Vec<u8>,
}

impl ServiceAdapter {
    /// Answers `initialize`. On failure the error's answer comes back in place of the session.
    pub(crate) async fn open(
        self: Arc<Self>,
        id: RequestId,
        params: RawJson,
        sender: RequestSender,
    ) -> Result<InitializedSession, Vec<u8>> {
        let refuse = |revision: Revision, error: RpcError| {
            let mut out = Vec::new();
            write::error(&mut out, Some(&id), &Method::Initialize, revision, error);
            out
        };
        let bytes = params.as_bytes().len();
        // Before they are decoded, because what is decoded is kept as long as the session.
        if bytes > MAX_CLIENT_BYTES {
            let why = format!("{bytes} bytes of params; the limit max_client_bytes is {MAX_CLIENT_BYTES}");
            return Err(refuse(Revision::LATEST_LEGACY, RpcError::invalid_params(why)));
        }
        let params: InitializeParams =
            Params::new(params).decode().map_err(|error| refuse(Revision::LATEST_LEGACY, error))?;
        let params = self.client_infos.share_initialize(params);
        let peer = |revision| self.client_infos.legacy_peer(revision, &params, sender);
        let session = LegacySession::open(self.settings.revisions, Arc::clone(&params), peer)
            .map_err(|error| refuse(Revision::LATEST, error))?;
        let revision = session.peer().revision;
        let discovered =
            self.discover(Arc::clone(session.peer())).await.map_err(|error| refuse(revision, error))?;
        let info: Implementation = decode_part(server_info(&discovered).as_bytes(), "server name")
            .map_err(|why| refuse(revision, RpcError::internal(why.message)))?;
        let mut capabilities = discovered.capabilities;
        let offers = read_offers(&mut capabilities);
        let mut result = InitializeResult::new(revision.as_str(), capabilities, info);
        result.instructions = discovered.instructions;
        let reply = Reply::Initialize(Box::new(result));
        let mut answer = Vec::new();
        match write::reply(&mut answer, &id, &Method::Initialize, revision, self.stamp(), &reply) {
            None => Ok(InitializedSession { session: Arc::new(session.with_offers(offers)), answer }),
            Some(_) => Err(answer),
        }
    }

    /// Admits a request of a session. The adapter answers its own methods; all others become calls.
    pub(crate) fn admit(
        self: &Arc<Self>,
        session: &Arc<LegacySession>,
        whole: &Bytes,
        request: message::JsonRpcRequest<'_>,
        http: Option<Box<http::request::Parts>>,
        out: &mut Vec<u8>,
    ) -> AdmittedRequest {
        let revision = session.peer().revision;
        let method = Method::from_name(&request.method);
        let id = request.id;
        let result = session.handle_request(&id, &method).and_then(|verdict| match verdict {
            Verdict::Ping => Ok(None),
            Verdict::Initialize => Err(RpcError::invalid_request("the session is already initialized")),
            Verdict::Call => {
                let params = match request.params {
                    Some(raw) => RawJson::slice_of(whole, raw),
                    None => RawJson::empty_object(),
                };
                self.dispatch(session, &id, &method, Params::new(params), http)
            }
        });
        match result {
            Ok(Some(running)) => return AdmittedRequest::Call(running),
            Ok(None) => write::empty(out, &id),
            Err(error) => drop(write::error(out, Some(&id), &method, revision, error)),
        }
        AdmittedRequest::Answered
    }

    fn dispatch(
        self: &Arc<Self>,
        session: &Arc<LegacySession>,
        id: &RequestId,
        method: &Method,
        params: Params,
        http: Option<Box<http::request::Parts>>,
    ) -> Result<Option<RunningCall>, RpcError> {
        let offers = session.offers();
        match method {
            Method::SetLevel if offers.logging => {
                let params: SetLevelParams = params.decode()?;
                session.peer().set_log_level(params.level);
            }
            Method::ResourcesSubscribe if offers.subscribe => {
                let SubscribeParams { uri, .. } = params.decode()?;
                if let Some(epoch) = session.subscribe(&uri)? {
                    return Ok(Some(self.answer_when_subscribed(
                        session,
                        (id, method),
                        params,
                        (uri, epoch),
                    )));
                }
            }
            Method::ResourcesUnsubscribe if offers.subscribe => {
                let params: SubscribeParams = params.decode()?;
                session.unsubscribe(&params.uri);
            }
            // Methods of capabilities that were not declared do not exist for the client (ERR-03).
            Method::TasksGet | Method::TasksResult | Method::TasksCancel if !offers.tasks => {
                return Err(RpcError::method_not_found(method.name()));
            }
            Method::TasksList if !offers.task_list => {
                return Err(RpcError::method_not_found(method.name()));
            }
            Method::SetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                return Err(RpcError::method_not_found(method.name()));
            }
            _ => {
                let token = read_meta(params.view())?.progress_token;
                let meta = params.view().meta.clone();
                let mut context = Context::builder(Arc::clone(session.peer()))
                    .request_id(id.clone())
                    .meta(meta)
                    .progress_token(token);
                let mut service = self.service.clone();
                if offers.tasks && super::tasks::is_task_method(method) {
                    context = context.task(super::tasks::read_task_preference(
                        method,
                        session.peer().revision,
                        &params,
                    )?);
                    let session = Arc::clone(session);
                    service = BoxService::new(LegacyTasks { service, session });
                }
                if let Some(http) = http {
                    // HTTP-36: the one revision in which the server may close a stream and the client come back.
                    context = context.http(http).closable(session.peer().revision == Revision::V2025_11_25);
                }
                let call = Call { method: method.clone(), params, context: context.build() };
                let exchange = Exchange::new(service, call);
                let session = Some(Arc::clone(session));
                return Ok(Some(RunningCall::new(Arc::clone(self), exchange, id.clone(), session)));
            }
        }
        Ok(None)
    }

    fn answer_when_subscribed(
        self: &Arc<Self>,
        session: &Arc<LegacySession>,
        (id, method): (&RequestId, &Method),
        params: Params,
        (uri, epoch): (String, u64),
    ) -> RunningCall {
        let context = Context::builder(Arc::clone(session.peer())).request_id(id.clone()).build();
        let call = Call { method: method.clone(), params, context };
        let held = BoxService::new(PendingSubscription {
            adapter: Arc::clone(self),
            session: Arc::clone(session),
            uri,
            epoch,
        });
        RunningCall::new(Arc::clone(self), Exchange::new(held, call), id.clone(), Some(Arc::clone(session)))
    }
}

/// Reads what the adapter answers for from the server's capabilities, and completes those of tasks.
pub(super) fn read_offers(capabilities: &mut ServerCapabilities) -> ServerOffers {
    let tasks = super::tasks::complete_task_capability(capabilities);
    let changes = |flag: Option<bool>| flag.unwrap_or_default();
    ServerOffers {
        tasks,
        task_list: capabilities.tasks.as_ref().is_some_and(|tasks| tasks.list.is_some()),
        logging: capabilities.logging.is_some(),
        subscribe: capabilities.resources.as_ref().is_some_and(|r| changes(r.subscribe)),
        tools_changes: capabilities.tools.as_ref().is_some_and(|t| changes(t.list_changed)),
        prompts_changes: capabilities.prompts.as_ref().is_some_and(|p| changes(p.list_changed)),
        resources_changes: capabilities.resources.as_ref().is_some_and(|r| changes(r.list_changed)),
    }
}

/// Maximum time that the answer to `resources/subscribe` waits until the service has accepted the subscription: the
/// limit `subscribe_wait`.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Service that answers once a subscription is active or refused. After the answer no change is missed.
struct PendingSubscription {
    adapter: Arc<ServiceAdapter>,
    session: Arc<LegacySession>,
    uri: String,
    epoch: u64,
}

impl PendingSubscription {
    /// Returns true if the service sends changes of the resource.
    async fn is_confirmed(&self) -> bool {
        if self.session.wait_for_epoch(self.epoch).await {
            return !self.session.is_refused(&self.uri);
        }
        let is_told = is_subscribable(&self.adapter, &self.session, &self.uri).await;
        if !is_told {
            self.session.refuse_one(&self.uri);
        }
        is_told
    }
}

impl Drop for PendingSubscription {
    fn drop(&mut self) {
        self.session.mark_answered(&self.uri);
    }
}

impl Service for PendingSubscription {
    async fn call(&self, _: Call) -> Outcome {
        // A service that is slow has not refused: the subscription stays and is answered as accepted.
        let is_told = tokio::time::timeout(SUBSCRIBE_TIMEOUT, self.is_confirmed()).await.unwrap_or_else(|_| {
            tracing::debug!(after = ?SUBSCRIBE_TIMEOUT, "subscription not confirmed in time (limit subscribe_wait)");
            true
        });
        if is_told {
            return Outcome::Complete(Reply::Empty);
        }
        RpcError::invalid_request(format!("subscriptions to `{}` are not supported", self.uri)).into()
    }
}

/// The request that `notifications/cancelled` names.
pub(crate) fn cancelled_request(notification: &message::JsonRpcNotification<'_>) -> Option<RequestId> {
    let params: hospes_model::CancelledParams = serde_json::from_str(notification.params?.get()).ok()?;
    params.request_id
}
