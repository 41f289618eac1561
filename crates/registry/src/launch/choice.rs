//! Packages and remotes of an entry, in the order in which they are offered.

use std::fmt;

use url::{Host, Url};

use super::words;
use crate::entry::{
    ArgumentKind, RegistryPackage, RegistryRemote, RegistryType, ServerEntry, TransportKind, read_escape,
};

/// A package or remote of an entry, by its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaunchChoice {
    /// `packages[index]`.
    Package(usize),
    /// `remotes[index]`.
    Remote(usize),
}

/// A way to use a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchOption {
    /// Position in the entry.
    pub choice: LaunchChoice,
    /// Kind for people and for `--package`: `remote`, `npm`, `oci` and so on.
    pub kind: String,
    /// Identifier of the package, or URL template of the remote.
    pub identifier: String,
    /// Version of the package.
    pub version: Option<String>,
    /// Reason for its place in the order.
    pub reason: OptionReason,
    /// Reason it cannot be started here.
    pub obstacle: Option<LaunchObstacle>,
}

/// Reasons for the place of an option. `Display` says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OptionReason {
    /// Remote on the domain that the namespace proves.
    OwnDomainRemote,
    /// Bundle with a hash.
    Bundle,
    /// Image with a digest.
    ImageWithDigest,
    /// Package of npm or PyPI.
    RunnerPackage,
    /// Package of NuGet.
    DotnetPackage,
    /// Image with a tag.
    ImageWithTag,
    /// Module of Go.
    GoModule,
    /// Crate.
    Crate,
    /// Remote elsewhere.
    OtherRemote,
    /// A kind that cannot be started here.
    Unknown,
}

impl fmt::Display for OptionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnDomainRemote => {
                "runs at the publisher's own domain; nothing is installed on this machine"
            }
            Self::Bundle => "one file with a hash that is checked",
            Self::ImageWithDigest => "a container, pinned to its digest",
            Self::RunnerPackage => "an exact version of a package; its archive has a hash",
            Self::DotnetPackage => "an exact version of a package; needs the .NET SDK",
            Self::GoModule => "is compiled on this machine; needs Go",
            Self::Crate => "is compiled on this machine; needs Rust",
            Self::ImageWithTag => "a container, named by a tag that can be moved",
            Self::OtherRemote => "runs at a domain that the name of the server does not prove",
            Self::Unknown => "this kind is not known here",
        })
    }
}

/// Reasons a package or remote cannot be started. `Display` says them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchObstacle {
    /// The kind of package is not known.
    UnknownKind(String),
    /// The transport is not known.
    UnknownTransport(String),
    /// The package starts an HTTP server of its own.
    LocalHttp,
    /// A bundle without a hash.
    MissingHash,
    /// An argument of an unknown kind.
    UnknownArgument(String),
    /// A name or version that is not one of its package registry.
    Invalid {
        /// Path in the entry.
        path: String,
        /// Description of the problem.
        what: String,
    },
    /// A kind of package from another package registry than usual.
    OtherRegistry(String),
}

impl fmt::Display for LaunchObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(
                f,
                "packages of type `{}` are not supported; supported are npm, pypi, oci, mcpb, nuget, go and cargo",
                read_escape(kind)
            ),
            Self::UnknownTransport(kind) => {
                write!(f, "the transport `{}` is not supported", read_escape(kind))
            }
            Self::LocalHttp => f.write_str(
                "it starts an HTTP server on this machine; start it yourself, and add its URL as a remote",
            ),
            Self::MissingHash => {
                f.write_str("the bundle has no `fileSha256`, so the download could not be checked")
            }
            Self::UnknownArgument(kind) => {
                write!(f, "it has an argument of the unknown type `{}`", read_escape(kind))
            }
            Self::Invalid { path, what } => write!(f, "{path}: {what}"),
            Self::OtherRegistry(url) => {
                write!(f, "packages of this kind from {} are not supported", read_escape(url))
            }
        }
    }
}

/// Lists the ways to use a server, in the order in which they should be offered: those that can be started here first.
/// The order is: a remote of the namespace's domain, a bundle, an image with a digest, npm or PyPI, NuGet, an image with a
/// tag, Go, cargo, other remotes. Of two remotes, Streamable HTTP comes before HTTP with Server-Sent Events.
#[must_use]
pub fn launch_options(entry: &ServerEntry) -> Vec<LaunchOption> {
    let packages = entry.packages.iter().enumerate().map(|(index, package)| package_option(index, package));
    let remotes = entry.remotes.iter().enumerate().map(|(index, remote)| remote_option(entry, index, remote));
    let mut options: Vec<LaunchOption> = packages.chain(remotes).collect();
    let is_old = |option: &LaunchOption| match option.choice {
        LaunchChoice::Remote(index) => entry.remotes[index].kind != TransportKind::StreamableHttp,
        LaunchChoice::Package(_) => false,
    };
    options.sort_by_key(|option| (option.obstacle.is_some(), option.reason, is_old(option)));
    options
}

