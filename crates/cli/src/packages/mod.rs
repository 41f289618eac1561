//! Packages of servers, installed into private folders: once, and not again at each start.

pub(crate) mod cargo;
mod contents;
mod files;
pub(crate) mod go;
pub(crate) mod name;
mod npm;
mod process;
mod python;
pub(crate) mod removed;
mod source;

use std::path::{Path, PathBuf};

use hospes_registry::{RegistryPackage, RegistryType, ResolvedArtifact};
use serde::{Deserialize, Serialize};

use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, printable};
use crate::paths;
use crate::progress::StepBar;

pub(crate) use self::contents::FolderContents;
pub(crate) use self::process::find_program;

/// Name of the file that is written when a package is installed completely.
const RECORD_FILE: &str = "hospes-package.json";
/// Length of the part of the hash that distinguishes packages of the same version.
const SHORT_HASH: usize = 12;

/// A package and the folder into which it is installed. A folder that [`PackageFolder::install`] made is removed on drop,
/// unless it was kept.
#[derive(Debug)]
pub(crate) struct PackageFolder {
    path: PathBuf,
    package: RegistryPackage,
    digest: Option<String>,
    /// Hashes of all files of the version, for PyPI.
    files: Vec<(String, String)>,
    /// Registry that the package comes from, if it is another one than the launchers use.
    registry: Option<String>,
    is_temporary: bool,
}

/// An installed package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstalledPackage {
    /// Program and its first arguments.
    pub(crate) command: Vec<String>,
    /// Digest of the archive that was installed.
    #[serde(default)]
    pub(crate) digest: Option<String>,
    /// Digest that the package registry named before the installation.
    #[serde(default)]
    planned_digest: Option<String>,
    /// Digest of the installed files, without the record itself.
    #[serde(default)]
    contents: Option<String>,
    /// Packages whose scripts were not run.
    #[serde(default)]
    pub(crate) skipped_scripts: Vec<String>,
    /// Packages that the lock file has no hash of.
    #[serde(default)]
    pub(crate) unhashed: Vec<String>,
}

impl PackageFolder {
    /// Creates the folder of a package of a server. Nothing is installed.
    ///
    /// # Errors
    /// Without a home folder.
    pub(crate) fn new(
        server: &str,
        package: &RegistryPackage,
        artifact: Option<&ResolvedArtifact>,
    ) -> CliResult<Self> {
        let digest = artifact.and_then(|artifact| artifact.digest.clone());
        let version = package.version.as_deref().unwrap_or("latest");
        // Base64 of npm has characters that are none of names of files.
        let hash: String =
            digest.as_deref().unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
        let hash = hash.trim_start_matches("sha512").trim_start_matches("sha256");
        let distinct = hash.get(..SHORT_HASH).unwrap_or(package.registry_type.as_str());
        let path = paths::package_folder(server, &format!("{version}-{distinct}")).ok_or_else(|| {
            CliError::usage("no folder found in which to install the package").hint("set HOME")
        })?;
        Ok(Self {
            path,
            package: package.clone(),
            digest,
            files: artifact.map(|artifact| artifact.files.clone()).unwrap_or_default(),
            registry: hospes_registry::other_registry(package),
            is_temporary: false,
        })
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the command that the package is expected to be started with. Only the installed package is certain.
    pub(crate) fn expected_command(&self, artifact: Option<&ResolvedArtifact>) -> Vec<String> {
        match self.package.registry_type {
            RegistryType::Npm => {
                let programs = artifact.map(|artifact| artifact.programs.as_slice()).unwrap_or_default();
                npm::expected_command(&self.path, &self.package, programs)
            }
            RegistryType::Pypi => vec![text(&python::script(&self.path, &self.package.identifier))],
            _ => vec![text(&source::expected_program(&self.path, &self.package))],
        }
    }

    /// Formats what is going to be run, for a person.
    pub(crate) fn describe(&self) -> String {
        let name = &self.package.identifier;
        let version = self.package.version.as_deref().unwrap_or("latest");
        let folder = paths::display_path(&self.path);
        match self.package.registry_type {
            RegistryType::Npm => format!("npm install {name}@{version}, without its scripts, into {folder}"),
            RegistryType::Pypi => {
                format!("uv pip install {name}=={version}, by hash and without builds, into {folder}")
            }
            _ => source::describe(&self.path, &self.package),
        }
    }

    /// Checks that the program that installs packages of this kind is there.
    ///
    /// # Errors
    /// If it is not. The error says how to get it.
    pub(crate) fn check_installer(&self) -> CliResult {
        find_program(self.installer()).map(drop)
    }

    fn installer(&self) -> &'static str {
        match self.package.registry_type {
            RegistryType::Npm => "npm",
            RegistryType::Pypi => "uv",
            RegistryType::Cargo => "cargo",
            _ => "go",
        }
    }

