//! Sandbox profile of a server, as the operator configures it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Sandbox profile: the resources that a server may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxProfile {
    /// Mechanism that enforces the profile.
    pub kind: SandboxKind,
    /// Files that the server may use. `None` grants everything that its user may use.
    pub files: Option<SandboxFiles>,
    /// Network that the server may use.
    pub network: SandboxNetwork,
}

/// Mechanism required to enforce a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxKind {
    /// Bubblewrap if it works, else Landlock. Nothing for a profile without restrictions.
    #[default]
    Auto,
    /// Bubblewrap, even for a profile without restrictions. The server then has its own process tree, which ends with
    /// it.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
    /// No mechanism.
    Off,
}

/// Files that a server may use besides those of the system, as absolute paths. A folder includes everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxFiles {
    /// Paths that may be read and executed.
    pub read: Vec<PathBuf>,
    /// Paths that may also be written.
    pub write: Vec<PathBuf>,
}

/// Network that a server may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SandboxNetwork {
    /// Network of the host.
    #[default]
    Host,
    /// No network.
    None,
}

impl SandboxProfile {
    /// Creates a profile without restrictions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the mechanism that enforces the profile.
    #[must_use]
    pub fn with_kind(mut self, kind: SandboxKind) -> Self {
        self.kind = kind;
        self
    }

    /// Restricts files to these.
    #[must_use]
    pub fn with_files(mut self, files: SandboxFiles) -> Self {
        self.files = Some(files);
        self
    }

    /// Sets the network.
    #[must_use]
    pub fn with_network(mut self, network: SandboxNetwork) -> Self {
        self.network = network;
        self
    }

    /// Returns true if the profile has anything to enforce.
    #[must_use]
    pub fn is_demanding(&self) -> bool {
        self.files.is_some() || self.network == SandboxNetwork::None
    }
}

impl SandboxFiles {
    /// Grants only the files of the system.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also grants reading this path.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Also grants writing this path.
    #[must_use]
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write.push(path.into());
        self
    }
}

/// Mechanism that enforces a profile on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SandboxMechanism {
    /// No mechanism.
    #[serde(rename = "none")]
    Nothing,
    /// Bubblewrap, which uses namespaces.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
}

impl SandboxMechanism {
    /// Returns the name of the mechanism.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
        }
    }
}

/// Confinement of a server, in a form for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confinement {
    /// Mechanism that enforces the confinement.
    pub means: SandboxMechanism,
    /// Files that the server may use besides those of the system. `None` grants everything that its user may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<SandboxFiles>,
    /// Network that the server may use.
    pub network: SandboxNetwork,
    /// Operations that this kernel is too old to prevent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.means {
            SandboxMechanism::Nothing => {
                return f.write_str("not confined: all files and the network of its user");
            }
            means => f.write_str(means.as_str())?,
        }
        match &self.files {
            None => f.write_str(": all files")?,
            Some(files) if files.read.is_empty() && files.write.is_empty() => f.write_str(": no files")?,
            Some(files) => {
                let mut lead = ": ";
                for (word, paths) in [("reads", &files.read), ("writes", &files.write)] {
                    if !paths.is_empty() {
                        let names: Vec<String> =
                            paths.iter().map(|path| path.display().to_string()).collect();
                        write!(f, "{lead}{word} {}", names.join(" "))?;
                        lead = ", ";
                    }
                }
            }
        }
        f.write_str(match self.network {
            SandboxNetwork::Host => ", the network",
            SandboxNetwork::None => ", no network",
        })?;
        if !self.lacks.is_empty() {
            write!(f, "; this kernel cannot block {}", self.lacks.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_may_is_one_line() {
        let mut confinement = Confinement {
            means: SandboxMechanism::Nothing,
            files: None,
            network: SandboxNetwork::Host,
            lacks: Vec::new(),
        };
        assert_eq!(confinement.to_string(), "not confined: all files and the network of its user");
        confinement.means = SandboxMechanism::Landlock;
        confinement.network = SandboxNetwork::None;
        assert_eq!(confinement.to_string(), "landlock: all files, no network");
        confinement.files = Some(SandboxFiles::new());
        assert_eq!(confinement.to_string(), "landlock: no files, no network");
        confinement.means = SandboxMechanism::Bubblewrap;
        confinement.files = Some(SandboxFiles::new().read("/a").read("/b").write("/c"));
        confinement.network = SandboxNetwork::Host;
        assert_eq!(confinement.to_string(), "bubblewrap: reads /a /b, writes /c, the network");
        confinement.files = None;
        confinement.lacks = vec!["signals".to_owned()];
        assert_eq!(
            confinement.to_string(),
            "bubblewrap: all files, the network; this kernel cannot block signals"
        );
    }
}
