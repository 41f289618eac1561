//! Handlers of the server's input requests, both separate requests and `input_required` results.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, join_all};
use hospes_model::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult,
    ElicitSchema, ElicitUrlParams, InputRequest, InputRequests, InputResponse, ListRootsResult, Method,
    PrimitiveSchemaDefinition, RawJson, RpcError, ToolChoiceMode, code,
};
use serde_json::{Map, Value, json};

use crate::ask::{check_content, check_conversation};
use crate::client::error::CallError;
use crate::client::inbound::roots::ClientRoots;
use crate::client::inbound::url_review::UrlReview;
use crate::error::Error;
use crate::message_content::check_message_content;
use crate::rate::{Rate, RateBucket};

/// Default rate of sampling requests and of elicitations that a server may send.
pub const DEFAULT_QUESTION_RATE: Rate = Rate::per_minute(120);

pub(crate) type SamplingCallback =
    Arc<dyn Fn(CreateMessageParams) -> BoxFuture<'static, Result<CreateMessageResult, Error>> + Send + Sync>;
pub(crate) type ElicitationCallback =
    Arc<dyn Fn(ElicitParams) -> BoxFuture<'static, Result<ElicitResult, Error>> + Send + Sync>;

pub(crate) type ExtensionHandler =
    Arc<dyn Fn(String, RawJson) -> BoxFuture<'static, Result<RawJson, Error>> + Send + Sync>;

pub(crate) type ElicitationCompleteCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Maximum number of URL elicitations remembered until the server reports their completion. Beyond it the oldest is
/// removed.
const MAX_OPEN_URLS: usize = 256;

/// Handlers that answer the server's requests.
#[derive(Default)]
pub(crate) struct ServerRequestHandlers {
    pub(crate) sampler: Option<SamplingCallback>,
    pub(crate) elicitor: Option<ElicitationCallback>,
    /// Answers the requests of extensions.
    pub(crate) extension: Option<ExtensionHandler>,
    pub(crate) roots: ClientRoots,
    /// Capabilities declared to the server; requests beyond them are refused.
    pub(crate) declared: ClientCapabilities,
    /// Limits on the rate of sampling requests and of elicitations.
    pub(crate) rate_limiter: QuestionRateLimiter,
    pub(crate) on_elicitation_complete: Option<ElicitationCompleteCallback>,
    /// Ids of URL elicitations whose completion may still be reported (2025-11-25).
    open_urls: Mutex<VecDeque<String>>,
}

/// Limits on the rate of sampling requests and of elicitations.
#[derive(Debug)]
pub(crate) struct QuestionRateLimiter {
    rate: Rate,
    models: RateBucket,
    people: RateBucket,
}

impl Default for QuestionRateLimiter {
    fn default() -> Self {
        Self::new(DEFAULT_QUESTION_RATE)
    }
}

impl QuestionRateLimiter {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, models: RateBucket::new(), people: RateBucket::new() }
    }

    fn admit(&self, bucket: &RateBucket) -> Result<(), RpcError> {
        bucket.take(self.rate).map_err(|wait| {
            tracing::warn!(rate = %self.rate, "the server exceeded the request rate limit (setting question_rate)");
            let (rate, wait) = (self.rate, wait.as_secs_f64());
            RpcError::internal(format!(
                "more than {rate} requests; try again in {wait:.1} seconds (setting question_rate)"
            ))
        })
    }
}

impl ServerRequestHandlers {
    /// Returns the client's roots, or an error if it has none.
    async fn list_roots(&self) -> Result<ListRootsResult, RpcError> {
        let mut roots = self.roots.list_accessible().await;
        if let (Some(roots), Some(tell_if)) = (&mut roots, &self.roots.tell_if)
            && !tell_if(roots)
        {
            roots.clear();
        }
        roots.map(ListRootsResult::new).ok_or_else(|| RpcError::method_not_found("roots/list"))
    }

    /// Returns true if this client has a handler for such a question.
    pub(crate) fn can_answer(&self, question: &InputRequest) -> bool {
        match question {
            InputRequest::CreateMessage(_) => self.sampler.is_some(),
            InputRequest::Elicit(_) => self.elicitor.is_some(),
            InputRequest::ListRoots(_) => self.roots.is_declared(),
            InputRequest::Other { .. } => self.extension.is_some(),
            _ => false,
        }
    }

    /// Returns true if such a question is declared as supported but has no handler here. A gateway forwards it to
    /// another client.
    pub(crate) fn is_forwardable(&self, question: &InputRequest) -> bool {
        question.check_required_capability(&self.declared).is_ok() && !self.can_answer(question)
    }

