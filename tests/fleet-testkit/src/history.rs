//! Histories of concurrent operations on one object, and whether they are linearizable.
//!
//! A history is linearizable if each operation can be given one moment between its invocation and its return such that
//! the operations, in the order of these moments, are possible for a sequential object. The checker searches for such
//! an order with a memory of what it has tried (Wing and Gong, with Lowe's memory).

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Maximum number of operations of a history.
pub const MAX_OPERATIONS: usize = 128;

/// Sequential object.
pub trait SequentialModel {
    /// State of the object.
    type State: Clone + Eq + Hash + Debug;
    /// Operation with its answer, or without one if the answer is not known.
    type Operation: Debug;

    /// Returns the state after an operation; `None` if its answer is not possible in this state.
    fn apply(&self, state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;
}

/// Operation of a history.
#[derive(Debug)]
struct RecordedOperation<O> {
    operation: O,
    invoked: u64,
    /// `None` for an operation whose answer is not known: it takes effect at any time after its invocation, or never.
    returned: Option<u64>,
}

/// Recorder of concurrent operations.
#[derive(Debug)]
pub struct OperationHistory<O> {
    clock: AtomicU64,
    operations: Mutex<Vec<RecordedOperation<O>>>,
}

/// Moment at which an operation was invoked.
#[derive(Clone, Copy, Debug)]
pub struct InvocationTime(u64);

impl<O> Default for OperationHistory<O> {
    fn default() -> Self {
        Self { clock: AtomicU64::new(0), operations: Mutex::default() }
    }
}

impl<O: Debug> OperationHistory<O> {
    /// Records the invocation of an operation, before it is sent.
    pub fn invoke(&self) -> InvocationTime {
        InvocationTime(self.clock.fetch_add(1, Ordering::SeqCst))
    }

    /// Records the answer of an operation, after it has arrived.
    pub fn finish(&self, invocation: InvocationTime, operation: O) {
        let returned = Some(self.clock.fetch_add(1, Ordering::SeqCst));
        self.operations.lock().push(RecordedOperation { operation, invoked: invocation.0, returned });
    }

    /// Records an operation whose answer is not known.
    pub fn lose(&self, invocation: InvocationTime, operation: O) {
        self.operations.lock().push(RecordedOperation { operation, invoked: invocation.0, returned: None });
    }

    /// Number of operations, and of those without an answer.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        let operations = self.operations.lock();
        (operations.len(), operations.iter().filter(|recorded| recorded.returned.is_none()).count())
    }

    /// Checks the history.
    ///
    /// # Errors
    /// If it is not linearizable; the text lists the operations in the order of their invocations.
    ///
    /// # Panics
    /// If there are more than [`MAX_OPERATIONS`].
    pub fn check<M: SequentialModel<Operation = O>>(
        &self,
        model: &M,
        start: &M::State,
    ) -> Result<(), String> {
        let mut operations = self.operations.lock();
        operations.sort_by_key(|recorded| recorded.invoked);
        assert!(operations.len() <= MAX_OPERATIONS, "too many operations: {}", operations.len());
        let needed = operations.iter().enumerate().filter(|(_, recorded)| recorded.returned.is_some());
        let needed = needed.fold(0_u128, |needed, (index, _)| needed | 1 << index);
        let mut tried = HashSet::new();
        let mut open = vec![(0_u128, start.clone())];
        while let Some((done, state)) = open.pop() {
            if done & needed == needed {
                return Ok(());
            }
            if !tried.insert((done, state.clone())) {
                continue;
            }
            let left = || operations.iter().enumerate().filter(|(index, _)| done & 1 << index == 0);
            // Nothing may come before an operation that had returned when it was invoked.
            let first_return = left().filter_map(|(_, recorded)| recorded.returned).min().unwrap_or(u64::MAX);
            let possible = left().filter(|(_, recorded)| recorded.invoked < first_return);
            let mut next: Vec<_> = possible
                .filter_map(|(index, recorded)| {
                    let after = model.apply(&state, &recorded.operation)?;
                    // One without an answer that changes nothing might as well never take effect.
                    let is_idle = recorded.returned.is_none() && after == state;
                    (!is_idle).then_some((recorded.returned.is_none(), index, after))
                })
                .collect();
            // The last one is tried first: the earliest with an answer. Most histories are possible in about that order.
            next.sort_by_key(|(is_lost, index, _)| std::cmp::Reverse((*is_lost, *index)));
            open.extend(next.into_iter().map(|(_, index, after)| (done | 1 << index, after)));
        }
        Err(format!("the history is not linearizable: {operations:#?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Register of a number.
    struct NumberRegister;

    #[derive(Debug)]
    enum RegisterAccess {
        Write(u8),
        Read(u8),
    }

    impl SequentialModel for NumberRegister {
        type State = u8;
        type Operation = RegisterAccess;

        fn apply(&self, state: &u8, operation: &RegisterAccess) -> Option<u8> {
            match operation {
                RegisterAccess::Write(value) => Some(*value),
                RegisterAccess::Read(value) => (value == state).then_some(*state),
            }
        }
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_either_order() {
        let history = OperationHistory::default();
        let (write, read) = (history.invoke(), history.invoke());
        history.finish(read, RegisterAccess::Read(1));
        history.finish(write, RegisterAccess::Write(1));
        let read = history.invoke();
        history.finish(read, RegisterAccess::Read(1));
        assert_eq!(history.check(&NumberRegister, &0), Ok(()));
    }

    #[test]
    fn a_read_of_the_past_is_found() {
        let history = OperationHistory::default();
        let write = history.invoke();
        history.finish(write, RegisterAccess::Write(1));
        let read = history.invoke();
        history.finish(read, RegisterAccess::Read(0));
        assert!(history.check(&NumberRegister, &0).is_err());
    }

    #[test]
    fn a_lost_operation_takes_effect_late_or_never() {
        for seen in [[0, 0], [0, 1], [1, 1]] {
            let history = OperationHistory::default();
            let write = history.invoke();
            history.lose(write, RegisterAccess::Write(1));
            for value in seen {
                let read = history.invoke();
                history.finish(read, RegisterAccess::Read(value));
            }
            assert_eq!(history.check(&NumberRegister, &0), Ok(()), "{seen:?}");
        }
        let history = OperationHistory::default();
        let write = history.invoke();
        history.lose(write, RegisterAccess::Write(1));
        for value in [1, 0] {
            let read = history.invoke();
            history.finish(read, RegisterAccess::Read(value));
        }
        assert!(history.check(&NumberRegister, &0).is_err());
    }
}
