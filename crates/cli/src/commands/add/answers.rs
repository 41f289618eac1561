//! Answers to the questions of a server: from options, or from the person.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use hospes_console::{AdditionPerson, AdditionQuestions};
use hospes_host::config::import::MAX_SECRET_VALUE;
use hospes_host::config::nearest;

use super::asked_value::AskedValue;
use super::plan::PlanRequest;
use super::screen::Screen;
use crate::exit::{CliError, CliResult};
use crate::output::{
    BOLD, CliOutput, DIM, announce, ask_hidden, discard_typed_input, one_line, paint, printable,
};

/// Maximum number of answers to a question that can be repeated.
const MAX_REPEATED: usize = 32;

/// The person who is asked for what a server needs.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) enum Asker<'a> {
    /// Nobody: what is missing is an error.
    Nobody,
    /// Nobody, for an entry that is only shown: what is missing is a placeholder.
    Preview,
    /// The person at the terminal.
    Terminal,
    /// The person at a page of the console.
    Page(&'a AdditionPerson),
}

/// Answers by the ids of the questions. `Debug` is not implemented, because secrets are among them.
pub(in crate::commands) type AnswerMap = BTreeMap<String, Vec<String>>;

/// Collects the answers to the questions of the server with this title. A person is asked for what is missing; a page shows
/// `screen` beside the questions.
pub(in crate::commands) async fn collect(
    questions: &[AskedValue<'_>],
    title: &str,
    screen: &Screen,
    request: &PlanRequest<'_>,
) -> CliResult<AnswerMap> {
    let PlanRequest { asker, output, .. } = *request;
    let mut answers = AnswerMap::new();
    for (id, values) in &request.known {
        // What no longer fits is asked again.
        let question = questions.iter().find(|question| question.id == id);
        if question.is_some_and(|question| values.iter().all(|value| (question.check)(value).is_none())) {
            answers.insert(id.clone(), values.clone());
        }
    }
    let mut is_set = BTreeSet::new();
    for given in request.set {
        let (name, value) = split(given, "--set")?;
        let question = find(questions, name)?;
        if question.is_secret {
            return Err(CliError::usage(format!("`{}` is a secret", printable(name))).hint(
                "an argument is visible to other programs: use --secret NAME=@FILE, NAME=$VARIABLE or NAME=-",
            ));
        }
        check(question, value)?;
        if is_set.insert(question.id) {
            answers.remove(question.id);
        }
        answers.entry(question.id.to_owned()).or_default().push(value.to_owned());
    }
    for given in request.secret {
        let (name, source) = split(given, "--secret")?;
        let question = find(questions, name)?;
        let value = read_secret("--secret", name, source)?;
        check(question, &value)?;
        answers.insert(question.id.to_owned(), vec![value]);
    }
    match asker {
        Asker::Nobody | Asker::Preview => {}
        Asker::Terminal => {
            let open = questions.iter().filter(|one| !answers.contains_key(one.id) && one.is_asked());
            let open: Vec<&AskedValue<'_>> = open.collect();
            if !open.is_empty() {
                announce(format_args!("\n  {} asks for:", paint(BOLD, one_line(title))));
            }
            for question in open {
                ask(question, &mut answers, output)?;
            }
        }
        Asker::Page(person) => {
            // Of an update, only what the terminal asks: the other values stay as they are.
            let is_open = |one: &&AskedValue<'_>| {
                !answers.contains_key(one.id) && (request.known.is_empty() || one.is_asked())
            };
            let open: Vec<&AskedValue<'_>> = questions.iter().filter(is_open).collect();
            answers.extend(ask_page(&open, screen, person).await?);
        }
    }
    let missing: Vec<&AskedValue<'_>> = questions
        .iter()
        .filter(|one| one.is_required && one.default.is_none() && !answers.contains_key(one.id))
        .collect();
    if matches!(asker, Asker::Preview) && !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|one| printable(one.id)).collect();
        output.say_wrapped(paint(DIM, format!("  It would ask for {}.", names.join(", "))));
        answers.extend(missing.iter().map(|one| (one.id.to_owned(), vec![format!("<{}>", one.id)])));
        return Ok(answers);
    }
    if let Some(first) = missing.first() {
        let option = match first.is_secret {
            true => format!("--secret {}=@FILE", first.id),
            false => format!("--set {}=VALUE", first.id),
        };
        let names: Vec<String> = missing.iter().map(|one| printable(one.id)).collect();
        return Err(CliError::usage(format!("the server needs {}", names.join(", ")))
            .hint(format!("run the command in a terminal without --yes, or add {}", printable(&option))));
    }
    Ok(answers)
}

