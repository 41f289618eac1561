//! Reasons to ask a person before a new version is even started: the trial runs its code, and sends it the stored secrets.

use std::collections::BTreeSet;

use hospes_host::config::{ServerConfig, ServerTransport};
use hospes_registry::{
    LaunchChoice, RegistryPackage, RegistryType, ServerEntry, launch_options, other_registry,
};
use url::Url;

use super::super::add::plan::PlannedServer;
use super::check::UpdateCandidate;
use crate::exit::CliResult;
use crate::server_record::LaunchRecipe;

/// Returns what the new version gets or does that the version in use did not, as texts.
pub(super) fn risks(candidate: &UpdateCandidate, planned: &PlannedServer) -> CliResult<Vec<String>> {
    let mut found = Vec::new();
    let Some(record) = &candidate.record else {
        found.push("what the version in use was allowed is not known".to_owned());
        return Ok(found);
    };
    let known = &record.current.recipe;
    if planned.has_other_owner {
        found.push("another owner publishes it, or its source is elsewhere".to_owned());
    }
    if let Some(registry) = candidate.registry().filter(|registry| *registry != record.registry) {
        found.push(format!("it comes from the registry {registry}, and before from {}", record.registry));
    }
    let before = package_source(known);
    let after = planned.recipe.as_ref().and_then(package_source);
    if before != after {
        let name = |source: Option<String>| source.unwrap_or_else(|| "no package".to_owned());
        found.push(format!("it runs {}, and before {}", name(after), name(before)));
    }
    let hosts_before = hosts(&candidate.server);
    for host in hosts(&planned.draft.entry()?).difference(&hosts_before) {
        found.push(format!("it names the host {host}, which the version before did not"));
    }
    let is_new = |text: &&String| !known.warnings.contains(text);
    found.extend(planned.launch_warnings.iter().filter(is_new).cloned());
    let new_permissions =
        planned.permissions.iter().map(|(text, _)| text).filter(|text| !known.permissions.contains(text));
    found.extend(new_permissions.cloned());
    Ok(found)
}

/// Returns the package that a recipe runs, and where it is from, without its version. `None` for a remote.
fn package_source(recipe: &LaunchRecipe) -> Option<String> {
    let entry = ServerEntry::from_value(recipe.entry.clone()).ok()?;
    let options = launch_options(&entry);
    let same = options.iter().filter(|option| option.kind == recipe.kind);
    let option = same.min_by_key(|option| option.obstacle.is_some())?;
    let LaunchChoice::Package(index) = option.choice else { return None };
    let package = entry.packages.get(index)?;
    let from = other_registry(package).map(|url| format!(" of {url}")).unwrap_or_default();
    Some(format!("{}:{}{from}", recipe.kind, identifier(package)))
}

fn identifier(package: &RegistryPackage) -> String {
    let text = &package.identifier;
    match package.registry_type {
        RegistryType::Oci => {
            let image = text.split('@').next().unwrap_or(text);
            // The colon of a port is before the last slash.
            match image.rsplit_once(':') {
                Some((path, tag)) if !tag.contains('/') => path.to_owned(),
                _ => image.to_owned(),
            }
        }
        // Its path has the version.
        RegistryType::Mcpb => host(text).unwrap_or_else(|| text.clone()),
        _ => text.clone(),
    }
}

fn host(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let host = url.host_str()?.to_owned();
    Some(url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

/// Returns the hosts of the URLs in the transport of a server: its own, and those in arguments, variables and headers.
fn hosts(server: &ServerConfig) -> BTreeSet<String> {
    let texts: Vec<&str> = match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let arguments = stdio.args.iter().map(|argument| argument.reveal());
            arguments.chain(stdio.env.values().map(|value| value.reveal())).collect()
        }
        ServerTransport::Http(http) => std::iter::once(http.url.reveal().as_str())
            .chain(http.headers.iter().map(|(_, value)| value.reveal()))
            .collect(),
        _ => Vec::new(),
    };
    // A URL may be the value of an option.
    let values = texts.iter().map(|text| text.split_once('=').map_or(*text, |(_, value)| value));
    values.chain(texts.iter().copied()).filter_map(host).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use serde_json::json;

    use super::super::merge::read_written;
    use super::*;

    #[test]
    fn hosts_of_arguments_variables_and_urls_are_found() {
        let server = |text: &str| read_written(&format!("[servers.s]\n{text}\n")).unwrap();
        let stdio = server(
            "command = ['x', '--to=https://a.example/1', 'y']\nenv = { B = 'https://b.example:81', C = 'c' }",
        );
        assert_eq!(hosts(&stdio).into_iter().collect::<Vec<_>>(), ["a.example", "b.example:81"]);
        let http = server("url = 'https://c.example/mcp?a=https://d.example'\nheaders = { K = 'v' }");
        assert!(hosts(&http).contains("c.example"));
    }

    #[test]
    fn a_package_is_the_same_in_all_its_versions() {
        let source = |kind: &str, identifier: &str, base: Option<&str>| {
            let package = json!({
                "registryType": kind, "identifier": identifier, "version": "1.0.0", "registryBaseUrl": base,
                "fileSha256": "a".repeat(64), "transport": { "type": "stdio" },
            });
            let entry = json!({
                "name": "io.github.a/b", "description": "A server", "version": "1.0.0", "packages": [package],
            });
            package_source(&LaunchRecipe { entry, kind: kind.to_owned(), ..LaunchRecipe::default() }).unwrap()
        };
        let digest = format!("ghcr.io/a/b@sha256:{}", "b".repeat(64));
        assert_eq!(source("oci", "ghcr.io/a/b:1.0", None), source("oci", &digest, None));
        assert_ne!(source("oci", "ghcr.io/a/b:1.0", None), source("oci", "ghcr.io/c/b:1.0", None));
        assert_ne!(source("npm", "b", None), source("npm", "b", Some("https://npm.example")));
        assert_ne!(source("npm", "@a/b", None), source("npm", "@c/b", None));
        let file = |host: &str, name: &str| source("mcpb", &format!("https://{host}/{name}.mcpb"), None);
        assert_eq!(file("a.example", "1"), file("a.example", "2"));
        assert_ne!(file("a.example", "1"), file("b.example", "1"));
    }
}
