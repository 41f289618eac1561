//! Asking the person, the model or the client in the middle of a call.
//!
//! A question that has no answer yet ends the run of the handler through `?`; the handler runs again from the top once
//! the answers are in, whatever revision the peer speaks. So: **whatever stands before a question runs again; ask
//! first, act after.** What must not run twice goes into [`Context::once`].
//!
//! Once put, a question is always asked, even if the handler continues without the answer. So `ctx.elicit("Which
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
    /// Asks the person to fill in a form; its fields come from `T`.
    ///
    /// `T` is a struct of texts, numbers, switches, enumerations without data and lists of these enumerations, each
    /// possibly an `Option`. It may also be one such value, or `()` for a yes. Doc comments become the descriptions.
    /// Content that does not fit is asked for again. A form never asks for secrets; those are for
    /// [`elicit_url`](Self::elicit_url).
    ///
    /// **Whatever stands before a question runs again; ask first, act after.**
    ///
    /// # Errors
    /// (Of the future.) [`AskError::Pending`] while there is no answer: hand it on through `?`.
    /// [`AskError::Declined`] and [`AskError::Cancelled`] when the person would not, [`AskError::Unsupported`] when the
    /// client cannot show forms.
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

    /// Sends the person to a URL, for what must not pass through the client: secrets, payments, signing in elsewhere.
    ///
    /// The answer only says that the person agreed to go there, not what they did; whether it is done is for the
    /// server to find out. The URL begins with `https:` (`http:` to this machine alone), and holds nothing personal and
    /// no credentials; one that seems to is refused (ELIC-26, ELIC-27).
    ///
    /// **Whatever stands before a question runs again; ask first, act after.**
    ///
    /// # Errors
    /// (Of the future.) As for [`Context::elicit`].
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> ElicitUrl<'_> {
        ElicitUrl::new(self, message.into(), url.into())
    }

    /// Asks the client's model. `prompt` is a text, a message or a conversation.
    ///
    /// **Whatever stands before a question runs again; ask first, act after.**
    ///
    /// # Errors
    /// (Of the future.) [`AskError::Pending`] while there is no answer: hand it on through `?`.
    /// [`AskError::Unsupported`] when the client has no model to ask.
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

    /// Asks the client what the server may look at.
    ///
    /// **Whatever stands before a question runs again; ask first, act after.**
    ///
    /// # Errors
    /// (Of the future.) [`AskError::Pending`] while there is no answer: hand it on through `?`.
    /// [`AskError::Unsupported`] when the client has no roots to tell.
    pub fn roots(&self) -> RootsQuery<'_> {
        RootsQuery::new(self)
    }

    /// Asks several questions in one round: a tuple of up to eight, or a `Vec`.
    ///
    /// **Whatever stands before a question runs again; ask first, act after.**
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
