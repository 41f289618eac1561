//! Verification of passwords: off the asynchronous runtime, and only a few at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of passwords that are verified at once: the limit `max_password_verifications`. Each takes a thread and
/// the memory of its hash, 19 MiB by default.
pub(crate) const MAX_PASSWORD_VERIFICATIONS: usize = 4;

/// Maximum time that a sign-in waits for its verification to begin.
const VERIFICATION_WAIT: Duration = Duration::from_secs(5);

/// Runs verifications of passwords. Clones share the limit.
#[derive(Clone, Debug)]
pub(super) struct PasswordVerifier {
    turns: Arc<Semaphore>,
}

/// Error of a sign-in whose password was not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VerifyPasswordError {
    /// All turns were in use for the whole time of waiting.
    #[error("{MAX_PASSWORD_VERIFICATIONS} passwords are being verified (limit `max_password_verifications`)")]
    Busy,
    /// The verification ended without a result.
    #[error("the verification of a password panicked or was stopped")]
    Stopped,
}

impl Default for PasswordVerifier {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(MAX_PASSWORD_VERIFICATIONS)) }
    }
}

impl PasswordVerifier {
    /// Runs this verification on a thread for blocking work, as soon as fewer than the maximum number run.
    ///
    /// # Errors
    /// If it could not begin in time, or did not end.
    pub(super) async fn run(
        &self,
        verify: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<bool, VerifyPasswordError> {
        let turn = timeout(VERIFICATION_WAIT, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(VerifyPasswordError::Busy) };
        // A thread of the runtime would serve no other request in the meantime.
        let verified = tokio::task::spawn_blocking(move || {
            // The turn ends with the work, which goes on when the request is dropped.
            let _turn = turn;
            verify()
        });
        verified.await.map_err(|_| VerifyPasswordError::Stopped)
    }
}

#[cfg(test)]
impl PasswordVerifier {
    /// Takes all turns, until the result is dropped.
    pub(super) async fn take_all_turns(&self) -> tokio::sync::OwnedSemaphorePermit {
        let all = u32::try_from(MAX_PASSWORD_VERIFICATIONS).unwrap();
        Arc::clone(&self.turns).acquire_many_owned(all).await.unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_verification_waits_for_a_turn_and_is_rejected_after_a_while() {
        let verifier = PasswordVerifier::default();
        let turns = verifier.take_all_turns().await;
        let rejected = verifier.run(|| true).await.unwrap_err();
        assert_eq!(rejected, VerifyPasswordError::Busy);
        assert_eq!(
            rejected.to_string(),
            "4 passwords are being verified (limit `max_password_verifications`)"
        );
        let waiting = tokio::spawn({
            let verifier = verifier.clone();
            async move { verifier.run(|| true).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(turns);
        assert_eq!(waiting.await.unwrap(), Ok(true));
    }

    #[tokio::test]
    async fn the_work_of_a_dropped_request_keeps_its_turn() {
        let verifier = PasswordVerifier::default();
        let mut unfinished = Vec::new();
        for _ in 0..MAX_PASSWORD_VERIFICATIONS {
            let ((finish, finished), (begin, begun)) = (mpsc::channel::<()>(), oneshot::channel());
            let verifier = verifier.clone();
            let request = tokio::spawn(async move {
                let work = move || {
                    begin.send(()).unwrap();
                    finished.recv().is_ok()
                };
                verifier.run(work).await
            });
            begun.await.unwrap();
            request.abort();
            assert!(request.await.unwrap_err().is_cancelled());
            unfinished.push(finish);
        }
        assert_eq!(verifier.turns.available_permits(), 0);
        for finish in unfinished {
            finish.send(()).unwrap();
        }
        assert_eq!(verifier.run(|| true).await, Ok(true));
    }

    #[tokio::test]
    async fn a_verification_that_panics_gives_its_turn_back() {
        let verifier = PasswordVerifier::default();
        for _ in 0..=MAX_PASSWORD_VERIFICATIONS {
            assert_eq!(verifier.run(|| panic!("on purpose")).await, Err(VerifyPasswordError::Stopped));
        }
    }
}
