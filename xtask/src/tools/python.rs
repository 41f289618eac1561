//! Python packages, installed below the target directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{NPM_LIMIT, ToolVersions, retry};
use crate::report::say;
use crate::{paths, process};

/// The Python packages, installed.
#[derive(Debug, Clone)]
pub(crate) struct PythonTools {
    folder: PathBuf,
}

impl PythonTools {
    /// Installs what is not there yet. An error means that Python programs cannot be run on this machine.
    pub(crate) fn ready() -> Result<Self> {
        let versions = ToolVersions::read()?;
        Self::in_folder("python", &versions.pypi, &versions)
    }

    /// Installs the Python packages of the servers that `cargo xtask peers` puts behind the gateway.
    pub(crate) fn servers() -> Result<Self> {
        let versions = ToolVersions::read()?;
        Self::in_folder("python-servers", &versions.pypi_servers, &versions)
    }

    /// Installs the Python packages that `cargo xtask guard-bench` runs.
    pub(crate) fn guard() -> Result<Self> {
        let versions = ToolVersions::read()?;
        Self::in_folder("python-guard", &versions.pypi_guard, &versions)
    }

    /// Installs the Python packages that `cargo xtask models` runs.
    pub(crate) fn models() -> Result<Self> {
        let versions = ToolVersions::read()?;
        Self::in_folder("python-models", &versions.pypi_models, &versions)
    }

    /// Installs the Python packages that make and check packages of the program.
    pub(crate) fn packaging() -> Result<Self> {
        let versions = ToolVersions::read()?;
        Self::in_folder("python-packaging", &versions.pypi_packaging, &versions)
    }

    /// Installs the gateway that `cargo xtask fleet` measures beside ours.
    pub(crate) fn gateway() -> Result<Self> {
        let versions = ToolVersions::read()?;
        Self::in_folder("python-gateway", &versions.pypi_gateway, &versions)
    }

    /// Installs the Python packages that compile for other systems.
    pub(crate) fn systems() -> Result<Self> {
        let versions = ToolVersions::read()?;
        Self::in_folder("python-systems", &versions.pypi_systems, &versions)
    }

    fn in_folder(name: &str, packages: &BTreeMap<String, String>, versions: &ToolVersions) -> Result<Self> {
        let folder = paths::tools()?.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let lock = File::create(folder.join(".lock"))?;
        lock.lock().context("locking the tools")?;
        let pins: Vec<String> =
            packages.iter().map(|(package, version)| format!("{package}=={version}")).collect();
        let (wanted, stamp, folder) = (pins.join("\n"), folder.join(".installed"), folder.join("packages"));
        if fs::read_to_string(&stamp).ok().as_deref() != Some(wanted.as_str()) {
            let (_absent, _none) = (fs::remove_file(&stamp), fs::remove_dir_all(&folder));
            versions.provide("python3")?;
            versions.provide("python3 -m pip")?;
            say!("installing the Python packages of tools/versions.toml …");
            retry("pip install", || {
                let mut pip = Command::new("python3");
                // What they need is pinned too: nothing else comes along.
                pip.args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--target",
                ]);
                pip.arg(&folder).args(&pins);
                process::run(pip, "pip install", NPM_LIMIT)?.success().context("pip install").map(drop)
            })?;
            fs::write(&stamp, &wanted)?;
        }
        Ok(Self { folder })
    }

    /// Returns the folder of the packages, for `PYTHONPATH`.
    pub(crate) fn packages(&self) -> &Path {
        &self.folder
    }

    /// Python on this module.
    pub(crate) fn module(&self, module: &str) -> Command {
        let mut command = Command::new("python3");
        command.args(["-m", module]).env("PYTHONPATH", &self.folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// A program that one of the packages brings.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        command.env("PYTHONPATH", &self.folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Python on this script.
    pub(crate) fn script(&self, script: &Path) -> Command {
        let mut command = Command::new("python3");
        command.arg(script).env("PYTHONPATH", &self.folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}
