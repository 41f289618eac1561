//! State shared by a server and its handles: the catalogue, which may change while calls are answered, and the
//! listeners.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Semaphore;

use crate::server::catalogue::ServerCatalogue;
use crate::server::change_bus::ChangeBus;
use crate::server::error::RegisterError;

/// Maximum number of synchronous handlers of one server that run at once; further calls wait for a thread, and can be cancelled
/// meanwhile.
pub const MAX_BLOCKING_CALLS: usize = 128;

/// State shared by a server and its handles.
#[derive(Debug)]
pub(crate) struct ServerShared {
    /// Catalogue registered before the server was shared; read without a lock as long as nothing changes.
    base: ServerCatalogue,
    /// Catalogue that has replaced it.
    live: RwLock<Option<Arc<ServerCatalogue>>>,
    changed: AtomicBool,
    pub(crate) bus: ChangeBus,
    /// The threads that synchronous handlers may have.
    pub(crate) threads: Arc<Semaphore>,
}

impl Default for ServerShared {
    fn default() -> Self {
        Self::with_catalogue(ServerCatalogue::default())
    }
}

impl ServerShared {
    /// Creates the state of a server that offers this catalogue at the start.
    pub(crate) fn with_catalogue(base: ServerCatalogue) -> Self {
        Self {
            base,
            live: RwLock::default(),
            changed: AtomicBool::default(),
            bus: ChangeBus::default(),
            threads: Arc::new(Semaphore::new(MAX_BLOCKING_CALLS)),
        }
    }

    /// Reads the catalogue as it now is. No lock is held meanwhile, so `read` may run handlers.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&ServerCatalogue) -> R) -> R {
        // Pairs with the `Release` in `change`: whoever sees the flag finds the new catalogue.
        if !self.changed.load(Ordering::Acquire) {
            return read(&self.base);
        }
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner).clone();
        read(live.as_deref().unwrap_or(&self.base))
    }

    /// Changes the catalogue; readers see it before or after, never between. A change that fails changes nothing.
    pub(crate) fn change<R>(
        &self,
        change: impl FnOnce(&mut ServerCatalogue) -> Result<R, RegisterError>,
    ) -> Result<R, RegisterError> {
        // Held throughout: of two changes that start from the same catalogue one would be lost.
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = live.as_deref().unwrap_or(&self.base).clone();
        let result = change(&mut next)?;
        *live = Some(Arc::new(next));
        self.changed.store(true, Ordering::Release);
        Ok(result)
    }

    /// Changes the catalogue of a server that is being built.
    pub(crate) fn build<R>(
        this: &mut Arc<Self>,
        change: impl FnOnce(&mut ServerCatalogue) -> Result<R, RegisterError>,
    ) -> Result<R, RegisterError> {
        if let Some(Self { base, changed, .. }) = Arc::get_mut(this)
            && !*changed.get_mut()
        {
            return change(base);
        }
        // A handle has been given out already.
        this.change(change)
    }

    /// Returns a copy of the catalogue.
    pub(crate) fn catalogue(&self) -> ServerCatalogue {
        self.read(ServerCatalogue::clone)
    }
}
