//! `hospes call TARGET TOOL name=value …`: one call of one tool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hospes::client::{CallError, Client};
use hospes::model::{CallToolResult, ContentBlock, ResourceBody, Tool, code};
use hospes_host::upstream::UpstreamState;
use hospes_oauth::{NO_SIGN_IN_HINT, RESOURCE_MISMATCH_HINT};
use serde_json::Value;

use super::{InterruptListener, interrupted};
use crate::args::CallArgs;
use crate::arguments::{ArgumentSource, arguments, read_source, unknown_tool};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{CliOutput, DIM, paint, printable};
use crate::progress::{CallProgressBar, without_bar};
use crate::prompt::{is_asking, is_interrupted};
use crate::target::{OWN_TOKEN, SIGN_IN, connect, find};

pub(crate) async fn run(args: CallArgs, output: CliOutput) -> CliResult {
    let words = args.words.as_slice();
    let (target, words) = match (args.program.is_empty(), words) {
        (true, [target, words @ ..]) => (Some(target.as_str()), words),
        _ => (None, words),
    };
    let Some((tool, words)) = words.split_first() else {
        return Err(CliError::usage("no tool name was given")
            .hint("usage: hospes call TARGET TOOL name=value …; `hospes list TARGET` lists the tools"));
    };
    let found = find(target, &args.program, &args.reach)?;
    let mut ending = InterruptListener::new()?;
    let client = connect(found, &args.reach, output, &mut ending).await?;
    let asked = CallRequest {
        tool,
        source: ArgumentSource { json: args.input_json.as_deref(), words },
        timeout: args.timeout,
    };
    let mut calling = Box::pin(call(&client, asked, output));
    let called = ending.unless(&mut calling).await;
    if called.is_none() && is_asking() {
        // The same Ctrl-C has cancelled the question, which takes it from the queue of its host.
        ending.unless(tokio::time::timeout(CANCEL_TIME, &mut calling)).await;
        drop(calling);
        ending.unless(client.close()).await;
        return Err(interrupted(NOT_MADE));
    }
    drop(calling);
    if called.is_none() {
        // A server may take a while to stop, or ignore the notification.
        output.say(paint(DIM, format!("cancelling {} and notifying its server …", printable(tool))));
    }
    // A second Ctrl-C ends the wait for the server.
    ending.unless(client.close()).await;
    called.unwrap_or_else(|| Err(interrupted("the call was cancelled and the server was notified")))
}

/// Prefix of the progress message with which a host reports that a call waits for approval.
const APPROVAL_MESSAGE_PREFIX: &str = "waiting for the person's approval";

/// Maximum time to tell the server that its question is cancelled.
const CANCEL_TIME: Duration = Duration::from_secs(2);
/// End of a call whose question was cancelled.
const NOT_MADE: &str = "the question was cancelled, and the call was not made";

struct CallRequest<'a> {
    tool: &'a str,
    source: ArgumentSource<'a>,
    timeout: Option<Duration>,
}

async fn call(client: &Client, asked: CallRequest<'_>, output: CliOutput) -> CliResult {
    let tools = client.tools().all().await?;
    let Some(tool) = tools.iter().find(|tool| tool.name == asked.tool) else {
        if let Some(failure) = unavailable_server(client, asked.tool).await {
            return Err(failure);
        }
        let names = tools.iter().map(|tool| tool.name.as_str());
        return Err(CliError::new(FailureCode::Tool, unknown_tool(asked.tool, names)));
    };
    let given = given(tool, asked.source)?;
    let bar = CallProgressBar::new(asked.tool, output.quiet);
    let (is_told, what) = (AtomicBool::new(false), printable(asked.tool));
    let mut request = client.call(asked.tool, given).on_progress(|progress| {
        bar.report(progress);
        // Without this, a call that waits for approval would give no sign of it.
        let waits = progress.message.as_deref().is_some_and(|text| text.starts_with(APPROVAL_MESSAGE_PREFIX));
        if waits && !is_told.swap(true, Ordering::Relaxed) {
            let text =
                format!("{what} is waiting for approval: decide in the console or with `hospes approve`");
            without_bar(|| output.say(text));
        }
    });
    if let Some(timeout) = asked.timeout {
        request = request.timeout(timeout);
    }
    let result = request.await;
    bar.end();
    // What the server says about a cancelled question is no news to who cancelled it.
    if is_interrupted() {
        return Err(interrupted(NOT_MADE));
    }
    let result = result.map_err(failed)?;
    if output.json {
        output.value(&result);
    } else {
        output.result(shown(&result));
    }
    if !result.has_failed() {
        return Ok(());
    }
    // The host's message if a rule requires approval and nobody could be asked.
    if !output.json && texts(&result).any(|text| text.contains("this application cannot ask for one")) {
        output.hint("call it from a terminal, or keep `hospes approve` or `hospes console` open meanwhile");
    }
    Err(CliError::silent(FailureCode::Tool))
}

