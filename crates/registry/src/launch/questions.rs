//! The questions that an entry asks before its server can start.

use super::choice::LaunchChoice;
use super::template::{Piece, pieces};
use crate::entry::{
    ArgumentKind, EntryArgument, EntryInput, InputFormat, RegistryPackage, RegistryRemote, RegistryType,
    ServerEntry,
};

/// A question: one value that a person gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchQuestion {
    /// Unique name among the questions of a choice: of the variable, argument, environment variable or header.
    pub id: String,
    /// Kind of the value.
    pub kind: QuestionKind,
    /// Permitted values. Without them any value of the kind is possible.
    pub choices: Vec<String>,
    /// Is true if the server does not work without an answer.
    pub required: bool,
    /// Is true if several answers are possible.
    pub repeated: bool,
    /// Value that is used without an answer.
    pub default: Option<String>,
    /// Text of the publisher.
    pub description: Option<String>,
    /// Example of the publisher.
    pub placeholder: Option<String>,
    /// Where the answer stands.
    pub target: QuestionTarget,
}

/// Kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionKind {
    /// Any text.
    Text,
    /// Decimal number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// File or folder on this machine.
    Path,
    /// One of `choices`.
    Choice,
    /// Password or key, which is not shown and not written to a file. It may have `choices`.
    Secret,
}

/// Where an answer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionTarget {
    /// In an environment variable.
    Env(String),
    /// In an argument of the server.
    Argument(String),
    /// In an argument of the program that runs the package.
    RuntimeArgument(String),
    /// In a header.
    Header(String),
    /// In the URL.
    Url,
}

/// Which input of a choice a question belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputPlace {
    Env(usize),
    Runtime(usize),
    Package(usize),
    Header(usize),
    Url,
}

/// A question with the input that it fills.
#[derive(Clone, Debug)]
pub(super) struct PlacedQuestion {
    pub(super) question: LaunchQuestion,
    pub(super) place: InputPlace,
    /// Variable of the input's value, if the answer is not the whole value.
    pub(super) variable: Option<String>,
}

/// Lists what must or may be asked before a choice can start: required questions first. Fixed values are not asked.
/// The list is empty if the entry has no such choice.
#[must_use]
pub fn questions(entry: &ServerEntry, choice: LaunchChoice) -> Vec<LaunchQuestion> {
    let mut found: Vec<LaunchQuestion> =
        placed_questions(entry, choice).into_iter().map(|placed| placed.question).collect();
    found.sort_by_key(|question| !question.required);
    found
}

pub(super) fn placed_questions(entry: &ServerEntry, choice: LaunchChoice) -> Vec<PlacedQuestion> {
    let mut builder = QuestionList::default();
    match choice {
        LaunchChoice::Package(index) => {
            if let Some(package) = entry.packages.get(index) {
                builder.package(package);
            }
        }
        LaunchChoice::Remote(index) => {
            if let Some(remote) = entry.remotes.get(index) {
                builder.remote(remote);
            }
        }
    }
    builder.0
}

#[derive(Default)]
struct QuestionList(Vec<PlacedQuestion>);

impl QuestionList {
    fn package(&mut self, package: &RegistryPackage) {
        for (index, variable) in package.environment_variables.iter().enumerate() {
            let target = QuestionTarget::Env(variable.name.clone());
            self.input(&variable.input, &variable.name, false, &target, InputPlace::Env(index));
        }
        let package_arguments = package.package_arguments.iter().enumerate();
        for (index, argument) in package_arguments {
            let name = argument_name(argument, index);
            let target = QuestionTarget::Argument(name.clone());
            self.argument(argument, &name, &target, InputPlace::Package(index));
        }
        for (index, argument) in package.runtime_arguments.iter().enumerate() {
            if is_own_argument(package, argument) {
                continue;
            }
            let name = argument_name(argument, index);
            let target = QuestionTarget::RuntimeArgument(name.clone());
            self.argument(argument, &name, &target, InputPlace::Runtime(index));
        }
    }

    fn argument(&mut self, argument: &EntryArgument, name: &str, target: &QuestionTarget, place: InputPlace) {
        if is_fixed_flag(argument) {
            return;
        }
        self.input(&argument.input, name, argument.is_repeated, target, place);
    }

    fn remote(&mut self, remote: &RegistryRemote) {
        for piece in pieces(&remote.url) {
            let Piece::Variable(name) = piece else { continue };
            let is_known = self.0.iter().any(|known| known.variable.as_deref() == Some(name));
            if let (Some(input), false) = (remote.variables.get(name), is_known) {
                self.variable(input, name, name, false, true, &QuestionTarget::Url, InputPlace::Url);
            }
        }
        for (index, header) in remote.headers.iter().enumerate() {
            let target = QuestionTarget::Header(header.name.clone());
            self.input(&header.input, &header.name, false, &target, InputPlace::Header(index));
        }
    }

