use std::fmt;
use std::sync::Arc;

use crate::document::MAX_MISTAKES;

/// Surroundings that a policy file is read in, besides its text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PolicyEnvironment {
    /// Home folder that replaces `~` in `under` and `destinations`. Without it, a `~` is a mistake.
    pub home: Option<String>,
    /// The disk on which symbolic links are followed. Without one, a path is only its text.
    pub links: Option<Arc<dyn LinkResolver>>,
}

/// A disk on which the symbolic links of a path are followed. The crate itself does no I/O.
pub trait LinkResolver: fmt::Debug + Send + Sync {
    /// The absolute path without symbolic links, `.` and `..`. Parts that do not exist stay as they are.
    ///
    /// # Errors
    /// When the path cannot be followed: too many links, no permission. A rule that permits does not fit then.
    fn follow(&self, path: &str) -> Result<String, std::io::Error>;

    /// The names in an absolute folder that stand for links or folders, for paths with wildcards; at most `most`.
    ///
    /// # Errors
    /// When there are more, or they cannot be read; a path with wildcards there may lead anywhere then. What is no folder, or
    /// not there, has none. Without an implementation nothing is known.
    fn list_folders_and_links(&self, folder: &str, most: usize) -> Result<Vec<String>, std::io::Error> {
        let _unknown = (folder, most);
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

impl PolicyEnvironment {
    /// A reading with this home folder.
    #[must_use]
    pub fn at_home(home: impl Into<String>) -> Self {
        Self { home: Some(home.into()), links: None }
    }

    /// Sets the disk on which symbolic links are followed.
    #[must_use]
    pub fn following(mut self, links: Arc<dyn LinkResolver>) -> Self {
        self.links = Some(links);
        self
    }
}

/// One mistake in a policy file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyMistake {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The rule or label it stands in, if any: "rule 2".
    pub section: Option<String>,
    /// Description of the mistake and the expected value.
    pub message: String,
}

impl PolicyMistake {
    /// The message after the rule or label that it concerns, without the place in the file.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.section {
            Some(section) => format!("{section}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for PolicyMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.sentence())
    }
}

/// All mistakes of a policy file, in the order of the file. Where the text is not TOML, these mistakes alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    pub(crate) mistakes: Vec<PolicyMistake>,
    pub(crate) left_out: usize,
}

impl PolicyError {
    /// The mistakes, at least one and at most 50.
    #[must_use]
    pub fn mistakes(&self) -> &[PolicyMistake] {
        &self.mistakes
    }

    /// Number of further mistakes beyond those that are listed.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.mistakes.as_slice() {
            return one.fmt(f);
        }
        write!(f, "{} mistakes", self.mistakes.len() + self.left_out)?;
        for mistake in &self.mistakes {
            write!(f, "\n  {mistake}")?;
        }
        if self.left_out > 0 {
            write!(f, "\n  and {} more than the {MAX_MISTAKES} shown", self.left_out)?;
        }
        Ok(())
    }
}
