//! Warnings to server authors about features that 2026-07-28 deprecates; they are still served (DEPR-05).

use std::sync::atomic::{AtomicBool, Ordering};

/// Feature that a later revision may remove.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeprecatedFeature {
    Sampling,
    Roots,
    Logging,
}

/// Logs a warning about a deprecated feature, once per process and feature.
pub(crate) fn warn_once(what: DeprecatedFeature) {
    static SAID: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
    // `Relaxed`: nothing is read because of this flag.
    if SAID[what as usize].swap(true, Ordering::Relaxed) {
        return;
    }
    let (feature, instead) = match what {
        DeprecatedFeature::Sampling => ("sampling", "call a model provider directly"),
        DeprecatedFeature::Roots => ("roots", "take folders as arguments, or from the configuration"),
        DeprecatedFeature::Logging => ("log messages to the client", "write to stderr, or use OpenTelemetry"),
    };
    tracing::warn!(
        feature,
        "deprecated since 2026-07-28, and may be removed in a revision from 2027-07-28 on: {instead}"
    );
}

#[cfg(all(test, feature = "server"))]
mod tests;
