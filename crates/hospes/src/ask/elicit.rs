//! Elicitation: questions to the user.

use std::borrow::Cow;
use std::fmt;
use std::future::{IntoFuture, Ready, ready};
use std::marker::PhantomData;

use hospes_model::{
    ElicitAction, ElicitParams, ElicitResult, ElicitSchema, ElicitUrlParams, InputRequest, RawJson,
};
use iri_string::types::IriStr;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::AskError;
use super::form::{AnswerForm, DEFAULT_FIELD, FormContentError, FormError, check_content};
use super::question::{self, PendingQuestions, Question};
use super::request_checks;
use crate::context::Context;

/// A form for the user, created by [`Context::elicit`] and sent by `.await`.
#[must_use = "a question is not asked unless awaited"]
pub struct Elicit<'c, T> {
    context: &'c Context,
    message: String,
    key: Option<String>,
    field: Cow<'static, str>,
    form: Option<Result<AnswerForm, FormError>>,
    answer: PhantomData<fn() -> T>,
}

impl<'c, T> Elicit<'c, T> {
    pub(super) fn new(context: &'c Context, message: String) -> Self {
        let field = Cow::Borrowed(DEFAULT_FIELD);
        Self { context, message, key: None, field, form: None, answer: PhantomData }
    }

    /// Sets the key of the question. The default is its position among the questions of the handler, so set a key if an
    /// earlier question may be skipped in another run.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Names the one field of a form for a value that is no struct.
    pub fn field(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.field = name.into();
        self
    }

    /// Uses this form instead of the one derived from `T`.
    pub fn form(mut self, form: ElicitSchema) -> Self {
        self.form = Some(Ok(AnswerForm::from_schema(form)));
        self
    }

    /// Uses this JSON Schema, an object with flat properties, instead of the one derived from `T`.
    pub fn schema(mut self, schema: impl Into<RawJson>) -> Self {
        self.form = Some(AnswerForm::parse(&schema.into()));
        self
    }
}

impl<'c, T: JsonSchema> Elicit<'c, T> {
    /// Returns the user's action and the undecoded content. A refusal is then a result like any other.
    pub fn raw(self) -> RawElicit<'c> {
        let form = self.form.unwrap_or_else(|| AnswerForm::of::<T>(&self.field));
        RawElicit {
            context: self.context,
            message: self.message,
            key: self.key,
            what: ElicitMode::Form(form),
        }
    }
}

impl<T: DeserializeOwned + JsonSchema> Question for Elicit<'_, T> {
    type Answer = T;

    fn resolve(self, context: &Context, missing: &mut PendingQuestions) -> Result<Option<T>, AskError> {
        let form = self.form.unwrap_or_else(|| AnswerForm::of::<T>(&self.field))?;
        resolve_form(context, missing, self.message, self.key, form, |form, message, result| {
            match check_accepted(message, &result) {
                Ok(()) => form.read(decode_content(&result)?).map(Ok),
                Err(refusal) => Ok(Err(refusal)),
            }
        })
    }
}

/// A question that returns the user's action, created by [`Elicit::raw`] and [`ElicitUrl::raw`].
#[derive(Debug)]
#[must_use = "a question is not asked unless awaited"]
pub struct RawElicit<'c> {
    context: &'c Context,
    message: String,
    key: Option<String>,
    what: ElicitMode,
}

#[derive(Debug)]
enum ElicitMode {
    Form(Result<AnswerForm, FormError>),
    Url(ElicitUrlParams),
}

impl RawElicit<'_> {
    /// Names the question; see [`Elicit::key`].
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl Question for RawElicit<'_> {
    type Answer = ElicitResult;

    fn resolve(
        self,
        context: &Context,
        missing: &mut PendingQuestions,
    ) -> Result<Option<ElicitResult>, AskError> {
        match self.what {
            ElicitMode::Form(form) => {
                resolve_form(context, missing, self.message, self.key, form?, |form, _, result| {
                    if result.action == ElicitAction::Accept {
                        check_content(&form.schema, &decode_content(&result)?)?;
                    }
                    Ok(Ok(result))
                })
            }
            ElicitMode::Url(params) => resolve_url(context, missing, self.key, params),
        }
    }
}

