//! POST: one message, or in 2025-03-26 a batch.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::{Era, JsonRpcMessage, Method, RawJson, RequestId, Revision, RpcError, message};
use hospes_proto::http::headers::SESSION_ID;
use hospes_proto::http::{AdmittedHead, HttpRejection, MessageRoute, RoutingFields};
use http::request::Parts;
use http::{Response, StatusCode};

use super::body::Body;
use super::call_guard::{check_call, check_messages, check_request};
use super::caller::sender;
use super::calls::PostCalls;
use super::endpoint_inner::EndpointInner;
use super::response::{busy_rejection, empty, json, refusal_status, rejection_response};
use super::session_route::{EnterError, ReservedSession, directory_rejection};
use super::sessions::{HttpSession, SessionTableFull};
use crate::params::Params;
use crate::peer::RequestSender;
use crate::transport::adapter::{
    AdmittedRequest, Heard, InitializedSession, ModernRequest, PeerCache, RunningCall, read_meta,
};

/// Plan for an admitted message. It borrows from the body alone.
pub(super) enum PostPlan<'a> {
    /// A request that is complete in itself.
    Modern { id: RequestId, method: Method, params: Params },
    /// A request in a session.
    Legacy { session: Arc<HttpSession>, request: message::JsonRpcRequest<'a> },
    /// Several messages in a session.
    Batch { session: Arc<HttpSession>, messages: Vec<Result<JsonRpcMessage<'a>, message::DecodeError>> },
    /// The handshake.
    Open { id: RequestId, params: RawJson },
    /// A notification of an extension, of a session or complete in itself.
    Extension { session: Option<Arc<HttpSession>>, method: Method, params: Option<RawJson> },
    /// Nothing is left to do.
    Done,
}

/// Decides what to do with a body.
pub(super) fn plan<'a>(
    inner: &EndpointInner,
    parts: &Parts,
    head: &AdmittedHead<'_>,
    whole: &'a Bytes,
) -> Result<PostPlan<'a>, HttpRejection> {
    let frame = match message::decode(whole) {
        Ok(frame) => frame,
        Err(fault) => {
            if fault.is_for_response()
                && let Some(id) = &fault.answers
                && let Ok(session) = find_session(inner, parts, head, None)
            {
                // The question fails whose answer cannot be read.
                session.session().handle_lost_response(id, fault.error.clone());
            }
            return Err(HttpRejection::malformed(fault));
        }
    };
    match frame {
        message::Frame::Single(JsonRpcMessage::Request(request)) => {
            plan_request(inner, parts, head, whole, request)
        }
        message::Frame::Single(JsonRpcMessage::Notification(notification)) => {
            let facts =
                RoutingFields::from_params(&Method::from_name(&notification.method), notification.params);
            let message = JsonRpcMessage::Notification(notification);
            let route = inner.admission.route(head, &message, &facts)?;
            let JsonRpcMessage::Notification(notification) = message else { return Ok(PostPlan::Done) };
            let params = || notification.params.map(|raw| RawJson::slice_of(whole, raw));
            let method = Method::from_name(&notification.method);
            Ok(match route {
                MessageRoute::Legacy { .. } => {
                    let session = find_session(inner, parts, head, None)?;
                    match session.session().handle_notification(&notification) {
                        Heard::Extension => {
                            PostPlan::Extension { session: Some(session), method, params: params() }
                        }
                        Heard::Nothing | Heard::Ready => PostPlan::Done,
                    }
                }
                MessageRoute::Modern(_) if matches!(method, Method::Other(_)) => {
                    PostPlan::Extension { session: None, method, params: params() }
                }
                MessageRoute::Modern(_) => PostPlan::Done,
            })
        }
        message::Frame::Single(message) => {
            inner.admission.route(head, &message, &RoutingFields::default())?;
            if let JsonRpcMessage::Response(response) = message {
                find_session(inner, parts, head, None)?.session().handle_response(whole, response);
            }
            Ok(PostPlan::Done)
        }
        message::Frame::Batch(messages) => {
            inner.admission.route_batch(head)?;
            let session = find_session(inner, parts, head, None)?;
            if !session.session().has_batches() {
                let why = "this revision does not support batches: send one message per request";
                return Err(HttpRejection::new(StatusCode::BAD_REQUEST, RpcError::invalid_request(why)));
            }
            Ok(PostPlan::Batch { session, messages })
        }
    }
}

