//! State of the server, shared by its tools.

use std::sync::Arc;

use hospes::prelude::*;
use parking_lot::{Mutex, MutexGuard};

use super::config::{FileLimits, FolderScope};
use super::served_folders::{ServedFolders, ServedPath};

/// The server, of which the tools hold clones.
#[derive(Clone)]
pub(super) struct FilesServer(pub(super) Arc<FilesState>);

/// State that the calls of the server share.
pub(super) struct FilesState {
    pub(super) roots: ServedFolders,
    pub(super) scope: FolderScope,
    pub(super) limits: FileLimits,
    /// Lock that serializes writes.
    turns: Arc<Mutex<()>>,
}

impl FilesServer {
    pub(super) fn new(roots: ServedFolders, scope: FolderScope, limits: FileLimits) -> Self {
        Self(Arc::new(FilesState { roots, scope, limits, turns: Arc::default() }))
    }

    /// Runs `what` with the files served to this client.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        ctx: &Context,
        what: impl FnOnce(&FilesState) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let all = Arc::clone(&self.0);
        let has_roots = ctx.peer().capabilities.roots.is_some();
        match all.scope {
            FolderScope::Folders => return run_blocking(all, what).await,
            FolderScope::Within if !has_roots => return run_blocking(all, what).await,
            FolderScope::Client if !has_roots => {
                return Err(Error::msg(
                    "this server was started without folders, and the client provides no roots: start it with the \
                     folders to serve",
                ));
            }
            FolderScope::Within | FolderScope::Client => {}
        }
        // Requested in each call, so that a change of the roots takes effect immediately.
        let uris: Vec<String> = ctx.roots().await?.into_iter().map(|root| root.uri).collect();
        run_blocking(all, move |all| {
            let roots = if all.scope == FolderScope::Client {
                all.roots.of_client(&uris)?
            } else {
                all.roots.within(&uris)?
            };
            // The lock is shared by all calls, because a separate one would serialize nothing.
            what(&FilesState { roots, scope: all.scope, limits: all.limits, turns: Arc::clone(&all.turns) })
        })
        .await
    }
}

/// Runs blocking file operations on a blocking thread.
pub(super) async fn run_blocking<T: Send + 'static>(
    files: Arc<FilesState>,
    what: impl FnOnce(&FilesState) -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(move || what(&files)).await?
}

impl FilesState {
    /// Returns the folder at `path`, or the only served folder if there is no path.
    pub(super) fn folder(&self, path: Option<&str>) -> Result<ServedPath<'_>> {
        match path {
            Some(path) => self.roots.find(path),
            None => self.roots.only(),
        }
    }

    /// Waits for the lock that serializes writes.
    pub(super) fn lock_writes(&self) -> MutexGuard<'_, ()> {
        self.turns.lock()
    }

    /// Returns an error if a text is too long to be written.
    pub(super) fn check_write_size(&self, bytes: usize) -> Result<()> {
        let limit = self.limits.write_bytes;
        if bytes as u64 <= limit {
            return Ok(());
        }
        Err(Error::msg(format!(
            "the content has {bytes} bytes, and at most {limit} are written at once (max_write_bytes)"
        )))
    }
}
