//! Outside programs: `tools/versions.toml` installed below the target directory.

mod python;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::report::say;
use crate::{paths, process};
pub(crate) use python::PythonTools;

const NPM_LIMIT: Duration = Duration::from_secs(600);
const APT_LIMIT: Duration = Duration::from_secs(600);
/// Version of a package of `[npm-registry]`'s packages that cannot be found by its tag.
const NODE_FETCH: &str = "2.7.0";
/// Number of attempts at a download, because registries fail at times.
const MAX_ATTEMPTS: u32 = 3;
/// Commands without `--version`: that they are found has to do.
const UNVERSIONED_COMMANDS: [&str; 6] = ["dbus-send", "go", "haproxy", "mandoc", "openssl", "secret-tool"];

/// Runs `cargo xtask setup`.
pub(crate) fn run() -> Result<()> {
    let node = NodeTools::ready()?;
    say!("npm packages are in {}", node.modules.display());
    let python = PythonTools::ready()?;
    say!("Python packages are in {}", python.packages().display());
    say!("Python servers are in {}", PythonTools::servers()?.packages().display());
    say!("those of `cargo xtask guard-bench` are in {}", PythonTools::guard()?.packages().display());
    say!("those of `cargo xtask installs` are in {}", PythonTools::packaging()?.packages().display());
    say!("its npm registry is in {}", NodeTools::registry()?.display());
    say!("those of `cargo xtask models` are in {}", PythonTools::models()?.packages().display());
    match NodeTools::llama() {
        Ok(folder) => say!("what runs a small model is in {}", folder.display()),
        Err(error) => say!("a small model cannot be run here: {error:#}"),
    }
    Ok(())
}

/// Contents of `tools/versions.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolVersions {
    /// npm package to exact version, with the Node for this machine if there is one.
    npm: BTreeMap<String, String>,
    /// The npm package that brings Node.
    node: Option<String>,
    /// Python package to exact version.
    pypi: BTreeMap<String, String>,
    /// Python packages of the servers that `cargo xtask peers` puts behind the gateway, to exact version.
    pypi_servers: BTreeMap<String, String>,
    /// Python packages of `cargo xtask guard-bench`, to exact version.
    pypi_guard: BTreeMap<String, String>,
    /// Python packages of `cargo xtask models`, to exact version.
    pypi_models: BTreeMap<String, String>,
    /// Python packages of the gateway that `cargo xtask fleet` measures beside ours.
    pypi_gateway: BTreeMap<String, String>,
    /// Python packages that make and check packages of the program.
    pub(crate) pypi_packaging: BTreeMap<String, String>,
    /// Python packages that compile for other systems.
    pypi_systems: BTreeMap<String, String>,
    /// Version of Node.
    pub(crate) node_version: String,
    /// The npm packages of the registry that `cargo xtask install` publishes to.
    npm_registry: BTreeMap<String, String>,
    /// The npm packages that run a small model, if there are some for this machine.
    llama: BTreeMap<String, String>,
    /// Command to Debian package.
    debian: BTreeMap<String, String>,
    /// cargo's own programs to exact version.
    pub(crate) cargo: BTreeMap<String, String>,
}