fn plan_request<'a>(
    inner: &EndpointInner,
    parts: &Parts,
    head: &AdmittedHead<'_>,
    whole: &'a Bytes,
    request: message::JsonRpcRequest<'a>,
) -> Result<PostPlan<'a>, HttpRejection> {
    let method = Method::from_name(&request.method);
    if head.session.is_some() && head.version.is_none_or(|version| version != Revision::LATEST.as_str()) {
        // Of a session: no need to look into the params twice.
        let facts = if method == Method::Initialize {
            RoutingFields::from_params(&method, request.params)
        } else {
            RoutingFields::default()
        };
        inner.admission.route_request(head, &request.id, &method, &facts)?;
        if method != Method::Initialize {
            let session = find_session(inner, parts, head, Some(&request.id))?;
            return Ok(PostPlan::Legacy { session, request });
        }
    }
    let params = match request.params {
        Some(raw) => RawJson::slice_of(whole, raw),
        None => RawJson::empty_object(),
    };
    let params = Params::new(params);
    let malformed = |error: RpcError| {
        let mut rejection = HttpRejection::new(StatusCode::BAD_REQUEST, error);
        rejection.id = Some(request.id.clone());
        rejection
    };
    let view = params.view();
    let meta = read_meta(view).map_err(malformed)?;
    let facts = RoutingFields {
        modern: meta.protocol_version.is_some()
            || meta.client_capabilities.is_some()
            || meta.client_info.is_some()
            || meta.log_level.is_some(),
        version: meta.protocol_version,
        capabilities: meta.client_capabilities.is_some(),
        name: match method.info().and_then(|info| info.name_param) {
            Some("name") => view.name.as_deref().map(Into::into),
            Some("uri") => view.uri.as_deref().map(Into::into),
            Some("taskId") => view.task_id.as_deref().map(Into::into),
            _ => None,
        },
        repeated: false,
    };
    match inner.admission.route_request(head, &request.id, &method, &facts)? {
        MessageRoute::Modern(_) => {
            drop(facts);
            Ok(PostPlan::Modern { id: request.id, method, params })
        }
        MessageRoute::Legacy { .. } if method == Method::Initialize => {
            // Kept as long as the session: it must not hold the connection's buffer.
            Ok(PostPlan::Open { id: request.id, params: params.raw().detached() })
        }
        MessageRoute::Legacy { .. } => {
            let session = find_session(inner, parts, head, Some(&request.id))?;
            Ok(PostPlan::Legacy { session, request })
        }
    }
}

/// Returns the session that a request names (HSES-05, HSES-07). It must be the sender's own (HSES-14); for all others
/// it does not exist.
pub(super) fn find_session(
    inner: &EndpointInner,
    parts: &Parts,
    head: &AdmittedHead<'_>,
    id: Option<&RequestId>,
) -> Result<Arc<HttpSession>, HttpRejection> {
    let Some(session) = head.session else { return Err(HttpRejection::session_required(id.cloned())) };
    let principal = sender(parts).principal;
    inner
        .sessions
        .find(session)
        .filter(|session| session.session().peer().principal == principal)
        .ok_or_else(|| HttpRejection::session_unknown(id.cloned()))
}

/// Work that has begun.
pub(super) enum PostStart {
    /// Calls, whose answer is to be waited for.
    Calls(PostCalls),
    /// Nothing: this is the answer.
    Done(Box<Response<Body>>),
    /// The handshake.
    Open(OpeningResponse),
}

type OpeningResponse = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Serves a request whose server had to be found first.
pub(super) async fn serve(
    inner: &Arc<EndpointInner>,
    peers: &PeerCache,
    parts: &Parts,
    head: &AdmittedHead<'_>,
    whole: &Bytes,
) -> Result<Response<Body>, HttpRejection> {
    let plan = plan(inner, parts, head, whole)?;
    Ok(match begin(inner, peers, parts.clone(), whole, plan) {
        PostStart::Calls(calls) => calls.respond().await,
        PostStart::Done(response) => *response,
        PostStart::Open(opening) => opening.await,
    })
}

