//! Who answers what a server asks: the same handlers whether it asks by a request of its own or by `input_required`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, join_all};
use hospes_model::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams,
    ElicitParams, ElicitResult, ElicitUrlParams, InputRequest, InputRequests, InputResponse, ListRootsResult,
    PrimitiveSchemaDefinition, RawJson, Root, RpcError, code,
};
use serde_json::{Map, Value, json};

use super::error::CallError;
use crate::error::Error;

pub(crate) type Sampler =
    Arc<dyn Fn(CreateMessageParams) -> BoxFuture<'static, Result<CreateMessageResult, Error>> + Send + Sync>;
pub(crate) type Elicitor =
    Arc<dyn Fn(ElicitParams) -> BoxFuture<'static, Result<ElicitResult, Error>> + Send + Sync>;

/// Answers for the server.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) sampler: Option<Sampler>,
    pub(crate) elicitor: Option<Elicitor>,
    /// None where the client has no roots to speak of.
    pub(crate) roots: Mutex<Option<Vec<Root>>>,
    /// What the server was told; what goes beyond it is refused.
    pub(crate) declared: ClientCapabilities,
}

impl Handlers {
    /// The client's roots; an error where it has none to speak of.
    fn roots(&self) -> Result<ListRootsResult, RpcError> {
        let roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        roots.map(ListRootsResult::new).ok_or_else(|| RpcError::method_not_found("roots/list"))
    }

    pub(crate) fn set_roots(&self, roots: Vec<Root>) {
        *self.roots.lock().unwrap_or_else(PoisonError::into_inner) = Some(roots);
    }

    /// The answer to one question.
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
                sampler(*params).await.map(Into::into).map_err(|error| refusal(&error))
            }
            InputRequest::Elicit(params) => {
                let elicitor = self.elicitor.as_ref();
                let elicitor = elicitor.ok_or_else(|| RpcError::method_not_found("elicitation/create"))?;
                let schema = match &*params {
                    ElicitParams::Form(_) if !self.declared.elicits_forms() => {
                        return Err(RpcError::invalid_params("this client did not declare elicitation.form"));
                    }
                    ElicitParams::Url(_) if !self.declared.elicits_urls() => {
                        return Err(RpcError::invalid_params("this client did not declare elicitation.url"));
                    }
                    ElicitParams::Form(form) => Some(form.clone()),
                    _ => None,
                };
                let result = elicitor(*params).await.map_err(|error| refusal(&error))?;
                Ok(match schema {
                    Some(form) => with_defaults(result, &form).into(),
                    None => result.into(),
                })
            }
            InputRequest::ListRoots(_) => self.roots().map(Into::into),
            other => Err(RpcError::method_not_found(other.method())),
        }
    }

    /// Whether the person went to every one of these URLs.
    pub(crate) async fn visit_all(&self, urls: Vec<ElicitUrlParams>) -> Result<bool, RpcError> {
        for url in urls {
            let answer = self.answer(ElicitParams::Url(url).into()).await?;
            if !matches!(answer, InputResponse::Elicit(result) if result.action == ElicitAction::Accept) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The answers to all questions of a round.
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
        join_all(answers).await.into_iter().collect()
    }
}

/// What a handler's error means to the server.
fn refusal(error: &Error) -> RpcError {
    error.protocol().cloned().unwrap_or_else(|| RpcError::internal(error.to_string()))
}

/// An accepted form is complete: fields left out take their defaults (ELIC-16).
fn with_defaults(mut result: ElicitResult, form: &ElicitFormParams) -> ElicitResult {
    if result.action != ElicitAction::Accept {
        return result;
    }
    let given = result.content.as_ref().and_then(|content| content.to_value().ok());
    let Some(Value::Object(mut content)) = given.or_else(|| Some(Value::Object(Map::new()))) else {
        return result;
    };
    for (name, field) in &form.requested_schema.properties.0 {
        if !content.contains_key(name)
            && let Some(default) = default_of(field)
        {
            content.insert(name.clone(), default);
        }
    }
    result.content = Some(RawJson::from(Value::Object(content)));
    result
}

fn default_of(field: &PrimitiveSchemaDefinition) -> Option<Value> {
    match field {
        PrimitiveSchemaDefinition::String(field) => field.default.as_ref().map(|text| json!(text)),
        PrimitiveSchemaDefinition::Number(field) => field.default.as_ref().map(|number| json!(number)),
        PrimitiveSchemaDefinition::Boolean(field) => field.default.map(|flag| json!(flag)),
        PrimitiveSchemaDefinition::SingleSelect(field) => field.default.as_ref().map(|text| json!(text)),
        PrimitiveSchemaDefinition::MultiSelect(field) => field.default.as_ref().map(|texts| json!(texts)),
        _ => None,
    }
}

/// A folder as a root; a text that is a `file:` URI already stays what it is.
pub(crate) fn root(path: &Path) -> Root {
    if let Some(uri) = path.to_str().filter(|text| text.starts_with("file://")) {
        return Root::new(uri);
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let uri = url::Url::from_file_path(&absolute).map(String::from);
    let root = Root::new(uri.unwrap_or_else(|()| format!("file://{}", absolute.display())));
    match absolute.file_name().and_then(|name| name.to_str()) {
        Some(name) => root.with_name(name),
        None => root,
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("sampler", &self.sampler.is_some())
            .field("elicitor", &self.elicitor.is_some())
            .finish_non_exhaustive()
    }
}
