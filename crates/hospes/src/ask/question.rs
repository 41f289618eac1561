//! Questions, single or several in one round.

use hospes_model::{InputRequest, RawJson};
use serde::de::DeserializeOwned;

use super::error::AskError;
use crate::context::Context;
use crate::deprecated::{DeprecatedFeature, warn_once};

/// A question that can be asked during a call: the values of [`Context::elicit`], [`Context::sample`] and
/// [`Context::roots`], and tuples and lists of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a question",
    label = "not a question",
    note = "a question is returned by `ctx.elicit(…)`, `ctx.elicit_url(…)`, `ctx.sample(…)` or `ctx.roots()`, \
            before `.await`; tuples of up to eight questions and `Vec`s of them are questions too"
)]
pub trait Question {
    /// Type that the answer is decoded into.
    type Answer;

    /// Returns the answer. If there is none yet, adds the question to `missing` and returns `None`.
    ///
    /// # Errors
    /// If the answer is a refusal, or the question cannot be asked.
    fn resolve(
        self,
        context: &Context,
        missing: &mut PendingQuestions,
    ) -> Result<Option<Self::Answer>, AskError>;
}

/// The questions of a round that have no answer yet.
#[derive(Debug, Default)]
pub struct PendingQuestions(Vec<(String, InputRequest)>);

impl PendingQuestions {
    /// Adds a question that the peer can be asked.
    ///
    /// # Errors
    /// [`AskError::Unsupported`] if the peer did not declare the required capability (MRTR-05).
    pub fn add(&mut self, context: &Context, key: String, request: InputRequest) -> Result<(), AskError> {
        request
            .check_required_capability(context.answerable_capabilities())
            .map_err(AskError::Unsupported)?;
        if !context.peer().revision.is_legacy() {
            match request {
                InputRequest::CreateMessage(_) => warn_once(DeprecatedFeature::Sampling),
                InputRequest::ListRoots(_) => warn_once(DeprecatedFeature::Roots),
                _ => {}
            }
        }
        self.0.push((key, request));
        Ok(())
    }
}

/// Puts questions in one round.
pub(super) fn resolve_all<Q: Question>(context: &Context, question: Q) -> Result<Q::Answer, AskError> {
    let mut missing = PendingQuestions::default();
    // A refusal among the answers decides, before anything else is asked.
    let answer = question.resolve(context, &mut missing)?;
    if let Some(answer) = answer {
        return Ok(answer);
    }
    for (key, request) in missing.0 {
        context.add_question(key, request);
    }
    Err(AskError::Pending)
}

/// Decodes the answer to `key`. An invalid answer is discarded, so that the question is asked again (MRTR-15).
pub(super) fn decode_answer<A: DeserializeOwned>(context: &Context, key: &str) -> Option<A> {
    let raw: RawJson = context.answer(key)?;
    match raw.decode() {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::debug!(key, %error, "invalid answer; asking again");
            context.forget_answer(key);
            None
        }
    }
}

impl<Q: Question> Question for Vec<Q> {
    type Answer = Vec<Q::Answer>;

    fn resolve(
        self,
        context: &Context,
        missing: &mut PendingQuestions,
    ) -> Result<Option<Self::Answer>, AskError> {
        // All of them are looked at, so that all that is missing is asked in one round.
        let answers: Result<Vec<_>, _> = self.into_iter().map(|q| q.resolve(context, missing)).collect();
        Ok(answers?.into_iter().collect())
    }
}

impl<Q: Question> Question for Option<Q> {
    type Answer = Option<Q::Answer>;

    fn resolve(
        self,
        context: &Context,
        missing: &mut PendingQuestions,
    ) -> Result<Option<Self::Answer>, AskError> {
        match self {
            None => Ok(Some(None)),
            Some(question) => Ok(question.resolve(context, missing)?.map(Some)),
        }
    }
}

macro_rules! tuples {
    ($(($($name:ident $answer:ident),+))+) => {$(
        impl<$($name: Question),+> Question for ($($name,)+) {
            type Answer = ($($name::Answer,)+);

            #[expect(non_snake_case, reason = "the type parameters' names serve for the values")]
            fn resolve(self, context: &Context, missing: &mut PendingQuestions) -> Result<Option<Self::Answer>, AskError> {
                let ($($name,)+) = self;
                $(let $answer = $name.resolve(context, missing)?;)+
                Ok(match ($($answer,)+) {
                    ($(Some($answer),)+) => Some(($($answer,)+)),
                    _ => None,
                })
            }
        }
    )+};
}

tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
    (A a, B b, C c, D d, E e, F f, G g)
    (A a, B b, C c, D d, E e, F f, G g, H h)
}
