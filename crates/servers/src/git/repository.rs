//! Discovery of a repository, and the check that all its parts are in served folders.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hospes::{Error, Result};

use super::program::{GitJob, GitOutput, GitProgram};
use crate::platform::{os_string, readable};

/// Maximum size of the lists that are read (settings, files), in bytes.
pub(super) const MAX_LIST: usize = 8 * 1024 * 1024;
/// Maximum number of settings of the repository that are disabled by name.
const MAX_OVERRIDES: usize = 500;
/// Maximum number of repositories that may borrow objects from one another.
const MAX_ALTERNATES: usize = 16;
/// Maximum number of entries that are checked in the repository's folders.
const MAX_ENTRIES: usize = 100_000;
/// Maximum length of a revision name, in bytes.
const MAX_REVISION: usize = 512;

/// Settings with free names that name programs: section, key, and the replacement of the value.
const PROGRAM_SETTINGS: [(&str, &str, &str); 12] = [
    ("filter", "clean", ""),
    ("filter", "smudge", ""),
    ("filter", "process", ""),
    ("filter", "required", "false"),
    ("diff", "command", ""),
    ("diff", "textconv", ""),
    ("merge", "driver", "false"),
    ("hook", "command", "true"),
    ("hook", "enabled", "false"),
    ("trailer", "command", "true"),
    ("trailer", "cmd", "true"),
    ("remote", "promisor", "false"),
];

/// A repository whose parts are all in served folders.
pub(super) struct GitRepository<'a> {
    git: &'a GitProgram,
    pub(super) top: PathBuf,
    settings: Vec<(OsString, &'static str)>,
    /// True if filters are configured. They are disabled.
    pub(super) has_filters: bool,
    ceilings: OsString,
}

impl<'a> GitRepository<'a> {
    /// Opens the repository of a folder, or of the only served folder.
    pub(super) async fn open(git: &'a GitProgram, roots: &[PathBuf], named: Option<&str>) -> Result<Self> {
        let folder = folder(roots, named)?;
        // The search for a repository ends at the served folders.
        let above = roots.iter().filter_map(|root| root.parent());
        // A path with a colon cannot be joined. A repository found further up is rejected below.
        let ceilings = std::env::join_paths(above).unwrap_or_default();
        let arguments =
            ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"];
        let job = GitJob {
            arguments: arguments.map(OsString::from).to_vec(),
            ceilings: ceilings.clone(),
            whole: Some(64 * 1024),
            ..GitJob::default()
        };
        let said = git.run(&folder, job).await?;
        let lines: Vec<&[u8]> = said.bytes.trim_ascii_end().split(|byte| *byte == b'\n').collect();
        let [top, own, common] = lines.as_slice() else {
            return Err(Error::msg("the repository's path contains a line feed"));
        };
        let confined = |path: &[u8]| {
            let path = PathBuf::from(os_string(path.to_vec()));
            let real = path
                .canonicalize()
                .map_err(|why| Error::msg(format!("cannot open {}: {why}", path.display())))?;
            if is_in(roots, &real) { Ok(real) } else { Err(outside("a part of the repository", roots)) }
        };
        let (top, own, common) = (confined(top)?, confined(own)?, confined(common)?);
        for folder in [&own, &common] {
            links_stay_inside(roots, folder)?;
        }
        alternates_stay_inside(roots, &common)?;
        let mut this = Self { git, top, settings: Vec::new(), has_filters: false, ceilings };
        this.disable_programs().await?;
        Ok(this)
    }

    /// Finds programs in the configuration and disables them by name.
    async fn disable_programs(&mut self) -> Result<()> {
        // With the included files, because git runs the programs named in them too.
        let listed = self.list(["config", "--list", "-z", "--name-only", "--includes"]).await?;
        for key in listed {
            // `filter.NAME.clean`: the name may contain anything, including dots.
            let text = key.as_encoded_bytes();
            let (Some(first), Some(last)) =
                (text.iter().position(|byte| *byte == b'.'), text.iter().rposition(|byte| *byte == b'.'))
            else {
                continue;
            };
            // Settings without a name have fixed keys, which `CONFIG_OVERRIDES` overrides where necessary.
            if first == last {
                continue;
            }
            let (section, name, last) = (&text[..first], &text[first + 1..last], &text[last + 1..]);
            let is = |wanted: &str, text: &[u8]| text.eq_ignore_ascii_case(wanted.as_bytes());
            self.has_filters |= is("filter", section);
            // All keys of a name together, because one of them may replace another.
            if !PROGRAM_SETTINGS.iter().any(|(wanted, key, _)| is(wanted, section) && is(key, last)) {
                continue;
            }
            for (wanted, key, value) in PROGRAM_SETTINGS.iter().filter(|(wanted, ..)| is(wanted, section)) {
                let mut whole = OsString::from(format!("{wanted}."));
                whole.push(os_string(name.to_vec()));
                whole.push(format!(".{key}"));
                if !self.settings.iter().any(|(known, _)| *known == whole) {
                    self.settings.push((whole, *value));
                }
            }
            if self.settings.len() > MAX_OVERRIDES {
                return Err(Error::msg("the repository's configuration has too many programs"));
            }
        }
        Ok(())
    }

    /// Runs git in the repository.
    pub(super) async fn run<A: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<GitOutput> {
        self.job(arguments, |job| job).await
    }

