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
    /// An option or a word whose effect is not known here.
    Unknown(String),
}

impl LaunchPermission {
    /// Returns true if the container can leave its confinement with it.
    #[must_use]
    pub fn breaks_out(&self) -> bool {
        match self {
            Self::Privileged | Self::HostNetwork | Self::Namespace(_) | Self::Device(_) => true,
            Self::Capability(_) | Self::SecurityOption(_) | Self::Unknown(_) => true,
            Self::Mount { source, read_only, .. } => {
                let path = trim_path(source);
                (path.is_empty() && !source.is_empty())
                    // Folders above the socket of the container program.
                    || matches!(path, "/run" | "/var" | "/var/run")
                    || path.ends_with("docker.sock")
                    || (path == "~" && !read_only)
            }
            Self::Network(_) | Self::Port(_) => false,
        }
    }
}

/// Returns a path without `/` and `/.` at its end: the empty text for the root.
fn trim_path(path: &str) -> &str {
    let mut path = path;
    while let Some(shorter) = path.strip_suffix('/').or_else(|| path.strip_suffix("/.")) {
        path = shorter;
    }
    path
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

/// Kind of an option of `docker run`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionKind {
    /// A switch that grants nothing.
    HarmlessSwitch,
    /// Has a value, and grants nothing.
    HarmlessValue,
    /// A switch that grants something.
    Switch,
    /// Has a value, and grants something.
    Value,
}

use OptionKind::{HarmlessSwitch, HarmlessValue, Switch, Value};

/// Options of `docker run`: the short name, if there is one, and the long one. Other options are not known.
const OPTIONS: &[(Option<char>, &str, OptionKind)] = &[
    (Some('i'), "--interactive", HarmlessSwitch),
    (Some('q'), "--quiet", HarmlessSwitch),
    (Some('t'), "--tty", HarmlessSwitch),
    (None, "--init", HarmlessSwitch),
    (None, "--no-healthcheck", HarmlessSwitch),
    (None, "--read-only", HarmlessSwitch),
    (None, "--rm", HarmlessSwitch),
    (None, "--sig-proxy", HarmlessSwitch),
    (Some('a'), "--attach", HarmlessValue),
    (Some('c'), "--cpu-shares", HarmlessValue),
    (Some('e'), "--env", HarmlessValue),
    (Some('h'), "--hostname", HarmlessValue),
    (Some('l'), "--label", HarmlessValue),
    (Some('m'), "--memory", HarmlessValue),
    (Some('u'), "--user", HarmlessValue),
    (Some('w'), "--workdir", HarmlessValue),
    (None, "--add-host", HarmlessValue),
    (None, "--cap-drop", HarmlessValue),
    (None, "--cpus", HarmlessValue),
    (None, "--dns", HarmlessValue),
    (None, "--entrypoint", HarmlessValue),
    (None, "--expose", HarmlessValue),
    (None, "--memory-reservation", HarmlessValue),
    (None, "--memory-swap", HarmlessValue),
    (None, "--name", HarmlessValue),
    (None, "--network-alias", HarmlessValue),
    (None, "--pids-limit", HarmlessValue),
    (None, "--platform", HarmlessValue),
    (None, "--pull", HarmlessValue),
    (None, "--shm-size", HarmlessValue),
    (None, "--stop-signal", HarmlessValue),
    (None, "--stop-timeout", HarmlessValue),
    (None, "--tmpfs", HarmlessValue),
    (None, "--ulimit", HarmlessValue),
    (Some('P'), "--publish-all", Switch),
    (None, "--privileged", Switch),
    (Some('p'), "--publish", Value),
    (Some('v'), "--volume", Value),
    (None, "--cap-add", Value),
    (None, "--cgroupns", Value),
    (None, "--cidfile", Value),
    (None, "--device", Value),
    (None, "--env-file", Value),
    (None, "--gpus", Value),
    (None, "--ipc", Value),
    (None, "--label-file", Value),
    (None, "--mount", Value),
    (None, "--net", Value),
    (None, "--network", Value),
    (None, "--pid", Value),
    (None, "--security-opt", Value),
    (None, "--userns", Value),
    (None, "--uts", Value),
    (None, "--volumes-from", Value),
];

