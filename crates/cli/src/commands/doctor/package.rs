//! Checks of packages that `npx` and `uvx` run: that the index has them, and that their hash is the pinned one.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use hospes_host::config::{ServerConfig, StdioTransport};
use hospes_host::upstream::launcher_variables;
use hospes_registry::{ArtifactClient, ArtifactError, RegistryPackage, RegistryType, ResolvedArtifact};
use serde_json::json;
use tokio::time::timeout;

use super::check::{C06, C07, DoctorChain, DoctorFinding};
use super::failed_connection::PROCESS_STEPS;
use crate::output::printable;
use crate::paths::display_path;
use crate::registry::launcher_registries;
use crate::shown_commands::shown_command;

/// Maximum time of all questions to an index.
const INDEX_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the package of a server, if a launcher runs one. Returns false if the server must not be started.
pub(super) async fn check(server: &ServerConfig, stdio: &StdioTransport, chain: &mut DoctorChain) -> bool {
    let args: Vec<&str> = stdio.args.iter().map(|arg| arg.reveal()).collect();
    let Some(package) = package_of(stdio.command.reveal(), &args) else { return true };
    let given = launcher_variables(OsStr::new(stdio.command.reveal()));
    let variable = |name: &str| match (stdio.env.get(name), &server.sandbox.environment) {
        (Some(value), _) => Some(value.reveal().to_owned()),
        // The launcher gets these alone.
        (None, Some(names)) => std::env::var(name).ok().filter(|_| names.iter().any(|known| known == name)),
        (None, None) if matches!(name, "HOME" | "USERPROFILE") => std::env::var(name).ok(),
        (None, None) => {
            let found = given.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.to_str().map(str::to_owned))
        }
    };
    let client = ArtifactClient::new(launcher_registries(&package.identifier, variable));
    let name = |version: Option<&str>| match (version, &package.registry_type) {
        (Some(version), RegistryType::Pypi) => format!("{}=={version}", package.identifier),
        (Some(version), _) => format!("{}@{version}", package.identifier),
        (None, _) => package.identifier.clone(),
    };
    let wanted = printable(&name(package.version.as_deref()));
    let file = display_path(server.source.file());
    let resolved = match timeout(INDEX_TIMEOUT, client.resolve(&package)).await {
        Ok(Ok(resolved)) => resolved,
        Ok(Err(ArtifactError::NotFound { host, .. })) => {
            let newest = match package.version {
                Some(_) => newest(&client, &package).await,
                None => None,
            };
            let finding = DoctorFinding::new(format!("{host} has no package {wanted}"));
            let finding = match newest {
                Some(newest) => {
                    let newest = printable(&name(Some(&newest)));
                    finding
                        .why(format!("the newest version is {newest}"))
                        .mend(format!("write {newest} into `args` of the server in {file}"))
                }
                None => finding
                    .why("the name may be misspelt, or the package was removed")
                    .mend(format!("correct the name in {file}; `hospes search` finds servers")),
            };
            chain.fail(&C06, finding, &PROCESS_STEPS);
            return false;
        }
        // The launcher may have the package in its cache, or reach the index by a proxy.
        Ok(Err(_)) | Err(_) => {
            chain.ok(&C06, "not looked up: the index did not answer");
            return true;
        }
    };
    chain.ok(&C06, "");
    let Some(pinned) = server.origin.digest.as_deref() else { return true };
    let Some(found) = differing(pinned, &resolved) else {
        chain.ok(&C07, "");
        return true;
    };
    let finding = DoctorFinding::new(format!("the hash of {wanted} is not the one with which it was added"))
        .why(format!("added as {pinned}; the index has {}", printable(found)))
        .mend(format!("do not start it; ask its publisher, then: {}", shown_command("remove", &server.name)));
    chain.fail(&C07, finding, &PROCESS_STEPS);
    false
}

async fn newest(client: &ArtifactClient, package: &RegistryPackage) -> Option<String> {
    let mut any = package.clone();
    any.version = None;
    timeout(INDEX_TIMEOUT, client.resolve(&any)).await.ok()?.ok()?.version
}

/// Returns the hash at the index if none of its hashes is the pinned one. An index without hashes proves nothing.
fn differing<'r>(pinned: &str, resolved: &'r ResolvedArtifact) -> Option<&'r str> {
    let found = resolved.digest.as_deref()?;
    let mut all = resolved.files.iter().map(|(_, digest)| digest.as_str()).chain([found]);
    // Hashes of two kinds cannot be compared.
    let kind = |digest: &str| digest.split([':', '-']).next().map(str::to_owned);
    (kind(pinned) == kind(found) && !all.any(|digest| digest == pinned)).then_some(found)
}

