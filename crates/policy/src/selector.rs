//! Names that rules and labels apply to.

use crate::arguments::ArgumentPointer;
use crate::condition::ArgumentCondition;
use crate::effects::RequiredEffects;
use crate::paths::TextReadings;
use crate::pattern::{AmbiguityBias, TextPatterns};

/// Conditions of a rule or label on names.
pub(crate) struct RuleSelector<'r> {
    /// Rule or label, such as "rule 2" or "label 1".
    pub(crate) section: String,
    pub(crate) line: usize,
    pub(crate) doubt: AmbiguityBias,
    pub(crate) server: Option<&'r TextPatterns>,
    pub(crate) tool: Option<&'r TextPatterns>,
    pub(crate) prompt: Option<&'r TextPatterns>,
    pub(crate) effects: Option<RequiredEffects>,
    pub(crate) arguments: &'r [(String, ArgumentPointer, ArgumentCondition)],
}

impl RuleSelector<'_> {
    /// Returns true if one of the patterns matches the name, or if there are none.
    pub(crate) fn fits(&self, patterns: Option<&TextPatterns>, name: &str) -> bool {
        patterns.is_none_or(|patterns| patterns.fits(&TextReadings::new(name), self.doubt))
    }
}
