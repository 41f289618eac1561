//! Sources of the programs that start and install servers.

use std::ffi::OsStr;
use std::path::Path;

/// Programs, and how to get each.
const SOURCES: [(&str, &str); 12] = [
    ("npx", "install Node.js: https://nodejs.org"),
    ("npm", "install Node.js, which has npm: https://nodejs.org"),
    ("node", "install Node.js: https://nodejs.org"),
    ("uvx", "install uv: https://docs.astral.sh/uv"),
    ("uv", "install uv: https://docs.astral.sh/uv"),
    ("docker", "install Docker: https://docs.docker.com/get-docker"),
    ("podman", "install Podman: https://podman.io/docs/installation"),
    ("dnx", "install the .NET 10 SDK, which has dnx: https://dotnet.microsoft.com/download"),
    ("dotnet", "install the .NET 10 SDK: https://dotnet.microsoft.com/download"),
    ("python", "install Python: https://www.python.org"),
    ("cargo", "install Rust, which has cargo: https://rustup.rs"),
    ("go", "install Go: https://go.dev/dl"),
];

/// Returns how to get a program, such as `npx`, `python3.12` or `node.exe`. `None` if it is no known one.
pub(crate) fn program_source(name: &str) -> Option<&'static str> {
    // A version, an ending, or another program of the same distribution, such as `docker-compose`.
    let is_ending = |rest: &str| {
        rest.is_empty() || rest.starts_with(|sign: char| matches!(sign, '.' | '-') || sign.is_ascii_digit())
    };
    SOURCES
        .iter()
        .find(|(known, _)| name.strip_prefix(known).is_some_and(is_ending))
        .map(|(_, source)| *source)
}

/// Programs that download a package or an image before they start it.
const DOWNLOADERS: [&str; 9] = ["npx", "uvx", "docker", "podman", "dnx", "bunx", "pnpx", "pipx", "deno"];

/// Returns the name of a program that downloads what it starts. `None` for any other program.
pub(crate) fn downloader(program: &OsStr) -> Option<&'static str> {
    // On Windows they are scripts, such as `npx.cmd`.
    let stem = Path::new(program).file_stem().and_then(OsStr::to_str)?;
    DOWNLOADERS.into_iter().find(|name| *name == stem)
}

/// Texts of `docker` and `podman` without the service that they need, in lower case.
const STOPPED_SERVICE: [&str; 8] = [
    "cannot connect to the docker daemon",
    "failed to connect to the docker api",
    "is the docker daemon running",
    "docker daemon is not running",
    "docker desktop is not running",
    "error during connect",
    "cannot connect to podman",
    "unable to connect to podman",
];
/// Text of `docker` if its service may not be used, in lower case.
const DENIED_SERVICE: &str = "permission denied while trying to connect to the docker";

/// Returns what to do if a launcher is missing, or the service that it needs does not run. `problem` and `hint` are those of
/// the failed start.
pub(crate) fn launcher_remedy(command: &str, problem: &str, hint: &str) -> Option<String> {
    let stem = Path::new(command).file_stem().and_then(OsStr::to_str)?;
    if hint.starts_with("there is no program") {
        return program_source(stem).map(|source| format!("{stem} was not found in PATH; {source}"));
    }
    if !matches!(stem, "docker" | "podman") {
        return None;
    }
    let problem = problem.to_lowercase();
    if problem.contains(DENIED_SERVICE) {
        return Some(match cfg!(target_os = "linux") {
            true => {
                "let this account use Docker, and sign in again: sudo usermod -aG docker \"$USER\"".to_owned()
            }
            false => start_container_service(stem).to_owned(),
        });
    }
    let is_stopped = STOPPED_SERVICE.iter().any(|text| problem.contains(text));
    is_stopped.then(|| {
        let name = if stem == "podman" { "Podman" } else { "Docker" };
        format!("{name} does not run: {}", start_container_service(stem))
    })
}

/// Returns the command that starts the service of `docker` or `podman`, or shows why it does not run.
pub(crate) fn start_container_service(program: &str) -> &'static str {
    match program {
        "podman" if cfg!(target_os = "linux") => "podman info",
        "podman" => "podman machine start",
        _ if cfg!(target_os = "linux") => "sudo systemctl start docker",
        _ => "start Docker Desktop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_with_its_version_and_ending_and_others_are_not() {
        for (name, part) in [
            ("npx", "Node.js"),
            ("node.exe", "Node.js"),
            ("python3.12", "Python"),
            ("docker-compose", "Docker"),
            ("uv", "uv"),
        ] {
            assert!(program_source(name).is_some_and(|source| source.contains(part)), "{name}");
        }
        for (name, part) in [("dnx", ".NET"), ("dnx.cmd", ".NET"), ("podman", "Podman")] {
            assert!(program_source(name).is_some_and(|source| source.contains(part)), "{name}");
        }
        for name in ["uvicorn", "gopls", "dockerize", ""] {
            assert_eq!(program_source(name), None, "{name}");
        }
    }

    #[test]
    fn a_missing_launcher_and_a_stopped_service_have_a_remedy_and_other_failures_have_none() {
        let missing = "there is no program npx in PATH; is it installed?";
        let stopped = "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
        let denied = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock";
        for (command, problem, hint, part) in [
            ("npx", "npx could not be started", missing, "https://nodejs.org"),
            ("/usr/bin/docker", stopped, "", "Docker does not run: "),
            ("docker", denied, "", if cfg!(target_os = "linux") { "usermod" } else { "Docker" }),
            ("podman", "Error: unable to connect to Podman socket", "", "Podman does not run: podman "),
        ] {
            let remedy = launcher_remedy(command, problem, hint);
            assert!(remedy.as_ref().is_some_and(|remedy| remedy.contains(part)), "{command}: {remedy:?}");
        }
        for (command, problem, hint) in [
            ("my-server", "my-server could not be started", missing),
            ("node", stopped, ""),
            ("docker", "no such image", ""),
        ] {
            assert_eq!(launcher_remedy(command, problem, hint), None, "{command}");
        }
    }
}
