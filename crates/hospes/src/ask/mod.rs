//! Questions to the user, the model or the client during a call.
//!
//! A question without an answer ends the handler through `?`. The handler runs again from the start once the answers
//! have arrived, in every revision. So **code before a question runs again: ask first, act afterwards.** Steps that
//! must not run twice belong in [`Context::once`].
//!
//! A question is always sent, even if the handler continues without the answer. So `ctx.elicit("Which
//! seat?").await.unwrap_or(Seat::Aisle)` asks everyone who can be asked. Those who decline and those who cannot be
//! asked get the aisle.
//!
//! ```
//! use hospes::prelude::*;
//!
//! #[derive(Debug, Deserialize, JsonSchema)]
//! enum Seat {
//!     Window,
//!     Aisle,
//! }
//!
//! # async fn reserve(_: &str, _: &Seat) -> Result<String> { Ok("ICE 599-17".to_owned()) }
//! async fn book(ctx: &Context, train: &str) -> Result<String> {
//!     let seat: Seat = ctx.elicit("Which seat?").await?;
//!     let note = ctx.sample(format!("Confirm {train} in one line")).max_tokens(60).await?;
//!     let number: String = ctx.once("booking", || reserve(train, &seat)).await?;
//!     Ok(format!("{number}: {}", note.text()))
//! }
//! ```

mod elicit;
mod error;
mod form;
mod form_schema;
mod once;
mod question;
mod request_checks;
mod roots;
mod sample;
#[cfg(test)]
mod tests;

use std::future::{Ready, ready};

pub use elicit::{Elicit, ElicitUrl, RawElicit};
pub use error::AskError;
pub use form::{DEFAULT_FIELD, FormContentError, FormError, check_content, form_for};
pub use question::{PendingQuestions, Question};
pub use roots::RootsQuery;
#[cfg(feature = "client")]
pub(crate) use sample::check_conversation;
pub use sample::{DEFAULT_MAX_TOKENS, IntoMessages, SampleQuery};

use crate::context::Context;

impl Context {
    /// Asks the user to fill in a form with fields derived from `T`.
    ///
    /// `T` is a struct of strings, numbers, booleans, enumerations without data and lists of these enumerations, each
    /// possibly an `Option`. It may also be one such value, or `()` for a confirmation. Doc comments become the
    /// descriptions. Invalid content is requested again. A form must not ask for secrets; use
    /// [`elicit_url`](Self::elicit_url) for these.
    ///
    /// **Code before a question runs again: ask first, act afterwards.**
    ///
    /// # Errors
    /// (Of the future.) [`AskError::Pending`] while there is no answer: hand it on through `?`. [`AskError::Declined`]
    /// and [`AskError::Cancelled`] when the person would not, [`AskError::Unsupported`] when the client cannot show
    /// forms.
    ///
    /// ```
    /// # use hospes::prelude::*;
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Traveller {
    ///     /// As in the passport.
    ///     name: String,
    ///     #[schemars(range(min = 1, max = 9))]
    ///     seats: u8,
    /// }
    ///
    /// async fn who(ctx: &Context) -> Result<Traveller> {
    ///     let traveller = ctx.elicit::<Traveller>("Who travels?").key("traveller").await?;
    ///     ctx.elicit::<()>(format!("Book {} seats?", traveller.seats)).await?;
    ///     Ok(traveller)
    /// }
    /// ```
    pub fn elicit<T>(&self, message: impl Into<String>) -> Elicit<'_, T> {
        Elicit::new(self, message.into())
    }

    /// Asks the user to open a URL, for data that must not pass through the client: secrets, payments, sign-in
    /// elsewhere.
    ///
    /// The answer only means that the user agreed to open the URL; the server has to find out itself if the interaction
    /// is complete. The URL must use `https:` (`http:` for this machine only) and must not contain personal data or
    /// credentials; a URL that seems to is rejected (ELIC-26, ELIC-27).
    ///
    /// **Code before a question runs again: ask first, act afterwards.**
    ///
    /// # Errors
    /// (Of the future.) As for [`Context::elicit`].
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> ElicitUrl<'_> {
        ElicitUrl::new(self, message.into(), url.into())
    }

    /// Requests a completion from the client's model. `prompt` is a text, a message or a conversation.
    ///
    /// **Code before a question runs again: ask first, act afterwards.**
    ///
    /// # Errors
    /// (Of the future.) [`AskError::Pending`] while there is no answer: return it with `?`. [`AskError::Unsupported`]
    /// if the client does not support sampling.
    ///
    /// ```
    /// # use hospes::prelude::*;
    /// async fn headline(ctx: &Context, article: &str) -> Result<String> {
    ///     let answer = ctx
    ///         .sample(format!("A headline for: {article}"))
    ///         .system("You write headlines of at most eight words.")
    ///         .max_tokens(40)
    ///         .model_hint("haiku")
    ///         .await?;
    ///     Ok(answer.text())
    /// }
    /// ```
    pub fn sample(&self, prompt: impl IntoMessages) -> SampleQuery<'_> {
        SampleQuery::new(self, prompt.into_messages())
    }

    /// Requests the client's roots.
    ///
    /// **Code before a question runs again: ask first, act afterwards.**
    ///
    /// # Errors
    /// (Of the future.) [`AskError::Pending`] while there is no answer: return it with `?`. [`AskError::Unsupported`]
    /// if the client does not support roots.
    pub fn roots(&self) -> RootsQuery<'_> {
        RootsQuery::new(self)
    }

    /// Asks several questions in one round: a tuple of up to eight, or a `Vec`.
    ///
    /// **Code before a question runs again: ask first, act afterwards.**
    ///
    /// # Errors
    /// (Of the future.) The first failure among the answers; [`AskError::Pending`] while one is missing.
    ///
    /// ```
    /// # use hospes::prelude::*;
    /// async fn plan(ctx: &Context) -> Result<String> {
    ///     let (city, roots) = ctx.ask((ctx.elicit::<String>("Which city?"), ctx.roots())).await?;
    ///     Ok(format!("{city}, with {} folders", roots.len()))
    /// }
    /// ```
    pub fn ask<Q: Question>(&self, questions: Q) -> Ready<Result<Q::Answer, AskError>> {
        ready(question::resolve_all(self, questions))
    }
}
