//! The setting `console.decisions_from`.

use std::fmt;

/// From where decisions are taken, `console.decisions_from`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DecisionSource {
    /// Browsers that were let in to the console, and nothing else.
    Browser,
    /// Browsers, programs at a person's terminal, and other programs that show a token that the person made.
    #[default]
    Terminal,
    /// Browsers and every program of the same user.
    Programs,
}

impl DecisionSource {
    /// All values, the strictest first.
    pub const ALL: [Self; 3] = [Self::Browser, Self::Terminal, Self::Programs];

    /// The word in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Browser => "browser",
            Self::Terminal => "terminal",
            Self::Programs => "programs",
        }
    }
}

impl fmt::Display for DecisionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
