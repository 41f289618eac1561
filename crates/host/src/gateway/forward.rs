//! Forwarding of one call to one server.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::Poll;

use hospes::{Call, Outcome, Service};
use hospes_model::{ContentBlock, InputRequest, Method, RawJson, Reply, RpcError, code};
use memchr::memmem;
use serde::Deserialize;

use super::declared_extensions::is_extension_method;
use super::handle::Gateway;
use super::local_answers::{LocalAnswerOutcome, MAX_OWN_ROUNDS};
use super::reach::ReachedUpstream;
use super::round_state::RoundState;
use super::{elicitation, result_identity};
use crate::catalogue::{MergedCatalogue, show_in, template_matches};
use crate::sampling::SamplingCause;
use crate::server::{CapabilitySet, decoded};
use crate::upstream::ReadyConnection;

/// Destination of a call.
#[derive(Debug)]
pub(super) struct ForwardRoute {
    /// The position of the server.
    pub(super) server: usize,
    pub(super) reached: ReachedUpstream,
    pub(super) catalogue: Arc<MergedCatalogue>,
}

impl Gateway {
    /// Forwards the call to its server.
    pub(super) async fn forward(
        &self,
        call: Call,
        params: RawJson,
        way: ForwardRoute,
    ) -> Result<Outcome, RpcError> {
        let position = way.server;
        let server = &*self.shared.upstreams[position].server.name;
        let ForwardRoute { reached: ReachedUpstream { mut lease, live, turn }, catalogue, .. } = way;
        // Only a server of the older era holds the call itself, so only there is its state tied to the connection.
        let holder = live.connection.keeps_calls().then_some(live.id);
        let mut round = call.context.round();
        let roots = &self.shared.upstreams[position].roots;
        let looked = roots.filter_answers(&call.context, &mut round.answers).await;
        if let Some(text) = round.carried.take() {
            // Nothing was sent yet, so the lease must not count as a call that was given up.
            let inner = verify_round_state(&text, server, holder).inspect_err(|_| lease.finish())?;
            round.carried = inner.map(str::to_owned);
            call.context.begin_round(round);
        } else if looked {
            call.context.begin_round(round);
        }
        // The answers of `tasks/update` are in its params and not in the round.
        let params = match &call.method {
            Method::TasksUpdate => roots.filter_task_params(&call.context, &params).await.unwrap_or(params),
            _ => params,
        };
        let method = call.method.clone();
        let down = call.context.peer().revision;
        let subject = call.params.view();
        let subject = subject.name.as_deref().or(subject.uri.as_deref()).map(str::to_owned);
        // What a task asks is asked of whoever fetches it.
        let is_of_a_task = matches!(method, Method::TasksGet | Method::TasksUpdate | Method::TasksCancel);
        if !is_of_a_task {
            self.declare_local_answers(&call);
        }
        let (mut turn, mut rounds) = (turn, 0);
        let outcome = loop {
            // A copy, because the same call goes out again with the answers of the next round.
            let onward = Call::new(method.clone(), params.clone(), call.context.clone());
            let mut calling = std::pin::pin!(live.connection.service.call(onward));
            // With its first poll the call is sent, and the next one that waited may go.
            let first = std::future::poll_fn(|cx| Poll::Ready(calling.as_mut().poll(cx))).await;
            drop(turn.take());
            let outcome = match first {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => calling.await,
            };
            let Outcome::InputRequired(questions) = outcome else { break outcome };
            let cause = SamplingCause { server, subject: subject.as_deref() };
            let questions = match self.screen_questions(&call, (cause, &live), questions).await {
                LocalAnswerOutcome::Left(questions) => questions,
                LocalAnswerOutcome::Ended(outcome) => break outcome,
                LocalAnswerOutcome::All(round) if rounds < MAX_OWN_ROUNDS => {
                    call.context.begin_round(*round);
                    rounds += 1;
                    continue;
                }
                LocalAnswerOutcome::All(_) => {
                    break Outcome::Failed(RpcError::internal(
                        "the server repeated rejected requests too often",
                    ));
                }
            };
            if rounds >= MAX_OWN_ROUNDS || self.own_abilities() == CapabilitySet::NONE {
                break Outcome::InputRequired(questions);
            }
            // Boxed, so that the many calls that ask nothing do not carry the state of asking.
            match Box::pin(self.answer_locally(&call, cause, questions)).await {
                Ok(LocalAnswerOutcome::All(round)) => call.context.begin_round(*round),
                Ok(LocalAnswerOutcome::Left(questions)) => break Outcome::InputRequired(questions),
                Ok(LocalAnswerOutcome::Ended(outcome)) => break outcome,
                Err(error) => break Outcome::Failed(error),
            }
            rounds += 1;
        };
        let outcome = self.check_era(&method, outcome, position, (&lease.line, &live)).await;
        // A task goes on, and may ask: the connection stays, and stays its application's.
        match &outcome {
            Outcome::Complete(Reply::CreateTask(made)) => lease.tasks().note(&made.task),
            _ => lease.finish(),
        }
        match outcome {
            Outcome::Complete(reply) => {
                if method == Method::ToolsCall {
                    check_structured_result(server, &live, &params, &reply);
                }
                let reply = result_identity::with_server_info(reply, down);
                self.present_reply(&method, reply, server, &catalogue).map(Outcome::Complete)
            }
            Outcome::InputRequired(mut questions) => {
                let inner = questions.round.carried.as_deref();
                let carried = RoundState { server, connection: holder, inner }.write();
                questions.round.carried = Some(carried);
                for (_, request) in &mut questions.requests {
                    if let InputRequest::Elicit(params) = request {
                        elicitation::name_server(server, params);
                    }
                }
                Ok(Outcome::InputRequired(questions))
            }
            Outcome::Failed(error) => {
                // The client's own failures have this code, and a broken connection may be behind them.
                if error.code == code::INTERNAL_ERROR {
                    lease.line.doubt();
                }
                Err(elicitation::present_error(server, error))
            }
        }
    }

