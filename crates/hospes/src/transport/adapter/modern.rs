//! Requests of 2026-07-28: each complete in itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use hospes_model::{
    ClientCapabilities, Direction, Implementation, InputResponses, MessageKind, Method, RequestId,
    RequestMeta, Revision, RpcError, TASKS_EXTENSION, meta_key,
};
use hospes_proto::request_state::{RequestDigest, StateBinding};
use serde::{Deserialize, Serialize};

use super::client_info_cache::{ClientInfoCache, MAX_CLIENT_BYTES};
use super::service_adapter::StateOrigin;
use super::{RunningCall, ServiceAdapter, random_bytes};
use crate::context::Context;
use crate::exchange::{Exchange, MAX_ROUNDS};
use crate::params::{Params, ParamsView, decode_part};
use crate::peer::{Peer, RequestSender};
use crate::round::{PendingInput, Round, read_answer};
use crate::service::Call;
use crate::tasks::TaskPreference;

/// A request that names its revision, before it is admitted.
#[derive(Debug)]
pub(crate) struct ModernRequest {
    pub(crate) id: RequestId,
    pub(crate) method: Method,
    pub(crate) params: Params,
    pub(crate) sender: RequestSender,
    pub(crate) http: Option<Box<http::request::Parts>>,
}

impl ServiceAdapter {
    /// Admits a request, or says why not. `meta` is the request's `_meta`, read.
    pub(crate) fn begin(
        self: &Arc<Self>,
        request: ModernRequest,
        meta: &RequestMeta<'_>,
        peers: &PeerCache,
    ) -> Result<RunningCall, RpcError> {
        let ModernRequest { id, method, params, sender, http } = request;
        // Before the method: a client of another version must learn
        // the versions (VER-12), not that a method is unknown.
        self.check_meta(meta)?;
        if !is_served(&method) {
            return Err(RpcError::method_not_found(method.name()));
        }
        let peer = peers.peer(&self.client_infos, meta, sender)?;
        let round = self.round(&method, &params, &peer)?;
        // TSKX-02: by what this very request declares.
        let takes_tasks = method == Method::ToolsCall && peer.capabilities.has_extension(TASKS_EXTENSION);
        let mut context = Context::builder(peer)
            .request_id(id.clone())
            .meta(params.view().meta.clone())
            .log_level(meta.log_level)
            .progress_token(meta.progress_token.clone())
            .task(if takes_tasks { TaskPreference::Open } else { TaskPreference::None })
            // Without the name before it, which anybody may change.
            .state_nonce(
                params
                    .view()
                    .request_state
                    .as_deref()
                    .map(|state| self.replay_cache.nonce(StateOrigin::split(state).1)),
            )
            .round(round);
        if let Some(http) = http {
            context = context.http(http);
        }
        let call = Call { method, params, context: context.build() };
        Ok(RunningCall::new(Arc::clone(self), Exchange::new(self.service.clone(), call), id, None))
    }

    /// Hands a notification of an extension to the service that says by itself who sends it, as requests do; one that does
    /// not is dropped.
    pub(crate) fn notified_statelessly(
        &self,
        method: Method,
        params: &Params,
        sender: RequestSender,
        peers: &PeerCache,
    ) {
        let peer = read_meta(params.view()).and_then(|meta| {
            self.check_meta(&meta).and_then(|()| peers.peer(&self.client_infos, &meta, sender))
        });
        match peer {
            Ok(peer) => self.notified(peer, method, Some(params.raw().clone())),
            Err(error) => tracing::debug!(%method, %error, "notification dropped"),
        }
    }

    /// STLS-03: a request names its version and its sender's capabilities; VER-12: a version that is not spoken here.
    fn check_meta(&self, meta: &RequestMeta<'_>) -> Result<(), RpcError> {
        if let Some(key) = meta.malformed {
            return Err(RpcError::invalid_params(format!(
                "params._meta[{key:?}] must be {}",
                meta_member_shape(key)
            )));
        }
        let missing = |key: &str| RpcError::invalid_params(format!("params._meta lacks {key:?}"));
        let Some(version) = &meta.protocol_version else {
            return Err(missing(meta_key::PROTOCOL_VERSION));
        };
        let revisions = self.settings.revisions;
        if revisions.find_by_name(version).is_none_or(Revision::is_legacy) {
            return Err(revisions.unsupported_version_error(version));
        }
        if meta.client_capabilities.is_none() {
            return Err(missing(meta_key::CLIENT_CAPABILITIES));
        }
        Ok(())
    }