impl ToolVersions {
    /// Reads the file.
    pub(crate) fn read() -> Result<Self> {
        let path = paths::root().join("tools/versions.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text, &format!("{}-{}", env::consts::OS, env::consts::ARCH))
            .with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str, machine: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let section = |name: &str| -> Result<BTreeMap<String, String>> {
            let section =
                table.get(name).and_then(toml::Value::as_table).with_context(|| format!("no [{name}]"))?;
            let text = |value: &toml::Value| value.as_str().map(str::to_owned);
            let pairs = section.iter().map(|(key, value)| Some((key.clone(), text(value)?)));
            pairs.collect::<Option<_>>().with_context(|| format!("[{name}] wants strings"))
        };
        let (mut npm, mut node) = (section("npm")?, section("node")?);
        let node_version = node.remove("version").context("[node] has no version")?;
        let node = node.remove(machine);
        npm.extend(node.clone().map(|package| (package, node_version.clone())));
        let (pypi_packaging, npm_registry) = (section("pypi-packaging")?, section("npm-registry")?);
        let (pypi_systems, pypi_gateway) = (section("pypi-systems")?, section("pypi-gateway")?);
        let (pypi, pypi_models) = (section("pypi")?, section("pypi-models")?);
        let (pypi_servers, pypi_guard) = (section("pypi-servers")?, section("pypi-guard")?);
        let mut parts = section("llama")?;
        let version = parts.remove("version").context("[llama] has no version")?;
        let native = parts.remove(machine).into_iter();
        let llama: BTreeMap<_, _> = native
            .flat_map(|native| ["node-llama-cpp".to_owned(), native])
            .map(|package| (package, version.clone()))
            .collect();
        let python =
            [&pypi, &pypi_servers, &pypi_guard, &pypi_models, &pypi_packaging, &pypi_systems, &pypi_gateway];
        for (package, version) in
            npm.iter().chain(python.into_iter().flatten()).chain(&llama).chain(&npm_registry)
        {
            // `npm:NAME@VERSION` installs another package, or another version, under this name.
            let version = version
                .strip_prefix("npm:")
                .map_or(version.as_str(), |other| other.rsplit_once('@').map_or("", |(_, version)| version));
            let exact =
                version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains([' ', 'x', '*']);
            ensure!(exact, "{package}: `{version}` is no exact version");
        }
        Ok(Self {
            npm,
            node,
            pypi,
            pypi_servers,
            pypi_guard,
            pypi_models,
            pypi_gateway,
            pypi_packaging,
            pypi_systems,
            node_version,
            npm_registry,
            llama,
            debian: section("debian")?,
            cargo: section("cargo")?,
        })
    }

    /// The `package.json` that names exactly these.
    fn package_json(&self) -> String {
        package_json(&self.npm)
    }
}

fn package_json(packages: &BTreeMap<String, String>) -> String {
    let package = json!({ "name": "outside-tools", "private": true, "dependencies": packages });
    format!("{package:#}\n")
}

/// The npm packages, installed, and the Node that runs them.
#[derive(Debug, Clone)]
pub(crate) struct NodeTools {
    /// `node_modules`.
    pub(crate) modules: PathBuf,
    path: OsString,
    home: PathBuf,
}

impl NodeTools {
    /// Installs what is not there yet. An error means that npm programs cannot be run on this machine.
    pub(crate) fn ready() -> Result<Self> {
        let versions = ToolVersions::read()?;
        let folder = Self::in_folder("npm", &versions.package_json(), &[], &versions)?;
        Self::at(&folder, &versions)
    }

    /// The folder of what runs a small model, whose `node_modules` are its own.
    pub(crate) fn llama() -> Result<PathBuf> {
        let versions = ToolVersions::read()?;
        ensure!(!versions.llama.is_empty(), "[llama] of tools/versions.toml has no package for this machine");
        Self::in_folder("llama", &package_json(&versions.llama), &["--omit=optional"], &versions)
    }

    /// The folder of the npm registry that `cargo xtask installs` publishes to.
    pub(crate) fn registry() -> Result<PathBuf> {
        let versions = ToolVersions::read()?;
        let package = json!({
            "name": "outside-tools", "private": true, "dependencies": versions.npm_registry,
            // A dependency names a tag of this package, and a mirror need not know tags.
            "overrides": { "node-fetch": NODE_FETCH }
        });
        Self::in_folder("npm-registry", &format!("{package:#}\n"), &[], &versions)
    }

