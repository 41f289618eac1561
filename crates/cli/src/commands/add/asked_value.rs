//! A value that a server needs, and the question for it.

use hospes_bundle::manifest::{OptionKind, UserOption};
use hospes_console::AdditionQuestion;
use hospes_registry::{LaunchQuestion, QuestionKind, QuestionTarget};

use crate::output::{BOLD, DIM, one_line, paint};

/// Returns what is wrong with an answer.
type AnswerCheck<'a> = Box<dyn Fn(&str) -> Option<String> + Send + Sync + 'a>;

/// A value that a server needs: of a registry entry or of a bundle.
pub(in crate::commands) struct AskedValue<'a> {
    pub(super) id: &'a str,
    pub(super) description: &'a str,
    /// Kind, as pages name it.
    pub(super) kind: &'static str,
    pub(super) is_secret: bool,
    pub(super) is_required: bool,
    pub(super) is_repeated: bool,
    pub(super) choices: &'a [String],
    /// Place of the answer, in words.
    pub(super) target: Option<String>,
    /// Value that is used without an answer.
    pub(super) default: Option<String>,
    pub(super) placeholder: Option<&'a str>,
    pub(super) check: AnswerCheck<'a>,
}

impl<'a> AskedValue<'a> {
    /// Creates the question of a registry entry.
    pub(in crate::commands) fn of_entry(question: &'a LaunchQuestion) -> Self {
        Self {
            id: &question.id,
            description: question.description.as_deref().unwrap_or_default(),
            kind: match question.kind {
                QuestionKind::Secret => "secret",
                QuestionKind::Number => "number",
                QuestionKind::Boolean => "boolean",
                QuestionKind::Path => "path",
                QuestionKind::Choice => "choice",
                _ => "text",
            },
            is_secret: question.kind == QuestionKind::Secret,
            target: Some(match &question.target {
                QuestionTarget::Env(name) => format!("variable {name}"),
                QuestionTarget::Header(name) => format!("header {name}"),
                QuestionTarget::Url => "part of the URL".to_owned(),
                _ => "argument of the command".to_owned(),
            }),
            is_required: question.required,
            is_repeated: question.repeated,
            choices: &question.choices,
            default: question.default.clone(),
            placeholder: question.placeholder.as_deref(),
            check: Box::new(|answer| question.problem_of(answer)),
        }
    }

    /// Creates the question of a header that the card of a server demands. Nobody is bound by a card.
    pub(super) fn of_header(name: &'a str, description: &'a str) -> Self {
        Self {
            id: name,
            description,
            kind: "secret",
            is_secret: true,
            target: Some(format!("header {name}")),
            is_required: false,
            is_repeated: false,
            choices: &[],
            default: None,
            placeholder: None,
            check: Box::new(|answer| super::headers::problem_of(answer).map(str::to_owned)),
        }
    }

    /// Returns true if the person is asked. What has a default is not, so that few keys are needed; `--set` changes it.
    pub(in crate::commands) fn is_asked(&self) -> bool {
        self.default.is_none()
    }

    /// Returns the question for a page.
    pub(super) fn for_page(&self) -> AdditionQuestion {
        AdditionQuestion {
            id: self.id.to_owned(),
            description: self.description.to_owned(),
            kind: self.kind,
            choices: self.choices.to_vec(),
            is_required: self.is_required && self.default.is_none(),
            is_repeated: self.is_repeated,
            // The default of a secret is not shown, as its value would not be.
            default: self.default.clone().filter(|_| !self.is_secret),
            placeholder: self.placeholder.map(str::to_owned),
            target: self.target.clone(),
        }
    }

    /// Creates the question of a bundle's option. Its default is `default`, with the places in it filled in.
    pub(in crate::commands) fn of_bundle(option: &'a UserOption, default: Option<String>) -> Self {
        Self {
            id: &option.key,
            description: if option.description.is_empty() { &option.title } else { &option.description },
            kind: match option.kind {
                _ if option.sensitive => "secret",
                OptionKind::Boolean => "boolean",
                OptionKind::Number => "number",
                OptionKind::Directory | OptionKind::File => "path",
                _ => "text",
            },
            is_secret: option.sensitive,
            target: None,
            is_required: option.required,
            is_repeated: option.multiple,
            choices: &[],
            default,
            placeholder: match option.kind {
                OptionKind::Boolean => Some("true"),
                OptionKind::Directory => Some("/path/of/a/folder"),
                _ => None,
            },
            check: Box::new(|answer| option.parse(&[answer]).err().map(|error| error.to_string())),
        }
    }

    /// Formats the text of a question, without its description: one line.
    pub(super) fn label(&self) -> String {
        let mut notes = Vec::new();
        if !self.choices.is_empty() {
            notes.push(one_line(&self.choices.join(" | ")));
        }
        if let Some(example) = self.placeholder {
            notes.push(format!("such as {}", one_line(example)));
        }
        if let Some(default) = &self.default {
            notes.push(format!("default {}", one_line(default)));
        }
        if !self.is_required {
            notes.push("optional".to_owned());
        }
        let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
        format!("  {}{}: ", paint(BOLD, one_line(self.id)), paint(DIM, notes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_one_line_whatever_is_in_it() {
        let choices = ["a\n  b".to_owned()];
        let question = AskedValue {
            id: "KEY\n  hash",
            description: "",
            kind: "choice",
            is_secret: false,
            is_required: false,
            is_repeated: false,
            choices: &choices,
            target: None,
            default: Some("d\r\n  e".to_owned()),
            placeholder: Some("p\n  q"),
            check: Box::new(|_| None),
        };
        let label = question.label();
        assert_eq!(label.lines().count(), 1, "{label}");
    }
}