    /// Restores the state from earlier rounds, which is sealed in `requestState`, and adds the answers sent with it.
    fn round(&self, method: &Method, params: &Params, peer: &Peer) -> Result<Round, RpcError> {
        let view = params.view();
        let (mut round, mut asked) = (Round::default(), AskedMethods::new());
        if let Some(state) = &view.request_state {
            let (_, state) = StateOrigin::split(state);
            let request = RequestDigest::of(method.name(), params.raw().as_bytes())
                .map_err(|why| RpcError::invalid_params(why.to_string()))?;
            // State of another principal, or of another request, does not open (MRTR-12).
            let binding = StateBinding { principal: peer.principal.as_deref(), request };
            let opened = self.settings.keys.open(state, &binding, SystemTime::now()).map_err(|why| {
                tracing::warn!(%method, %why, "request state rejected");
                why.to_rpc()
            })?;
            // The seal was right, so that other content was sealed by another version of this program.
            let sealed: SealedRound<'_> = serde_json::from_slice(&opened).map_err(|why| {
                tracing::error!(%method, %why, "cannot decode the request state: unknown layout");
                RpcError::invalid_params("requestState was refused; send the request again without it")
            })?;
            (round, asked) = (sealed.round.into_owned(), sealed.asked);
        }
        if let Some(answers) = &view.input_responses {
            // MRTR-15: malformed input is an error, what is missing is asked for again by the handler.
            let answers: InputResponses = answers.decode().map_err(|why| {
                RpcError::invalid_params(format!("inputResponses must be an object of results: {why}"))
            })?;
            if let Some((key, _)) = answers.iter().find(|(_, answer)| !answer.is_object()) {
                let why =
                    format!("inputResponses[{key:?}] must be the result of the input request, an object");
                return Err(RpcError::invalid_params(why));
            }
            for (key, answer) in &answers {
                // What was not asked is surplus, and does no harm.
                let Some(question) = asked.get(key.as_str()) else { continue };
                if let Err(wrong) = read_answer(&Method::from_name(question), answer) {
                    let why = format!("inputResponses[{key:?}]: {}", wrong.message);
                    return Err(RpcError::invalid_params(why));
                }
            }
            round.record_answers(answers);
        }
        Ok(round)
    }

    /// Seals what the next round starts from.
    pub(super) fn seal(&self, call: &Call, questions: &PendingInput) -> Result<String, RpcError> {
        if !call.method.allows_input_requests() {
            let why = format!("{} cannot be answered with an input request", call.method);
            return Err(RpcError::internal(why));
        }
        let peer = call.context.peer();
        for (_, request) in &questions.requests {
            // MRTR-05, by what this request declares.
            request.check_required_capability(&peer.capabilities)?;
        }
        if questions.round.number >= MAX_ROUNDS {
            return Err(RpcError::internal(format!("more than {MAX_ROUNDS} rounds of questions")));
        }
        let internal = |why: serde_json::Error| RpcError::internal(why.to_string());
        let request =
            RequestDigest::of(call.method.name(), call.params.raw().as_bytes()).map_err(internal)?;
        let asked = questions.requests.iter();
        let asked = asked.map(|(key, request)| (key.clone(), request.method().to_owned())).collect();
        let sealed = SealedRound { round: Cow::Borrowed(&questions.round), asked };
        let payload = serde_json::to_vec(&sealed).map_err(internal)?;
        let binding = StateBinding { principal: peer.principal.as_deref(), request };
        let expires = SystemTime::now() + self.settings.state_lifetime;
        let sealed = self.settings.keys.seal(&binding, expires, random_bytes(), &payload);
        Ok(match &self.settings.origin {
            Some(origin) => origin.sign(sealed),
            None => sealed,
        })
    }
}

