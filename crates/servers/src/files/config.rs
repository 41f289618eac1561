//! What the server for files is told.

use std::path::PathBuf;

/// How much of a file is read at once unless told otherwise: the setting `max_read_bytes`.
const DEFAULT_MAX_READ_BYTES: u64 = 1024 * 1024;
/// How long a file may be that is written or edited, unless told otherwise: the setting `max_write_bytes`.
const DEFAULT_MAX_WRITE_BYTES: u64 = 4 * 1024 * 1024;
/// How many entries a list or a tree has unless told otherwise: the setting `max_entries`.
const DEFAULT_MAX_ENTRIES: usize = 1000;
/// How many entries a search looks at unless told otherwise: the setting `max_visits`.
const DEFAULT_MAX_VISITS: usize = 200_000;

/// Which folders are served, how much of them at once, and whether they may be changed.
#[derive(Clone, Debug)]
#[must_use]
pub struct FilesConfig {
    pub(super) folders: Vec<PathBuf>,
    pub(super) closed: Vec<PathBuf>,
    pub(super) scope: Scope,
    pub(super) writes: bool,
    pub(super) deletes: bool,
    pub(super) limits: Limits,
}

/// What is served to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The folders.
    Folders,
    /// As much of the folders as the client's roots cover, if it has some.
    Within,
    /// The client's roots.
    Client,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) entries: usize,
    pub(super) visits: usize,
}

impl FilesConfig {
    /// These folders and what is under them.
    pub fn new(folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let limits = Limits {
            read_bytes: DEFAULT_MAX_READ_BYTES,
            write_bytes: DEFAULT_MAX_WRITE_BYTES,
            entries: DEFAULT_MAX_ENTRIES,
            visits: DEFAULT_MAX_VISITS,
        };
        let folders = folders.into_iter().map(Into::into).collect();
        Self { folders, closed: Vec::new(), scope: Scope::Folders, writes: false, deletes: false, limits }
    }

    /// No folders of its own: what each client names as its roots is served to that client, and nothing to one that has
    /// none. The roots are asked for in each call, so that changes of them are obeyed at once.
    pub fn of_client() -> Self {
        Self { scope: Scope::Client, ..Self::new([] as [PathBuf; 0]) }
    }

    /// Folders that nobody gets into although they lie in one that is served, such as one of keys; they need not be there
    /// yet. A folder in one of them cannot be served.
    pub fn except(mut self, folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.closed.extend(folders.into_iter().map(Into::into));
        self
    }

    /// Whether a client that has roots gets nothing from outside of them: each call then asks for the roots first.
    /// Off unless said. A client without roots gets all that is served.
    pub fn within_roots(mut self, on: bool) -> Self {
        if self.scope != Scope::Client {
            self.scope = if on { Scope::Within } else { Scope::Folders };
        }
        self
    }

    /// Whether files may be written, edited and moved, and folders made. Off unless said.
    pub fn write(mut self, on: bool) -> Self {
        self.writes = on;
        self
    }

    /// Whether files, links and empty folders may be deleted. Off unless said.
    pub fn delete(mut self, on: bool) -> Self {
        self.deletes = on;
        self
    }

    /// How much of a file is read at once; 1 MiB unless said.
    pub fn max_read_bytes(mut self, bytes: u64) -> Self {
        self.limits.read_bytes = bytes;
        self
    }

    /// How long a file may be that is written or edited; 4 MiB unless said.
    pub fn max_write_bytes(mut self, bytes: u64) -> Self {
        self.limits.write_bytes = bytes;
        self
    }

    /// How many entries a list, a tree or the finds of a search have; 1000 unless said.
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.limits.entries = entries;
        self
    }

    /// How many files and folders one search looks at; 200,000 unless said.
    pub fn max_visits(mut self, entries: usize) -> Self {
        self.limits.visits = entries;
        self
    }
}
