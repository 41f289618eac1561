use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use toml::Spanned;
use toml::value::Datetime;

use crate::action::About;
use crate::flow::DataFlow;
use crate::verdict::Decision;

/// What must be known to read a policy beside its text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Reading {
    /// The home folder, which `~` in `under` and `destinations` stands for. Without it, a `~` is a mistake.
    pub home: Option<String>,
    /// The disk on which symbolic links are followed. Without one, a path is only its text.
    pub links: Option<Arc<dyn FollowLinks>>,
}

/// A disk on which the symbolic links of a path are followed. The crate itself does no I/O.
pub trait FollowLinks: fmt::Debug + Send + Sync {
    /// The absolute path without symbolic links, `.` and `..`. Parts that do not exist stay as they are.
    ///
    /// # Errors
    /// When the path cannot be followed: too many links, no permission. A rule that permits does not fit then.
    fn follow(&self, path: &str) -> Result<String, std::io::Error>;
}

impl Reading {
    /// With this home folder.
    #[must_use]
    pub fn at_home(home: impl Into<String>) -> Self {
        Self { home: Some(home.into()), links: None }
    }

    /// With this disk, on which symbolic links are followed.
    #[must_use]
    pub fn following(mut self, links: Arc<dyn FollowLinks>) -> Self {
        self.links = Some(links);
        self
    }
}

/// Why a policy could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It is no TOML, or has a key that is none or a value of the wrong type. The text shows the place.
    #[error("{}", .0.to_string().trim_end())]
    Written(#[source] toml::de::Error),
    /// A rule says something that cannot be meant.
    #[error("rule {number} (line {line}): {what}")]
    Rule {
        /// Which one, from 1.
        number: usize,
        /// The line where it begins, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A label says something that cannot be meant.
    #[error("label {number} (line {line}): {what}")]
    Label {
        /// Which one, from 1.
        number: usize,
        /// The line where it begins, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// The file as it is written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenPolicy {
    #[serde(default)]
    pub(crate) trusted: Vec<String>,
    #[serde(default)]
    pub(crate) data_flow: DataFlow,
    #[serde(default)]
    pub(crate) label: Vec<Spanned<WrittenLabel>>,
    #[serde(default)]
    pub(crate) rule: Vec<Spanned<WrittenRule>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenRule {
    pub(crate) decide: Decision,
    pub(crate) name: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) about: Option<OneOrMore<About>>,
    pub(crate) server: Option<OneOrMore>,
    pub(crate) tool: Option<OneOrMore>,
    pub(crate) prompt: Option<OneOrMore>,
    pub(crate) resource: Option<OneOrMore>,
    pub(crate) application: Option<OneOrMore>,
    pub(crate) principal: Option<OneOrMore>,
    pub(crate) effects: Option<WrittenEffects>,
    #[serde(default)]
    pub(crate) arguments: BTreeMap<String, toml::Value>,
    pub(crate) destinations: Option<OneOrMore>,
    pub(crate) until: Option<Datetime>,
    pub(crate) strong: Option<bool>,
    pub(crate) remember: Option<bool>,
    pub(crate) review: Option<bool>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenLabel {
    pub(crate) server: Option<OneOrMore>,
    pub(crate) tool: Option<OneOrMore>,
    pub(crate) prompt: Option<OneOrMore>,
    pub(crate) resource: Option<OneOrMore>,
    pub(crate) private: Option<bool>,
    pub(crate) untrusted: Option<bool>,
    pub(crate) outbound: Option<bool>,
}

#[derive(serde::Deserialize, Clone, Copy, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenEffects {
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

/// What is written alone or in a list: `"a"` or `["a", "b"]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OneOrMore<T = String>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of texts")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
                T::deserialize(serde::de::value::StrDeserializer::new(text)).map(|one| vec![one])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items))
            }
        }

        let all = deserializer.deserialize_any(Either(std::marker::PhantomData))?;
        if all.is_empty() {
            return Err(D::Error::custom("an empty list fits nothing; leave the key out if all shall fit"));
        }
        Ok(Self(all))
    }
}