/// A URL for the user to open, created by [`Context::elicit_url`] and sent by `.await`.
#[derive(Debug)]
#[must_use = "a question is not asked unless awaited"]
pub struct ElicitUrl<'c> {
    context: &'c Context,
    key: Option<String>,
    params: ElicitUrlParams,
}

impl<'c> ElicitUrl<'c> {
    pub(super) fn new(context: &'c Context, message: String, url: String) -> Self {
        Self { context, key: None, params: ElicitUrlParams::new(message, url) }
    }

    /// Names the question; see [`Elicit::key`].
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the id with which completion is reported to peers of 2025-11-25. A random one by default.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.params.elicitation_id = Some(id.into());
        self
    }

    /// Returns the user's action. A refusal is then a result like any other.
    pub fn raw(self) -> RawElicit<'c> {
        let message = self.params.message.clone();
        RawElicit { context: self.context, message, key: self.key, what: ElicitMode::Url(self.params) }
    }
}

impl Question for ElicitUrl<'_> {
    type Answer = ();

    fn resolve(self, context: &Context, missing: &mut PendingQuestions) -> Result<Option<()>, AskError> {
        let message = self.params.message.clone();
        let result = resolve_url(context, missing, self.key, self.params)?;
        result.map(|result| check_accepted(&message, &result)).transpose()
    }
}

fn resolve_form<A>(
    context: &Context,
    missing: &mut PendingQuestions,
    mut message: String,
    key: Option<String>,
    form: AnswerForm,
    read: impl FnOnce(&AnswerForm, &str, ElicitResult) -> Result<Result<A, AskError>, FormContentError>,
) -> Result<Option<A>, AskError> {
    request_checks::check_form(&message, &form.schema)?;
    let key = key.unwrap_or_else(|| context.next_key());
    if let Some(result) = question::decode_answer::<ElicitResult>(context, &key) {
        match read(&form, &message, result) {
            Ok(answer) => return answer.map(Some),
            Err(misfit) => {
                context.forget_answer(&key);
                // A person who is asked the same again wants to know why.
                message = format!("{message}\n(The previous answer was invalid: {misfit}.)");
            }
        }
    }
    let params = ElicitParams::form(message, form.schema);
    missing.add(context, key, InputRequest::Elicit(Box::new(params)))?;
    Ok(None)
}

fn resolve_url(
    context: &Context,
    missing: &mut PendingQuestions,
    key: Option<String>,
    mut params: ElicitUrlParams,
) -> Result<Option<ElicitResult>, AskError> {
    let key = key.unwrap_or_else(|| context.next_key());
    if let Some(result) = question::decode_answer(context, &key) {
        return Ok(Some(result));
    }
    match IriStr::new(&params.url) {
        Ok(url) => request_checks::check_url(url)?,
        Err(source) => return Err(AskError::Url { url: params.url, source }),
    }
    if params.elicitation_id.is_none() {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|why| AskError::Random(why.to_string()))?;
        params.elicitation_id = Some(format!("{:032x}", u128::from_ne_bytes(random)));
    }
    missing.add(context, key, InputRequest::Elicit(Box::new(ElicitParams::Url(params))))?;
    Ok(None)
}

fn check_accepted(question: &str, result: &ElicitResult) -> Result<(), AskError> {
    match result.action {
        ElicitAction::Accept => Ok(()),
        ElicitAction::Decline => Err(AskError::Declined { question: question.to_owned() }),
        // Actions that are not known here are no consent either.
        _ => Err(AskError::Cancelled { question: question.to_owned() }),
    }
}

fn decode_content(result: &ElicitResult) -> Result<Map<String, Value>, FormContentError> {
    match &result.content {
        None => Ok(Map::new()),
        Some(content) => content.decode().map_err(|why| FormContentError::new(why.to_string())),
    }
}

impl<T> fmt::Debug for Elicit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elicit")
            .field("message", &self.message)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned + JsonSchema> IntoFuture for Elicit<'_, T> {
    type Output = Result<T, AskError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(question::resolve_all(self.context, self))
    }
}

impl IntoFuture for RawElicit<'_> {
    type Output = Result<ElicitResult, AskError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(question::resolve_all(self.context, self))
    }
}

impl IntoFuture for ElicitUrl<'_> {
    type Output = Result<(), AskError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(question::resolve_all(self.context, self))
    }
}
