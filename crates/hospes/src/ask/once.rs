//! Steps that must not run twice.

use std::error::Error as StdError;

use hospes_model::{RawJson, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::{Error, Result};

impl Context {
    /// Runs a step that must not run twice in one call, and keeps its result across rounds.
    ///
    /// The handler runs again from the start after each question. A step whose key has already run then returns its
    /// earlier result instead of running. The result is part of the request state, so it should be small: an order
    /// number, not the order. Failures are not kept.
    ///
    /// A client of 2026-07-28 holds the state and could resend one from before the step. This process remembers the
    /// states that have led to a step (the last 100,000 within their lifetime) and rejects them. If several processes
    /// share the keys, make the step itself idempotent.
    ///
    /// # Errors
    /// The error of the step; also if the result cannot be serialized, or decoded as `T`.
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
