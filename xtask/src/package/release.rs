//! The release: its version, its platforms, and the names of its files.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use crate::package::templates::Templates;
use crate::paths;

/// A platform that packages are made for, as each channel names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Platform {
    /// Rust target without the part that says which C library is used.
    pub(crate) rust: &'static str,
    /// Platform and processor of Node.
    pub(crate) npm: &'static str,
    /// Processor in the platform tag of a wheel.
    pub(crate) wheel_arch: &'static str,
    /// Architecture of Debian.
    pub(crate) debian: Option<&'static str>,
    /// Architecture of container images.
    pub(crate) container: Option<&'static str>,
}

/// The platforms.
pub(crate) const PLATFORMS: [Platform; 5] = [
    Platform {
        rust: "x86_64-unknown-linux",
        npm: "linux-x64",
        wheel_arch: "x86_64",
        debian: Some("amd64"),
        container: Some("amd64"),
    },
    Platform {
        rust: "aarch64-unknown-linux",
        npm: "linux-arm64",
        wheel_arch: "aarch64",
        debian: Some("arm64"),
        container: Some("arm64"),
    },
    Platform {
        rust: "x86_64-apple-darwin",
        npm: "darwin-x64",
        wheel_arch: "x86_64",
        debian: None,
        container: None,
    },
    Platform {
        rust: "aarch64-apple-darwin",
        npm: "darwin-arm64",
        wheel_arch: "arm64",
        debian: None,
        container: None,
    },
    Platform {
        rust: "x86_64-pc-windows-msvc",
        npm: "win32-x64",
        wheel_arch: "amd64",
        debian: None,
        container: None,
    },
];

impl Platform {
    /// Returns true on Windows.
    pub(crate) fn is_windows(&self) -> bool {
        self.npm.starts_with("win32")
    }

    /// File name of the program.
    pub(crate) fn program(&self) -> &'static str {
        if self.is_windows() { "hospes.exe" } else { "hospes" }
    }
}

/// A release that is being packaged.
#[derive(Debug)]
pub(crate) struct Release {
    /// Version of the workspace.
    pub(crate) version: String,
    /// Description of the program.
    pub(crate) description: String,
    /// Expression of its licence.
    pub(crate) license: String,
    /// Folder of the packages.
    pub(crate) folder: PathBuf,
    /// Compression level, 1 to 9.
    pub(crate) compression: u32,
    /// Time of all files in packages, in seconds since 1970: `SOURCE_DATE_EPOCH`, or the beginning of 2000.
    pub(crate) time: u64,
    pub(crate) templates: Templates,
}

/// Time of files if `SOURCE_DATE_EPOCH` is not set. Zip files know no time before 1980.
const DEFAULT_TIME: u64 = 946_684_800;

impl Release {
    /// Reads the manifests of the workspace.
    pub(crate) fn new(folder: &Path, compression: u32) -> Result<Self> {
        let manifest = |path: &str| -> Result<toml::Table> {
            let path = paths::root().join(path);
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            text.parse().with_context(|| format!("in {}", path.display()))
        };
        let (workspace, program) = (manifest("Cargo.toml")?, manifest("crates/cli/Cargo.toml")?);
        let text = |value: &toml::Value| value.as_str().map(str::to_owned);
        let shared = |key: &str| {
            text(&workspace["workspace"]["package"][key]).with_context(|| format!("no {key} in Cargo.toml"))
        };
        let description =
            text(&program["package"]["description"]).context("no description of the program")?;
        // It stands between quotation marks in JSON, YAML and others.
        ensure!(
            !description.contains(['"', '\\', '\n']),
            "the description has a character that needs escaping"
        );
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text.parse().context("SOURCE_DATE_EPOCH is no number of seconds")?,
            Err(_) => DEFAULT_TIME,
        };
        ensure!(time >= DEFAULT_TIME, "SOURCE_DATE_EPOCH is before 2000");
        Ok(Self {
            version: shared("version")?,
            license: shared("license")?,
            description,
            folder: folder.to_path_buf(),
            compression,
            time,
            templates: Templates::new(paths::root().join("packaging")),
        })
    }

    /// Name of an archive without its suffix, which is also its only folder.
    pub(crate) fn archive_folder(&self, target: &str) -> String {
        format!("hospes-{}-{target}", self.version)
    }

    /// File name of an archive. `[package.metadata.binstall]` of the program repeats it.
    pub(crate) fn archive_name(&self, target: &str) -> String {
        let suffix = if target.contains("windows") { ".zip" } else { ".tar.gz" };
        format!("{}{suffix}", self.archive_folder(target))
    }

    /// The packages themselves, without folders, sorted.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if path.is_file() && !is_hidden {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Writes `SHA256SUMS`, which `sha256sum --check` reads.
    pub(crate) fn write_checksums(&self) -> Result<()> {
        let mut sums = String::new();
        for file in self.files()? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name != "SHA256SUMS" {
                // Writing into a string cannot fail.
                let _ = writeln!(sums, "{}  {name}", hash_file(&file)?);
            }
        }
        fs::write(self.folder.join("SHA256SUMS"), sums).context("writing SHA256SUMS")
    }
}

/// SHA-256 of a file, in hexadecimal digits.
pub(crate) fn hash_file(path: &Path) -> Result<String> {
    let mut file = fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    let mut digits = String::new();
    for byte in hash.finalize() {
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cargo-binstall has the names of archives from a template in the manifest of the program.
    #[test]
    fn the_template_of_binstall_gives_the_names_of_the_archives() {
        let release = Release::new(Path::new("out"), 9).unwrap();
        let manifest = fs::read_to_string(paths::root().join("crates/cli/Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let metadata = manifest["package"]["metadata"]["binstall"].as_table().unwrap();
        for (target, format) in [
            ("x86_64-unknown-linux-gnu", metadata["pkg-fmt"].as_str().unwrap()),
            (
                "x86_64-pc-windows-msvc",
                metadata["overrides"]["x86_64-pc-windows-msvc"]["pkg-fmt"].as_str().unwrap(),
            ),
        ] {
            let fill = |template: &str| {
                let suffix = if format == "zip" { ".zip" } else { ".tar.gz" };
                let program = if target.contains("windows") { ".exe" } else { "" };
                template
                    .replace("{ version }", &release.version)
                    .replace("{ target }", target)
                    .replace("{ archive-suffix }", suffix)
                    .replace("{ bin }", "hospes")
                    .replace("{ binary-ext }", program)
            };
            let url = fill(metadata["pkg-url"].as_str().unwrap());
            assert_eq!(
                url,
                format!("{{ repo }}/releases/download/v{}/{}", release.version, release.archive_name(target))
            );
            let file = fill(metadata["bin-dir"].as_str().unwrap());
            assert!(file.starts_with(&format!("{}/hospes", release.archive_folder(target))), "{file}");
        }
    }
}