/// Asks the person at a page for all values at once, until the answers are possible. Values with a default are asked as
/// well, because they cost no key there.
async fn ask_page(
    questions: &[&AskedValue<'_>],
    screen: &Screen,
    person: &AdditionPerson,
) -> CliResult<AnswerMap> {
    let mut asked = AdditionQuestions {
        screen: screen.for_page(),
        questions: questions.iter().map(|question| question.for_page()).collect(),
        problems: BTreeMap::new(),
    };
    if asked.questions.is_empty() {
        return Ok(AnswerMap::new());
    }
    loop {
        let mut answers =
            person.ask(&asked).await.ok_or_else(|| CliError::usage("cancelled; nothing was changed"))?;
        answers.retain(|_, values| {
            values.retain(|value| !value.is_empty());
            !values.is_empty()
        });
        let problem = |question: &AskedValue<'_>| match answers.get(question.id) {
            None if question.is_required && question.default.is_none() => {
                Some("an answer is needed".to_owned())
            }
            None => None,
            Some(values) => {
                let most = if question.is_repeated { MAX_REPEATED } else { 1 };
                let wrong = values.iter().find_map(|value| problem_of(question, value));
                wrong
                    .or_else(|| (values.len() > most).then(|| format!("at most {most} answers are possible")))
            }
        };
        asked.problems = questions
            .iter()
            .filter_map(|question| Some((question.id.to_owned(), problem(question)?)))
            .collect();
        if let Some(unknown) = answers.keys().find(|id| questions.iter().all(|question| question.id != **id))
        {
            return Err(CliError::usage(format!("the server does not ask for `{}`", printable(unknown))));
        }
        if asked.problems.is_empty() {
            return Ok(answers);
        }
    }
}

/// Returns what is wrong with an answer. The text of a secret is not in it.
fn problem_of(question: &AskedValue<'_>, answer: &str) -> Option<String> {
    if question.is_secret
        && let Err(error) = crate::secrets::check_value(answer)
    {
        return Some(error.message);
    }
    (question.check)(answer)
}

pub(super) fn split<'a>(given: &'a str, flag: &str) -> CliResult<(&'a str, &'a str)> {
    given.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
        // The text is not repeated, because it may be a secret.
        CliError::usage(format!("{flag}: expected NAME=VALUE"))
    })
}

fn find<'q, 'a>(questions: &'q [AskedValue<'a>], name: &str) -> CliResult<&'q AskedValue<'a>> {
    let ids = || questions.iter().map(|question| question.id);
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

fn check(question: &AskedValue<'_>, answer: &str) -> CliResult {
    match (question.check)(answer) {
        None => Ok(()),
        Some(what) => Err(CliError::usage(format!("{}: {what}", printable(question.id)))),
    }
}

/// Reads a secret from `@FILE`, `$VARIABLE` or `-`.
pub(super) fn read_secret(flag: &str, name: &str, source: &str) -> CliResult<String> {
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
        return Err(CliError::usage(format!(
            "{flag}: the value itself must not be an argument, which other programs see"
        ))
        .hint("write NAME=@FILE, NAME=$VARIABLE, or NAME=- for standard input"));
    }
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text).to_owned();
    crate::secrets::check_value(&text)?;
    // Before anything is sent: servers repeat what they get.
    crate::printed_secrets::add_value(&text);
    Ok(text)
}

/// Asks a question until the answer is possible.
fn ask(question: &AskedValue<'_>, answers: &mut AnswerMap, output: CliOutput) -> CliResult {
    if !question.description.is_empty() {
        announce(format_args!("  {}", paint(DIM, one_line(question.description))));
    }
    let mut label = question.label();
    for _ in 0..MAX_REPEATED {
        discard_typed_input();
        let typed = match question.is_secret {
            true => ask_hidden(&label).map(|typed| typed.to_string()),
            false => output.ask(&label).map(|typed| typed.trim().to_owned()),
        };
        let typed = typed.ok_or_else(|| CliError::usage("cancelled; nothing was changed"))?;
        if typed.is_empty() {
            if !question.is_required || question.default.is_some() || answers.contains_key(question.id) {
                return Ok(());
            }
            announce("  an answer is needed; Ctrl-C cancels");
            continue;
        }
        if let Some(what) = (question.check)(&typed) {
            announce(format_args!("  {}", one_line(&what)));
            continue;
        }
        answers.entry(question.id.to_owned()).or_default().push(typed);
        if !question.is_repeated {
            return Ok(());
        }
        label =
            format!("  {}{}: ", paint(BOLD, one_line(question.id)), paint(DIM, " (another one; Enter ends)"));
    }
    Ok(())
}