    /// Returns the reply with the URIs that route back to this server. Usually this is the reply itself, unparsed.
    pub(super) fn present_reply(
        &self,
        method: &Method,
        reply: Reply,
        server: &str,
        catalogue: &MergedCatalogue,
    ) -> Result<Reply, RpcError> {
        if catalogue.is_alone || is_extension_method(method) {
            return Ok(reply);
        }
        let show = |uri: &str| catalogue.uris.show(server, uri, &template_matches);
        if let Reply::Raw { json, .. } = &reply {
            // An escaped spelling of a key would go unseen; no encoder writes one.
            if !may_hold_uris(json.as_bytes()) {
                return Ok(reply);
            }
            if *method == Method::ResourcesRead && contents_stay(json, &show) {
                return Ok(reply);
            }
        }
        match decoded(method, reply)? {
            Reply::CallTool(mut result) => {
                result.content.iter_mut().for_each(|block| show_block(block, &show));
                show_in(&mut result.meta, show);
                Ok(result.into())
            }
            Reply::GetPrompt(mut result) => {
                result.messages.iter_mut().for_each(|message| show_block(&mut message.content, &show));
                Ok(Reply::GetPrompt(result))
            }
            Reply::ReadResource(mut result) => {
                result.contents.iter_mut().for_each(|contents| contents.uri = show(&contents.uri));
                Ok(Reply::ReadResource(result))
            }
            reply => Ok(reply),
        }
    }
}

/// Notes a structured result that breaks its tool's output schema. Only results of tools that have one are decoded.
fn check_structured_result(server: &str, live: &ReadyConnection, params: &RawJson, reply: &Reply) {
    #[derive(Deserialize)]
    struct ToolNamePeek {
        name: String,
    }
    if live.results.is_empty() {
        return;
    }
    let Ok(ToolNamePeek { name }) = params.decode() else { return };
    if !live.results.can_check(&name) {
        return;
    }
    match reply {
        Reply::CallTool(result) => live.results.check_result(server, &name, result),
        Reply::Raw { json, .. } => {
            if let Ok(result) = json.decode() {
                live.results.check_result(server, &name, &result);
            }
        }
        _ => {}
    }
}

/// Returns the server's own part of the request state.
fn verify_round_state<'a>(
    text: &'a str,
    server: &str,
    holder: Option<u64>,
) -> Result<Option<&'a str>, RpcError> {
    let Some(carried) = RoundState::read(text) else {
        return Err(RpcError::invalid_params("invalid request state"));
    };
    // The state comes back through the application, which must not send one server what another one asked for.
    if carried.server != server {
        let why = format!(
            "the request state belongs to the server `{}`, but the call is for `{server}`",
            carried.server
        );
        return Err(RpcError::invalid_params(why));
    }
    if carried.connection != holder {
        // Making the call again could do twice what it does.
        let why = format!(
            "the server `{server}` was restarted during the call; the call was not retried, call again"
        );
        return Err(RpcError::internal(why));
    }
    Ok(carried.inner)
}

/// Returns whether there may be a member that holds a URI: one pass looks for the end that `uri`, `resourceUri` and
/// `ui/resourceUri` have in common.
fn may_hold_uris(json: &[u8]) -> bool {
    memmem::find_iter(json, b"ri\"").any(|at| matches!(&json[..at], [.., b'"', b'u'] | [.., b'e', b'U']))
}

fn show_block(block: &mut ContentBlock, show: &impl Fn(&str) -> String) {
    match block {
        ContentBlock::ResourceLink(link) => link.uri = show(&link.uri),
        ContentBlock::Resource(embedded) => embedded.resource.uri = show(&embedded.resource.uri),
        _ => {}
    }
}

/// Returns true if all contents of the result are shown under the URI they already have.
fn contents_stay(json: &RawJson, show: &impl Fn(&str) -> String) -> bool {
    #[derive(Deserialize)]
    struct ReadResultPeek<'a> {
        #[serde(borrow)]
        contents: Vec<ContentUriPeek<'a>>,
    }
    #[derive(Deserialize)]
    struct ContentUriPeek<'a> {
        // A plain reference could not take a URI that is written with escapes.
        #[serde(borrow)]
        uri: Cow<'a, str>,
    }
    let read = json.decode::<ReadResultPeek<'_>>();
    read.is_ok_and(|read| read.contents.iter().all(|contents| show(&contents.uri) == contents.uri))
}
