//! Elicitation in the terminal: questions from servers to the person.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hospes::client::UrlReview;
use hospes::model::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams, PrimitiveSchemaDefinition,
    RawJson,
};
use hospes_host::approvals::ApprovalState;
use serde_json::{Value, json};

use crate::approve::decision_elsewhere;
use crate::arguments::{ArgumentSource, arguments};
use crate::output::{BOLD, CYAN, CliOutput, DIM, announce, discard_typed_input, one_line, paint, printable};
use crate::progress;

/// Maximum number of times a form is asked.
const MAX_TRIES: usize = 5;

/// Asks the person. The question is shown even with `--quiet`. A question of the host about a call ends when it is decided
/// elsewhere.
pub(crate) async fn elicit(params: ElicitParams, output: CliOutput) -> hospes::Result<ElicitResult> {
    let message = match &params {
        ElicitParams::Form(form) => approval(form).map(|_| form.message.clone()),
        _ => None,
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let (ended, may_end) = (Arc::clone(&is_over), message.is_some());
    // Terminal input is read with blocking calls.
    let ask = move || {
        answer(&params, output, &mut |question: &str| match may_end {
            true => output.ask_until(question, &ended),
            false => output.ask(question),
        })
    };
    let mut asked = tokio::task::spawn_blocking(move || progress::without_bar(ask));
    let elsewhere = async {
        match &message {
            Some(message) => decision_elsewhere(message).await,
            None => std::future::pending().await,
        }
    };
    // The question is answered here, or by the approval queue of the host.
    tokio::select! {
        asked = &mut asked => Ok(asked?),
        state = elsewhere => {
            is_over.store(true, Ordering::Release);
            let _too_late = asked.await?;
            let state = match state {
                ApprovalState::Allowed => "allowed",
                ApprovalState::Denied => "denied",
                _ => "no longer asked about",
            };
            announce(format_args!("\ndecided elsewhere: {state}"));
            // The host goes by the decision that it has. An answer that allows must come from a person.
            Ok(ElicitResult::cancel())
        }
    }
}

/// Asks the person a question and returns the line. `None` if input has ended.
pub(crate) type AskLine<'a> = dyn FnMut(&str) -> Option<String> + 'a;

fn answer(params: &ElicitParams, output: CliOutput, ask: &mut AskLine<'_>) -> ElicitResult {
    match params {
        ElicitParams::Form(form) => ask_form(form, output, ask),
        ElicitParams::Url(url) => ask_url(url, ask),
        // An unknown kind of question is cancelled, because the person has not seen it to decline it.
        _ => ElicitResult::new(ElicitAction::Cancel),
    }
}

fn ask_form(form: &ElicitFormParams, output: CliOutput, ask: &mut AskLine<'_>) -> ElicitResult {
    if let Some(may_last) = approval(form) {
        return ask_approval(form, may_last, ask);
    }
    announce(format_args!("\n{} {}", paint(CYAN, "The server asks:"), paint(BOLD, printable(&form.message))));
    fill(form, output, ask)
}

/// Asks for the fields of a form, and again if the values do not match its schema.
pub(crate) fn fill(form: &ElicitFormParams, output: CliOutput, ask: &mut AskLine<'_>) -> ElicitResult {
    announce(paint(DIM, "An empty line skips a field, `!` declines the form, Ctrl-D cancels."));
    let schema = serde_json::to_value(&form.requested_schema).unwrap_or(Value::Null);
    for _ in 0..MAX_TRIES {
        let mut words = Vec::new();
        for (name, _) in &form.requested_schema.properties.0 {
            let field =
                schema.pointer("/properties").and_then(|fields| fields.get(name)).unwrap_or(&Value::Null);
            let is_required = form.requested_schema.required.contains(name);
            let Some(answer) = ask(&question(name, field, is_required)) else {
                return ElicitResult::cancel();
            };
            match answer.trim() {
                "!" => return ElicitResult::decline(),
                text => words.extend(self::words(name, field, text)),
            }
        }
        let source = ArgumentSource { json: None, words: &words };
        // A form of a server must never read a file, whatever the person types.
        let refuse = |_: &str| Err(std::io::ErrorKind::Unsupported.into());
        match arguments("form", &schema, source, &refuse) {
            Ok(content) => {
                let content = RawJson::from(Value::Object(content));
                return ElicitResult::accept(content);
            }
            Err(error) => error.problems.iter().for_each(|problem| output.warn(problem)),
        }
    }
    ElicitResult::cancel()
}

/// Returns `Some` if the form is a host's question about a call, with true if approval may last. A server that sends
/// the same form gets the same answer, which tells it no more than any form does.
fn approval(form: &ElicitFormParams) -> Option<bool> {
    let [
        (first, PrimitiveSchemaDefinition::SingleSelect(decision)),
        (second, PrimitiveSchemaDefinition::String(_)),
    ] = form.requested_schema.properties.0.as_slice()
    else {
        return None;
    };
    let values: Vec<&str> = decision.options.iter().map(|option| option.value.as_str()).collect();
    let is_ours = first == "decision" && second == "reason";
    match values.as_slice() {
        ["no", "once"] if is_ours => Some(false),
        ["no", "once", "always"] if is_ours => Some(true),
        _ => None,
    }
}

/// Asks about a call with the keys of `hospes approve`. An empty line neither allows nor denies.
fn ask_approval(form: &ElicitFormParams, may_last: bool, ask: &mut AskLine<'_>) -> ElicitResult {
    announce(format_args!("\n{}", printable(&form.message)));
    let key = |key: &str, does: &str| format!("{} {}", paint(BOLD, key), paint(DIM, does));
    let mut keys = vec![key("d", "deny (with reason)"), key("o", "once")];
    if may_last {
        keys.push(key("s", "session"));
    }
    let question = format!("\n{}{} ", keys.join("  "), paint(CYAN, " >"));
    // Text typed before the question appeared is not an answer to it.
    discard_typed_input();
    for _ in 0..MAX_TRIES {
        let Some(line) = ask(&question) else { return ElicitResult::cancel() };
        let line = line.trim();
        let content = match line {
            "o" => json!({ "decision": "once" }),
            "s" if may_last => json!({ "decision": "always" }),
            "d" => json!({ "decision": "no" }),
            _ => match line.strip_prefix("d ") {
                Some(reason) => json!({ "decision": "no", "reason": reason.trim() }),
                None => continue,
            },
        };
        return ElicitResult::accept(RawJson::from(content));
    }
    ElicitResult::cancel()
}

fn ask_url(asked: &ElicitUrlParams, ask: &mut AskLine<'_>) -> ElicitResult {
    announce(format_args!(
        "\n{} {}",
        paint(CYAN, "The server asks:"),
        paint(BOLD, printable(&asked.message))
    ));
    // A URL that cannot be parsed is not shown, because its host could not be named (ELIC-10).
    let Ok(review) = UrlReview::of(&asked.url) else { return ElicitResult::decline() };
    announce("It asks you to visit this page. Check the whole URL before you open it:");
    announce(format_args!("  {}", one_line(&review.url)));
    announce(format_args!("  {} {}", paint(DIM, "at"), paint(BOLD, one_line(&review.domain))));
    for warning in &review.warnings {
        announce(format_args!("  {} {warning}", paint(BOLD, "!")));
    }
    match ask("Have you completed the step? [y/N] ").as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => ElicitResult::new(ElicitAction::Accept),
        Some(_) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    }
}

