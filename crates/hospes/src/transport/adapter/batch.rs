//! The answers to a batch (2025-03-26 only), gathered into one array.

use std::sync::{Mutex, PoisonError};

/// Gathers the answers to the requests of one batch.
#[derive(Debug)]
pub(crate) struct BatchAnswers(Mutex<BatchState>);

#[derive(Debug)]
struct BatchState {
    text: Vec<u8>,
    missing: usize,
}

impl BatchAnswers {
    /// A batch of `requests` requests.
    pub(crate) fn new(requests: usize) -> Self {
        Self(Mutex::new(BatchState { text: Vec::new(), missing: requests }))
    }

    /// Adds one answer, or none for a cancelled request. Returns the whole batch with the last one; none if there is no
    /// answer at all.
    pub(crate) fn add_answer(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !answer.is_empty() {
            let before = if state.text.is_empty() { b'[' } else { b',' };
            state.text.push(before);
            state.text.extend_from_slice(answer);
        }
        state.missing = state.missing.saturating_sub(1);
        // If all requests were cancelled, nothing is sent, not even an empty array (BATCH-08).
        if state.missing > 0 || state.text.is_empty() {
            return None;
        }
        state.text.push(b']');
        Some(std::mem::take(&mut state.text))
    }
}
