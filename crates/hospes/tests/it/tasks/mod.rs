//! Tasks on the wire, against clients written by hand: the extension of 2026-07-28, the core of 2025-11-25, and clients
//! of older revisions, which know none.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests")]

mod extension;
mod life;
mod older;
mod peer;

use std::time::Duration;

use hospes::prelude::*;
use serde_json::Value;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

struct Jobs;

#[hospes::server(name = "jobs")]
impl Jobs {
    /// Adds.
    #[tool]
    fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    /// Takes its time.
    #[tool(task)]
    async fn slow(ctx: &Context, seconds: u64) -> String {
        for second in 1..=seconds {
            sleep(SECOND).await;
            ctx.progress(second as f64, Some(seconds as f64), Some(&format!("second {second}")));
            ctx.log(LoggingLevel::Info, format!("log {second}"));
        }
        format!("slept {seconds}")
    }

    /// Has to be a task.
    #[tool(task = "required")]
    async fn must() -> &'static str {
        sleep(SECOND).await;
        "done"
    }

    /// Fails.
    #[tool(task = "required")]
    async fn fails() -> Result<String> {
        sleep(SECOND).await;
        Err(Error::msg("no luck"))
    }

    /// Breaks.
    #[tool(task = "required")]
    async fn breaks() -> Result<String, RpcError> {
        sleep(SECOND).await;
        Err(RpcError::new(-31000, "broken").with_data(&json!({ "why": "tests" })))
    }

    /// Panics.
    #[tool(task = "required")]
    async fn panics() -> String {
        sleep(SECOND).await;
        panic!("on purpose")
    }

    /// Asks two things, one after the other.
    #[tool(task = "required")]
    async fn asks(ctx: &Context) -> Result<String> {
        let name: String = ctx.elicit("Name?").key("name").field("name").await?;
        let age: u8 = ctx.elicit("Age?").key("age").field("age").await?;
        sleep(SECOND).await;
        Ok(format!("{name} is {age}"))
    }

    /// Asks two things at once.
    #[tool(task = "required")]
    async fn asks_both(ctx: &Context) -> Result<String> {
        let (a, b) = ctx
            .ask((
                ctx.elicit::<String>("A?").key("a").field("a"),
                ctx.elicit::<String>("B?").key("b").field("b"),
            ))
            .await?;
        Ok(format!("{a} and {b}"))
    }

    /// Asks, and then takes its time.
    #[tool(task = "required", ask_first)]
    async fn asks_first(ctx: &Context) -> Result<String> {
        let name: String = ctx.elicit("Name?").key("name").field("name").await?;
        ctx.begin_task().await;
        let age: u8 = ctx.elicit("Age?").key("age").field("age").await?;
        Ok(format!("{name} is {age}"))
    }
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn without_meta(mut result: Value) -> Value {
    result.as_object_mut().unwrap().remove("_meta");
    result
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn related(message: &Value) -> &Value {
    &message["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]
}