/// Begins what was planned. Not async, so that little of it has to be kept while its answer is waited for.
pub(super) fn begin(
    inner: &Arc<EndpointInner>,
    peers: &PeerCache,
    parts: Parts,
    whole: &Bytes,
    plan: PostPlan<'_>,
) -> PostStart {
    let begun = match plan {
        // HTTP-13.
        PostPlan::Done => Err(Box::new(empty(StatusCode::ACCEPTED))),
        PostPlan::Extension { session, method, params } => {
            let shown = Params::new(params.clone().unwrap_or_else(RawJson::empty_object));
            Err(check_call(&parts, &method, &shown).err().unwrap_or_else(|| {
                match session {
                    Some(session) => {
                        let peer = Arc::clone(session.session().peer());
                        inner.adapter.notified(peer, method, params);
                    }
                    None => inner.adapter.notified_statelessly(method, &shown, sender(&parts), peers),
                }
                Box::new(empty(StatusCode::ACCEPTED))
            }))
        }
        PostPlan::Open { id, params } => {
            if let Err(refusal) = check_call(&parts, &Method::Initialize, &Params::new(params.clone())) {
                return PostStart::Done(refusal);
            }
            // Boxed, because this happens once in a session, and every request's future would be as large.
            return PostStart::Open(Box::pin(open(Arc::clone(inner), sender(&parts), id, params)));
        }
        PostPlan::Modern { id, method, params } => begin_modern(inner, peers, parts, &id, method, params),
        PostPlan::Legacy { session, request } => begin_legacy(inner, parts, whole, &session, request),
        PostPlan::Batch { session, messages } => begin_batch(inner, &parts, whole, &session, messages),
    };
    match begun {
        Ok(calls) => PostStart::Calls(calls),
        Err(response) => PostStart::Done(response),
    }
}

type CallsOrResponse = Result<PostCalls, Box<Response<Body>>>;

fn begin_modern(
    inner: &Arc<EndpointInner>,
    peers: &PeerCache,
    parts: Parts,
    id: &RequestId,
    method: Method,
    params: Params,
) -> CallsOrResponse {
    // First: what may not be called takes no place among the running calls.
    check_call(&parts, &method, &params)?;
    let listen = method == Method::SubscriptionsListen;
    // A stream of changes works as little as a connection; those are counted elsewhere.
    let permit = inner
        .permit(id, usize::from(!listen))
        .map_err(|rejection| Box::new(rejection_response(&rejection)))?;
    // A stream of changes is held for long: it must hold neither the connection's buffer nor the request's head.
    let params = if listen { Params::new(params.raw().detached()) } else { params };
    let sender = sender(&parts);
    let http = (!listen).then(|| Box::new(parts));
    let kept = params.clone();
    let begun = read_meta(kept.view()).and_then(|meta| {
        let request = ModernRequest { id: id.clone(), method, params, sender, http };
        inner.adapter.begin(request, &meta, peers)
    });
    match begun {
        Ok(running) => Ok(PostCalls::one(permit, running, None)),
        Err(error) => {
            let status = refusal_status(&error, Era::Modern);
            let mut text = Vec::new();
            message::write_error(&mut text, Some(id), &error);
            Err(Box::new(json(status, text)))
        }
    }
}

fn begin_legacy(
    inner: &Arc<EndpointInner>,
    parts: Parts,
    whole: &Bytes,
    session: &Arc<HttpSession>,
    request: message::JsonRpcRequest<'_>,
) -> CallsOrResponse {
    check_request(&parts, whole, &request)?;
    let permit =
        inner.permit(&request.id, 1).map_err(|rejection| Box::new(rejection_response(&rejection)))?;
    let mut text = Vec::new();
    match inner.adapter.admit(session.session(), whole, request, Some(Box::new(parts)), &mut text) {
        AdmittedRequest::Answered => Err(Box::new(json(StatusCode::OK, text))),
        AdmittedRequest::Call(running) => Ok(PostCalls::one(permit, running, Some(session.hold()))),
    }
}

