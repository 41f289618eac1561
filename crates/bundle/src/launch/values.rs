//! Values of a bundle's options.

use std::collections::BTreeMap;
use std::fmt;

use crate::manifest::{OptionKind, UserOption};

/// Maximum length of a text value, in bytes.
pub const MAX_VALUE_BYTES: usize = 32 * 1024;
/// Maximum number of values of one option.
pub const MAX_VALUES: usize = 256;

/// Value of an option. [`fmt::Debug`] does not show texts, which may be secrets.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum UserValue {
    /// Text, or the path of a folder or a file.
    Text(String),
    /// Number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Several texts or paths.
    List(Vec<String>),
}

impl UserValue {
    /// Returns the value as it stands in a command. Numbers are written as JavaScript does.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number_text(*number),
            Self::Boolean(is_on) => is_on.to_string(),
            Self::List(texts) => texts.join(","),
        }
    }

    /// Returns true for an empty text, for no values, and for values of which one is empty.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::List(texts) => texts.is_empty() || texts.iter().any(String::is_empty),
            Self::Number(_) | Self::Boolean(_) => false,
        }
    }
}

fn number_text(number: f64) -> String {
    // The canonical form of JSON (RFC 8785) is that of JavaScript. It has no form for what is no finite number.
    serde_json_canonicalizer::to_string(&number).unwrap_or_else(|_| number.to_string())
}

impl fmt::Debug for UserValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Number(number) => write!(f, "Number({number})"),
            Self::Boolean(is_on) => write!(f, "Boolean({is_on})"),
            Self::List(texts) => write!(f, "List({} texts)", texts.len()),
        }
    }
}

impl From<&str> for UserValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<f64> for UserValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for UserValue {
    fn from(is_on: bool) -> Self {
        Self::Boolean(is_on)
    }
}

impl From<Vec<String>> for UserValue {
    fn from(texts: Vec<String>) -> Self {
        Self::List(texts)
    }
}

/// Values by the keys of their options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserValues(BTreeMap<String, UserValue>);

impl UserValues {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of an option.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<UserValue>) {
        self.0.insert(key.into(), value.into());
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<UserValue>) -> Self {
        self.set(key, value);
        self
    }

    /// Returns the value of an option.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&UserValue> {
        self.0.get(key)
    }

    /// Returns keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &UserValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

impl FromIterator<(String, UserValue)> for UserValues {
    fn from_iter<T: IntoIterator<Item = (String, UserValue)>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

/// Reason why a value does not fit its option. The value itself is not named, because it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// Wrong type.
    #[error("expected {expected}")]
    Kind {
        /// Expected kind of value.
        expected: &'static str,
    },
    /// Too small a number.
    #[error("the number is below the minimum, {min}")]
    BelowMinimum {
        /// Minimum of the option.
        min: String,
    },
    /// Too large a number.
    #[error("the number is above the maximum, {max}")]
    AboveMaximum {
        /// Maximum of the option.
        max: String,
    },
    /// Several values for an option that takes one.
    #[error("expected one value")]
    Several,
    /// More than [`MAX_VALUES`].
    #[error("there are more than {MAX_VALUES} values")]
    TooMany,
    /// A text longer than [`MAX_VALUE_BYTES`].
    #[error("the text is longer than {MAX_VALUE_BYTES} bytes")]
    TooLong,
    /// A text with a NUL character, which no command can hold.
    #[error("the text has a NUL character")]
    Nul,
}

impl UserOption {
    /// Checks a value against the type and the limits of the option.
    ///
    /// # Errors
    /// If the value does not fit.
    pub fn check(&self, value: &UserValue) -> Result<(), ValueError> {
        let expected = |expected| Err(ValueError::Kind { expected });
        match (self.kind, value) {
            (OptionKind::Number, UserValue::Number(number)) => self.check_number(*number),
            (OptionKind::Number, _) => expected("a number"),
            (OptionKind::Boolean, UserValue::Boolean(_)) => Ok(()),
            (OptionKind::Boolean, _) => expected("true or false"),
            (_, UserValue::Text(text)) => check_text(text),
            (_, UserValue::List(_)) if !self.multiple => Err(ValueError::Several),
            (_, UserValue::List(texts)) if texts.len() > MAX_VALUES => Err(ValueError::TooMany),
            (_, UserValue::List(texts)) => texts.iter().try_for_each(|text| check_text(text)),
            (OptionKind::String, _) => expected("a text"),
            (OptionKind::Directory, _) => expected("the path of a folder"),
            (OptionKind::File, _) => expected("the path of a file"),
        }
    }

    fn check_number(&self, number: f64) -> Result<(), ValueError> {
        if !number.is_finite() {
            return Err(ValueError::Kind { expected: "a finite number" });
        }
        match (self.min, self.max) {
            (Some(min), _) if number < min => Err(ValueError::BelowMinimum { min: number_text(min) }),
            (_, Some(max)) if number > max => Err(ValueError::AboveMaximum { max: number_text(max) }),
            _ => Ok(()),
        }
    }

    /// Reads texts that a person typed as the value of the option, and checks it. An option for several values takes
    /// all texts.
    ///
    /// # Errors
    /// If a text is no value of the option's type, or does not fit its limits.
    pub fn parse(&self, texts: &[&str]) -> Result<UserValue, ValueError> {
        let value = match (self.kind, texts) {
            (OptionKind::String | OptionKind::Directory | OptionKind::File, _) if self.multiple => {
                UserValue::List(texts.iter().map(|text| (*text).to_owned()).collect())
            }
            (OptionKind::String | OptionKind::Directory | OptionKind::File, [text]) => (*text).into(),
            (OptionKind::Number, [text]) => {
                UserValue::Number(text.trim().parse().map_err(|_| ValueError::Kind { expected: "a number" })?)
            }
            (OptionKind::Boolean, [text]) => match text.trim() {
                "true" | "yes" | "y" | "on" | "1" => true.into(),
                "false" | "no" | "n" | "off" | "0" => false.into(),
                _ => return Err(ValueError::Kind { expected: "true or false" }),
            },
            _ => return Err(ValueError::Several),
        };
        self.check(&value)?;
        Ok(value)
    }
}

fn check_text(text: &str) -> Result<(), ValueError> {
    if text.len() > MAX_VALUE_BYTES {
        return Err(ValueError::TooLong);
    }
    if text.contains('\0') {
        return Err(ValueError::Nul);
    }
    Ok(())
}