    /// Returns true if such questions are possible with the declared capabilities.
    pub(crate) fn may_forward_requests(&self) -> bool {
        (self.declared.sampling.is_some() && self.sampler.is_none())
            || (self.declared.elicitation.is_some() && self.elicitor.is_none())
            || (self.declared.roots.is_some() && !self.roots.is_declared())
            || (self.declared.has_own_extensions() && self.extension.is_none())
    }

    /// Answers one input request.
    pub(crate) async fn answer(&self, question: InputRequest) -> Result<InputResponse, RpcError> {
        match question {
            InputRequest::CreateMessage(params) => {
                let sampler = self.sampler.as_ref();
                let sampler = sampler.ok_or_else(|| RpcError::method_not_found("sampling/createMessage"))?;
                if !self.declared.samples_with_tools()
                    && (!params.tools.is_empty() || params.tool_choice.is_some())
                {
                    return Err(RpcError::invalid_params("this client did not declare sampling.tools"));
                }
                check_conversation(&params.messages)
                    .map_err(|error| RpcError::invalid_params(error.to_string()))?;
                // After the checks, so that requests that are refused anyway do not use up the rate.
                self.rate_limiter.admit(&self.rate_limiter.models)?;
                let choice = ToolChoiceConstraint::from_params(&params);
                let result = sampler(*params).await.map_err(|error| to_rpc_error(&error))?;
                choice
                    .check(&result)
                    .and_then(|()| check_message_content(&result.content))
                    .map_err(RpcError::internal)?;
                Ok(result.into())
            }
            InputRequest::Elicit(params) => {
                let elicitor = self.elicitor.as_ref();
                let elicitor = elicitor.ok_or_else(|| RpcError::method_not_found("elicitation/create"))?;
                match *params {
                    ElicitParams::Form(_) if !self.declared.elicits_forms() => {
                        Err(RpcError::invalid_params("this client did not declare elicitation.form"))
                    }
                    ElicitParams::Url(_) if !self.declared.elicits_urls() => {
                        Err(RpcError::invalid_params("this client did not declare elicitation.url"))
                    }
                    ElicitParams::Form(form) => {
                        self.rate_limiter.admit(&self.rate_limiter.people)?;
                        // The handler gets a copy, because the answer is checked against the form afterwards.
                        let asked = elicitor(ElicitParams::Form(form.clone())).await;
                        let result = asked.map_err(|error| to_rpc_error(&error))?;
                        complete_form(result, &form.requested_schema).map(Into::into)
                    }
                    ElicitParams::Url(url) => {
                        UrlReview::of(&url.url)
                            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
                        self.rate_limiter.admit(&self.rate_limiter.people)?;
                        self.elicit_url(elicitor, url).await.map(Into::into)
                    }
                    _ => Err(RpcError::invalid_params("unknown elicitation mode")),
                }
            }
            InputRequest::ListRoots(_) => self.list_roots().await.map(Into::into),
            InputRequest::Other { method, params } => {
                let handler = self.extension.as_ref().ok_or_else(|| RpcError::method_not_found(&method))?;
                let name = Method::from_name(&method);
                let result = handler(method, params).await.map_err(|error| to_rpc_error(&error))?;
                // What a handler returns is held to the same as what a peer sends.
                InputResponse::decode(&name, &result).map_err(|error| RpcError::internal(error.message))
            }
            other => Err(RpcError::method_not_found(other.method())),
        }
    }

    /// Sends the person to a URL. Nothing is fetched from there.
    async fn elicit_url(
        &self,
        elicitor: &ElicitationCallback,
        url: ElicitUrlParams,
    ) -> Result<ElicitResult, RpcError> {
        let id = url.elicitation_id.clone();
        if let Some(id) = &id {
            let mut open = self.open_urls();
            if open.len() >= MAX_OPEN_URLS {
                open.pop_front();
            }
            // The person may be done before we know that they agreed.
            open.push_back(id.clone());
        }
        let asked = elicitor(ElicitParams::Url(url)).await;
        if let Some(id) = id
            && !matches!(&asked, Ok(result) if result.action == ElicitAction::Accept)
        {
            self.forget_url(&id);
        }
        let mut result = asked.map_err(|error| to_rpc_error(&error))?;
        // Only forms have content: nothing typed at the URL may reach the server by way of the client.
        result.content = None;
        Ok(result)
    }

    /// Handles the server's report that a URL elicitation is complete. The callback runs once, and only for
    /// elicitations that are known and still open (ELIC-22).
    pub(crate) fn complete_elicitation(&self, id: &str) {
        if self.forget_url(id)
            && let Some(listener) = &self.on_elicitation_complete
        {
            listener(id);
        }
    }

