//! Selection of checks.

/// Checks that are made on calls and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CheckSettings {
    /// Arguments are checked against the tool's input schema; calls that violate it are not sent.
    pub arguments: bool,
    /// Structured results are checked against the tool's output schema; those that violate it are delivered as text.
    pub structured_results: bool,
    /// Hidden characters are removed from results, and text that reads like instructions gets a notice.
    pub results: bool,
    /// Arguments are searched for secrets of other servers, local destinations and shell metacharacters.
    pub destinations: bool,
}

impl CheckSettings {
    /// All checks.
    pub const ALL: Self =
        Self { arguments: true, structured_results: true, results: true, destinations: true };

    /// No checks.
    pub const NONE: Self =
        Self { arguments: false, structured_results: false, results: false, destinations: false };
}