fn texts(result: &CallToolResult) -> impl Iterator<Item = &str> {
    result.content.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    })
}

/// Returns the state of a host's server as an error if the server is not ready, because the list then lacks its tools.
async fn unavailable_server(client: &Client, tool: &str) -> Option<CliError> {
    let (server, _) = tool.split_once("__")?;
    // Only a Hospes host has `hospes://status`.
    client.server_info().filter(|info| info.name == hospes_host::implementation().name)?;
    let mut servers = super::status::of(client).await.ok()?.servers;
    servers.retain(|found| found.name == server && found.state != UpstreamState::Ready);
    let found = servers.pop()?;
    let mut why = format!("the server `{}` is {}", printable(server), found.state.as_str());
    if let Some(problem) = &found.problem {
        why = format!("{why}: {}", printable(problem));
    }
    let hint = found.hint.unwrap_or_else(|| "`hospes status` shows its state".to_owned());
    Some(CliError::new(FailureCode::Unreachable, why).hint(hint))
}

/// Converts the error of a failed call and adds a hint.
fn failed(error: CallError) -> CliError {
    let hint = match &error {
        CallError::Rpc(error) if error.code == code::MISSING_CLIENT_CAPABILITY => {
            match error.message.contains("elicitation") {
                true => Some("the tool asks the user for input: call it from a terminal"),
                false => {
                    Some("the tool requests sampling, which only an application with a model can answer")
                }
            }
        }
        CallError::NotAuthorized(why) if why.hint.as_deref() == Some(RESOURCE_MISMATCH_HINT) => {
            Some(RESOURCE_MISMATCH_HINT)
        }
        CallError::NotAuthorized(why) if why.hint.as_deref() == Some(NO_SIGN_IN_HINT) => Some(OWN_TOKEN),
        CallError::NotAuthorized(_) => Some(SIGN_IN),
        CallError::Timeout { .. } => Some("`--timeout SECONDS` raises the limit"),
        _ => None,
    };
    match hint {
        Some(hint) => CliError::from(error).hint(hint),
        None => error.into(),
    }
}

fn given(tool: &Tool, source: ArgumentSource<'_>) -> CliResult<Value> {
    let schema = tool.input_schema.to_value().unwrap_or(Value::Null);
    match arguments(&tool.name, &schema, source, &read_source) {
        Ok(arguments) => Ok(Value::Object(arguments)),
        Err(error) => Err(CliError::usage(error.to_string())),
    }
}

/// Formats a result for people: its text as it is, and one line for each block that is not text.
fn shown(result: &CallToolResult) -> String {
    let mut parts: Vec<String> = result.content.iter().map(block).collect();
    // Servers should repeat structured content as text. If they do not, it is all there is to show.
    if parts.is_empty() {
        parts.extend(result.structured_content.as_ref().map(|structured| {
            let value = structured.to_value().ok();
            let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
            pretty.unwrap_or_else(|| structured.as_str().to_owned())
        }));
    }
    parts.join("\n")
}

fn block(block: &ContentBlock) -> String {
    let sized = |what: &str, mime: &str, base64: &str| {
        format!("[{what}, {}, {} bytes; use --json to see it]", printable(mime), base64.len() / 4 * 3)
    };
    match block {
        // Output to a file or program stays unchanged, including control characters.
        ContentBlock::Text(text) if crate::output::is_result_seen() => printable(&text.text),
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => sized("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => sized("audio", &audio.mime_type, &audio.data),
        ContentBlock::ResourceLink(link) => format!("[resource {}]", printable(&link.uri)),
        ContentBlock::Resource(embedded) => match &embedded.resource.body {
            ResourceBody::Text(text) => printable(text),
            _ => format!("[resource {}; use --json to see it]", printable(&embedded.resource.uri)),
        },
        _ => "[unknown content type; use --json to see it]".to_owned(),
    }
}