fn begin_batch(
    inner: &Arc<EndpointInner>,
    parts: &Parts,
    whole: &Bytes,
    session: &Arc<HttpSession>,
    messages: Vec<Result<JsonRpcMessage<'_>, message::DecodeError>>,
) -> CallsOrResponse {
    // One that may not be made, and none is.
    check_messages(parts, whole, messages.iter().filter_map(|message| message.as_ref().ok()))?;
    let mut answers = Vec::new();
    let mut running: Vec<RunningCall> = Vec::new();
    for message in messages {
        let mut text = Vec::new();
        match message {
            Ok(JsonRpcMessage::Request(request)) if request.method == Method::Initialize.name() => {
                // BATCH-03.
                let error = RpcError::invalid_request("initialize cannot be part of a batch");
                message::write_error(&mut text, Some(&request.id), &error);
            }
            Ok(JsonRpcMessage::Request(request)) => {
                let http = Some(Box::new(parts.clone()));
                match inner.adapter.admit(session.session(), whole, request, http, &mut text) {
                    AdmittedRequest::Answered => {}
                    AdmittedRequest::Call(call) => {
                        running.push(call);
                        continue;
                    }
                }
            }
            Ok(JsonRpcMessage::Notification(notification)) => {
                if session.session().handle_notification(&notification) == Heard::Extension {
                    let method = Method::from_name(&notification.method);
                    let params = notification.params.map(|raw| RawJson::slice_of(whole, raw));
                    inner.adapter.notified(Arc::clone(session.session().peer()), method, params);
                }
                continue;
            }
            Ok(JsonRpcMessage::Response(response)) => {
                session.session().handle_response(whole, response);
                continue;
            }
            Err(fault) => {
                if fault.is_for_response()
                    && let Some(id) = &fault.answers
                {
                    session.session().handle_lost_response(id, fault.error);
                    continue;
                }
                message::write_error(&mut text, fault.id.as_ref(), &fault.error);
            }
        }
        answers.push(text);
    }
    if running.is_empty() && answers.is_empty() {
        return Err(Box::new(empty(StatusCode::ACCEPTED)));
    }
    let first = running.first().map_or(RequestId::Number(0), |call| call.id().clone());
    let permit = inner.permit(&first, running.len()).map_err(|mut rejection| {
        // The refusal is for the batch, and not for the request whose id had to stand in.
        rejection.id = None;
        Box::new(rejection_response(&rejection))
    })?;
    Ok(PostCalls::batch(permit, running, answers, session.hold()))
}

/// Answers `initialize`. A session is entered only when all is well (HSES-01, R10 of the peers' defects).
async fn open(
    inner: Arc<EndpointInner>,
    sender: RequestSender,
    id: RequestId,
    params: RawJson,
) -> Response<Body> {
    let permit = match inner.permit(&id, 1) {
        Ok(permit) => permit,
        Err(rejection) => return rejection_response(&rejection),
    };
    // Before the service is asked: a session that it begins elsewhere must be known to all processes.
    let reserved = match ReservedSession::new(&inner, &sender).await {
        Ok(reserved) => reserved,
        Err(error) => return rejection_response(&directory_rejection(Some(id), &error)),
    };
    let opened = Arc::clone(&inner.adapter).open(id.clone(), params.clone(), sender).await;
    drop(permit);
    let InitializedSession { session, answer } = match opened {
        Ok(opened) => opened,
        Err(answer) => return json(StatusCode::OK, answer),
    };
    let entered = match reserved {
        Some(reserved) => reserved.enter(&inner, session, params).await,
        None => inner.sessions.enter(session).map_err(EnterError::Full),
    };
    match entered {
        Ok(session) => {
            inner.start_sweeping();
            let mut response = json(StatusCode::OK, answer);
            response.headers_mut().insert(SESSION_ID, session.id().to_header());
            response
        }
        Err(EnterError::Full(SessionTableFull(max))) => rejection_response(&busy_rejection(
            Some(id),
            format!("too many sessions: the limit is {max} (setting max_sessions)"),
        )),
        Err(EnterError::Directory(error)) => rejection_response(&directory_rejection(Some(id), &error)),
    }
}