/// Finds the permissions in arguments of `docker run`. What is not known to be harmless is a permission.
pub(super) fn permissions(args: &[PlannedText]) -> Vec<LaunchPermission> {
    let mut words = args.iter().map(PlannedText::masked);
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            Some(rest) if rest.starts_with('-') && rest.len() > 1 => {
                let (name, value) = match word.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (word.as_str(), None),
                };
                let option = OPTIONS.iter().find(|(_, long, _)| *long == name);
                found.extend(match option {
                    Some((_, name, kind)) => option_permission(name, *kind, value, &mut words),
                    None => Some(LaunchPermission::Unknown(word)),
                });
            }
            Some(letters) if !letters.is_empty() && !letters.starts_with('-') => {
                short_options(&word, letters, &mut words, &mut found);
            }
            // The first word that is no option is the image, whatever follows.
            _ => found.push(LaunchPermission::Unknown(word)),
        }
    }
    found
}

/// Reads short options, which may stand together: `-iv /:/host` and `-iv/:/host` are `-i -v /:/host`.
fn short_options(
    word: &str,
    letters: &str,
    words: &mut impl Iterator<Item = String>,
    found: &mut Vec<LaunchPermission>,
) {
    for (index, letter) in letters.char_indices() {
        let rest = &letters[index + letter.len_utf8()..];
        let Some((_, name, kind)) = OPTIONS.iter().find(|(short, ..)| *short == Some(letter)) else {
            found.push(LaunchPermission::Unknown(word.to_owned()));
            return;
        };
        let is_switch = matches!(kind, HarmlessSwitch | Switch);
        let value = match rest.strip_prefix('=') {
            Some(value) => Some(value),
            None if is_switch || rest.is_empty() => None,
            None => Some(rest),
        };
        let has_value = value.is_some();
        found.extend(option_permission(name, *kind, value.map(str::to_owned), words));
        if has_value {
            return;
        }
    }
}

/// Returns what an option grants. A value that is not joined to it is the next word.
fn option_permission(
    name: &str,
    kind: OptionKind,
    value: Option<String>,
    words: &mut impl Iterator<Item = String>,
) -> Option<LaunchPermission> {
    let value = match (kind, value) {
        // What docker does not read as a boolean ends it with an error.
        (HarmlessSwitch, _) => return None,
        (Switch, Some(value)) if matches!(&*value, "0" | "f" | "F" | "false" | "FALSE" | "False") => {
            return None;
        }
        (Switch, _) => String::new(),
        (_, Some(value)) => value,
        (_, None) => match words.next() {
            Some(value) => value,
            // It would take the next word of the command line, and move the image.
            None => return Some(LaunchPermission::Unknown(name.to_owned())),
        },
    };
    if kind == HarmlessValue {
        return None;
    }
    let file = |target: &str, read_only| LaunchPermission::Mount {
        source: value.clone(),
        target: target.to_owned(),
        read_only,
    };
    Some(match name {
        "--volume" => volume(&value),
        "--mount" => mount(&value),
        "--network" | "--net" => network(&value),
        "--publish" => LaunchPermission::Port(value),
        "--publish-all" => LaunchPermission::Port("all".to_owned()),
        "--privileged" => LaunchPermission::Privileged,
        "--cap-add" => LaunchPermission::Capability(value),
        "--device" | "--gpus" => LaunchPermission::Device(value),
        "--pid" | "--ipc" | "--uts" | "--userns" | "--cgroupns" => {
            LaunchPermission::Namespace(format!("{name}={value}"))
        }
        "--security-opt" => LaunchPermission::SecurityOption(value),
        "--volumes-from" => file("the same paths", false),
        "--env-file" => file("its variables", true),
        "--label-file" => file("its labels", true),
        "--cidfile" => file("its id", false),
        _ => LaunchPermission::Unknown(format!("{name}={value}")),
    })
}

