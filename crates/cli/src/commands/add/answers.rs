//! Answers to the questions of a server: from options, or from the person.

use std::io::Read as _;

use hospes_host::config::import::MAX_SECRET_VALUE;
use hospes_host::config::nearest;
use hospes_registry::{Answers, Question, QuestionKind};

use crate::args::AddArgs;
use crate::exit::{CliError, CliResult};
use crate::output::{BOLD, CliOutput, DIM, announce, ask_hidden, discard_typed_input, paint, printable};

/// Maximum number of answers to a question that can be repeated.
const MAX_REPEATED: usize = 32;

/// Collects the answers. With `may_ask`, the person is asked for what is missing.
pub(super) fn collect(
    questions: &[Question],
    args: &AddArgs,
    may_ask: bool,
    output: CliOutput,
) -> CliResult<Answers> {
    let mut answers = Answers::new();
    for given in &args.set {
        let (name, value) = split(given, "--set")?;
        let question = find(questions, name)?;
        if question.kind == QuestionKind::Secret {
            return Err(CliError::usage(format!("`{}` is a secret", printable(name))).hint(
                "an argument is visible to other programs: use --secret NAME=@FILE, NAME=$VARIABLE or NAME=-",
            ));
        }
        check(question, value)?;
        answers.push(&*question.id, value);
    }
    for given in &args.secret {
        let (name, source) = split(given, "--secret")?;
        let question = find(questions, name)?;
        let value = read_secret(name, source)?;
        check(question, &value)?;
        answers.set(&*question.id, value);
    }
    for question in questions {
        if !answers.of(&question.id).is_empty() {
            continue;
        }
        let is_asked = question.required || question.repeated || question.kind != QuestionKind::Secret;
        if !may_ask || !(question.required || is_asked && question.default.is_none()) {
            continue;
        }
        ask(question, &mut answers, output)?;
    }
    let missing: Vec<&Question> = questions
        .iter()
        .filter(|one| one.required && one.default.is_none() && answers.of(&one.id).is_empty())
        .collect();
    if let Some(first) = missing.first() {
        let option = match first.kind {
            QuestionKind::Secret => format!("--secret {}=@FILE", first.id),
            _ => format!("--set {}=VALUE", first.id),
        };
        let names: Vec<String> = missing.iter().map(|one| printable(&one.id)).collect();
        return Err(CliError::usage(format!("the server needs {}", names.join(", ")))
            .hint(format!("run the command in a terminal, or add {}", printable(&option))));
    }
    Ok(answers)
}

fn split<'a>(given: &'a str, flag: &str) -> CliResult<(&'a str, &'a str)> {
    given.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
        // The text is not repeated, because it may be a secret.
        CliError::usage(format!("{flag}: expected NAME=VALUE"))
    })
}

fn find<'q>(questions: &'q [Question], name: &str) -> CliResult<&'q Question> {
    let ids = || questions.iter().map(|question| question.id.as_str());
    questions.iter().find(|question| question.id == name).ok_or_else(|| {
        let problem = CliError::usage(format!("the server does not ask for `{}`", printable(name)));
        match (nearest(name, ids()), questions.is_empty()) {
            (Some(meant), _) => problem.hint(format!("did you mean `{}`?", printable(meant))),
            (None, true) => problem.hint("it asks for nothing"),
            (None, false) => {
                let ids: Vec<String> = ids().map(printable).collect();
                problem.hint(format!("it asks for {}", ids.join(", ")))
            }
        }
    })
}

fn check(question: &Question, answer: &str) -> CliResult {
    match question.problem_of(answer) {
        None => Ok(()),
        Some(what) => Err(CliError::usage(format!("{}: {what}", printable(&question.id)))),
    }
}

/// Reads a secret from `@FILE`, `$VARIABLE` or `-`.
fn read_secret(name: &str, source: &str) -> CliResult<String> {
    let failed = |error: &dyn std::error::Error| {
        CliError::usage(format!("cannot read the secret `{}`", printable(name))).with_cause(error)
    };
    let limit = MAX_SECRET_VALUE as u64 + 2;
    let mut text = String::new();
    if let Some(file) = source.strip_prefix('@') {
        let opened = std::fs::File::open(file).map_err(|error| failed(&error))?;
        opened.take(limit).read_to_string(&mut text).map_err(|error| failed(&error))?;
    } else if let Some(variable) = source.strip_prefix('$') {
        text = std::env::var(variable).map_err(|error| failed(&error))?;
    } else if source == "-" {
        std::io::stdin().take(limit).read_to_string(&mut text).map_err(|error| failed(&error))?;
    } else {
        return Err(CliError::usage(
            "--secret: the value itself must not be an argument, which other programs see",
        )
        .hint("write NAME=@FILE, NAME=$VARIABLE, or NAME=- for standard input"));
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text).to_owned();
    crate::secrets::check_value(&text)?;
    Ok(text)
}

/// Asks a question until the answer is possible.
fn ask(question: &Question, answers: &mut Answers, output: CliOutput) -> CliResult {
    let mut notes = Vec::new();
    if !question.choices.is_empty() {
        notes.push(printable(&question.choices.join(" | ")));
    }
    if let Some(example) = &question.placeholder {
        notes.push(format!("such as {}", printable(example)));
    }
    if let Some(default) = &question.default {
        notes.push(format!("default {}", printable(default)));
    }
    if !question.required {
        notes.push("optional".to_owned());
    }
    if let Some(description) = &question.description {
        announce(format_args!("  {}", paint(DIM, printable(description))));
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    let mut label = format!("  {}{}: ", paint(BOLD, printable(&question.id)), paint(DIM, notes));
    for _ in 0..MAX_REPEATED {
        discard_typed_input();
        let typed = match question.kind {
            QuestionKind::Secret => ask_hidden(&label).map(|typed| typed.to_string()),
            _ => output.ask(&label).map(|typed| typed.trim().to_owned()),
        };
        let typed = typed.ok_or_else(|| CliError::usage("cancelled; nothing was changed"))?;
        if typed.is_empty() {
            if !question.required || question.default.is_some() || !answers.of(&question.id).is_empty() {
                return Ok(());
            }
            announce("  an answer is needed; Ctrl-C cancels");
            continue;
        }
        if let Some(what) = question.problem_of(&typed) {
            announce(format_args!("  {what}"));
            continue;
        }
        answers.push(&*question.id, typed);
        if !question.repeated {
            return Ok(());
        }
        label = format!(
            "  {}{}: ",
            paint(BOLD, printable(&question.id)),
            paint(DIM, " (another one; Enter ends)")
        );
    }
    Ok(())
}