/// Converts the text of a field to command-line words; an empty text gives none.
pub(crate) fn words(name: &str, field: &Value, text: &str) -> Vec<String> {
    let items: Vec<&str> = match text {
        "" => Vec::new(),
        _ if is_list(field) => text.split(',').map(str::trim).collect(),
        _ => vec![text],
    };
    items.into_iter().map(|item| format!("{name}={}", literal(item))).collect()
}

/// Escapes a leading `@`, which names a file only in arguments of a command line.
fn literal(text: &str) -> String {
    if text.starts_with('@') { format!("@{text}") } else { text.to_owned() }
}

fn is_list(field: &Value) -> bool {
    field.get("type").and_then(Value::as_str) == Some("array")
}

fn question(name: &str, field: &Value, is_required: bool) -> String {
    let text = |key: &str| field.get(key).and_then(Value::as_str).map(one_line);
    let label = text("title").unwrap_or_else(|| one_line(name));
    let mut notes = Vec::new();
    let choices = field.get("enum").or_else(|| field.pointer("/items/enum")).and_then(Value::as_array);
    let titled = field.get("oneOf").or_else(|| field.pointer("/items/anyOf")).and_then(Value::as_array);
    let consts = titled.into_iter().flatten().filter_map(|choice| choice.get("const"));
    let values: Vec<String> = choices
        .into_iter()
        .flatten()
        .chain(consts)
        .map(|choice| one_line(&choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)))
        .collect();
    if values.is_empty() {
        notes.extend(text("type"));
    } else {
        notes.push(values.join(if is_list(field) { ", " } else { " | " }));
    }
    if let Some(default) = field.get("default") {
        notes.push(one_line(&format!("default {default}")));
    }
    if !is_required {
        notes.push("optional".to_owned());
    }
    let description =
        text("description").map(|about| format!("  {}\n", paint(DIM, about))).unwrap_or_default();
    format!("{description}  {} {} ", paint(BOLD, label), paint(DIM, format!("({})", notes.join("; "))))
}
