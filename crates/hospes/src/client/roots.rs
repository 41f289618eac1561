//! The folders that a server may work in, as long as they are there.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hospes_model::{Notification, Root};

use super::core::Core;

/// How often it is looked whether a folder has gone or come back.
const WATCH_INTERVAL: Duration = Duration::from_secs(10);

/// What the application has given: these, and nothing else, is ever told (ROOT-08).
#[derive(Debug, Default)]
pub(crate) struct Roots {
    /// None where the client has no roots to speak of.
    given: Mutex<Option<Vec<Given>>>,
}

/// One root.
#[derive(Clone, Debug)]
struct Given {
    root: Root,
    /// What is looked at before the server is told; none for a URI, which need not be a file of this machine.
    path: Option<PathBuf>,
}

impl Roots {
    /// Replaces them. What is no root is left out, with a warning.
    pub(crate) fn set<P: AsRef<Path>>(&self, folders: impl IntoIterator<Item = P>) {
        *self.lock() = Some(folders.into_iter().filter_map(|folder| Given::new(folder.as_ref())).collect());
    }

    /// Those that can be read at this moment (ROOT-11, ROOT-17); none where there never were any.
    pub(crate) async fn accessible(&self) -> Option<Vec<Root>> {
        let given = self.lock().clone()?;
        if given.iter().all(|given| given.path.is_none()) {
            return Some(given.into_iter().map(|given| given.root).collect());
        }
        // Looking at a file system can take long.
        let looked = tokio::task::spawn_blocking(move || {
            given.into_iter().filter(Given::is_accessible).map(|given| given.root).collect()
        });
        Some(looked.await.unwrap_or_default())
    }

    /// Whether there is anything to say about roots, be it that there are none.
    pub(crate) fn are_given(&self) -> bool {
        self.lock().is_some()
    }

    fn are_watched(&self) -> bool {
        self.lock().as_ref().is_some_and(|given| given.iter().any(|given| given.path.is_some()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Given>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Given {
    /// A folder, or a `file:` URI. `..` is resolved before anybody sees it (ROOT-09).
    fn new(folder: &Path) -> Option<Self> {
        if let Some(uri) = folder.to_str().filter(|text| text.starts_with("file:")) {
            let checked = checked_uri(uri);
            if checked.is_none() {
                tracing::warn!("a root that is no proper file: URI is left out");
            }
            return checked.map(|uri| Self { root: Root::new(uri), path: None });
        }
        let path = without_dots(&std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()));
        let Ok(uri) = url::Url::from_file_path(&path) else {
            tracing::warn!("a root that is no path of a folder is left out");
            return None;
        };
        let root = Root::new(uri);
        let root = match path.file_name().and_then(|name| name.to_str()) {
            Some(name) => root.with_name(name),
            None => root,
        };
        Some(Self { root, path: Some(path) })
    }

    fn is_accessible(&self) -> bool {
        let Some(path) = &self.path else { return true };
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => std::fs::read_dir(path).is_ok(),
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// A `file:` URI whose path means the same to everybody: `..` is resolved, and nothing hides a separator or an end.
fn checked_uri(uri: &str) -> Option<String> {
    let parsed = url::Url::parse(uri).ok()?;
    let path = parsed.path().to_ascii_lowercase();
    let hides = ["%2f", "%5c", "%00"].iter().any(|hidden| path.contains(hidden));
    let is_plain = parsed.query().is_none() && parsed.fragment().is_none();
    (parsed.scheme() == "file" && is_plain && !hides).then(|| {
        // A URI that needs nothing done stays as it was written.
        if uri.contains("/.") || uri.contains("%2") || !uri.starts_with("file://") {
            parsed.into()
        } else {
            uri.to_owned()
        }
    })
}

/// The path with `.` and `..` resolved as they are written.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

impl Core {
    /// Tells an older server when a folder goes or comes back (ROOT-18). A modern one asks anew with every call.
    pub(super) fn keep_watching_roots(self: &Arc<Self>) {
        let tells =
            self.settings.capabilities.roots.as_ref().is_some_and(|roots| roots.list_changed == Some(true));
        if tells && self.speech.revision.is_legacy() {
            tokio::spawn(keep_watching(Arc::downgrade(self)));
        }
    }
}

async fn keep_watching(core: Weak<Core>) {
    let mut last = None;
    loop {
        let Some(strong) = core.upgrade() else { return };
        if strong.desk.closed().is_some() {
            return;
        }
        let roots = &strong.desk.handlers.roots;
        let now = if roots.are_watched() { roots.accessible().await } else { None };
        if last.is_some() && now.is_some() && last != now {
            tracing::info!("a root has gone or come back");
            strong.link.notify(&Notification::RootsListChanged, &strong.speech);
        }
        last = now;
        drop(strong);
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn uris(folders: &[&str]) -> Vec<String> {
        let roots = Roots::default();
        roots.set(folders);
        roots.accessible().await.unwrap().into_iter().map(|root| root.uri.to_string()).collect()
    }

    /// covers: ROOT-09
    #[tokio::test]
    async fn no_root_says_one_folder_and_means_another() {
        assert_eq!(uris(&["file:///srv", "file:///a%20b/"]).await, ["file:///srv", "file:///a%20b/"]);
        assert_eq!(
            uris(&["file:///srv/../etc", "file:///srv/%2e%2e/etc"]).await,
            ["file:///etc", "file:///etc"]
        );
        let hiding = ["file:///srv/..%2fetc", "file:///srv%00/x", "file:///a?b", "file:///a#b", "file:"];
        assert!(uris(&hiding[..4]).await.is_empty());
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let dotted = inner.join("..").join("inner").join(".");
        let plain = url::Url::from_file_path(&inner).unwrap().to_string();
        assert_eq!(uris(&[dotted.to_str().unwrap()]).await, [plain]);
    }

    /// covers: ROOT-08 ROOT-10 ROOT-17
    #[tokio::test]
    async fn only_folders_that_were_given_and_can_be_read_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let (here, gone) = (folder.path().join("here"), folder.path().join("gone"));
        std::fs::create_dir(&here).unwrap();
        std::fs::create_dir(folder.path().join("not given")).unwrap();
        let roots = Roots::default();
        assert!(roots.accessible().await.is_none());
        roots.set([&here, &gone]);
        let told = roots.accessible().await.unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].name.as_deref(), Some("here"));
        std::fs::create_dir(&gone).unwrap();
        assert_eq!(roots.accessible().await.unwrap().len(), 2);
        roots.set(Vec::<PathBuf>::new());
        assert!(roots.accessible().await.unwrap().is_empty());
    }
}
