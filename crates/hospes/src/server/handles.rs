//! State that a server keeps from one call to the next, under handles that say nothing about it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::context::Context;

/// The most values that are kept at once unless told otherwise.
pub const MAX_HANDLES: usize = 10_000;

/// Values that outlive the call that made them: a search to continue, a cart, a connection.
///
/// There are no sessions to keep them in (2026-07-28), so a tool returns a handle and takes it back as an argument. A
/// handle cannot be guessed, serves only the caller who was given it, and for a time. Share the store as a
/// [`State`](crate::server::State); [`HandleError`] passed on through `?` becomes a result that the model reads.
///
/// ```
/// use std::time::Duration;
/// use hospes::prelude::*;
/// use hospes::server::{Handles, State};
///
/// # #[derive(Deserialize, JsonSchema)] struct More { search: String }
/// async fn search(State(searches): State<Handles<Vec<String>>>, ctx: Context) -> Result<String> {
///     Ok(searches.keep(&ctx, vec!["first".into(), "second".into()])?)
/// }
///
/// async fn more(State(searches): State<Handles<Vec<String>>>, ctx: Context, Args(more): Args<More>) -> Result<String> {
///     let found = searches.get(&ctx, &more.search)?;
///     Ok(found.join(", "))
/// }
/// # let server = hospes::Server::new("x", "1")
/// #     .state(Handles::<Vec<String>>::new(Duration::from_secs(600)))
/// #     .tool("search", search)
/// #     .tool("more", more);
/// ```
pub struct Handles<T> {
    lifetime: Duration,
    most: usize,
    kept: Arc<Mutex<HandleTable<T>>>,
}

type HandleMap<T> = HashMap<Box<str>, StoredValue<T>>;

struct HandleTable<T> {
    values: HandleMap<T>,
    /// True while a task removes expired values.
    swept: bool,
}

struct StoredValue<T> {
    value: Arc<T>,
    owner: Option<Arc<str>>,
    until: Instant,
}

/// Nothing is kept under a handle, or not for this caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// Unknown, expired, or owned by another caller; the caller is not told which.
    #[error("unknown or expired handle; start again")]
    Unknown,
    /// The maximum number of values is stored (setting `max_handles`).
    #[error("too many handles are in use (setting max_handles); try again later")]
    Full,
}

impl<T: Send + Sync + 'static> Handles<T> {
    /// Creates a store of at most [`MAX_HANDLES`] values. Each is dropped once it has not been used for `lifetime` and
    /// is not in use.
    #[must_use]
    pub fn new(lifetime: Duration) -> Self {
        let all = HandleTable { values: HashMap::new(), swept: false };
        Self { lifetime, most: MAX_HANDLES, kept: Arc::new(Mutex::new(all)) }
    }

    /// Keeps at most so many.
    #[must_use]
    pub fn max_handles(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Keeps a value for this call's caller, and gives the handle to it.
    ///
    /// # Errors
    /// [`HandleError::Full`].
    pub fn keep(&self, context: &Context, value: T) -> Result<String, HandleError> {
        let mut random = [0; 16];
        // Without randomness there is no handle that nobody can guess.
        getrandom::fill(&mut random).map_err(|_| HandleError::Full)?;
        let handle = format!("{:032x}", u128::from_ne_bytes(random));
        let now = Instant::now();
        let mut all = lock(&self.kept);
        // Expired values make room first, because the next sweep may come later.
        if all.values.len() >= self.most {
            all.values.retain(|_, kept| kept.until > now);
        }
        if all.values.len() >= self.most {
            return Err(HandleError::Full);
        }
        let owner = context.peer().principal.clone();
        let kept = StoredValue { value: Arc::new(value), owner, until: now + self.lifetime };
        all.values.insert(handle.as_str().into(), kept);
        if !all.swept
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            all.swept = true;
            runtime.spawn(sweep(Arc::downgrade(&self.kept)));
        }
        Ok(handle)
    }

    /// The value under a handle, which lives on from now.
    ///
    /// # Errors
    /// [`HandleError::Unknown`].
    pub fn get(&self, context: &Context, handle: &str) -> Result<Arc<T>, HandleError> {
        let mut all = lock(&self.kept);
        let kept = StoredValue::find(&mut all.values, context, handle)?;
        kept.until = Instant::now() + self.lifetime;
        Ok(Arc::clone(&kept.value))
    }

    /// Removes the value under a handle, which is invalid afterwards.
    ///
    /// # Errors
    /// [`HandleError::Unknown`].
    pub fn take(&self, context: &Context, handle: &str) -> Result<Arc<T>, HandleError> {
        let mut all = lock(&self.kept);
        let value = Arc::clone(&StoredValue::find(&mut all.values, context, handle)?.value);
        all.values.remove(handle);
        Ok(value)
    }
}

fn lock<T>(kept: &Mutex<HandleTable<T>>) -> MutexGuard<'_, HandleTable<T>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes expired values until none are left.
async fn sweep<T>(kept: Weak<Mutex<HandleTable<T>>>) {
    /// Time for what is due together to go together.
    const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(10);
    while let Some(all) = kept.upgrade() {
        let now = Instant::now();
        let (next, old) = {
            let mut all = lock(&all);
            let old: Vec<_> = all.values.extract_if(|_, kept| kept.until <= now).collect();
            let next = all.values.values().map(|kept| kept.until).min();
            all.swept = next.is_some();
            (next, old)
        };
        // Not under the lock: nobody knows what a value does when it goes.
        drop((old, all));
        let Some(next) = next else { return };
        tokio::time::sleep_until(next.max(now + MIN_SWEEP_INTERVAL)).await;
    }
}

impl<T> StoredValue<T> {
    fn find<'a>(
        all: &'a mut HandleMap<T>,
        context: &Context,
        handle: &str,
    ) -> Result<&'a mut Self, HandleError> {
        // A handle proves nothing by itself (SECP-09): it serves
        // only the principal that it was given to (SECP-10).
        let good = |kept: &&mut Self| kept.owner == context.peer().principal && kept.until > Instant::now();
        all.get_mut(handle).filter(good).ok_or(HandleError::Unknown)
    }
}

impl<T> fmt::Debug for Handles<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handles({} kept)", lock(&self.kept).values.len())
    }
}
