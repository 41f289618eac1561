//! Messages on a stream that answer no request of this client: the server's requests, notifications, stray answers.

use std::sync::Arc;

use bytes::Bytes;
use hospes_model::message::{self, Frame, JsonRpcMessage};
use hospes_model::{Method, RawJson, RequestId, Revision, RpcError};
use hospes_proto::frame::{OversizeMessage, OversizeSubject};

use crate::client::error::CallError;
use crate::client::link::LinkEvent;
use crate::client::link::NegotiatedProtocol;
use crate::client::link::inbox;
use crate::client::transport::http::link_shared::HttpLinkShared;
use crate::client::transport::http::mailbox::CallMailbox;
use crate::client::transport::http::reader::SseItem;
use crate::client::transport::http::session::HttpClientSession;
use crate::client::transport::http::stream::raw;

impl HttpLinkShared {
    /// Handles an item that belongs to no request of this client.
    pub(super) fn handle_unsolicited_item(
        self: &Arc<Self>,
        item: &SseItem,
        session: &Arc<HttpClientSession>,
        speech: &NegotiatedProtocol,
    ) {
        match item {
            SseItem::Message(data) => match message::decode(data) {
                Ok(Frame::Single(message)) => self.handle_unsolicited_message(data, message, session, speech),
                Ok(Frame::Batch(parts)) => {
                    for message in parts.into_iter().flatten() {
                        self.handle_unsolicited_message(data, message, session, speech);
                    }
                }
                Err(error) => tracing::debug!(%error, "ignored an event that is not a message"),
            },
            SseItem::Oversize(over) => self.handle_oversize(over, session),
            SseItem::Mark | SseItem::Endpoint(_) => {}
        }
    }

    pub(super) fn handle_unsolicited_message(
        self: &Arc<Self>,
        data: &Bytes,
        message: JsonRpcMessage<'_>,
        session: &Arc<HttpClientSession>,
        speech: &NegotiatedProtocol,
    ) {
        match message {
            JsonRpcMessage::Notification(notification) => {
                let method = Method::from_name(&notification.method);
                self.handle_notification(&method, raw(data, notification.params).as_ref(), session);
            }
            JsonRpcMessage::Request(request) => {
                let method = Method::from_name(&request.method);
                if self.accept_request(&request.id, &method, session, speech) {
                    let question =
                        InboundRequest { id: request.id, method, params: raw(data, request.params) };
                    self.route_to_call(question, session);
                }
            }
            JsonRpcMessage::Response(response) => {
                if let Some(RequestId::Number(id)) = response.id
                    && let Some(mailbox) = self.streaming().get(&id)
                {
                    let answer = response.outcome.map(|result| RawJson::slice_of(data, result));
                    mailbox.put_answer(answer.map_err(CallError::Rpc));
                }
            }
        }
    }

    /// Puts what the server asks on the session's own stream to the call on whose behalf it asks: there are servers that
    /// put all their questions there. As on a connection of one stream that is the youngest of those whose callers can
    /// pass a question on, and what is asked on behalf of one principal must not reach another.
    fn route_to_call(self: &Arc<Self>, question: InboundRequest, session: &Arc<HttpClientSession>) {
        let InboundRequest { id, method, params } = question;
        // Until the question is in its hands the call must not leave: it refuses what it has then, and nothing else.
        let streaming = self.streaming();
        let mut youngest: Option<(i64, &Arc<CallMailbox>)> = None;
        let mut ambiguous = false;
        for (number, mailbox) in streaming.iter().filter(|(_, mailbox)| mailbox.can_be_asked(session)) {
            match youngest {
                Some((_, other)) if other.principal != mailbox.principal => ambiguous = true,
                Some((other, _)) if other > *number => {}
                _ => youngest = Some((*number, mailbox)),
            }
        }
        match youngest {
            _ if ambiguous => {
                drop(streaming);
                let error =
                    RpcError::internal("ambiguous request: calls of several principals are in flight");
                self.answer(session, &id, Err(&error));
            }
            Some((_, mailbox)) => mailbox.put_question(LinkEvent::Question(id, method, params)),
            None => {
                drop(streaming);
                let reply = self.reply_to(session);
                Arc::clone(&self.inbound).handle_unsolicited_request(id, method, params, reply);
            }
        }
    }

    pub(super) fn handle_notification(
        &self,
        method: &Method,
        params: Option<&RawJson>,
        session: &HttpClientSession,
    ) {
        if *method == Method::Cancelled {
            if let Some((id, reason)) = inbox::parse_cancelled(params)
                && session.remove_server_request(&id)
            {
                self.inbound.handle_cancelled(&id, reason);
            }
            return;
        }
        self.inbound.handle_notification(method, params);
    }

    pub(super) fn handle_oversize(
        self: &Arc<Self>,
        over: &OversizeMessage,
        session: &Arc<HttpClientSession>,
    ) {
        tracing::warn!(bytes = over.seen, limit = over.limit, "oversize message skipped");
        if let OversizeSubject::Request(id) = &over.subject {
            // Entered, because `answer` sends nothing for a request that is not open.
            session.add_server_request(id);
            self.answer(session, id, Err(&over.to_error()));
        }
    }

    /// Accepts a request of the server. Returns false if it has already been answered or ignored.
    pub(super) fn accept_request(
        self: &Arc<Self>,
        id: &RequestId,
        method: &Method,
        session: &Arc<HttpClientSession>,
        speech: &NegotiatedProtocol,
    ) -> bool {
        if speech.revision >= Revision::V2026_07_28 {
            // Servers send no requests from 2026-07-28 on, and clients no answers.
            tracing::warn!(%method, "ignored a request from the server: its revision does not allow them");
            return false;
        }
        let Some(open) = session.add_server_request(id) else { return false };
        // Before the limit: a ping is answered even if too many requests are open (PING-02).
        if *method == Method::Ping {
            self.answer(session, id, Ok(&RawJson::empty_object()));
            return false;
        }
        let max = self.limits.max_server_requests;
        if open > max {
            let why = format!("more than {max} requests at once (setting max_server_requests)");
            self.answer(session, id, Err(&RpcError::internal(why)));
            return false;
        }
        true
    }
}

/// A request of the server.
struct InboundRequest {
    id: RequestId,
    method: Method,
    params: Option<RawJson>,
}
