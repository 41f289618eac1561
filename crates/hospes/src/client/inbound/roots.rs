//! The client's roots, reported as long as they exist.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hospes_model::Root;

/// Roots given by the application; nothing else is reported to the server (ROOT-08).
#[derive(Default)]
pub(crate) struct ClientRoots {
    /// Declared roots. `None` if the client does not support roots.
    given: Mutex<Option<Vec<DeclaredRoot>>>,
    /// Predicate that decides each time whether the roots are reported.
    pub(crate) tell_if: Option<RootsPredicate>,
}

/// Predicate that returns true if these roots may be reported now.
pub(crate) type RootsPredicate = Arc<dyn Fn(&[Root]) -> bool + Send + Sync>;

/// A folder of this machine, identified when it was declared. A folder that later takes its place, or a link with
/// another target, is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFolder {
    given: PathBuf,
    /// Path without symbolic links; for a folder that does not exist yet, the path it must have.
    real: PathBuf,
}

impl RootFolder {
    /// Creates a root from a path. `..` is resolved lexically, and symbolic links by their current targets.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let given = normalize_path(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        let real = given.ancestors().find_map(|there| {
            let (real, rest) = (there.canonicalize().ok()?, given.strip_prefix(there).ok()?);
            Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
        });
        Self { real: real.unwrap_or_else(|| given.clone()), given }
    }

    /// Its path without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Returns true if the folder exists, is still the same and is readable.
    #[must_use]
    pub fn is_available(&self) -> bool {
        if self.given.canonicalize().ok().as_deref() != Some(&*self.real) {
            return false;
        }
        match std::fs::metadata(&self.real) {
            // Only opening the folder shows that it may be read (ROOT-17); its permission bits do not tell.
            Ok(found) if found.is_dir() => std::fs::read_dir(&self.real).is_ok(),
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Returns the path without symbolic links, if it exists inside this folder and the folder itself still exists.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok()?;
        (real.starts_with(&self.real) && self.is_available()).then_some(real)
    }
}

/// A declared root.
#[derive(Clone, Debug)]
struct DeclaredRoot {
    root: Root,
    /// Folder that is checked before it is reported. `None` for a URI, which need not refer to a local file.
    folder: Option<RootFolder>,
}

impl ClientRoots {
    /// Replaces the roots. Invalid ones are left out with a warning.
    pub(crate) fn set<P: AsRef<Path>>(&self, folders: impl IntoIterator<Item = P>) {
        *self.lock() =
            Some(folders.into_iter().filter_map(|folder| DeclaredRoot::new(folder.as_ref())).collect());
    }

    /// Returns the roots that are readable now (ROOT-11, ROOT-17). `None` if roots were never declared.
    pub(crate) async fn list_accessible(&self) -> Option<Vec<Root>> {
        let given = self.lock().clone()?;
        if given.iter().all(|given| given.folder.is_none()) {
            return Some(given.into_iter().map(|given| given.root).collect());
        }
        // Looking at a file system can take long.
        let looked = tokio::task::spawn_blocking(move || {
            given.into_iter().filter(DeclaredRoot::is_accessible).map(|given| given.root).collect()
        });
        // If the look failed, no folder is known to be readable, so none is reported.
        Some(looked.await.unwrap_or_default())
    }

    /// Returns true if roots were set, even to an empty list.
    pub(crate) fn is_declared(&self) -> bool {
        self.lock().is_some()
    }

    pub(crate) fn has_watched_folders(&self) -> bool {
        self.lock().as_ref().is_some_and(|given| given.iter().any(|given| given.folder.is_some()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<DeclaredRoot>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeclaredRoot {
    /// Parses a folder or a `file:` URI. `..` is resolved (ROOT-09).
    fn new(folder: &Path) -> Option<Self> {
        if let Some(uri) = folder.to_str().filter(|text| text.starts_with("file:")) {
            let checked = normalize_file_uri(uri);
            if checked.is_none() {
                tracing::warn!("root omitted: invalid file: URI");
            }
            return checked.map(|uri| Self { root: Root::new(uri), folder: None });
        }
        let folder = RootFolder::new(folder);
        let Ok(uri) = url::Url::from_file_path(&folder.real) else {
            tracing::warn!("root omitted: not the path of a folder");
            return None;
        };
        let root = Root::new(uri);
        let root = match folder.given.file_name().and_then(|name| name.to_str()) {
            Some(name) => root.with_name(name),
            None => root,
        };
        Some(Self { root, folder: Some(folder) })
    }

    fn is_accessible(&self) -> bool {
        self.folder.as_ref().is_none_or(RootFolder::is_available)
    }
}

impl fmt::Debug for ClientRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRoots").field("given", &self.given).finish_non_exhaustive()
    }
}

/// Normalizes a `file:` URI: `..` is resolved, and encoded separators are rejected.
fn normalize_file_uri(uri: &str) -> Option<String> {
    let parsed = url::Url::parse(uri).ok()?;
    let path = parsed.path().to_ascii_lowercase();
    // A server that decodes these gets a separator or an end
    // of the path that the resolution of `..` has not seen.
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

/// Resolves `.` and `..` of a path lexically.
fn normalize_path(path: &Path) -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn uris(folders: &[&str]) -> Vec<String> {
        let roots = ClientRoots::default();
        roots.set(folders);
        roots.list_accessible().await.unwrap().into_iter().map(|root| root.uri.to_string()).collect()
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
        let roots = ClientRoots::default();
        assert!(roots.list_accessible().await.is_none());
        roots.set([&here, &gone]);
        let told = roots.list_accessible().await.unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].name.as_deref(), Some("here"));
        std::fs::create_dir(&gone).unwrap();
        assert_eq!(roots.list_accessible().await.unwrap().len(), 2);
        roots.set(Vec::<PathBuf>::new());
        assert!(roots.list_accessible().await.unwrap().is_empty());
    }

