//! Steps that must not run twice.

use std::error::Error as StdError;

use hospes_model::{RawJson, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::{Error, Result};

impl Context {
    /// Runs a step that must not run twice in one call, and remembers its result over the rounds of questions.
    ///
    /// The handler runs again from the top after each question; a step under a key that has run before is then not
    /// run but gives the result it had. The result travels with the call's state, so it had better be small: an order
    /// number, not the order. A failure is not remembered.
    ///
    /// A client of 2026-07-28 holds the state itself, and could send an older one again, from before the step. This
    /// process remembers which states have led to a step (the last 100,000 within their lifetime) and refuses them;
    /// behind several processes with the same keys, make the step itself safe to repeat.
    ///
    /// # Errors
    /// The step's own; or the result cannot be written as JSON, or not be read back as `T`.
    ///
    /// ```
    /// # use hospes::prelude::*;
    /// # async fn charge(_: u32) -> Result<String> { Ok("r-1".to_owned()) }
    /// async fn pay(ctx: &Context) -> Result<String> {
    ///     let receipt = ctx.once("charge", || charge(4200)).await?;
    ///     // The handler may leave here and come back; nobody is charged twice.
    ///     let tip: u32 = ctx.elicit("Leave a tip?").await?;
    ///     Ok(format!("{receipt}, {tip}"))
    /// }
    /// ```
    pub async fn once<T, E, Step, Running>(&self, key: impl Into<String>, step: Step) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        E: Into<Box<dyn StdError + Send + Sync>>,
        Step: FnOnce() -> Running,
        Running: Future<Output = Result<T, E>>,
    {
        let key = key.into();
        if let Some(result) = self.step(&key) {
            return result.decode().map_err(|why| {
                Error::msg(format_args!("cannot decode the stored result of step {key:?}: {why}"))
            });
        }
        // Before the step: of two requests with the same state only one may run it (MRTR-13).
        if !self.consume_state() {
            let why = "this requestState was already used for an irrevocable step; send the request again without it";
            return Err(RpcError::invalid_params(why).into());
        }
        let result = match step().await {
            Ok(result) => result,
            Err(error) => {
                // Nothing was done that must not be repeated, so the client may send this state again.
                self.release_state();
                return Err(Error::new(error));
            }
        };
        let json = RawJson::from_serialize(&result)
            .map_err(|why| Error::msg(format_args!("cannot store the result of step {key:?}: {why}")))?;
        self.remember_step(key, json);
        Ok(result)
    }
}
