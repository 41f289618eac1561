//! Arguments whose values can be completed.

/// Argument to complete: of a prompt, or a variable of a resource template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Completes {
    pub(crate) of: ArgumentOwner,
    pub(crate) argument: Box<str>,
}

/// Owner of an argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ArgumentOwner {
    Prompt(Box<str>),
    Template(Box<str>),
}

impl Completes {
    /// An argument of the prompt called `name`.
    pub fn prompt(name: impl Into<Box<str>>, argument: impl Into<Box<str>>) -> Self {
        Self { of: ArgumentOwner::Prompt(name.into()), argument: argument.into() }
    }

    /// A variable of the resource template `template`.
    pub fn template(template: impl Into<Box<str>>, variable: impl Into<Box<str>>) -> Self {
        Self { of: ArgumentOwner::Template(template.into()), argument: variable.into() }
    }

    pub(crate) fn of(&self) -> &str {
        match &self.of {
            ArgumentOwner::Prompt(text) | ArgumentOwner::Template(text) => text,
        }
    }
}
