//! The scenarios, each in the few steps that a program would take.

use std::sync::Arc;

use hospes::prelude::*;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};

use crate::{ScenarioRun, answers};

pub(crate) async fn run_scenario(run: &ScenarioRun) -> Result<()> {
    if run.scenario == "sep-2322-client-request-state" {
        return call_with_questions(run).await;
    }
    let client = run.builder().connect(run.target()?).await?;
    let played = match run.scenario.as_str() {
        "initialize" => Ok(()),
        "json-schema-ref-no-deref" => list(&client).await,
        // The server does not say that it has tools, so a client would not ask for them.
        "request-metadata" => {
            client.raw("tools/list", &RawJson::empty_object()).await.map(drop).map_err(Error::from)
        }
        "tools_call" => call_after_list(&client, "add_numbers", json!({ "a": 5, "b": 3 })).await,
        "elicitation-sep1034-client-defaults" => {
            call_after_list(&client, "test_client_elicitation_defaults", json!({})).await
        }
        "sse-retry" => call_after_list(&client, "test_reconnection", json!({})).await,
        "http-standard-headers" => standard_headers(&client).await,
        "http-custom-headers" => custom_headers(&client, &run.context).await,
        "http-invalid-tool-headers" => every_tool(&client).await,
        "json-schema-2020-12-preservation" => echo_schema(&client).await,
        // At least two calls: in between a server may change its mind about who lets us in.
        name if name.starts_with("auth/") => call_after_list(&client, "test-tool", json!({})).await,
        other => Err(Error::msg(format!("the scenario {other} is not known here"))),
    };
    client.close().await;
    played
}

async fn list(client: &Client) -> Result<()> {
    client.tools().all().await?;
    Ok(())
}

async fn call_after_list(client: &Client, tool: &str, arguments: Value) -> Result<()> {
    list(client).await?;
    call(client, tool, arguments).await
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Result<()> {
    let result = client.call(tool, arguments).await?;
    if result.has_failed() {
        return Err(Error::msg(format!("{tool} failed: {}", result.all_text())));
    }
    Ok(())
}

/// Calls with questions in them, and another call made while the first of these waits for its answer.
async fn call_with_questions(run: &ScenarioRun) -> Result<()> {
    let (asked, answers) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (said, allowed) = (Arc::clone(&asked), Arc::clone(&answers));
    let builder = run.builder().elicitation(move |question| {
        let (said, allowed) = (Arc::clone(&said), Arc::clone(&allowed));
        async move {
            said.notify_one();
            let _held = allowed.acquire().await?;
            answers::fill_in(question).await
        }
    });
    let client = builder.connect(run.target()?).await?;
    list(&client).await?;
    let between = async {
        asked.notified().await;
        let called = call(&client, "test_mrtr_unrelated", json!({})).await;
        answers.add_permits(1);
        called
    };
    tokio::try_join!(call(&client, "test_mrtr_echo_state", json!({})), between)?;
    call(&client, "test_mrtr_no_state", json!({})).await?;
    call(&client, "test_mrtr_no_result_type", json!({})).await?;
    client.close().await;
    Ok(())
}

/// One of each request that has a header for what it is about.
async fn standard_headers(client: &Client) -> Result<()> {
    list(client).await?;
    for tool in ["test_headers", "my-hyphenated-tool"] {
        call(client, tool, json!({})).await?;
    }
    client.resources().all().await?;
    for uri in ["file:///path/to/file%20name.txt", "https://example.com/resource?id=123"] {
        client.read(uri).await?;
    }
    client.prompts().all().await?;
    client.prompt("test_prompt", [] as [(&str, &str); 0]).await?;
    Ok(())
}

/// The calls that the suite wants, with arguments that headers repeat.
async fn custom_headers(client: &Client, context: &Value) -> Result<()> {
    list(client).await?;
    let calls = context.get("toolCalls").and_then(Value::as_array);
    for wanted in calls.ok_or_else(|| Error::msg("the suite says which calls it wants"))? {
        let name = wanted.get("name").and_then(Value::as_str).unwrap_or_default();
        call(client, name, wanted.get("arguments").cloned().unwrap_or_else(|| json!({}))).await?;
    }
    Ok(())
}

/// Every tool that is listed; those that HTTP cannot carry are not.
async fn every_tool(client: &Client) -> Result<()> {
    for tool in client.tools().all().await? {
        call(client, &tool.name, answers::arguments(&tool.input_schema)?).await?;
    }
    Ok(())
}

/// Sends a schema back as it came.
async fn echo_schema(client: &Client) -> Result<()> {
    let tools = client.tools().all().await?;
    let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let tool = tool.ok_or_else(|| Error::msg("the tool with the schema is not listed"))?;
    call(client, "json_schema_echo", json!({ "schema": tool.input_schema })).await
}
