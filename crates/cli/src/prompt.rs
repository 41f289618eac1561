//! Elicitation in the terminal: questions from servers to the person.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hospes::client::UrlReview;
use hospes::model::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams, PrimitiveSchemaDefinition,
    RawJson,
};
use hospes_host::approvals::ApprovalState;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::approve::QueuedApproval;
use crate::arguments::{ArgumentSource, arguments};
use crate::output::{BOLD, CYAN, CliOutput, DIM, announce, discard_typed_input, one_line, paint, printable};
use crate::progress;

/// Maximum number of times a form is asked.
const MAX_TRIES: usize = 5;

/// Keys of a host's question about a call or a plan, as of `hospes approve`: the key, the value of the form, and what it
/// does. A form has no more than these.
const APPROVAL_KEYS: [(&str, &str, &str); 6] = [
    ("d", "no", "deny (with reason)"),
    ("n", "one_by_one", "ask one by one"),
    ("o", "once", "once"),
    ("t", "targets", "once, remember target"),
    ("s", "always", "session"),
    ("V", "values", "once, trust value for the session"),
];

/// Number of questions that are open.
static OPEN_QUESTIONS: AtomicUsize = AtomicUsize::new(0);
/// True once a question was ended by Ctrl-C.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns true if the person is being asked a question.
pub(crate) fn is_asking() -> bool {
    OPEN_QUESTIONS.load(Ordering::SeqCst) > 0
}

/// Returns true if the person has ended a question with Ctrl-C, which cancels it.
pub(crate) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::SeqCst)
}

/// A question that ends when this is dropped, for example because its server has withdrawn it.
struct OpenQuestion(Arc<AtomicBool>);

impl OpenQuestion {
    fn new() -> Self {
        OPEN_QUESTIONS.fetch_add(1, Ordering::SeqCst);
        Self(Arc::default())
    }