    /// A link that was given is what it led to then.
    /// covers: ROOT-09 ROOT-11
    #[cfg(unix)]
    #[tokio::test]
    async fn a_root_that_has_become_another_is_not_told() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let at = |name: &str| real.join(name);
        for name in ["one", "two", "secret", "deep/inner"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        symlink(at("one"), at("link")).unwrap();
        let roots = ClientRoots::default();
        roots.set([at("link"), at("two"), at("deep/inner"), at("later/inner")]);
        let told = || async {
            let told = roots.list_accessible().await.unwrap();
            let path = |root: Root| url::Url::parse(&root.uri).unwrap().to_file_path().unwrap();
            told.into_iter()
                .map(|root| path(root).strip_prefix(&real).unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let [one, two, inner] = ["one", "two", "deep/inner"].map(PathBuf::from);
        assert_eq!(told().await, [one.clone(), two.clone(), inner.clone()], "links are resolved");
        // The link leads elsewhere, a folder is a link now, and so is one above a folder.
        std::fs::remove_file(at("link")).unwrap();
        symlink(at("secret"), at("link")).unwrap();
        std::fs::remove_dir(at("two")).unwrap();
        symlink(at("secret"), at("two")).unwrap();
        std::fs::rename(at("deep"), at("moved")).unwrap();
        symlink(at("moved"), at("deep")).unwrap();
        assert!(told().await.is_empty(), "{:?}", told().await);
        // What comes later comes to where it was said, or not at all.
        std::fs::create_dir_all(at("secret/inner")).unwrap();
        symlink(at("secret"), at("later")).unwrap();
        assert!(told().await.is_empty(), "{:?}", told().await);
        for link in ["later", "two", "deep"] {
            std::fs::remove_file(at(link)).unwrap();
        }
        std::fs::create_dir_all(at("later/inner")).unwrap();
        std::fs::create_dir(at("two")).unwrap();
        std::fs::rename(at("moved"), at("deep")).unwrap();
        assert_eq!(told().await, [two, inner, PathBuf::from("later/inner")]);
    }

    /// A folder is replaced repeatedly by a link to another one; only the folder is ever reported.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_race_tells_nothing_else() {
        use std::os::unix::fs::symlink;
        use std::sync::atomic::{AtomicBool, Ordering};

        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        let (root, aside, secret) = (at("root"), at("aside"), at("secret"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&secret).unwrap();
        let roots = ClientRoots::default();
        roots.set([&root]);
        let granted = url::Url::from_file_path(&root).unwrap().to_string();
        let (done, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let turning = std::thread::spawn({
            let (done, turns) = (Arc::clone(&done), Arc::clone(&turns));
            move || {
                while !done.load(Ordering::Relaxed) {
                    std::fs::rename(&root, &aside).unwrap();
                    symlink(&secret, &root).unwrap();
                    std::fs::remove_file(&root).unwrap();
                    std::fs::rename(&aside, &root).unwrap();
                    turns.store(true, Ordering::Relaxed);
                }
            }
        });
        let (mut told, mut withheld) = (0, 0);
        while told < 50 || withheld < 50 || !turns.load(Ordering::Relaxed) {
            let now = roots.list_accessible().await.unwrap();
            assert!(now.iter().all(|root| root.uri == granted), "{now:?}");
            if now.is_empty() { withheld += 1 } else { told += 1 }
        }
        done.store(true, Ordering::Relaxed);
        turning.join().unwrap();
    }
}