/// Reads a network: its name, or options such as `name=host,alias=x`.
fn network(value: &str) -> LaunchPermission {
    let names = value.split(',').map(|part| part.strip_prefix("name=").unwrap_or(part));
    match names.map(str::trim).any(|name| name.eq_ignore_ascii_case("host")) {
        true => LaunchPermission::HostNetwork,
        false => LaunchPermission::Network(value.to_owned()),
    }
}

fn volume(value: &str) -> LaunchPermission {
    // The colon of a drive is part of the path.
    let is_drive =
        matches!(value.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
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
        let (key, value_of) = option.split_once('=').unwrap_or((option, ""));
        match &*key.trim().to_ascii_lowercase() {
            "source" | "src" => value_of.clone_into(&mut source),
            "target" | "dst" | "destination" => value_of.clone_into(&mut target),
            "readonly" | "ro" => read_only = !matches!(value_of, "false" | "0"),
            "type" | "consistency" | "bind-propagation" | "tmpfs-size" | "tmpfs-mode" => {}
            // A driver of a volume mounts what its options name, and a quoted value may have a comma in it.
            _ => return LaunchPermission::Unknown(format!("--mount={value}")),
        }
    }
    LaunchPermission::Mount { source, target, read_only }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Vec<LaunchPermission> {
        let words: Vec<PlannedText> = words.iter().map(|word| PlannedText::from(*word)).collect();
        permissions(&words)
    }

    fn mount(source: &str, target: &str, read_only: bool) -> LaunchPermission {
        LaunchPermission::Mount { source: source.to_owned(), target: target.to_owned(), read_only }
    }

    #[test]
    fn short_options_that_stand_together_are_read() {
        for words in [
            &["-iv", "/:/host"][..],
            &["-iv/:/host"],
            &["-itv=/:/host"],
            &["-v", "/:/host"],
            &["-e", "-x", "-iv", "/:/host"],
        ] {
            assert_eq!(of(words), [mount("/", "/host", false)], "{words:?}");
            assert!(of(words)[0].breaks_out(), "{words:?}");
        }
        assert_eq!(of(&["-itP"]), [LaunchPermission::Port("all".to_owned())]);
        assert_eq!(of(&["-eA=-v", "-w", "-v"]), [], "values of harmless options");
    }

    #[test]
    fn what_is_not_known_to_be_harmless_leaves_the_confinement() {
        for (words, shown) in [
            (&["--use-api-socket"][..], "--use-api-socket"),
            (&["--device-cgroup-rule=a *:* rwm"], "--device-cgroup-rule=a *:* rwm"),
            (&["-ix"], "-ix"),
            // An image in the place of the one that is shown, and an option that moves it.
            (&["-i", "alpine"], "alpine"),
            (&["--"], "--"),
            (&["-v"], "--volume"),
            (
                &["--mount", "type=volume,dst=/h,volume-opt=device=/,volume-opt=o=bind"],
                "--mount=type=volume,dst=/h,volume-opt=device=/,volume-opt=o=bind",
            ),
            (&["--mount", "\"src=/\",dst=/h"], "--mount=\"src=/\",dst=/h"),
        ] {
            assert_eq!(of(words), [LaunchPermission::Unknown(shown.to_owned())], "{words:?}");
            assert!(of(words)[0].breaks_out());
        }
    }

    #[test]
    fn options_are_read_as_docker_reads_them() {
        assert_eq!(of(&["--env-file", "/etc/keys"]), [mount("/etc/keys", "its variables", true)]);
        assert_eq!(of(&["--network", "name=host,alias=x"]), [LaunchPermission::HostNetwork]);
        assert_eq!(of(&["--mount", "Type=bind,SRC=/,Dst=/h,readonly"]), [mount("/", "/h", true)]);
        assert_eq!(of(&["--privileged=0", "--init", "--name", "--privileged"]), []);
        assert_eq!(of(&["--privileged=1"]), [LaunchPermission::Privileged]);
        let breaks_out = |source: &str| mount(source, "/h", false).breaks_out();
        assert!(["/", "//", "/.", "/var/run/", "~/", "/run/docker.sock"].into_iter().all(breaks_out));
        assert!(!["", "data", "/home/me", "~/notes"].into_iter().any(breaks_out));
    }
}