/// Content of `requestState`.
#[derive(Serialize, Deserialize)]
struct SealedRound<'a> {
    #[serde(rename = "r")]
    round: Cow<'a, Round>,
    #[serde(rename = "q")]
    asked: AskedMethods,
}

/// The methods of the questions that were asked, by key: answers of another shape go no further (MRTR-15).
type AskedMethods = BTreeMap<String, String>;

/// Returns true if a client may send this as a request. Any method that the specification does not define may be one.
fn is_served(method: &Method) -> bool {
    method.info().is_none_or(|info| {
        info.kind == MessageKind::Request
            && info.direction != Direction::ToClient
            && info.in_revision(Revision::LATEST)
    })
}

/// The peers last seen on a connection, so that what they say of themselves is read once. Nothing is derived from
/// earlier requests (STLS-01): the same words give the same peer.
#[derive(Debug, Default)]
pub(crate) struct PeerCache(Mutex<Vec<CachedPeer>>);

#[derive(Debug)]
struct CachedPeer {
    info: Box<str>,
    capabilities: Box<str>,
    peer: Arc<Peer>,
}

/// A connection is mostly one peer's; a gateway's carries those of a few applications.
const MAX_CACHED_PEERS: usize = 4;

impl PeerCache {
    fn peer(
        &self,
        programs: &ClientInfoCache,
        meta: &RequestMeta<'_>,
        sender: RequestSender,
    ) -> Result<Arc<Peer>, RpcError> {
        let info = meta.client_info.map_or("", |raw| raw.get());
        let capabilities = meta.client_capabilities.map_or("{}", |raw| raw.get());
        if info.len() + capabilities.len() > MAX_CLIENT_BYTES {
            // Nobody may fill the memory with what is said once.
            let (info, capabilities) = read_client(info, capabilities)?;
            return Ok(Arc::new(Peer::new(Revision::LATEST, info, capabilities).with_sender(sender)));
        }
        // Held while a new peer is read, so that concurrent requests of one client share it.
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.iter().position(|seen| {
            *seen.info == *info && *seen.capabilities == *capabilities && seen.peer.is_sent_by(&sender)
        });
        if let Some(known) = known {
            return Ok(Arc::clone(&seen[known].peer));
        }
        let (client, able) = read_client(info, capabilities)?;
        let peer = Arc::new(programs.peer(Revision::LATEST, client, able, sender));
        if seen.len() >= MAX_CACHED_PEERS {
            seen.remove(0);
        }
        let (info, capabilities) = (info.into(), capabilities.into());
        seen.push(CachedPeer { info, capabilities, peer: Arc::clone(&peer) });
        Ok(peer)
    }
}

fn read_client(
    info: &str,
    capabilities: &str,
) -> Result<(Option<Implementation>, ClientCapabilities), RpcError> {
    let capabilities: ClientCapabilities =
        decode_part(capabilities.as_bytes(), meta_key::CLIENT_CAPABILITIES)?;
    let info: Option<Implementation> =
        if info.is_empty() { None } else { Some(decode_part(info.as_bytes(), meta_key::CLIENT_INFO)?) };
    Ok((info, capabilities))
}

/// Decodes the `_meta` of params; empty if there is none.
///
/// # Errors
/// When it is no object, or when a member of the params stands twice.
pub(crate) fn read_meta(params: &ParamsView) -> Result<RequestMeta<'_>, RpcError> {
    if let Some(member) = params.repeated {
        return Err(RpcError::invalid_params(format!("params has {member:?} twice")));
    }
    match &params.meta {
        None => Ok(RequestMeta::default()),
        Some(meta) if !meta.is_object() => Err(RpcError::invalid_params("params._meta must be an object")),
        Some(meta) => {
            meta.decode().map_err(|why| RpcError::invalid_params(format!("invalid params._meta: {why}")))
        }
    }
}

/// Returns the required shape of a reserved member of `_meta`.
fn meta_member_shape(key: &str) -> &'static str {
    match key {
        meta_key::PROGRESS_TOKEN => "a string or an integer",
        meta_key::CLIENT_INFO | meta_key::CLIENT_CAPABILITIES => "an object",
        meta_key::LOG_LEVEL => "a log level such as \"info\"",
        _ => "a string",
    }
}
