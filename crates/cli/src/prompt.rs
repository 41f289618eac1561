//! What a server asks the person, in the terminal.

use hospes::client::UrlReview;
use hospes::model::{ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams, RawJson};
use serde_json::Value;

use crate::arguments::{Source, arguments};
use crate::output::{BOLD, CYAN, DIM, Output, announce, paint, printable};
use crate::progress;

/// How often a form is asked again.
const MAX_TRIES: usize = 5;

/// Asks the person. A question is no talk: it is shown however quiet the program is to be.
pub(crate) async fn elicit(params: ElicitParams, output: Output) -> hospes::Result<ElicitResult> {
    // Reading a terminal blocks.
    let ask = move || match params {
        ElicitParams::Form(form) => ask_form(&form, output),
        ElicitParams::Url(url) => ask_url(&url, output),
        _ => ElicitResult::new(ElicitAction::Cancel),
    };
    let asked = tokio::task::spawn_blocking(move || progress::aside(ask));
    Ok(asked.await?)
}

fn ask_form(form: &ElicitFormParams, output: Output) -> ElicitResult {
    announce(format_args!("\n{} {}", paint(CYAN, "The server asks:"), paint(BOLD, printable(&form.message))));
    announce(paint(DIM, "Empty leaves a field out, `!` alone says no, Ctrl-D gives up."));
    let schema = serde_json::to_value(&form.requested_schema).unwrap_or(Value::Null);
    for _ in 0..MAX_TRIES {
        let mut words = Vec::new();
        for (name, _) in &form.requested_schema.properties.0 {
            let field =
                schema.pointer("/properties").and_then(|fields| fields.get(name)).unwrap_or(&Value::Null);
            let is_required = form.requested_schema.required.contains(name);
            let Some(answer) = output.ask(question(name, field, is_required)) else {
                return ElicitResult::cancel();
            };
            match answer.trim() {
                "!" => return ElicitResult::decline(),
                text => words.extend(self::words(name, field, text)),
            }
        }
        let source = Source { json: None, words: &words };
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

fn ask_url(asked: &ElicitUrlParams, output: Output) -> ElicitResult {
    announce(format_args!(
        "\n{} {}",
        paint(CYAN, "The server asks:"),
        paint(BOLD, printable(&asked.message))
    ));
    let Ok(review) = UrlReview::of(&asked.url) else { return ElicitResult::decline() };
    announce("It wants you to visit this page. Look at the whole address before you do:");
    announce(format_args!("  {}", printable(&review.url)));
    announce(format_args!("  {} {}", paint(DIM, "at"), paint(BOLD, printable(&review.domain))));
    for warning in &review.warnings {
        announce(format_args!("  {} {warning}", paint(BOLD, "!")));
    }
    match output.ask("Have you done what it asks for? [y/N] ").as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => ElicitResult::new(ElicitAction::Accept),
        Some(_) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    }
}

/// What was written into a field, as words of a command line; nothing was if it is empty.
pub(crate) fn words(name: &str, field: &Value, text: &str) -> Vec<String> {
    let items: Vec<&str> = match text {
        "" => Vec::new(),
        _ if is_list(field) => text.split(',').map(str::trim).collect(),
        _ => vec![text],
    };
    items.into_iter().map(|item| format!("{name}={}", literal(item))).collect()
}

/// `@` begins a file's name only where a person wrote a command line.
fn literal(text: &str) -> String {
    if text.starts_with('@') { format!("@{text}") } else { text.to_owned() }
}

fn is_list(field: &Value) -> bool {
    field.get("type").and_then(Value::as_str) == Some("array")
}

fn question(name: &str, field: &Value, is_required: bool) -> String {
    let text = |key: &str| field.get(key).and_then(Value::as_str).map(printable);
    let label = text("title").unwrap_or_else(|| printable(name));
    let mut notes = Vec::new();
    let choices = field.get("enum").or_else(|| field.pointer("/items/enum")).and_then(Value::as_array);
    let titled = field.get("oneOf").or_else(|| field.pointer("/items/anyOf")).and_then(Value::as_array);
    let consts = titled.into_iter().flatten().filter_map(|choice| choice.get("const"));
    let values: Vec<String> = choices
        .into_iter()
        .flatten()
        .chain(consts)
        .map(|choice| printable(&choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)))
        .collect();
    if values.is_empty() {
        notes.extend(text("type"));
    } else {
        notes.push(values.join(if is_list(field) { ", " } else { " | " }));
    }
    if let Some(default) = field.get("default") {
        notes.push(printable(&format!("default {default}")));
    }
    if !is_required {
        notes.push("optional".to_owned());
    }
    let description =
        text("description").map(|about| format!("  {}\n", paint(DIM, about))).unwrap_or_default();
    format!("{description}  {} {} ", paint(BOLD, label), paint(DIM, format!("({})", notes.join("; "))))
}
