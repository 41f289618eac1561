//! Filling answers into arguments and values.

use super::answers::{AnswerProblem, LaunchAnswers};
use super::questions::{InputPlace, PlacedQuestion, QuestionKind, is_fixed_flag};
use super::template::{Piece, pieces};
use super::text::PlannedText;
use super::{LaunchError, LaunchWarning};
use crate::entry::{ArgumentKind, EntryArgument, EntryInput, InputFormat};

/// Fills the answers into the inputs of one choice.
pub(super) struct InputFiller<'a> {
    placed: Vec<PlacedQuestion>,
    answers: &'a LaunchAnswers,
    pub(super) warnings: Vec<LaunchWarning>,
    pub(super) folders: Vec<String>,
}

impl<'a> InputFiller<'a> {
    /// Creates a filler, after a check of all answers.
    pub(super) fn new(placed: Vec<PlacedQuestion>, answers: &'a LaunchAnswers) -> Result<Self, LaunchError> {
        let questions: Vec<_> = placed.iter().map(|placed| placed.question.clone()).collect();
        let problems = answers.check(&questions);
        if !problems.is_empty() {
            return Err(LaunchError::Answers(problems));
        }
        let paths = questions.iter().filter(|question| question.kind == QuestionKind::Path);
        let folders = paths.flat_map(|question| answers.or_default(question)).collect();
        Ok(Self { placed, answers, warnings: Vec::new(), folders })
    }

    /// Returns true if a secret is asked for.
    pub(super) fn asks_secret(&self) -> bool {
        self.placed.iter().any(|placed| placed.question.kind == QuestionKind::Secret)
    }

    /// Returns the texts of an argument, as items of a command line.
    pub(super) fn argument(
        &mut self,
        argument: &EntryArgument,
        place: InputPlace,
    ) -> Result<Vec<PlannedText>, LaunchError> {
        let name = argument.name.clone().unwrap_or_default();
        if argument.kind == ArgumentKind::Named && is_fixed_flag(argument) {
            return Ok(vec![name.into()]);
        }
        let values = self.values(&argument.input, place)?;
        if argument.kind != ArgumentKind::Named {
            let is_answer = argument.input.value.as_deref().is_none_or(|value| value.starts_with('{'));
            let suspicious = values.iter().filter(|value| is_answer && value.reveal().starts_with('-'));
            let warnings: Vec<_> = suspicious
                .map(|value| LaunchWarning::PositionalLooksLikeOption { value: value.masked() })
                .collect();
            self.warnings.extend(warnings);
            return Ok(values);
        }
        let mut items = Vec::new();
        for value in values {
            let revealed = value.reveal();
            if argument.input.format == InputFormat::Boolean && argument.input.value.is_none() {
                // A switch: present for `true`, absent for `false`.
                items.extend((revealed == "true").then(|| PlannedText::plain(name.clone())));
            } else if revealed.starts_with('-') && name.starts_with("--") {
                // Apart, it would be taken for the next option.
                let mut joined = PlannedText::plain(format!("{name}="));
                joined.append(value);
                items.push(joined);
            } else {
                items.push(PlannedText::plain(name.clone()));
                items.push(value);
            }
        }
        Ok(items)
    }

    /// Returns the values of an input: none if nothing is to be set, several if it is repeated.
    pub(super) fn values(
        &mut self,
        input: &EntryInput,
        place: InputPlace,
    ) -> Result<Vec<PlannedText>, LaunchError> {
        let Some(template) = &input.value else {
            let Some(placed) = self.find(place, None) else { return Ok(Vec::new()) };
            return Ok(self.texts(placed));
        };
        let template_pieces = pieces(template);
        let mut filled: Vec<(&str, Vec<PlannedText>)> = Vec::new();
        let mut undeclared = Vec::new();
        for piece in &template_pieces {
            let Piece::Variable(name) = *piece else { continue };
            if filled.iter().any(|(known, _)| *known == name) {
                continue;
            }
            match (self.find(place, Some(name)), input.variables.get(name)) {
                (Some(placed), _) => filled.push((name, self.texts(placed))),
                (None, Some(EntryInput { value: Some(fixed), .. })) => {
                    filled.push((name, vec![PlannedText::plain(fixed.as_str())]));
                }
                _ => undeclared.push(LaunchWarning::UndeclaredVariable(name.to_owned())),
            }
        }
        self.warnings.extend(undeclared);
        if filled.iter().any(|(_, values)| values.is_empty()) {
            return Ok(Vec::new());
        }
        let count = filled.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
        if let Some((name, values)) =
            filled.iter().find(|(_, values)| values.len() != count && values.len() != 1)
        {
            let what = format!(
                "{} answers were given, and {count} to another part of the same argument",
                values.len()
            );
            let question = self
                .find(place, Some(name))
                .map_or_else(|| (*name).to_owned(), |placed| placed.question.id.clone());
            return Err(LaunchError::Answers(vec![AnswerProblem { question, what }]));
        }
        let mut texts = Vec::new();
        for index in 0..count {
            let mut text = PlannedText::default();
            for piece in &template_pieces {
                match *piece {
                    Piece::Text(plain) => text.push_plain(plain),
                    Piece::Variable(name) => match filled.iter().find(|(known, _)| *known == name) {
                        Some((_, values)) => {
                            if let Some(value) = values.get(index).or_else(|| values.first()) {
                                text.append(value.clone());
                            }
                        }
                        // It stays as it is, as the format demands.
                        None => text.push_plain(&format!("{{{name}}}")),
                    },
                }
            }
            texts.push(text);
        }
        Ok(texts)
    }

    pub(super) fn find(&self, place: InputPlace, variable: Option<&str>) -> Option<&PlacedQuestion> {
        self.placed.iter().find(|placed| placed.place == place && placed.variable.as_deref() == variable)
    }

    pub(super) fn texts(&self, placed: &PlacedQuestion) -> Vec<PlannedText> {
        let question = &placed.question;
        let text = |answer: String| match question.kind {
            QuestionKind::Secret => PlannedText::secret(&question.id, &answer),
            _ => PlannedText::plain(answer),
        };
        self.answers.or_default(question).into_iter().map(text).collect()
    }
}
