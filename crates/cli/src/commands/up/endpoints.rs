//! Endpoints of `hospes up` besides the shared one: one for each server, and one for each profile.

use bytes::Bytes;
use hospes::model::RpcError;
use hospes::transport::http_server::{DEFAULT_PATH, Endpoint, EndpointSet, PrincipalGroups};
use hospes_host::config::profile_hint;
use hospes_host::{Gateway, Host, HostServers, ServerChanges};
use http::request::Parts;
use http::{Response, StatusCode, header};
use serde_json::json;

/// Creates the endpoint of a gateway at a path.
type EndpointFactory<'a> = Box<dyn Fn(Gateway, &str, Option<HostServers>) -> Endpoint + 'a>;

/// The further endpoints of a host.
pub(super) struct HostEndpoints<'a> {
    host: &'a Host,
    set: EndpointSet,
    build: EndpointFactory<'a>,
}

impl<'a> HostEndpoints<'a> {
    /// Serves the servers and profiles that the host has now.
    pub(super) fn new(
        host: &'a Host,
        set: EndpointSet,
        build: impl Fn(Gateway, &str, Option<HostServers>) -> Endpoint + 'a,
    ) -> Self {
        let endpoints = Self { host, set, build: Box::new(build) };
        host.labels().iter().for_each(|(name, label)| endpoints.serve_server(name, label));
        host.profiles().iter().for_each(|profile| endpoints.serve_profile(&profile.name));
        endpoints
    }

    /// Serves one server alone, for applications that confuse the tools of two servers.
    fn serve_server(&self, name: &str, label: &str) {
        if let Some(gateway) = self.host.gateway_of(name) {
            self.set.insert((self.build)(gateway, &path_of(label), None));
        }
    }

    fn serve_profile(&self, name: &str) {
        if let Some(gateway) = self.host.gateway_of_profile(name) {
            // Also a profile for everybody: it may get groups while it is served.
            self.set.insert((self.build)(gateway, &path_of(name), Some(self.host.servers())));
        }
    }

    /// Follows a change of the configuration. Sessions of what is gone end: the next request gets 404, after which
    /// clients begin a new session and learn the reason.
    pub(super) fn follow(&self, changes: &ServerChanges) {
        let (labels, profiles) = (self.host.labels(), self.host.profiles());
        let names = labels.iter().map(|(_, label)| label.as_str());
        let stays: Vec<String> =
            names.chain(profiles.iter().map(|profile| profile.name.as_str())).map(path_of).collect();
        for path in self.set.paths().into_iter().filter(|path| !stays.contains(path)) {
            self.set.remove(&path);
        }
        let is_new = |name: &String| changes.added.contains(name) || changes.replaced.contains(name);
        labels
            .iter()
            .filter(|(name, _)| is_new(name))
            .for_each(|(name, label)| self.serve_server(name, label));
        // A changed profile keeps its sessions, which are told of the changed lists.
        changes.added_profiles.iter().for_each(|name| self.serve_profile(name));
    }
}

/// Returns the path of a server's or profile's endpoint.
pub(crate) fn path_of(name: &str) -> String {
    format!("{DEFAULT_PATH}/{name}")
}

/// Refuses requests for a profile from people who are in none of its groups, as if there were no such profile.
pub(super) fn refuse_others(servers: &HostServers, profile: &str, parts: &Parts) -> Option<Response<Bytes>> {
    let is_admitted = servers.admits(profile, groups_of(parts));
    (!is_admitted).then(|| unknown_profile(servers, profile, parts))
}

/// Returns the groups of the sender; none without sign-in.
fn groups_of(parts: &Parts) -> &[String] {
    parts.extensions.get::<PrincipalGroups>().map(PrincipalGroups::names).unwrap_or_default()
}

/// Answers requests for a path below the shared endpoint at which there is nothing: with the names of the profiles.
pub(super) fn not_found(servers: &HostServers, parts: &Parts) -> Option<Response<Bytes>> {
    let name = parts.uri.path().strip_prefix(DEFAULT_PATH)?.strip_prefix('/')?;
    Some(unknown_profile(servers, name, parts))
}

/// Returns the response for a profile that is unknown to the sender, with the names of those that are not.
fn unknown_profile(servers: &HostServers, name: &str, parts: &Parts) -> Response<Bytes> {
    let mut profiles = servers.profiles();
    profiles.retain(|profile| profile.admits(groups_of(parts)));
    let known: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    // Only names that a profile could have are repeated.
    let message = match hospes_host::config::is_profile_name(name) {
        true => format!("unknown profile `{name}`; {}", profile_hint(name, &known)),
        false => format!("not found; the endpoint is {DEFAULT_PATH}"),
    };
    let error = RpcError::invalid_request(message);
    let body =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": error.code, "message": error.message } });
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