    /// Installs the package, unless the same one is there already with exactly its files. What an interrupted run left is
    /// removed before. A complete folder with other files is set aside, with a notice.
    ///
    /// # Errors
    /// If the package is not installed, or is not the one of the recorded hash. The folder is gone then.
    pub(crate) async fn install(
        &mut self,
        output: CliOutput,
        notices: &mut Vec<String>,
    ) -> CliResult<InstalledPackage> {
        let record = self.path.join(RECORD_FILE);
        let known = files::read_json::<InstalledPackage>(&record);
        let contents = match &known {
            Some(_) => read_contents(&self.path).await.ok(),
            None => None,
        };
        if let Some(installed) = &known
            && self.is_intact(installed, contents.as_deref())
        {
            return Ok(installed.clone());
        }
        let failed = |error: &std::io::Error| {
            CliError::usage(format!("cannot install into {}", paths::display_path(&self.path)))
                .with_cause(error)
                .hint("free some space, or make the folder writable")
        };
        if known.is_some() {
            notices.push(removed::set_aside(&self.path).map_err(|error| failed(&error))?);
        }
        files::remove_folder(&self.path).map_err(|error| failed(&error))?;
        hospes_fs::create_private_folder(&self.path).map_err(|error| failed(&error))?;
        // A complete folder may be that of a configured server, for which it is repaired.
        self.is_temporary = known.is_none();
        let name = printable(&self.package.identifier);
        let verb = if self.compiles() { "compiling" } else { "installing" };
        let bar = StepBar::spinner(&format!("{verb} {name} with {}", self.installer()), output);
        let mut installed = match self.package.registry_type {
            RegistryType::Npm => npm::install(self, &bar).await?,
            RegistryType::Pypi => python::install(self, &bar).await?,
            RegistryType::Cargo | RegistryType::Go => source::install(self, &bar).await?,
            _ => return Err(CliError::usage("packages of this type are not installed")),
        };
        drop(bar);
        installed.digest = digest_of_installed(&self.package.registry_type, installed.digest, &self.digest);
        installed.planned_digest.clone_from(&self.digest);
        installed.contents = Some(read_contents(&self.path).await.map_err(|error| failed(&error))?);
        files::write_json(&record, &installed).map_err(|error| {
            CliError::usage(format!("cannot write {}", paths::display_path(&record)))
                .with_cause(&error)
                .hint("free some space, or make the folder writable")
        })?;
        Ok(installed)
    }

    /// Returns true if an installation is of the planned archive, its program is there, and it has the recorded files and no
    /// others.
    fn is_intact(&self, installed: &InstalledPackage, contents: Option<&str>) -> bool {
        let planned = installed.planned_digest.as_ref().or(installed.digest.as_ref());
        let mut own =
            installed.command.iter().map(Path::new).filter(|word| word.starts_with(&self.path)).peekable();
        let is_found = own.peek().is_some() && own.all(Path::is_file);
        let starts = installed
            .command
            .first()
            .is_some_and(|program| Path::new(program).is_absolute() || find_program(program).is_ok());
        let is_unchanged = contents.is_some() && contents == installed.contents.as_deref();
        planned == self.digest.as_ref() && is_found && starts && is_unchanged
    }