fn package_option(index: usize, package: &RegistryPackage) -> LaunchOption {
    let reason = match &package.registry_type {
        RegistryType::Mcpb => OptionReason::Bundle,
        RegistryType::Oci if package.identifier.contains("@sha256:") => OptionReason::ImageWithDigest,
        RegistryType::Oci => OptionReason::ImageWithTag,
        RegistryType::Npm | RegistryType::Pypi => OptionReason::RunnerPackage,
        RegistryType::Nuget => OptionReason::DotnetPackage,
        RegistryType::Go => OptionReason::GoModule,
        RegistryType::Cargo => OptionReason::Crate,
        RegistryType::Other(_) => OptionReason::Unknown,
    };
    LaunchOption {
        choice: LaunchChoice::Package(index),
        kind: package.registry_type.as_str().to_owned(),
        identifier: package.identifier.clone(),
        version: package.version.clone(),
        reason,
        obstacle: package_obstacle(index, package),
    }
}

fn remote_option(entry: &ServerEntry, index: usize, remote: &RegistryRemote) -> LaunchOption {
    let is_own = remote_host(&remote.url).is_some_and(|host| {
        own_domain(&entry.name).is_some_and(|domain| words::is_at_domain(&host, &domain))
    });
    LaunchOption {
        choice: LaunchChoice::Remote(index),
        kind: "remote".to_owned(),
        identifier: remote.url.clone(),
        version: None,
        reason: if is_own { OptionReason::OwnDomainRemote } else { OptionReason::OtherRemote },
        obstacle: match &remote.kind {
            TransportKind::StreamableHttp | TransportKind::Sse => None,
            other => Some(LaunchObstacle::UnknownTransport(other.as_str().to_owned())),
        },
    }
}

/// Returns why a package cannot be started here.
pub(super) fn package_obstacle(index: usize, package: &RegistryPackage) -> Option<LaunchObstacle> {
    if let RegistryType::Other(kind) = &package.registry_type {
        return Some(LaunchObstacle::UnknownKind(kind.clone()));
    }
    match &package.transport.kind {
        TransportKind::Stdio => {}
        TransportKind::StreamableHttp | TransportKind::Sse => return Some(LaunchObstacle::LocalHttp),
        TransportKind::Other(kind) => return Some(LaunchObstacle::UnknownTransport(kind.clone())),
    }
    let arguments = package.runtime_arguments.iter().chain(&package.package_arguments);
    for argument in arguments {
        if let ArgumentKind::Other(kind) = &argument.kind {
            return Some(LaunchObstacle::UnknownArgument(kind.clone()));
        }
    }
    if package.registry_type == RegistryType::Mcpb && package.file_sha256.is_none() {
        return Some(LaunchObstacle::MissingHash);
    }
    let invalid = |field: &str, what: String| LaunchObstacle::Invalid {
        path: format!("packages[{index}].{field}"),
        what,
    };
    if let Some(what) = words::package_name_problem(&package.registry_type, &package.identifier) {
        return Some(invalid("identifier", what));
    }
    if let Some(version) = &package.version
        && let Some(what) = words::version_problem(&package.registry_type, version)
    {
        return Some(invalid("version", what));
    }
    if let Some(hash) = &package.file_sha256
        && !words::is_sha256(hash)
    {
        return Some(invalid("fileSha256", "expected 64 lower-case hexadecimal digits".to_owned()));
    }
    let base = package.registry_base_url.as_deref()?;
    if words::is_usual_registry(&package.registry_type, base) {
        return None;
    }
    match package.registry_type {
        // The program that runs the package can be told where to find it.
        RegistryType::Npm | RegistryType::Pypi | RegistryType::Nuget => {
            words::registry_problem(base).map(|what| invalid("registryBaseUrl", what))
        }
        // Their identifiers say where they are.
        RegistryType::Oci | RegistryType::Mcpb => None,
        _ => Some(LaunchObstacle::OtherRegistry(base.to_owned())),
    }
}

/// Returns the domain that the namespace of a name stands for: `example.com` for `com.example/server`. There is none for
/// accounts, such as `io.github.owner`.
#[must_use]
pub fn own_domain(name: &str) -> Option<String> {
    let (namespace, _) = name.split_once('/')?;
    if namespace.to_ascii_lowercase().starts_with("io.github.") || !namespace.contains('.') {
        return None;
    }
    let mut labels: Vec<&str> = namespace.split('.').collect();
    labels.reverse();
    Some(labels.join(".").to_ascii_lowercase())
}

/// Returns the host of a URL template, with its variables as they are, in lower case.
pub(crate) fn remote_host(template: &str) -> Option<String> {
    let filled = template.replace(['{', '}'], "x");
    match Url::parse(&filled).ok()?.host()? {
        Host::Domain(name) => Some(name.to_ascii_lowercase()),
        Host::Ipv4(address) => Some(address.to_string()),
        Host::Ipv6(address) => Some(format!("[{address}]")),
    }
}
