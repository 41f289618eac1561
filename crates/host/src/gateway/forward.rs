//! Forwarding of one call to one server.

use std::borrow::Cow;
use std::sync::Arc;

use hospes::{Call, Outcome, PendingInput};
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
use crate::metrics::excluded;
use crate::sampling::SamplingCause;
use crate::server::{CapabilitySet, UpstreamServer, decoded, lost_call};
use crate::upstream::{ReadyConnection, SendTurn};

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
        let server = &*self.shared.upstreams[position].server;
        let ForwardRoute { reached: ReachedUpstream { mut lease, live, turn }, catalogue, .. } = way;
        // Only a server of the older era holds the call itself, so only there is its state tied to the connection.
        let holder = live.connection.keeps_calls().then_some(live.id);
        // Nothing was sent yet, so the lease must not count as a call that was given up.
        if let Err(refusal) = self.restore_round(&call, position, holder).await {
            lease.finish();
            return match refusal {
                StateRefusal::Invalid(error) => Err(error),
                StateRefusal::LostCall => {
                    let ended = format!(
                        "The connection to the server `{}` ended while this call waited for an answer",
                        server.label()
                    );
                    Ok(lost_call(&call.method, &ended))
                }
            };
        }
        // The answers of `tasks/update` are in its params and not in the round.
        let params = match &call.method {
            Method::TasksUpdate => {
                let roots = &self.shared.upstreams[position].roots;
                let of = (&call.context, self.shared.profile_name(self.scope));
                roots.filter_task_params(of, &params).await.unwrap_or(params)
            }
            _ => params,
        };
        // What a task asks is asked of whoever fetches it.
        if !matches!(call.method, Method::TasksGet | Method::TasksUpdate | Method::TasksCancel) {
            self.declare_local_answers(&call);
        }
        let outcome = self.send_rounds(&call, &params, (server, &live), turn).await;
        let outcome = self.check_era(&call.method, outcome, position, (&lease.line, &live)).await;
        // A task goes on, and may ask: the connection stays, and stays its application's.
        match &outcome {
            Outcome::Complete(Reply::CreateTask(made)) => lease.tasks().note(&made.task),
            _ => lease.finish(),
        }
        match &outcome {
            Outcome::Complete(reply) if call.method == Method::ToolsCall => {
                check_structured_result(&server.name, &live, &params, reply);
            }
            // The client's own failures have this code, and a broken connection may be behind them.
            Outcome::Failed(error) if error.code == code::INTERNAL_ERROR => lease.line.doubt(),
            _ => {}
        }
        self.present_outcome(&call, outcome, (server, holder), &catalogue)
    }

    /// Restores the server's own part of the request state, and removes roots from the answers that the server may not
    /// see. Fails if the state belongs to another server, or to a connection that is gone.
    async fn restore_round(
        &self,
        call: &Call,
        position: usize,
        holder: Option<u64>,
    ) -> Result<(), StateRefusal> {
        let upstream = &self.shared.upstreams[position];
        let mut round = call.context.round();
        let of = (&call.context, self.shared.profile_name(self.scope));
        let has_roots = upstream.roots.filter_answers(of, &mut round.answers).await;
        let carried = round.carried.take();
        if let Some(text) = &carried {
            let inner = verify_round_state(text, &upstream.server.label(), holder)?;
            round.carried = inner.map(str::to_owned);
        }
        if carried.is_some() || has_roots {
            call.context.begin_round(round);
        }
        Ok(())
    }

    /// Sends the call, again with the answers after each round of questions that the host answers itself, until it has
    /// ended or the application has to answer.
    async fn send_rounds(
        &self,
        call: &Call,
        params: &RawJson,
        (server, live): (&UpstreamServer, &ReadyConnection),
        mut turn: Option<SendTurn>,
    ) -> Outcome {
        let subject = call.params.view();
        let subject = subject.name.as_deref().or(subject.uri.as_deref()).map(str::to_owned);
        let (profile, subject) = (server.profile.as_deref(), subject.as_deref());
        let endpoint_profile = self.shared.profile_name(self.scope);
        let cause = SamplingCause { server: &server.name, profile, endpoint_profile, subject };
        let mut rounds = 0;
        loop {
            // A copy, because the same call goes out again with the answers of the next round.
            let onward = Call::new(call.method.clone(), params.clone(), call.context.clone());
            let questions = match live.call_in_turn(onward, &mut turn).await {
                Outcome::InputRequired(questions) => questions,
                outcome => return outcome,
            };
            let questions = match self.screen_questions(call, (cause, live), questions).await {
                LocalAnswerOutcome::Left(questions) => questions,
                LocalAnswerOutcome::Ended(outcome) => return outcome,
                LocalAnswerOutcome::All(round) if rounds < MAX_OWN_ROUNDS => {
                    call.context.begin_round(*round);
                    rounds += 1;
                    continue;
                }
                LocalAnswerOutcome::All(_) => {
                    return Outcome::Failed(RpcError::internal(
                        "the server repeated rejected requests too often",
                    ));
                }
            };
            if rounds >= MAX_OWN_ROUNDS || self.own_abilities() == CapabilitySet::NONE {
                return Outcome::InputRequired(questions);
            }
            // Boxed, so that the many calls that ask nothing do not carry the state of asking.
            match Box::pin(excluded(self.answer_locally(call, cause, questions))).await {
                Ok(LocalAnswerOutcome::All(round)) => call.context.begin_round(*round),
                Ok(LocalAnswerOutcome::Left(questions)) => return Outcome::InputRequired(questions),
                Ok(LocalAnswerOutcome::Ended(outcome)) => return outcome,
                Err(error) => return Outcome::Failed(error),
            }
            rounds += 1;
        }
    }

    /// Returns the outcome as the application sees it: with URIs that route back to the server, with its name in
    /// questions and errors, and with a request state that names the server and its connection.
    fn present_outcome(
        &self,
        call: &Call,
        outcome: Outcome,
        (server, holder): (&UpstreamServer, Option<u64>),
        catalogue: &MergedCatalogue,
    ) -> Result<Outcome, RpcError> {
        match outcome {
            Outcome::Complete(reply) => {
                let reply = result_identity::with_server_info(reply, call.context.peer().revision);
                self.present_reply(&call.method, reply, &server.name, catalogue).map(Outcome::Complete)
            }
            Outcome::InputRequired(questions) => {
                Ok(Outcome::InputRequired(present_questions(questions, &server.label(), holder)))
            }
            Outcome::Failed(error) => Err(elicitation::present_error(&server.label(), error)),
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

/// Returns a server's questions as the application sees them.
fn present_questions(mut questions: PendingInput, server: &str, holder: Option<u64>) -> PendingInput {
    let inner = questions.round.carried.as_deref();
    let carried = RoundState { server, connection: holder, inner }.write();
    questions.round.carried = Some(carried);
    for (_, request) in &mut questions.requests {
        if let InputRequest::Elicit(params) = request {
            elicitation::name_server(server, params);
        }
    }
    questions
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

/// Reason for which a call does not continue with its request state.
#[derive(Debug, PartialEq, Eq)]
enum StateRefusal {
    /// The state is not one of this gateway, or not for this server.
    Invalid(RpcError),
    /// The connection at which the call was waiting is gone, and the call with it.
    LostCall,
}

/// Returns the server's own part of the request state.
fn verify_round_state<'a>(
    text: &'a str,
    server: &str,
    holder: Option<u64>,
) -> Result<Option<&'a str>, StateRefusal> {
    let invalid = |why: Cow<'static, str>| StateRefusal::Invalid(RpcError::invalid_params(why));
    let carried = RoundState::read(text).ok_or_else(|| invalid("invalid request state".into()))?;
    // The state comes back through the application, which must not send one server what another one asked for.
    if carried.server != server {
        let why = format!(
            "the request state belongs to the server `{}`, but the call is for `{server}`",
            carried.server
        );
        return Err(invalid(why.into()));
    }
    if carried.connection != holder {
        return Err(StateRefusal::LostCall);
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

#[cfg(test)]
mod tests {
    use hospes::Round;
    use hospes_model::{ElicitParams, ElicitSchema};

    use super::*;

    #[test]
    fn request_state_is_for_the_server_and_the_connection_that_wrote_it() {
        let state = RoundState { server: "files", connection: Some(7), inner: Some("theirs") }.write();
        assert_eq!(verify_round_state(&state, "files", Some(7)), Ok(Some("theirs")));
        for (text, server, holder, reason) in [
            ("theirs", "files", Some(7), "invalid request state"),
            (&*state, "notes", Some(7), "belongs to the server `files`"),
        ] {
            let refusal = verify_round_state(text, server, holder).unwrap_err();
            assert!(
                matches!(&refusal, StateRefusal::Invalid(error) if error.message.contains(reason)),
                "{text} {server} {holder:?}: {refusal:?}"
            );
        }
        for holder in [Some(8), None] {
            assert_eq!(
                verify_round_state(&state, "files", holder),
                Err(StateRefusal::LostCall),
                "{holder:?}"
            );
        }
    }

    #[test]
    fn questions_name_their_server_and_carry_its_state() {
        let mut round = Round::default();
        round.carried = Some("theirs".to_owned());
        let form = ElicitParams::form("Which one?", ElicitSchema::new());
        let requests = vec![("a".to_owned(), InputRequest::Elicit(Box::new(form)))];
        let shown = present_questions(PendingInput::new(requests, round), "files", Some(7));
        let carried = shown.round.carried.unwrap();
        let expected = RoundState { server: "files", connection: Some(7), inner: Some("theirs") };
        assert_eq!(RoundState::read(&carried), Some(expected));
        let (_, InputRequest::Elicit(params)) = &shown.requests[0] else { panic!("{:?}", shown.requests) };
        assert_eq!(params.message(), "The server `files` asks: Which one?");
    }

    #[test]
    fn only_members_that_name_uris_are_looked_into() {
        for (json, expected) in [
            (r#"{"uri":"notes://a"}"#, true),
            (r#"{"resourceUri":"ui://a"}"#, true),
            (r#"{"ui/resourceUri":"ui://a"}"#, true),
            (r#"{"text":"a uri"}"#, false),
            (r#"{"tempuri":"a"}"#, false),
        ] {
            assert_eq!(may_hold_uris(json.as_bytes()), expected, "{json}");
        }
    }
}