    fn forget_url(&self, id: &str) -> bool {
        let mut open = self.open_urls();
        let position = open.iter().position(|known| known == id);
        position.and_then(|position| open.remove(position)).is_some()
    }

    fn open_urls(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.open_urls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the person to each of these URLs. Returns true if all of them were accepted.
    pub(crate) async fn elicit_urls(&self, urls: Vec<ElicitUrlParams>) -> Result<bool, RpcError> {
        for url in urls {
            let answer = self.answer(ElicitParams::Url(url).into()).await?;
            if !matches!(answer, InputResponse::Elicit(result) if result.action == ElicitAction::Accept) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Answers all input requests of a round.
    pub(crate) async fn answer_all(
        &self,
        questions: InputRequests,
    ) -> Result<BTreeMap<String, InputResponse>, CallError> {
        let answers = questions.into_iter().map(|(key, question)| async move {
            let method: Box<str> = question.method().into();
            match self.answer(question).await {
                Ok(answer) => Ok((key, answer)),
                Err(error) if error.code == code::METHOD_NOT_FOUND => Err(CallError::NobodyAnswers(method)),
                Err(error) => Err(CallError::Refused { method, error }),
            }
        });
        // All at once: the retry needs every answer (MRTR-06), and a person may take long for each.
        join_all(answers).await.into_iter().collect()
    }
}

/// Converts a handler's error to the error for the server.
fn to_rpc_error(error: &Error) -> RpcError {
    error.protocol().cloned().unwrap_or_else(|| RpcError::internal(error.to_string()))
}

/// Completes an accepted form: missing fields take their defaults (ELIC-16), and invalid content is not sent (ELIC-14).
/// Only accepted forms have content.
fn complete_form(mut result: ElicitResult, form: &ElicitSchema) -> Result<ElicitResult, RpcError> {
    if result.action != ElicitAction::Accept {
        result.content = None;
        return Ok(result);
    }
    let misfit =
        |why: &dyn fmt::Display| RpcError::internal(format!("the answer does not fit the form: {why}"));
    let mut content = match result.content.as_ref().map(RawJson::to_value) {
        None => Map::new(),
        Some(Ok(Value::Object(content))) => content,
        Some(_) => return Err(misfit(&"it is not an object")),
    };
    for (name, field) in &form.properties.0 {
        if !content.contains_key(name)
            && let Some(default) = field_default(field)
        {
            content.insert(name.clone(), default);
        }
    }
    check_content(form, &content).map_err(|why| misfit(&why))?;
    result.content = Some(RawJson::from(Value::Object(content)));
    Ok(result)
}

/// Constraints on the model's tool calls from the server's request (SAMP-35).
struct ToolChoiceConstraint {
    mode: ToolChoiceMode,
    tools: Vec<String>,
}

impl ToolChoiceConstraint {
    fn from_params(params: &CreateMessageParams) -> Self {
        let mode = params.tool_choice.as_ref().and_then(|choice| choice.mode.clone());
        let tools = params.tools.iter().map(|tool| tool.name.clone()).collect();
        Self { mode: mode.unwrap_or(ToolChoiceMode::Auto), tools }
    }

    fn check(&self, result: &CreateMessageResult) -> Result<(), &'static str> {
        let mut uses = result.tool_uses().peekable();
        match self.mode {
            ToolChoiceMode::None if uses.peek().is_some() => {
                Err("the model called a tool, but toolChoice is none")
            }
            ToolChoiceMode::Required if uses.peek().is_none() => {
                Err("the model called no tool, but toolChoice is required")
            }
            _ if uses.all(|called| self.tools.contains(&called.name)) => Ok(()),
            _ => Err("the model called a tool that is not in the request"),
        }
    }
}

fn field_default(field: &PrimitiveSchemaDefinition) -> Option<Value> {
    match field {
        PrimitiveSchemaDefinition::String(field) => field.default.as_ref().map(|text| json!(text)),
        PrimitiveSchemaDefinition::Number(field) => field.default.as_ref().map(|number| json!(number)),
        PrimitiveSchemaDefinition::Boolean(field) => field.default.map(|flag| json!(flag)),
        PrimitiveSchemaDefinition::SingleSelect(field) => field.default.as_ref().map(|text| json!(text)),
        PrimitiveSchemaDefinition::MultiSelect(field) => field.default.as_ref().map(|texts| json!(texts)),
        _ => None,
    }
}

impl fmt::Debug for ServerRequestHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRequestHandlers")
            .field("sampler", &self.sampler.is_some())
            .field("elicitor", &self.elicitor.is_some())
            .field("extension", &self.extension.is_some())
            .finish_non_exhaustive()
    }
}
