//! Platforms, and the folders of a machine that manifests refer to.

use std::fmt;

/// Platform that a bundle runs on, as manifests name it. A value, so that commands of other platforms can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BundlePlatform {
    /// `darwin`
    MacOs,
    /// `win32`
    Windows,
    /// `linux`
    Linux,
}

impl BundlePlatform {
    /// All platforms.
    pub const ALL: [Self; 3] = [Self::MacOs, Self::Windows, Self::Linux];

    /// Returns the name in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MacOs => "darwin",
            Self::Windows => "win32",
            Self::Linux => "linux",
        }
    }

    /// Returns the platform of this program. `None` if manifests have no name for it.
    #[must_use]
    pub const fn current() -> Option<Self> {
        if cfg!(target_os = "linux") {
            Some(Self::Linux)
        } else if cfg!(target_os = "macos") {
            Some(Self::MacOs)
        } else if cfg!(windows) {
            Some(Self::Windows)
        } else {
            None
        }
    }

    /// Returns the separator of paths.
    #[must_use]
    pub const fn path_separator(self) -> &'static str {
        match self {
            Self::Windows => "\\",
            Self::MacOs | Self::Linux => "/",
        }
    }
}

impl fmt::Display for BundlePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Folders that variables stand for. A variable whose folder is unknown stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundlePlaces {
    /// Folder of the unpacked bundle, absolute: `${__dirname}`.
    pub bundle: String,
    /// `${HOME}`
    pub home: Option<String>,
    /// `${DESKTOP}`
    pub desktop: Option<String>,
    /// `${DOCUMENTS}`
    pub documents: Option<String>,
    /// `${DOWNLOADS}`
    pub downloads: Option<String>,
}

impl BundlePlaces {
    /// Creates the usual places of a home folder: `Desktop`, `Documents` and `Downloads` in it.
    #[must_use]
    pub fn in_home(bundle: impl Into<String>, home: impl Into<String>, platform: BundlePlatform) -> Self {
        let home = home.into();
        let below = |name: &str| Some(format!("{home}{}{name}", platform.path_separator()));
        Self {
            bundle: bundle.into(),
            desktop: below("Desktop"),
            documents: below("Documents"),
            downloads: below("Downloads"),
            home: Some(home),
        }
    }
}
