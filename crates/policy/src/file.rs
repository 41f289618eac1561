use std::fmt;
use std::sync::Arc;

use crate::document::MAX_MISTAKES;
use crate::layer::PolicyLayer;

/// Environment in which a policy file is interpreted, besides its text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PolicyEnvironment {
    /// Home folder that replaces `~` in `under` and `destinations`. Without it, a `~` is a mistake.
    pub home: Option<String>,
    /// File system in which symbolic links are followed. Without it, paths are compared as text only.
    pub links: Option<Arc<dyn LinkResolver>>,
    /// Layer of the file that is read.
    pub layer: PolicyLayer,
}

/// File system in which symbolic links are followed. This crate itself does no I/O.
pub trait LinkResolver: fmt::Debug + Send + Sync {
    /// Returns the absolute path without symbolic links, `.` and `..`. Parts that do not exist stay unchanged.
    ///
    /// # Errors
    /// If the path cannot be followed, because of too many links or missing permission. An allow rule then does not
    /// match.
    fn follow(&self, path: &str) -> Result<String, std::io::Error>;

    /// Returns the names of links and folders in an absolute folder, at most `most`, for paths with wildcards.
    ///
    /// # Errors
    /// If there are more, or they cannot be read; a path with wildcards may then lead anywhere. A missing folder and a
    /// file have no names. The default implementation always fails.
    fn list_folders_and_links(&self, folder: &str, most: usize) -> Result<Vec<String>, std::io::Error> {
        let _unknown = (folder, most);
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

impl PolicyEnvironment {
    /// Creates an environment with this home folder.
    #[must_use]
    pub fn at_home(home: impl Into<String>) -> Self {
        Self { home: Some(home.into()), ..Self::default() }
    }

    /// Sets the file system in which symbolic links are followed.
    #[must_use]
    pub fn following(mut self, links: Arc<dyn LinkResolver>) -> Self {
        self.links = Some(links);
        self
    }

    /// Sets the layer of the file that is read.
    #[must_use]
    pub fn of_layer(mut self, layer: PolicyLayer) -> Self {
        self.layer = layer;
        self
    }
}

/// A mistake in a policy file and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyMistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Rule or label that contains the mistake, if any: "rule 2".
    pub section: Option<String>,
    /// Description of the mistake and the expected value.
    pub message: String,
}

impl PolicyMistake {
    /// Returns the message preceded by its rule or label, without the position.
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

/// All mistakes of a policy file, in order. If the text is not valid TOML, only its syntax errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    pub(crate) mistakes: Vec<PolicyMistake>,
    pub(crate) left_out: usize,
}

impl PolicyError {
    /// Returns the mistakes: at least one, at most 50.
    #[must_use]
    pub fn mistakes(&self) -> &[PolicyMistake] {
        &self.mistakes
    }

    /// Returns the number of further mistakes that are not listed.
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
