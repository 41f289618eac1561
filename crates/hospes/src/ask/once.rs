//! Steps that must not run twice.

use std::error::Error as StdError;

use hospes_model::RawJson;
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
                Error::msg(format_args!("the remembered result of step {key:?} cannot be read back: {why}"))
            });
        }
        let result = step().await.map_err(Error::new)?;
        let json = RawJson::from_serialize(&result).map_err(|why| {
            Error::msg(format_args!("the result of step {key:?} cannot be remembered: {why}"))
        })?;
        self.remember_step(key, json);
        Ok(result)
    }
}