    /// Asks for the value of an input, or for the variables of its fixed value.
    fn input(
        &mut self,
        input: &EntryInput,
        name: &str,
        is_repeated: bool,
        target: &QuestionTarget,
        place: InputPlace,
    ) {
        let Some(value) = &input.value else {
            let question = self.question(input, name, None, is_repeated, target);
            self.0.push(PlacedQuestion { question, place, variable: None });
            return;
        };
        let mut seen: Vec<&str> = Vec::new();
        for piece in pieces(value) {
            let Piece::Variable(variable) = piece else { continue };
            let Some(declared) = input.variables.get(variable) else { continue };
            if !seen.contains(&variable) {
                seen.push(variable);
                // A secret in which a part is filled in is a secret.
                let mut declared = declared.clone();
                declared.is_secret |= input.is_secret;
                self.variable(&declared, variable, name, is_repeated, false, target, place);
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all describe one variable, and there is one caller for each kind"
    )]
    fn variable(
        &mut self,
        input: &EntryInput,
        variable: &str,
        owner: &str,
        is_repeated: bool,
        is_needed: bool,
        target: &QuestionTarget,
        place: InputPlace,
    ) {
        if input.value.is_some() {
            return;
        }
        let mut question = self.question(input, variable, Some(owner), is_repeated, target);
        // A URL has a gap without it.
        question.required |= is_needed && question.default.is_none();
        self.0.push(PlacedQuestion { question, place, variable: Some(variable.to_owned()) });
    }

    fn question(
        &self,
        input: &EntryInput,
        name: &str,
        owner: Option<&str>,
        is_repeated: bool,
        target: &QuestionTarget,
    ) -> LaunchQuestion {
        let kind = match &input.format {
            _ if input.is_secret => QuestionKind::Secret,
            _ if !input.choices.is_empty() => QuestionKind::Choice,
            InputFormat::Number => QuestionKind::Number,
            InputFormat::Boolean => QuestionKind::Boolean,
            InputFormat::Filepath => QuestionKind::Path,
            InputFormat::String | InputFormat::Other(_) => QuestionKind::Text,
        };
        LaunchQuestion {
            id: self.unique_id(name, owner),
            kind,
            choices: input.choices.clone(),
            required: input.is_required,
            repeated: is_repeated,
            default: input.default.clone().filter(|default| !default.is_empty()),
            description: input.description.clone().filter(|text| !text.trim().is_empty()),
            placeholder: input.placeholder.clone().filter(|text| !text.is_empty()),
            target: target.clone(),
        }
    }

    fn unique_id(&self, name: &str, owner: Option<&str>) -> String {
        let is_free = |id: &str| !self.0.iter().any(|placed| placed.question.id == id);
        if is_free(name) {
            return name.to_owned();
        }
        let base = owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}.{name}"));
        if is_free(&base) {
            return base;
        }
        // There are fewer questions than numbers.
        (2..).map(|number: u32| format!("{base}-{number}")).find(|id| is_free(id)).unwrap_or(base)
    }
}

/// Returns the name of an argument for people: its value hint, or its name without dashes.
fn argument_name(argument: &EntryArgument, index: usize) -> String {
    let name = match argument.kind {
        ArgumentKind::Named => argument.name.as_deref().map(|name| name.trim_start_matches('-')),
        _ => argument.value_hint.as_deref(),
    };
    match name.or(argument.value_hint.as_deref()) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => format!("argument{}", index + 1),
    }
}

/// Returns true for a named argument that nothing says a value for: a flag that is always there.
pub(super) fn is_fixed_flag(argument: &EntryArgument) -> bool {
    let input = &argument.input;
    argument.kind == ArgumentKind::Named
        && input.value.is_none()
        && input.default.is_none()
        && input.placeholder.is_none()
        && input.description.is_none()
        && input.choices.is_empty()
        && argument.value_hint.is_none()
        && input.format == InputFormat::String
        && !input.is_required
        && !input.is_secret
}

/// Returns true for runtime arguments that the command has anyway: `-y` of npx, the package itself, `run`, `-i`, `--rm`.
pub(super) fn is_own_argument(package: &RegistryPackage, argument: &EntryArgument) -> bool {
    let word = match (&argument.kind, &argument.name, &argument.input.value) {
        (ArgumentKind::Named, Some(name), None) => name,
        (ArgumentKind::Positional, _, Some(value)) => value,
        _ => return false,
    };
    let is_package = {
        let rest = word.strip_prefix(package.identifier.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['@', '=', ':']))
    };
    is_package
        || match package.registry_type {
            RegistryType::Npm => matches!(word.as_str(), "-y" | "--yes" | "npx"),
            RegistryType::Pypi => word == "uvx",
            RegistryType::Nuget => matches!(word.as_str(), "--yes" | "dnx"),
            RegistryType::Oci => {
                matches!(word.as_str(), "docker" | "run" | "-i" | "--interactive" | "--rm" | "-it")
            }
            _ => false,
        }
}
