//! Configuration of the files server.

use std::path::PathBuf;

/// Default maximum size of one read, in bytes: the setting `max_read_bytes`.
const DEFAULT_MAX_READ_BYTES: u64 = 1024 * 1024;
/// Default maximum size of a file that is written or edited, in bytes: the setting `max_write_bytes`.
const DEFAULT_MAX_WRITE_BYTES: u64 = 4 * 1024 * 1024;
/// Default maximum number of entries in a list or a tree: the setting `max_entries`.
const DEFAULT_MAX_ENTRIES: usize = 1000;
/// Default maximum number of entries that a search visits: the setting `max_visits`.
const DEFAULT_MAX_VISITS: usize = 200_000;

/// Configuration of the files server: the served folders, size limits, and whether files may be changed.
#[derive(Clone, Debug)]
#[must_use]
pub struct FilesConfig {
    pub(super) folders: Vec<PathBuf>,
    pub(super) closed: Vec<PathBuf>,
    pub(super) scope: FolderScope,
    pub(super) writes: bool,
    pub(super) deletes: bool,
    pub(super) limits: FileLimits,
}

/// Part of the file system that is served to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FolderScope {
    /// The configured folders.
    Folders,
    /// The part of the configured folders that the client's roots cover, or all of them if the client has no roots.
    Within,
    /// The client's roots.
    Client,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FileLimits {
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) entries: usize,
    pub(super) visits: usize,
}

impl FilesConfig {
    /// Serves these folders and everything below them.
    pub fn new(folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let limits = FileLimits {
            read_bytes: DEFAULT_MAX_READ_BYTES,
            write_bytes: DEFAULT_MAX_WRITE_BYTES,
            entries: DEFAULT_MAX_ENTRIES,
            visits: DEFAULT_MAX_VISITS,
        };
        let folders = folders.into_iter().map(Into::into).collect();
        Self {
            folders,
            closed: Vec::new(),
            scope: FolderScope::Folders,
            writes: false,
            deletes: false,
            limits,
        }
    }

    /// Serves the roots of each client to that client, without configured folders. A client without roots gets nothing.
    /// The roots are requested in each call, so that changes take effect immediately.
    pub fn of_client() -> Self {
        Self { scope: FolderScope::Client, ..Self::new([] as [PathBuf; 0]) }
    }

    /// Closes folders inside the served ones, such as a folder with keys. They need not exist yet. A folder inside a
    /// closed one cannot be served.
    pub fn except(mut self, folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.closed.extend(folders.into_iter().map(Into::into));
        self
    }

    /// Restricts a client that has roots to files within them; off by default. Each call then asks for the roots first.
    /// A client without roots gets all served folders.
    pub fn within_roots(mut self, on: bool) -> Self {
        // A server of the client's roots never serves anything else.
        if self.scope != FolderScope::Client {
            self.scope = if on { FolderScope::Within } else { FolderScope::Folders };
        }
        self
    }

    /// Allows writing, editing and moving files, and creating folders. Off by default.
    pub fn write(mut self, on: bool) -> Self {
        self.writes = on;
        self
    }

    /// Allows deleting files, links and empty folders. Off by default.
    pub fn delete(mut self, on: bool) -> Self {
        self.deletes = on;
        self
    }

    /// Sets the maximum size of one read; 1 MiB by default.
    pub fn max_read_bytes(mut self, bytes: u64) -> Self {
        self.limits.read_bytes = bytes;
        self
    }

    /// Sets the maximum size of a file that is written or edited; 4 MiB by default.
    pub fn max_write_bytes(mut self, bytes: u64) -> Self {
        self.limits.write_bytes = bytes;
        self
    }

    /// Sets the maximum number of entries in a list, a tree or the results of a search; 1000 by default.
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.limits.entries = entries;
        self
    }

    /// Sets the maximum number of files and folders that one search visits; 200,000 by default.
    pub fn max_visits(mut self, entries: usize) -> Self {
        self.limits.visits = entries;
        self
    }
}
