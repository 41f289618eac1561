//! Review of results by a person before they are delivered to an application, and so to its model.

use std::time::Duration;

use hospes::{Call, Outcome};
use hospes_model::{CallToolResult, GetPromptResult, Method, RawJson, ReadResourceResult, Reply, RpcError};
use hospes_store::DecisionBasis;
use sha2::{Digest as _, Sha256};

use super::approval_binding::asker_digest;
use super::call_target::CallTarget;
use super::enforcer::PolicyEnforcer;
use super::waiting::wait_for_decision;
use crate::approvals::{
    ApprovalCallKind, ApprovalCard, ApprovalOutcome, DecisionOptions, NewApproval, ResultCard,
};
use crate::server::decoded;

/// Maximum length of a result that is shown to a person, in bytes.
const MAX_SHOWN: usize = 1024 * 1024;

/// State needed to review the result of a call.
#[derive(Debug)]
pub(super) struct ResultReview {
    call: Call,
    what: ApprovalCallKind,
    name: String,
    /// Profile for which the server runs, if it has the secrets of one.
    profile: Option<String>,
    /// Profile whose endpoint the application uses.
    endpoint_profile: Option<String>,
    because: String,
}

impl ResultReview {
    pub(super) fn new(call: &Call, going: &CallTarget<'_>, because: String) -> Self {
        let profile = going.own_profile.map(str::to_owned);
        let endpoint_profile = going.profile.map(str::to_owned);
        // A copy of its own, because the review is kept until the call has come back.
        let call = Call::new(call.method.clone(), call.params.raw().clone(), call.context.clone());
        let (what, name) = (going.call_kind(), going.subject().to_owned());
        Self { call, what, name, profile, endpoint_profile, because }
    }

    /// Returns the reply that the person lets through. Otherwise returns who withheld it and the outcome to deliver
    /// instead.
    pub(super) async fn reviewed(
        self,
        guard: &PolicyEnforcer,
        server: &str,
        edited: Option<&RawJson>,
        reply: Reply,
    ) -> Result<Reply, (String, DecisionBasis, Outcome)> {
        let method = self.call.method.clone();
        let refused_by = |by: &str, basis, why: String| (by.to_owned(), basis, self.refusal(server, &why));
        let refused = |by: &str, why: String| refused_by(by, DecisionBasis::Host, why);
        if matches!(reply, Reply::CreateTask(_)) {
            let why = "it became a task, and results of tasks cannot be reviewed";
            return Err(refused("the result has to be reviewed", why.to_owned()));
        }
        let unreadable = |error: RpcError| refused("the result cannot be shown", error.message.to_string());
        let shown = decoded(&method, reply.clone()).and_then(|reply| written(&reply)).map_err(unreadable)?;
        if shown.as_str().len() > MAX_SHOWN {
            let why = "it exceeds the size limit for review (1048576 bytes)".to_owned();
            return Err(refused("the result has to be reviewed", why));
        }
        let arguments = edited.or_else(|| self.call.params.view().arguments.as_ref()).cloned();
        let peer = self.call.context.peer();
        let card = ResultCard {
            what: self.what,
            name: self.name.clone(),
            arguments: arguments.unwrap_or_else(RawJson::empty_object),
            result: shown.clone(),
            because: self.because.clone(),
        };
        let reads = method.clone();
        let asking = NewApproval {
            principal: self.call.context.principal().map(str::to_owned),
            groups: Vec::new(),
            approvers: None,
            application: peer.info.as_ref().map(|info| info.name.clone()),
            server: server.to_owned(),
            profile: self.profile.clone(),
            endpoint_profile: self.endpoint_profile.clone(),
            offers: DecisionOptions { edit: true, block: true, ..DecisionOptions::default() },
            card: ApprovalCard::Result(Box::new(card)),
            timeout: guard.approval_timeout.max(Duration::from_secs(1)),
            // A decision holds for exactly the result that is shown.
            bond: Sha256::digest(shown.as_bytes()).into(),
            asker: asker_digest(self.call.context.principal()),
            caller: peer.caller.clone(),
            is_weak: false,
            definition: None,
            target: String::new(),
            session: None,
            returns: false,
            check: Some(Box::new(move |edited| read(&reads, edited).map(drop))),
        };
        let waiting =
            guard.queue.submit(asking).map_err(|error| refused("nobody", error.message().into_owned()))?;
        match wait_for_decision(&self.call, &waiting).await {
            // What was shown is what goes, and nothing that it had beside.
            Ok(ApprovalOutcome::Allowed { edited: None, by, basis, .. }) => {
                read(&method, &shown).map_err(|why| refused_by(&by, basis, why))
            }
            Ok(ApprovalOutcome::Allowed { edited: Some(edited), by, basis, .. }) => {
                read(&method, &edited).map_err(|why| refused_by(&by, basis, why))
            }
            Ok(ApprovalOutcome::Denied { reason, by, basis }) => {
                let why = reason.map_or_else(
                    || "the user withheld it".to_owned(),
                    |reason| format!("the user withheld it: {reason}"),
                );
                Err(refused_by(&by, basis, why))
            }
            Err(error) => {
                let by = "no decision was made in time";
                Err(refused_by(by, error.basis(), error.message().into_owned()))
            }
        }
    }

    /// Returns the outcome that replaces the result. It states that the call was made, or a model would repeat it.
    fn refusal(&self, server: &str, why: &str) -> Outcome {
        let name = &self.name;
        let text = format!("`{name}` of the server `{server}` was called; its result is not shown: {why}");
        match self.what {
            ApprovalCallKind::Tool => Outcome::Complete(CallToolResult::error(text).into()),
            ApprovalCallKind::Prompt | ApprovalCallKind::Resource => RpcError::invalid_request(text).into(),
        }
    }
}

/// Encodes a result as JSON in the form of the newest revision.
fn written(reply: &Reply) -> Result<RawJson, RpcError> {
    let json = match reply {
        Reply::CallTool(result) => RawJson::from_serialize(result),
        Reply::GetPrompt(result) => RawJson::from_serialize(result),
        Reply::ReadResource(result) => RawJson::from_serialize(result),
        _ => return Err(RpcError::internal("unexpected result type")),
    };
    json.map_err(|error| RpcError::internal(error.to_string()))
}

/// Parses the result as the person edited it.
fn read(method: &Method, edited: &RawJson) -> Result<Reply, String> {
    let words = |error: serde_json::Error| error.to_string();
    match method {
        Method::ToolsCall => edited.decode::<CallToolResult>().map(Into::into).map_err(words),
        Method::PromptsGet => {
            edited.decode::<GetPromptResult>().map(|result| Reply::GetPrompt(Box::new(result))).map_err(words)
        }
        Method::ResourcesRead => edited
            .decode::<ReadResourceResult>()
            .map(|result| Reply::ReadResource(Box::new(result)))
            .map_err(words),
        _ => Err("results of this type cannot be reviewed".to_owned()),
    }
}