    /// Returns true if the package is compiled, which runs code of its publisher.
    pub(crate) fn compiles(&self) -> bool {
        matches!(self.package.registry_type, RegistryType::Cargo | RegistryType::Go)
    }

    /// Keeps the folder.
    pub(crate) fn keep(mut self) {
        self.is_temporary = false;
        removed::unmark(&self.path);
    }
}

impl Drop for PackageFolder {
    fn drop(&mut self) {
        if !self.is_temporary {
            return;
        }
        if let Err(error) = files::remove_folder(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "the folder of the package was not removed");
        }
        // Only if no other version is in it.
        let _has_others = self.path.parent().map(std::fs::remove_dir);
    }
}

/// Returns the digest of the files of a package.
async fn read_contents(folder: &Path) -> std::io::Result<String> {
    let folder = folder.to_owned();
    // In a thread, because a package may have gigabytes.
    let read = move || FolderContents::read(&folder, Some(RECORD_FILE)).map(|contents| contents.digest());
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// Returns the digest that is recorded: the one that the installer has found, or else the planned one, which the installer has
/// checked. A version of PyPI has several files, and only the installer knows which one was installed.
fn digest_of_installed(
    kind: &RegistryType,
    found: Option<String>,
    planned: &Option<String>,
) -> Option<String> {
    match kind {
        RegistryType::Pypi => found,
        _ => found.or_else(|| planned.clone()),
    }
}

/// Removes the folder of a version that is no longer needed. Only folders of packages and bundles are removed.
pub(crate) fn remove_version(folder: &Path) {
    let is_own = paths::version_folders()
        .iter()
        .any(|parent| folder.parent().and_then(Path::parent) == Some(parent.as_path()));
    if is_own && let Err(error) = files::remove_folder(folder) {
        tracing::warn!(folder = %folder.display(), %error, "an old version was not removed");
    }
    if is_own && let Some(parent) = folder.parent() {
        // Only if no other version is in it.
        let _has_others = std::fs::remove_dir(parent);
    }
}

/// Returns the folder of the version that a path is in: of a package or a bundle.
pub(crate) fn version_folder_of(path: &Path) -> Option<PathBuf> {
    let parents = paths::version_folders();
    path.ancestors()
        .find(|folder| {
            let above = folder.parent().and_then(Path::parent);
            above.is_some_and(|above| parents.iter().any(|parent| parent == above))
        })
        .map(Path::to_owned)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Creates the error of a package that has no program that could be started.
fn no_program(package: &RegistryPackage, programs: &[String]) -> CliError {
    let name = printable(&package.identifier);
    match programs {
        [] => CliError::usage(format!("the package {name} has no program")),
        several => CliError::usage(format!(
            "the package {name} has several programs: {}",
            printable(&several.join(", "))
        ))
        .hint("add the one that is the server by its command: hospes add -- COMMAND"),
    }
}

/// Chooses the program that is named like the package, or the only one.
fn choose_program<'p>(package: &RegistryPackage, programs: &'p [String]) -> CliResult<&'p String> {
    let last = package.identifier.rsplit('/').next().unwrap_or_default();
    let same = |name: &&String| files::normalized(name) == files::normalized(last);
    match (programs.iter().find(same), programs) {
        (Some(program), _) | (None, [program]) => Ok(program),
        (None, _) => Err(no_program(package, programs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digest_of_another_file_of_pypi_is_recorded() {
        let planned = Some("sha256:aa".to_owned());
        assert_eq!(digest_of_installed(&RegistryType::Pypi, None, &planned), None);
        assert_eq!(
            digest_of_installed(&RegistryType::Pypi, Some("sha256:bb".to_owned()), &planned).as_deref(),
            Some("sha256:bb")
        );
        assert_eq!(digest_of_installed(&RegistryType::Cargo, None, &planned), planned);
    }
}
