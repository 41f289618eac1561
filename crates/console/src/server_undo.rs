//! The last change of a server's settings, which can be undone for a while.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_host::config::Secret;
use tokio::time::Instant;

/// Time for which a change can be undone.
const LIFETIME: Duration = Duration::from_mins(10);

/// A change of the configuration file.
#[derive(Debug)]
pub(crate) struct ServerUndo {
    pub(crate) id: String,
    /// Server that it is about.
    pub(crate) server: String,
    /// Keys that were changed, or that the server was removed.
    pub(crate) what: String,
    /// The file before the change.
    pub(crate) before: String,
    /// The file after it.
    pub(crate) after: String,
    /// Stored secrets that were replaced, with their values before; none if they are new.
    pub(crate) secrets: Vec<(String, Option<Secret>)>,
    saved: Instant,
}

impl ServerUndo {
    pub(crate) fn new(
        (server, what): (&str, String),
        (before, after): (String, String),
        secrets: Vec<(String, Option<Secret>)>,
        saved: Instant,
    ) -> Self {
        let mut bytes = [0; 12];
        // Without random bytes there are no sessions either, so the program cannot have come here.
        getrandom::fill(&mut bytes).expect("the operating system has randomness");
        Self {
            id: URL_SAFE_NO_PAD.encode(bytes),
            server: server.to_owned(),
            what,
            before,
            after,
            secrets,
            saved,
        }
    }

    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.saved) < LIFETIME
    }
}
