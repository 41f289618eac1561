//! Answers to the questions of an entry.

use std::collections::BTreeMap;
use std::fmt;

use super::questions::{LaunchQuestion, QuestionKind};
use crate::entry::read_escape;

/// Maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 32 * 1024;

/// Answers, by the ids of the questions. A repeated question may have several. `Debug` does not show them, because some
/// are secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LaunchAnswers(BTreeMap<String, Vec<String>>);

/// A missing or wrong answer. The answer itself is not quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{question}: {what}")]
#[non_exhaustive]
pub struct AnswerProblem {
    /// Id of the question.
    pub question: String,
    /// Description of the problem.
    pub what: String,
}

impl LaunchAnswers {
    /// Creates no answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the only answer of a question.
    pub fn set(&mut self, question: impl Into<String>, answer: impl Into<String>) {
        self.0.insert(question.into(), vec![answer.into()]);
    }

    /// Adds an answer of a repeated question.
    pub fn push(&mut self, question: impl Into<String>, answer: impl Into<String>) {
        self.0.entry(question.into()).or_default().push(answer.into());
    }

    /// Returns these answers with another one.
    #[must_use]
    pub fn with(mut self, question: impl Into<String>, answer: impl Into<String>) -> Self {
        self.push(question, answer);
        self
    }

    /// Returns the answers of a question.
    #[must_use]
    pub fn of(&self, question: &str) -> &[String] {
        self.0.get(question).map_or(&[], Vec::as_slice)
    }

    /// Returns the ids of the answered questions.
    pub fn questions(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the answers of a question, or its default. Empty answers count as none.
    pub(super) fn or_default(&self, question: &LaunchQuestion) -> Vec<String> {
        let given: Vec<String> =
            self.of(&question.id).iter().filter(|answer| !answer.is_empty()).cloned().collect();
        match (&question.default, given.is_empty()) {
            (Some(default), true) => vec![default.clone()],
            _ => given,
        }
    }

    /// Checks the answers of all questions. Defaults are checked too.
    pub(super) fn check(&self, questions: &[LaunchQuestion]) -> Vec<AnswerProblem> {
        let mut problems = Vec::new();
        for question in questions {
            let mut problem =
                |what: String| problems.push(AnswerProblem { question: question.id.clone(), what });
            let answers = self.or_default(question);
            if answers.is_empty() && question.required {
                problem("an answer is required".to_owned());
            }
            if answers.len() > 1 && !question.repeated {
                problem(format!("{} answers were given; one is possible", answers.len()));
            }
            if let Some(what) = answers.iter().find_map(|answer| question.problem_of(answer)) {
                problem(what);
            }
        }
        let known = |id: &str| questions.iter().any(|question| question.id == id);
        for id in self.questions().filter(|id| !known(id)) {
            let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
            let what = match ids.as_slice() {
                [] => "there is no such question; the entry asks nothing".to_owned(),
                ids => format!("there is no such question; the entry asks: {}", ids.join(", ")),
            };
            problems.push(AnswerProblem { question: read_escape(id), what });
        }
        problems
    }
}

impl LaunchQuestion {
    /// Returns what is wrong with an answer.
    #[must_use]
    pub fn problem_of(&self, answer: &str) -> Option<String> {
        if answer.len() > MAX_ANSWER_BYTES {
            return Some(format!("the answer is longer than {MAX_ANSWER_BYTES} bytes"));
        }
        if answer.contains('\0') {
            return Some("the answer contains a NUL character".to_owned());
        }
        if !self.choices.is_empty() && !self.choices.iter().any(|choice| choice == answer) {
            let choices: Vec<String> = self.choices.iter().map(|choice| read_escape(choice)).collect();
            return Some(format!("expected one of: {}", choices.join(", ")));
        }
        match self.kind {
            QuestionKind::Number if !is_decimal(answer) => Some("expected a decimal number".to_owned()),
            QuestionKind::Boolean if !matches!(answer, "true" | "false") => {
                Some("expected true or false".to_owned())
            }
            _ => None,
        }
    }
}

/// Returns true for `8080`, `-1` and `0.5`; not for `inf`, `1e3` or `0x10`.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match digits.split_once('.') {
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
        None => is_digits(digits),
    }
}

impl fmt::Debug for LaunchAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
