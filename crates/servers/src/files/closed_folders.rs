//! Closed folders, which cannot be entered even if they lie in a served folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::platform::{self, EntryStat, FolderHandle};

/// Maximum number of folders that are remembered for the closed paths. Only repeated recreation of these folders
/// produces more.
const MAX_KNOWN: usize = 256;

/// Set of closed folders. They are identified by their number on the volume and not by name, so that they stay closed under another
/// name or path.
#[derive(Clone, Debug, Default)]
pub(super) struct ClosedFolders(Arc<ClosedFoldersState>);

#[derive(Debug, Default)]
struct ClosedFoldersState {
    paths: Vec<PathBuf>,
    /// Numbers of volume and file of each folder that has ever been at these paths.
    known: Mutex<Vec<(u64, u64)>>,
}

impl ClosedFolders {
    pub(super) fn new(paths: &[PathBuf]) -> Self {
        // A closed folder need not exist yet; its path is then kept as given.
        let paths = paths.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
        let closed = Self(Arc::new(ClosedFoldersState { paths, known: Mutex::default() }));
        closed.refresh();
        closed
    }

    /// Records the folders that are at the paths now.
    fn refresh(&self) {
        if self.0.paths.is_empty() {
            return;
        }
        let mut known = self.0.known.lock();
        for stat in self.0.paths.iter().filter_map(|path| EntryStat::of_path(path).ok()) {
            let id = stat.id();
            if !known.contains(&id) && known.len() < MAX_KNOWN {
                known.push(id);
            }
        }
    }

    /// Returns true if no folders are closed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.paths.is_empty()
    }

    /// Returns an opened folder, or an error if it is closed.
    pub(super) fn admit(&self, folder: FolderHandle) -> io::Result<FolderHandle> {
        if self.is_empty() {
            return Ok(folder);
        }
        // By the handle, because the path may lead to another folder by now.
        let found = folder.stat()?.id();
        // Before the lock is taken below, because this takes it too.
        self.refresh();
        let known = self.0.known.lock();
        if known.contains(&found) { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(folder) }
    }

    /// Returns true if a folder, or one of its parents, is closed.
    pub(super) fn covers(&self, folder: &Path) -> bool {
        // Also by name, because a closed folder need not exist yet.
        self.0.paths.iter().any(|path| platform::relative_to(folder, path).is_some())
            || folder.ancestors().any(|part| self.is_closed_folder(part))
    }

    fn is_closed_folder(&self, folder: &Path) -> bool {
        let known = self.0.known.lock();
        EntryStat::of_path(folder).is_ok_and(|stat| known.contains(&stat.id()))
    }

    /// Returns true if a closed folder is at this path or below it. Such a folder must stay in its place.
    pub(super) fn lies_in(&self, path: &Path) -> bool {
        self.0.paths.iter().any(|closed| platform::relative_to(closed, path).is_some())
            || self.is_closed_folder(path)
    }
}