    /// Runs git in the repository with these settings.
    pub(super) async fn job<'j, A: Into<OsString>>(
        &'j self,
        arguments: impl IntoIterator<Item = A>,
        more: impl FnOnce(GitJob<'j>) -> GitJob<'j>,
    ) -> Result<GitOutput> {
        let job = GitJob {
            arguments: arguments.into_iter().map(Into::into).collect(),
            settings: &self.settings,
            ceilings: self.ceilings.clone(),
            ..GitJob::default()
        };
        self.git.run(&self.top, more(job)).await
    }

    /// Returns the items that git lists, separated by NUL.
    pub(super) async fn list<A: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Vec<OsString>> {
        let said = self.job(arguments, |job| GitJob { whole: Some(MAX_LIST), ..job }).await?;
        let items = said.bytes.split(|byte| *byte == 0).filter(|item| !item.is_empty());
        Ok(items.map(|item| os_string(item.to_vec())).collect())
    }

    /// Returns the hash of the commit that a revision names. Names from the client are used nowhere else.
    pub(super) async fn commit(&self, revision: &str) -> Result<String> {
        check_name(revision, "revision")?;
        let arguments =
            ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")];
        let said = self.run(arguments).await;
        let said = said.map_err(|_| Error::msg(format!("no such commit: {revision:?}")))?;
        let hash = String::from_utf8_lossy(&said.bytes).trim().to_owned();
        // Lengths of SHA-1 and SHA-256 hashes.
        let is_hash = matches!(hash.len(), 40 | 64) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash { Ok(hash) } else { Err(Error::msg(format!("no such commit: {revision:?}"))) }
    }

    /// Converts a path to an argument for git: relative to the top, literal, and never an option.
    pub(super) fn path(&self, text: &str) -> Result<OsString> {
        let bad = || {
            Error::msg(format!(
                "{text:?} is not a path in the repository; paths are relative to {}",
                self.top.display()
            ))
        };
        if text.contains('\0') || text.is_empty() {
            return Err(bad());
        }
        let path = Path::new(text);
        let path = if path.is_absolute() { path.strip_prefix(&self.top).map_err(|_| bad())? } else { path };
        let mut plain = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => plain.push(name),
                Component::CurDir => {}
                _ => return Err(bad()),
            }
        }
        Ok(if plain.as_os_str().is_empty() { ".".into() } else { plain.into_os_string() })
    }

    pub(super) fn paths(&self, paths: &[String]) -> Result<Vec<OsString>> {
        paths.iter().map(|path| self.path(path)).collect()
    }
}

/// Returns an error for names that git could misinterpret.
pub(super) fn check_name(name: &str, what: &str) -> Result<()> {
    let is_odd = name.is_empty() || name.starts_with('-') || name.chars().any(char::is_control);
    if is_odd || name.len() > MAX_REVISION {
        return Err(Error::msg(format!("{name:?} is not a valid {what}")));
    }
    Ok(())
}

/// Returns the requested folder, if it is served.
fn folder(roots: &[PathBuf], named: Option<&str>) -> Result<PathBuf> {
    let Some(named) = named else {
        return match roots {
            [root] => Ok(root.clone()),
            _ => {
                Err(Error::msg(format!("specify the repository; these folders are served: {}", shown(roots))))
            }
        };
    };
    let path = crate::files::parse_path(named)?;
    // `join` takes an absolute path unchanged; that it is served is checked after resolving links.
    let real =
        roots.iter().find_map(|root| root.join(&path).canonicalize().ok().filter(|real| is_in(roots, real)));
    // Paths outside and paths that do not exist are indistinguishable here.
    let real = real.ok_or_else(|| outside(&format!("{named:?}"), roots))?;
    if real.is_dir() { Ok(real) } else { Err(Error::msg(format!("{named:?} is a file, not a folder"))) }
}

pub(super) fn is_in(roots: &[PathBuf], path: &Path) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

fn shown(roots: &[PathBuf]) -> String {
    roots.iter().map(|root| readable(root).display().to_string()).collect::<Vec<_>>().join(", ")
}

fn outside(what: &str, roots: &[PathBuf]) -> Error {
    Error::msg(format!("{what} does not exist or is outside the served folders: {}", shown(roots)))
}

/// Returns an error if a part of a repository is a link to the outside.
fn links_stay_inside(roots: &[PathBuf], folder: &Path) -> Result<()> {
    let mut left = MAX_ENTRIES;
    for part in
        ["", "info", "logs", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"]
    {
        let Ok(entries) = fs::read_dir(folder.join(part)) else { continue };
        for entry in entries.flatten() {
            left = left
                .checked_sub(1)
                .ok_or_else(|| Error::msg("the repository has too many files to check"))?;
            // Only links lead out: all other entries are below a folder that was checked.
            if !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            // A link without a target leads nowhere.
            if entry.path().canonicalize().is_ok_and(|real| !is_in(roots, &real)) {
                return Err(outside(&entry.path().display().to_string(), roots));
            }
        }
    }
    Ok(())
}

/// Returns an error if a repository has alternates outside.
fn alternates_stay_inside(roots: &[PathBuf], common: &Path) -> Result<()> {
    let mut open = vec![common.join("objects")];
    let mut seen = 0;
    while let Some(objects) = open.pop() {
        seen += 1;
        // Also ends the search if repositories are alternates of each other in a circle.
        if seen > MAX_ALTERNATES {
            return Err(Error::msg("the repository has too many alternates"));
        }
        let Ok(list) = fs::read(objects.join("info/alternates")) else { continue };
        for line in list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#') {
            // Git can quote unusual paths; these are not supported.
            let other = objects.join(os_string(line.to_vec())).canonicalize();
            match other {
                Ok(other) if is_in(roots, &other) => open.push(other),
                _ => return Err(outside("an alternate of the repository", roots)),
            }
        }
    }
    Ok(())
}
