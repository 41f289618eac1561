//! `hospes list TARGET`: lists what a server offers.

use std::fmt::Write as _;

use hospes::client::{CallError, Client};
use hospes::model::{Prompt, Tool};
use serde_json::{Value, json};

use super::{InterruptListener, interrupted};
use crate::args::ListArgs;
use crate::arguments::signature;
use crate::exit::CliResult;
use crate::output::{BOLD, CliOutput, DIM, first_line, paint, printable};
use crate::target::{connect, find};
use crate::tool_list::read_tools;

/// Maximum number of faults of the list of tools that are named.
const MAX_FAULTS: usize = 10;
/// Maximum length of a description in the list.
const MAX_DESCRIPTION: usize = 100;

pub(crate) async fn run(args: ListArgs, output: CliOutput) -> CliResult {
    let found = find(args.target.as_deref(), &args.program, &args.reach)?;
    let mut ending = InterruptListener::new()?;
    let client = connect(found, &args.reach, output, &mut ending).await?;
    let listed = ending.unless(list(&client, output)).await;
    ending.unless(client.close()).await;
    listed.unwrap_or_else(|| Err(interrupted("the lists are incomplete")))
}

async fn list(client: &Client, output: CliOutput) -> CliResult {
    let (tools, faults) = match read_tools(client).await {
        Ok(read) => read,
        Err(error) => (offered(Err(error))?, Vec::new()),
    };
    // The host leaves these out, too.
    for fault in faults.iter().take(MAX_FAULTS) {
        output.warn(printable(fault));
    }
    if faults.len() > MAX_FAULTS {
        output.warn(format_args!(
            "{} more entries of the list of tools are not valid",
            faults.len() - MAX_FAULTS
        ));
    }
    let (prompts, resources, templates) = (
        offered(client.prompts().all().await)?,
        offered(client.resources().all().await)?,
        offered(client.resource_templates().all().await)?,
    );
    if output.json {
        output.value(&json!({
            "server": client.server_info(),
            "revision": client.revision().as_str(),
            "instructions": client.instructions(),
            "tools": tools,
            "prompts": prompts,
            "resources": resources,
            "resourceTemplates": templates,
        }));
        return Ok(());
    }
    let who = client
        .server_info()
        .map_or_else(|| "the server".to_owned(), |info| format!("{} {}", info.name, info.version));
    output.say(paint(DIM, format!("{} speaks {}", printable(who.trim()), client.revision())));
    let mut text = String::new();
    section(&mut text, "Tools", tools.iter().map(|tool| (tool_signature(tool), tool.description.as_deref())));
    section(
        &mut text,
        "Prompts",
        prompts.iter().map(|prompt| (prompt_signature(prompt), prompt.description.as_deref())),
    );
    section(
        &mut text,
        "Resources",
        resources.iter().map(|resource| {
            (
                printable(&resource.uri),
                resource.description.as_deref().or(resource.title.as_deref()).or(Some(&resource.name)),
            )
        }),
    );
    section(
        &mut text,
        "Resource templates",
        templates.iter().map(|template| {
            (printable(&template.uri_template), template.description.as_deref().or(Some(&template.name)))
        }),
    );
    if text.is_empty() {
        text.push_str("No tools, prompts or resources.");
    }
    output.result(text.trim_end());
    Ok(())
}

/// Returns an empty list if the server does not offer this kind of item.
fn offered<T>(listed: Result<Vec<T>, CallError>) -> CliResult<Vec<T>> {
    match listed {
        Ok(items) => Ok(items),
        Err(CallError::NotOffered(_)) => Ok(Vec::new()),
        // Some servers declare a capability without all of its methods, such as the list of templates.
        Err(CallError::Rpc(error)) if error.code == hospes::model::code::METHOD_NOT_FOUND => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn section<'a>(text: &mut String, title: &str, items: impl Iterator<Item = (String, Option<&'a str>)>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "{}", paint(BOLD, title));
    for (item, about) in items {
        let _ = writeln!(text, "  {item}");
        if let Some(about) =
            about.map(|about| first_line(about, MAX_DESCRIPTION)).filter(|about| !about.is_empty())
        {
            let _ = writeln!(text, "      {}", paint(DIM, about));
        }
    }
    text.push('\n');
}

pub(crate) fn tool_signature(tool: &Tool) -> String {
    let input = tool.input_schema.to_value().unwrap_or(Value::Null);
    let output = tool.output_schema.as_ref().and_then(|schema| schema.to_value().ok());
    signature(&tool.name, &input, output.as_ref())
}

fn prompt_signature(prompt: &Prompt) -> String {
    let arguments: Vec<String> = prompt
        .arguments
        .iter()
        .map(|argument| {
            let optional = if argument.required == Some(true) { "" } else { "?" };
            format!("{}{optional}", printable(&argument.name))
        })
        .collect();
    format!("{}({})", printable(&prompt.name), arguments.join(", "))
}
