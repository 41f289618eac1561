//! Endpoints that are added and removed while a server runs.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::endpoint::Endpoint;

/// Further endpoints of an [`HttpServer`](super::HttpServer), each at its own path. Cheap to clone; all clones are the
/// same set, so that endpoints can be added and removed while the server runs.
///
/// ```no_run
/// # async fn example(one: impl hospes::Service, other: impl hospes::Service) -> std::io::Result<()> {
/// use hospes::transport::http_server::{Endpoint, HttpServer};
///
/// let http = HttpServer::bind("127.0.0.1:7337", Endpoint::new(one)).await?;
/// let others = http.others();
/// tokio::spawn(http.serve());
/// others.insert(Endpoint::builder(other).path("/mcp/other").build());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct EndpointSet(Arc<RwLock<Vec<Endpoint>>>);

impl EndpointSet {
    /// Adds an endpoint, which serves the next request. One with the same path is replaced, and its sessions end.
    pub fn insert(&self, endpoint: Endpoint) {
        let replaced = {
            let mut endpoints = self.write();
            let same = endpoints.iter().position(|one| one.path() == endpoint.path());
            let replaced = same.map(|at| endpoints.remove(at));
            endpoints.push(endpoint);
            replaced
        };
        if let Some(replaced) = replaced {
            replaced.end();
        }
    }

    /// Removes the endpoint at a path. Its sessions end, and its running calls are answered with an error. Returns false
    /// if there is none.
    pub fn remove(&self, path: &str) -> bool {
        let removed = {
            let mut endpoints = self.write();
            let at = endpoints.iter().position(|one| one.path() == path);
            at.map(|at| endpoints.remove(at))
        };
        removed.inspect(Endpoint::end).is_some()
    }

    /// Returns the paths of the endpoints, in the order in which they were added.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.read().iter().map(|one| one.path().to_owned()).collect()
    }

    /// Returns the endpoint that serves a path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<Endpoint> {
        self.read().iter().find(|endpoint| endpoint.serves(path)).cloned()
    }

    // A panic while the list was locked leaves it as it was or as it became.
    fn read(&self) -> RwLockReadGuard<'_, Vec<Endpoint>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Endpoint>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all endpoints.
    #[must_use]
    pub fn all(&self) -> Vec<Endpoint> {
        self.read().clone()
    }
}
