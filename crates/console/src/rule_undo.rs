//! The last saved rule, which can be undone for a short time.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::time::Instant;

/// Time for which a rule can be undone. The page offers it for 10 seconds.
const LIFETIME: Duration = Duration::from_secs(60);

/// A saved rule.
#[derive(Debug)]
pub(crate) struct RuleUndo {
    pub(crate) id: String,
    /// The file without the rule.
    pub(crate) before: String,
    /// The file with it.
    pub(crate) after: String,
    saved: Instant,
}

impl RuleUndo {
    pub(crate) fn new(before: String, after: String, saved: Instant) -> Self {
        let mut bytes = [0; 12];
        // Without random bytes there are no sessions either, so the program cannot have come here.
        getrandom::fill(&mut bytes).expect("the operating system has randomness");
        Self { id: URL_SAFE_NO_PAD.encode(bytes), before, after, saved }
    }

    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.saved) < LIFETIME
    }
}
