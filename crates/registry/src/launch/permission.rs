//! Permissions that a command line grants to a server, and a proposal for its sandbox.

use super::text::PlannedText;

/// A permission that the arguments of a container program grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchPermission {
    /// A file or folder of this machine is visible in the container.
    Mount {
        /// Path on this machine, or name of a volume.
        source: String,
        /// Path in the container.
        target: String,
        /// Is true if it cannot be changed.
        read_only: bool,
    },
    /// The container uses the network of this machine, with all that listens on loopback.
    HostNetwork,
    /// The container is in this network.
    Network(String),
    /// A port of the container is reachable on this machine.
    Port(String),
    /// The container is not confined.
    Privileged,
    /// A capability beyond the usual ones.
    Capability(String),
    /// A device of this machine.
    Device(String),
    /// A namespace that is shared with this machine, such as `--pid=host`.
    Namespace(String),
    /// A changed security option.
    SecurityOption(String),
}

impl LaunchPermission {
    /// Returns true if the container can leave its confinement with it.
    #[must_use]
    pub fn breaks_out(&self) -> bool {
        match self {
            Self::Privileged | Self::HostNetwork | Self::Namespace(_) | Self::Device(_) => true,
            Self::Capability(_) | Self::SecurityOption(_) => true,
            Self::Mount { source, read_only, .. } => {
                source == "/" || source.ends_with("docker.sock") || (source == "~" && !read_only)
            }
            Self::Network(_) | Self::Port(_) => false,
        }
    }
}

/// Proposal for the sandbox of a server. A person decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxSuggestion {
    /// Files and folders that were given as answers: the server needs them.
    pub paths: Vec<String>,
    /// Network access.
    pub network: NetworkSuggestion,
    /// Hosts that the answers and defaults name.
    pub hosts: Vec<String>,
}

/// Proposal for the network access of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkSuggestion {
    /// No network at first.
    #[default]
    Off,
    /// The program that runs the package downloads it. Once it is installed, the server may not need the network.
    Downloads,
    /// The server is likely to need it: it asks for a key or a URL.
    Likely,
    /// A person should be asked.
    Ask,
    /// The container program decides.
    Container,
    /// The server runs elsewhere.
    Elsewhere,
}

/// Finds the permissions in arguments of `docker run`.
pub(super) fn permissions(args: &[PlannedText]) -> Vec<LaunchPermission> {
    let words: Vec<String> = args.iter().map(PlannedText::masked).collect();
    let mut found = Vec::new();
    let mut index = 0;
    while index < words.len() {
        let word = &words[index];
        index += 1;
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => short_flag(word),
        };
        let takes_value = TAKES_VALUE.contains(&flag);
        let value = match value {
            Some(value) => value,
            None if takes_value => {
                index += 1;
                words.get(index - 1).cloned().unwrap_or_default()
            }
            None => String::new(),
        };
        found.extend(permission(flag, value));
    }
    found
}

/// Flags of `docker run` that grant something and have a value.
const TAKES_VALUE: &[&str] = &[
    "-v",
    "--volume",
    "--mount",
    "--network",
    "--net",
    "-p",
    "--publish",
    "--cap-add",
    "--device",
    "--gpus",
    "--pid",
    "--ipc",
    "--uts",
    "--userns",
    "--cgroupns",
    "--security-opt",
    "--volumes-from",
    "--tmpfs",
];

fn short_flag(word: &str) -> (&str, Option<String>) {
    let is_joined = |flag: &str| word.starts_with(flag) && word.len() > 2 && !word.starts_with("--");
    match ["-v", "-p"].iter().find(|flag| is_joined(flag)) {
        Some(flag) => (&word[..2], Some(word[flag.len()..].trim_start_matches('=').to_owned())),
        None => (word, None),
    }
}

fn permission(flag: &str, value: String) -> Option<LaunchPermission> {
    Some(match flag {
        "-v" | "--volume" => volume(&value),
        "--mount" => mount(&value),
        "--network" | "--net" if value == "host" => LaunchPermission::HostNetwork,
        "--network" | "--net" => LaunchPermission::Network(value),
        "-p" | "--publish" => LaunchPermission::Port(value),
        "-P" | "--publish-all" => LaunchPermission::Port("all".to_owned()),
        "--privileged" if value == "false" => return None,
        "--privileged" => LaunchPermission::Privileged,
        "--cap-add" => LaunchPermission::Capability(value),
        "--device" | "--gpus" => LaunchPermission::Device(value),
        "--pid" | "--ipc" | "--uts" | "--userns" | "--cgroupns" => {
            LaunchPermission::Namespace(format!("{flag}={value}"))
        }
        "--security-opt" => LaunchPermission::SecurityOption(value),
        "--volumes-from" => {
            LaunchPermission::Mount { source: value, target: "the same paths".to_owned(), read_only: false }
        }
        _ => return None,
    })
}

fn volume(value: &str) -> LaunchPermission {
    // The colon of a drive is part of the path.
    let is_drive =
        value.len() > 2 && value.as_bytes()[1] == b':' && matches!(value.as_bytes()[2], b'\\' | b'/');
    let start = if is_drive { 2 } else { 0 };
    let (source, rest) = match value[start..].find(':') {
        Some(at) => (&value[..start + at], &value[start + at + 1..]),
        None => ("", value),
    };
    let (target, options) = rest.split_once(':').unwrap_or((rest, ""));
    LaunchPermission::Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only: options.split(',').any(|option| option == "ro"),
    }
}

fn mount(value: &str) -> LaunchPermission {
    let (mut source, mut target, mut read_only) = (String::new(), String::new(), false);
    for option in value.split(',') {
        match option.split_once('=').unwrap_or((option, "")) {
            ("source" | "src", path) => path.clone_into(&mut source),
            ("target" | "dst" | "destination", path) => path.clone_into(&mut target),
            ("readonly" | "ro", value) => read_only = value != "false",
            _ => {}
        }
    }
    LaunchPermission::Mount { source, target, read_only }
}