    fn end(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.end();
        OPEN_QUESTIONS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Asks the person. The question is shown even with `--quiet`. It ends without an answer by Ctrl-C; a question of the host
/// about a call ends also when it is decided elsewhere, or expires.
pub(crate) async fn elicit(params: ElicitParams, output: CliOutput) -> hospes::Result<ElicitResult> {
    let interrupt = hospes::transport::shutdown_signal()?;
    let question = OpenQuestion::new();
    let queued = match &params {
        ElicitParams::Form(form) if approval(form).is_some() => QueuedApproval::find(&form.message).await,
        _ => None,
    };
    let ended = Arc::clone(&question.0);
    let until = queued.as_ref().map(|queued| queued.expires_at);
    // Terminal input is read with blocking calls.
    let ask = move || answer(&params, (output, until), &mut |text: &str| output.ask_until(text, &ended));
    let mut asked = tokio::task::spawn_blocking(move || progress::without_bar(ask));
    let decision = async {
        match &queued {
            Some(queued) => queued.decision().await,
            None => std::future::pending().await,
        }
    };
    // The question is answered here, or by the approval queue of the host.
    tokio::select! {
        asked = &mut asked => return Ok(asked?),
        () = interrupt => IS_INTERRUPTED.store(true, Ordering::SeqCst),
        state = decision => announce(format_args!("\n{}", match state {
            ApprovalState::Allowed => "decided elsewhere: allowed",
            ApprovalState::Denied => "decided elsewhere: denied",
            ApprovalState::Expired => "expired: it was not decided in time",
            _ => "the call is no longer asked about",
        })),
    }
    question.end();
    let _too_late = asked.await?;
    // The host goes by the decision that it has. An answer that allows must come from a person.
    Ok(ElicitResult::cancel())
}

/// Asks the person a question and returns the line. `None` if input has ended.
pub(crate) type AskLine<'a> = dyn FnMut(&str) -> Option<String> + 'a;

fn answer(
    params: &ElicitParams,
    (output, until): (CliOutput, Option<Timestamp>),
    ask: &mut AskLine<'_>,
) -> ElicitResult {
    match params {
        ElicitParams::Form(form) => match approval(form) {
            Some(keys) => ask_approval(form, (&keys, until), ask),
            None => ask_form(form, output, ask),
        },
        ElicitParams::Url(url) => ask_url(url, ask),
        // An unknown kind of question is cancelled, because the person has not seen it to decline it.
        _ => ElicitResult::new(ElicitAction::Cancel),
    }
}

fn ask_form(form: &ElicitFormParams, output: CliOutput, ask: &mut AskLine<'_>) -> ElicitResult {
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

/// A key of a question about a call: the key, the value of the form, and what it does.
type ApprovalKey = (&'static str, &'static str, &'static str);

/// Returns the keys of a form that is a host's question about a call or a plan. A server that sends the same form gets the
/// same answer, which tells it no more than any form does.
fn approval(form: &ElicitFormParams) -> Option<Vec<ApprovalKey>> {
    let [
        (first, PrimitiveSchemaDefinition::SingleSelect(decision)),
        (second, PrimitiveSchemaDefinition::String(_)),
    ] = form.requested_schema.properties.0.as_slice()
    else {
        return None;
    };
    let values: Vec<&str> = decision.options.iter().map(|option| option.value.as_str()).collect();
    let is_offered = |value: &str| values.contains(&value);
    let keys: Vec<ApprovalKey> =
        APPROVAL_KEYS.into_iter().filter(|(_, value, _)| is_offered(value)).collect();
    let is_ours = first == "decision" && second == "reason" && is_offered("no") && is_offered("once");
    // A choice without a key could not be made.
    (is_ours && keys.len() == values.len()).then_some(keys)
}

/// Asks about a call with keys of `hospes approve`. An empty line neither allows nor denies.
fn ask_approval(
    form: &ElicitFormParams,
    (keys, until): (&[ApprovalKey], Option<Timestamp>),
    ask: &mut AskLine<'_>,
) -> ElicitResult {
    announce(format_args!("\n{}", printable(&form.message)));
    if let Some(until) = until {
        let until = until.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string();
        let note = format!("\nWithout a decision until {until} it is denied. Ctrl-C ends the call.");
        announce(paint(DIM, note));
    }
    let shown: Vec<String> =
        keys.iter().map(|(key, _, does)| format!("{} {}", paint(BOLD, key), paint(DIM, does))).collect();
    let question = format!("\n{}{} ", shown.join("  "), paint(CYAN, " >"));
    // Text typed before the question appeared is not an answer to it.
    discard_typed_input();
    // Without a limit: each turn takes a typed line, and the question ends by itself.
    loop {
        let Some(line) = ask(&question) else { return ElicitResult::cancel() };
        let line = line.trim();
        let (word, reason) = line.split_once(' ').unwrap_or((line, ""));
        match keys.iter().find(|(key, _, _)| *key == word) {
            Some((_, "no", _)) if !reason.is_empty() => {
                let content = json!({ "decision": "no", "reason": reason.trim() });
                return ElicitResult::accept(RawJson::from(content));
            }
            Some((_, value, _)) if reason.is_empty() => {
                return ElicitResult::accept(RawJson::from(json!({ "decision": value })));
            }
            _ => announce(wrong_key(line, keys)),
        }
    }
}

/// Says why a line was no answer.
fn wrong_key(line: &str, keys: &[ApprovalKey]) -> String {
    let names: Vec<&str> = keys.iter().map(|(key, _, _)| *key).collect();
    match line {
        "" => format!("type one of the keys {}, and Enter", names.join(", ")),
        "b" | "e" | "v" | "A" => format!("`{line}` is a key of `hospes approve`, where this call waits, too"),
        _ => format!("`{}` is none of the keys {}", one_line(line), names.join(", ")),
    }
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

#[cfg(test)]
mod tests {
    use hospes::model::{ElicitSchema, EnumOption, SingleSelectSchema, StringSchema};

    use super::*;

    fn form(values: &[&str]) -> ElicitFormParams {
        let options = values.iter().map(|value| EnumOption::titled(*value, *value)).collect::<Vec<_>>();
        let schema = ElicitSchema::new()
            .with_required(
                "decision",
                PrimitiveSchemaDefinition::SingleSelect(SingleSelectSchema::new(options)),
            )
            .with_optional("reason", PrimitiveSchemaDefinition::String(StringSchema::new()));
        ElicitFormParams::new("May I?", schema)
    }

    /// Returns the answer to these lines, and how often was asked.
    fn answered(values: &[&str], lines: &[&str]) -> (Option<Value>, usize, String) {
        let form = form(values);
        let keys = approval(&form).unwrap();
        let (mut asked, mut question) = (0, String::new());
        let result = ask_approval(&form, (&keys, None), &mut |text: &str| {
            text.clone_into(&mut question);
            asked += 1;
            lines.get(asked - 1).map(|line| (*line).to_owned())
        });
        (result.content.map(|content| content.to_value().unwrap()), asked, question)
    }

    /// A form with a choice that has no key here was asked field by field.
    #[test]
    fn a_question_about_a_call_has_a_key_for_each_choice_of_its_form() {
        let all = ["no", "once", "targets", "always", "values"];
        for (line, value) in [("d", "no"), ("o", "once"), ("t", "targets"), ("s", "always"), ("V", "values")]
        {
            let (content, _, question) = answered(&all, &[line]);
            assert_eq!(content, Some(json!({ "decision": value })), "{line}");
            assert!(anstream::adapter::strip_str(&question).to_string().contains(&format!("{line} ")));
        }
        assert_eq!(
            answered(&["no", "once", "one_by_one"], &["n"]).0,
            Some(json!({ "decision": "one_by_one" }))
        );
        let (content, _, _) = answered(&all, &["d  not today"]);
        assert_eq!(content, Some(json!({ "decision": "no", "reason": "not today" })));
        assert!(approval(&form(&["no", "once", "other"])).is_none());
        assert!(approval(&form(&["once"])).is_none());
    }

    #[test]
    fn another_line_is_no_answer_and_is_explained() {
        let lines = ["", "s", "x", "o no", "e", "o"];
        let (content, asked, _) = answered(&["no", "once"], &lines);
        assert_eq!((content, asked), (Some(json!({ "decision": "once" })), 6));
        assert_eq!(answered(&["no", "once"], &["x"]).0, None, "the end of input decides nothing");
        let keys = approval(&form(&["no", "once"])).unwrap();
        assert_eq!(wrong_key("x\u{1b}", &keys), r"`x\u{1b}` is none of the keys d, o");
        assert!(wrong_key("e", &keys).contains("`hospes approve`") && wrong_key("", &keys).contains("d, o"));
    }
}
