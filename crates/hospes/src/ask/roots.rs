//! The request for the client's roots.

use std::future::{IntoFuture, Ready, ready};

use hospes_model::{InputRequest, ListRootsParams, ListRootsResult, Root};

use super::error::AskError;
use super::question::{self, PendingQuestions, Question};
use crate::context::Context;

/// A request for the client's roots, created by [`Context::roots`] and sent by `.await`.
#[derive(Debug)]
#[must_use = "a question is not asked unless awaited"]
pub struct RootsQuery<'c> {
    context: &'c Context,
    key: Option<String>,
}

impl<'c> RootsQuery<'c> {
    pub(super) fn new(context: &'c Context) -> Self {
        Self { context, key: None }
    }

    /// Names the question; see [`Elicit::key`](super::Elicit::key).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl Question for RootsQuery<'_> {
    type Answer = Vec<Root>;

    fn resolve(
        self,
        context: &Context,
        missing: &mut PendingQuestions,
    ) -> Result<Option<Vec<Root>>, AskError> {
        let key = self.key.unwrap_or_else(|| context.next_key());
        if let Some(ListRootsResult { roots, .. }) = question::decode_answer(context, &key) {
            return Ok(Some(roots));
        }
        missing.add(context, key, InputRequest::ListRoots(ListRootsParams::new()))?;
        Ok(None)
    }
}

impl IntoFuture for RootsQuery<'_> {
    type Output = Result<Vec<Root>, AskError>;
    type IntoFuture = Ready<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        ready(question::resolve_all(self.context, self))
    }
}
