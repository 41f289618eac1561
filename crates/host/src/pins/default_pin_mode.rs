//! Mode of acceptance of servers without a mode of their own.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::PinMode;

/// Mode in which definitions are accepted of servers whose configuration has none. It may change while the host runs,
/// because it depends on whether there are rules. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct DefaultPinMode(Arc<RwLock<PinMode>>);

impl DefaultPinMode {
    /// Creates the mode.
    #[must_use]
    pub fn new(mode: PinMode) -> Self {
        Self(Arc::new(RwLock::new(mode)))
    }

    /// Returns the current mode.
    #[must_use]
    pub fn current(&self) -> PinMode {
        *self.0.read()
    }

    /// Changes the mode between [`PinMode::Ask`] and [`PinMode::FirstUse`]. What was accepted stays accepted, and what
    /// waits for a person goes on to wait. Returns true if it was another one.
    pub fn set(&self, mode: PinMode) -> bool {
        std::mem::replace(&mut *self.0.write(), mode) != mode
    }
}

impl From<PinMode> for DefaultPinMode {
    fn from(mode: PinMode) -> Self {
        Self::new(mode)
    }
}