    fn in_folder(name: &str, package: &str, flags: &[&str], versions: &ToolVersions) -> Result<PathBuf> {
        let folder = paths::tools()?.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        // Two runs at once would unpack into each other.
        let lock = File::create(folder.join(".lock"))?;
        lock.lock().context("locking the tools")?;
        let stamp = folder.join(".installed");
        if fs::read_to_string(&stamp).ok().as_deref() != Some(package) {
            let _absent = fs::remove_file(&stamp);
            versions.provide("npm")?;
            install(&folder, package, flags)?;
            fs::write(&stamp, package)?;
        }
        Ok(folder)
    }

    fn at(folder: &Path, versions: &ToolVersions) -> Result<Self> {
        let modules = folder.join("node_modules");
        let mut path = env::var_os("PATH").unwrap_or_default();
        if let Some(package) = &versions.node {
            let bin = modules.join(package).join("bin");
            ensure!(bin.join("node").exists(), "{package} brought no {}", bin.join("node").display());
            path = env::join_paths([bin].into_iter().chain(env::split_paths(&path)))?;
        } else {
            versions.provide("node")?;
        }
        let home = paths::tools()?.join("home");
        fs::create_dir_all(&home)?;
        Ok(Self { modules, path, home })
    }

    /// Node on one of the installed packages' scripts (`@scope/name/dist/index.js`).
    pub(crate) fn script(&self, script: &str) -> Command {
        let mut command = Command::new(self.program());
        command.arg(self.modules.join(script));
        self.set_environment(&mut command);
        command
    }

    /// The Node program itself, for configuration files that name a command.
    pub(crate) fn program(&self) -> PathBuf {
        let folders: Vec<PathBuf> = env::split_paths(&self.path).collect();
        folders
            .iter()
            .map(|folder| folder.join("node"))
            .find(|node| node.exists())
            .unwrap_or_else(|| "node".into())
    }

    /// The environment for programs that start Node, or are written for it: many write into the home folder,
    /// and the Inspector asks for a keyring otherwise.
    pub(crate) fn set_environment(&self, command: &mut Command) {
        command.env("PATH", &self.path).env("HOME", &self.home).env("MCP_INSPECTOR_SECRET_STORE", "memory");
        command.env("NO_COLOR", "1").env_remove("NODE_OPTIONS");
    }
}

fn install(folder: &Path, package: &str, flags: &[&str]) -> Result<()> {
    say!("installing the npm packages of tools/versions.toml …");
    // A lock file of older pins would decide the versions of what the packages depend on.
    for old in ["package-lock.json", "node_modules/.package-lock.json"] {
        let _absent = fs::remove_file(folder.join(old));
    }
    fs::write(folder.join("package.json"), package)?;
    retry("npm install", || {
        let mut npm = Command::new("npm");
        npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .args(flags)
            .current_dir(folder);
        process::run(npm, "npm install", NPM_LIMIT)?.success().context("npm install").map(drop)
    })
}

/// Does it, again if it fails.
fn retry(what: &str, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    for again in 1..MAX_ATTEMPTS {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) => say!("{what} failed ({error:#}); trying again ({again} of {})", MAX_ATTEMPTS - 1),
        }
    }
    attempt()
}

impl ToolVersions {
    /// Installs the Debian package of a command if it is missing.
    pub(crate) fn provide(&self, command: &str) -> Result<()> {
        if is_installed(command) {
            return Ok(());
        }
        let package = self.debian.get(command).with_context(|| format!("{command} is not installed"))?;
        if !Path::new("/etc/debian_version").exists() || !rustix::process::geteuid().is_root() {
            bail!(
                "{command} is not installed, and only root on Debian gets it installed here (package {package})"
            );
        }
        say!("installing {package} …");
        let _denied = ServicePolicy::deny()?;
        for arguments in [&["update"][..], &["install", "-y", "--no-install-recommends", package]] {
            retry("apt-get", || {
                let mut apt = Command::new("apt-get");
                apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
                let done = process::run(apt, "apt-get", APT_LIMIT)?;
                done.success().with_context(|| {
                    format!("{command} is not installed, and `apt-get {}`", arguments.join(" "))
                })?;
                Ok(())
            })?;
        }
        ensure!(is_installed(command), "{package} was installed, yet {command} does not run");
        Ok(())
    }
}