/// Returns the package that a command line runs from an index, if it is one of `npx` or `uvx`.
fn package_of(command: &str, args: &[&str]) -> Option<RegistryPackage> {
    let stem = Path::new(command).file_stem().and_then(OsStr::to_str)?;
    let (kind, spec) = match stem {
        "npx" => ("npm", npx_spec(args)?),
        "uvx" => ("pypi", uvx_spec(args)?),
        "uv" if args.starts_with(&["tool", "run"]) => ("pypi", uvx_spec(&args[2..])?),
        _ => return None,
    };
    let (name, version) = match kind {
        "npm" => match spec.rfind('@').filter(|at| *at > 0) {
            Some(at) => (&spec[..at], Some(&spec[at + 1..])),
            None => (spec, None),
        },
        _ => match spec.split_once("==").or_else(|| spec.split_once('@')) {
            Some((name, version)) => (name, Some(version)),
            None => (spec, None),
        },
    };
    // An extra such as `[cli]` is no part of the name.
    let name = if kind == "pypi" { name.split('[').next()? } else { name };
    // Paths, URLs and repositories are not in an index. Neither are ranges and tags, except that all packages have a
    // newest version.
    let is_name = !name.contains([':', '+', '~']) && (name.starts_with('@') || !name.contains('/'));
    let version = version.filter(|version| *version != "latest");
    let is_exact = |version: &str| {
        version.starts_with(|letter: char| letter.is_ascii_digit())
            && version.matches('.').count() >= 1
            && version.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-+!".contains(letter))
            && !version.contains(".x")
    };
    if !is_name || !version.is_none_or(is_exact) {
        return None;
    }
    let package = json!({ "registryType": kind, "identifier": name, "version": version });
    serde_json::from_value(package).ok()
}

fn npx_spec<'a>(args: &[&'a str]) -> Option<&'a str> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "-y" | "--yes" | "-q" | "--quiet" | "--prefer-offline" | "--prefer-online" | "--" => {}
            "-p" | "--package" => return args.next().copied(),
            _ if arg.starts_with("--package=") => return arg.strip_prefix("--package="),
            // Other options may take a value, or name another registry.
            _ if arg.starts_with('-') => return None,
            _ => return Some(arg),
        }
    }
    None
}

fn uvx_spec<'a>(args: &[&'a str]) -> Option<&'a str> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "-q" | "--quiet" | "--isolated" => {}
            "-p" | "--python" | "--with" => drop(args.next()),
            "--from" => return args.next().copied(),
            _ if arg.starts_with("--from=") => return arg.strip_prefix("--from="),
            _ if arg.starts_with('-') => return None,
            _ => return Some(arg),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(command: &str, args: &[&str]) -> Option<(String, Option<String>)> {
        package_of(command, args).map(|package| (package.identifier, package.version))
    }

    #[test]
    fn packages_are_found_in_command_lines_of_launchers() {
        let some = |name: &str, version: Option<&str>| Some((name.to_owned(), version.map(str::to_owned)));
        for (command, args, expected) in [
            ("npx", &["-y", "@scope/server@1.2.3", "--port", "1"][..], some("@scope/server", Some("1.2.3"))),
            ("/usr/bin/npx", &["--yes", "server"], some("server", None)),
            ("npx", &["-y", "server@latest"], some("server", None)),
            ("npx.cmd", &["--package=server@2.0.0", "program"], some("server", Some("2.0.0"))),
            ("npx", &["-y", "server@^1.2"], None),
            ("npx", &["-y", "./server"], None),
            ("npx", &["-y", "github:owner/server"], None),
            ("npx", &["--registry", "https://other.example", "server"], None),
            ("uvx", &["server==1.0"], some("server", Some("1.0"))),
            ("uvx", &["--python", "3.12", "server@1.0.1"], some("server", Some("1.0.1"))),
            ("uv", &["tool", "run", "--from", "server[cli]==1.0", "program"], some("server", Some("1.0"))),
            ("uvx", &["--from", "git+https://example.com/server", "server"], None),
            ("uvx", &["--index-url", "https://other.example", "server"], None),
            ("node", &["server.js"], None),
            ("npx", &[], None),
        ] {
            assert_eq!(found(command, args), expected, "{command} {args:?}");
        }
    }
}
