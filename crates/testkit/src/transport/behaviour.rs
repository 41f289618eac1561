//! Running of one behaviour.

use std::time::Duration;

/// Maximum time of a behaviour. After that, the transport has failed.
pub const BEHAVIOUR_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs one behaviour in a new runtime.
///
/// # Panics
/// If the behaviour is missing, or takes longer than [`BEHAVIOUR_TIMEOUT`].
pub fn run(behaviour: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be had");
    let done = runtime.block_on(async { tokio::time::timeout(BEHAVIOUR_TIMEOUT, behaviour).await });
    // Dropping the runtime would wait for blocking tasks, one of which may hang.
    runtime.shutdown_background();
    assert!(done.is_ok(), "nothing came of it within {BEHAVIOUR_TIMEOUT:?}");
}