/// Policy by which installed packages start no services, while it is here.
struct ServicePolicy {
    /// File to remove; `None` if the machine has a policy of its own.
    file: Option<&'static Path>,
}

impl ServicePolicy {
    /// Denies services, unless the machine has a policy already.
    fn deny() -> Result<Self> {
        let file = Path::new("/usr/sbin/policy-rc.d");
        if file.exists() {
            return Ok(Self { file: None });
        }
        fs::write(file, "#!/bin/sh\nexit 101\n").with_context(|| format!("writing {}", file.display()))?;
        let policy = Self { file: Some(file) };
        fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        Ok(policy)
    }
}

impl Drop for ServicePolicy {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            // It denies services of this installation alone; a file that stays is seen by the next start of one.
            let _ = fs::remove_file(file);
        }
    }
}

/// Returns the path of a command.
pub(crate) fn find_command(command: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(command)).find(|file| file.is_file())
}

/// Returns true if the command exists and reports its version: `cargo-nextest`, or `cargo mutants` for a subcommand of
/// cargo.
pub(crate) fn is_installed(command: &str) -> bool {
    if UNVERSIONED_COMMANDS.contains(&command) {
        return find_command(command).is_some();
    }
    let mut words = command.split(' ');
    let mut probe = Command::new(words.next().unwrap_or_default());
    probe.args(words).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[npm]\na = '1.0.0'\n[node]\nversion = '22.1.0'\nlinux-x86_64 = 'node-x'\n[debian]\n[cargo]\n[pypi]\nc = '1.0.0'\n[pypi-servers]\ne = '1.0.0'\n[pypi-guard]\nf = '1.0.0'\n[pypi-models]\nd = '1.0.0'\n[pypi-packaging]\ng = '1.0.0'\n[pypi-systems]\ni = '1.0.0'\n[pypi-gateway]\nj = '1.0.0'\n[npm-registry]\nh = '1.0.0'\n[llama]\nversion = '3.0.0'\nlinux-x86_64 = '@l/linux-x'\n";

    #[test]
    fn node_is_one_of_the_packages_where_there_is_one() {
        let versions = ToolVersions::parse(FILE, "linux-x86_64").unwrap();
        assert!(versions.package_json().contains("\"node-x\": \"22.1.0\""));
        let llama: Vec<&str> = versions.llama.keys().map(String::as_str).collect();
        assert_eq!(llama, ["@l/linux-x", "node-llama-cpp"]);
        let versions = ToolVersions::parse(FILE, "plan9-mips").unwrap();
        assert_eq!((versions.node, versions.npm.len(), versions.llama.len()), (None, 1, 0));
    }

    #[test]
    fn ranges_are_refused() {
        for range in ["^1.0.0", "1.x", "latest", "*", "1.0 || 2.0", "npm:b", "npm:@a/b", "npm:@a/b@^1.0.0"] {
            assert!(ToolVersions::parse(&FILE.replace("1.0.0", range), "").is_err(), "{range}");
        }
    }

    #[test]
    fn a_download_has_three_tries() {
        for (failures, good) in [(0, true), (2, true), (3, false)] {
            let mut tries = 0;
            let outcome = retry("it", || {
                tries += 1;
                ensure!(tries > failures, "a bad moment");
                Ok(())
            });
            assert_eq!((outcome.is_ok(), tries), (good, (failures + 1).min(MAX_ATTEMPTS)));
        }
    }

    #[test]
    fn a_package_may_have_another_name_here() {
        ToolVersions::parse(&FILE.replace("1.0.0", "npm:@a/b@1.0.0"), "").unwrap();
    }

    #[test]
    fn the_pins_of_the_repository_are_readable() {
        ToolVersions::read().unwrap();
    }
}
