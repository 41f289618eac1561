//! Entry of Hospes in the file of an application: the program that it starts, or the endpoint that it names.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use hospes::transport::http_server::DEFAULT_PATH;
use hospes_host::config::applications::{ApplicationFile, PlaceScope};
use hospes_host::config::connect::ENTRY_NAME;
use hospes_host::config::{HostConfig, ServerConfig, ServerTransport, is_profile_name};
use url::Url;

use super::application::project_option;
use super::check::{A03, A04, A05, A06, A07, DoctorChain, DoctorFinding};
use super::host::DEFAULT_ENDPOINT;
use super::running_hosts::{listens, running_hosts};
use super::system::{VERSION, version_of};
use crate::paths::{HostNote, display_path};

/// Endpoints that an entry may name.
pub(super) struct KnownEndpoints {
    /// Hosts that run and answer, newest first.
    running: Vec<HostNote>,
    /// Endpoint of the configuration.
    configured: String,
}

impl KnownEndpoints {
    /// Finds the hosts that run, and the endpoint of the configuration.
    pub(super) async fn find(config: Option<&HostConfig>) -> Self {
        let listen = config.and_then(|config| config.listen).unwrap_or(DEFAULT_ENDPOINT);
        let ip = match listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            ip => ip,
        };
        let configured = format!("http://{}{DEFAULT_PATH}", SocketAddr::new(ip, listen.port()));
        Self { running: running_hosts().await, configured }
    }

    /// Returns true if a URL is that of an endpoint of this user, or of a profile below it.
    fn has(&self, url: &Url) -> bool {
        let endpoints = self.running.iter().map(|note| note.endpoint.as_str());
        endpoints.chain([self.configured.as_str()]).any(|endpoint| is_below(url, endpoint))
    }
}

/// Returns true if a URL is an endpoint on this machine, or that of a profile below it.
fn is_below(url: &Url, endpoint: &str) -> bool {
    let Ok(endpoint) = Url::parse(endpoint) else { return false };
    let is_same_host = url.host() == endpoint.host() || is_local(url) && is_local(&endpoint);
    let rest = url.path().strip_prefix(endpoint.path());
    is_same_host
        && url.scheme() == endpoint.scheme()
        && url.port_or_known_default() == endpoint.port_or_known_default()
        && rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/').is_some_and(is_profile_name))
}

/// Returns true if the host of a URL is this machine.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    }
}

/// Returns true if an entry is one of Hospes.
pub(super) fn is_hospes(server: &ServerConfig, endpoints: &KnownEndpoints) -> bool {
    match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let program = Path::new(stdio.command.reveal());
            program.file_stem().is_some_and(|name| name == "hospes")
                && stdio.args.iter().any(|arg| arg.reveal() == "stdio")
        }
        // A wrong URL is one of Hospes by its name only.
        ServerTransport::Http(http) => server.name == ENTRY_NAME || endpoints.has(http.url.reveal()),
        _ => false,
    }
}

/// Returns the profile that an entry of Hospes names.
pub(super) fn profile_of(entry: &ServerConfig) -> Option<String> {
    match &entry.transport {
        // Anything else is foreign text, which would stand in commands of the report.
        ServerTransport::Stdio(_) => option_of(entry, "--profile").filter(|name| is_profile_name(name)),
        ServerTransport::Http(http) => {
            let rest = http.url.reveal().path().strip_prefix(DEFAULT_PATH)?.strip_prefix('/')?;
            is_profile_name(rest).then(|| rest.to_owned())
        }
        _ => None,
    }
}

/// Returns the value of an option in the arguments of an entry: `--option value` or `--option=value`.
pub(super) fn option_of(entry: &ServerConfig, option: &str) -> Option<String> {
    let ServerTransport::Stdio(stdio) = &entry.transport else { return None };
    let mut words = stdio.args.iter().map(|arg| arg.reveal());
    let separate = words.clone().skip_while(|word| *word != option).nth(1);
    let joined = || words.find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
    separate.or_else(joined).map(str::to_owned)
}

/// An entry of Hospes in a file.
pub(super) struct CheckedEntry<'e> {
    pub(super) entry: &'e ServerConfig,
    pub(super) file: &'e ApplicationFile,
    /// True if `hospes connect` has written the file.
    pub(super) is_recorded: bool,
}

impl CheckedEntry<'_> {
    /// Returns what writes the entry anew.
    pub(super) fn reconnect(&self, options: &str) -> String {
        let id = self.file.application.id;
        let project = project_option(self.file);
        let profile =
            profile_of(self.entry).map(|profile| format!(" --profile {profile}")).unwrap_or_default();
        let connect = format!("hospes connect {id}{project}{options}{profile}");
        match self.is_recorded {
            true => format!("hospes disconnect {id}{project}; {connect}"),
            // `hospes disconnect` leaves what `hospes connect` has not written, and `hospes connect` does not replace it.
            false => {
                let shown = display_path(&self.file.path);
                format!("remove the server `{}` from {shown} by hand; then: {connect}", self.entry.name)
            }
        }
    }

    /// Checks what the entry leads to. Returns false if the application cannot use it.
    pub(super) async fn check(&self, endpoints: &KnownEndpoints, chain: &mut DoctorChain) -> bool {
        let profile = profile_of(self.entry);
        let named = profile.map(|profile| format!(" of the profile `{profile}`")).unwrap_or_default();
        let found = format!("entry `{}`{named}", self.entry.name);
        if let ServerTransport::Http(http) = &self.entry.transport {
            return self.endpoint(http.url.reveal(), found, endpoints, chain).await;
        }
        self.present(found, chain);
        self.program(chain).await
    }

    fn present(&self, found: String, chain: &mut DoctorChain) {
        if !self.entry.disabled {
            return chain.ok(&A03, found);
        }
        let (name, shown) = (self.file.application.name, display_path(&self.file.path));
        let finding = DoctorFinding::new(format!("the {found} is switched off in {shown}"))
            .mend(format!("switch the server `{}` on in {name}", self.entry.name));
        chain.warn(&A03, finding);
    }

    /// Checks that the entry names the endpoint of the host, and that the host runs.
    async fn endpoint(
        &self,
        url: &Url,
        found: String,
        endpoints: &KnownEndpoints,
        chain: &mut DoctorChain,
    ) -> bool {
        let KnownEndpoints { running, configured } = endpoints;
        let is_configured = is_below(url, configured);
        if running.iter().any(|note| is_below(url, &note.endpoint)) {
            self.present(found, chain);
            chain.ok(&A04, "the endpoint of the running host");
            return true;
        }
        if !is_local(url) && !is_configured {
            self.present(found, chain);
            chain.ok(&A04, "a host on another machine");
            return true;
        }
        let shown = display_path(&self.file.path);
        let points = format!("`{}` in {shown} points to {url}", self.entry.name);
        let not_reached = [&A04, &A05, &A06, &A07];
        match running.first() {
            Some(note) if is_configured => {
                let finding = DoctorFinding::new(format!("{points}, and the host runs at {}", note.endpoint))
                    .why("the running host was started with another address than the configured one")
                    .mend(format!("end process {}; then: hospes up", note.pid));
                chain.fail(&A03, finding, &not_reached);
                false
            }
            Some(HostNote { endpoint, .. }) => {
                let finding = DoctorFinding::new(format!("{points}, and the host runs at {endpoint}"))
                    .mend(self.correct(endpoint, configured));
                chain.fail(&A03, finding, &not_reached);
                false
            }
            None if !is_configured => {
                let finding = DoctorFinding::new(format!("{points}, and the endpoint is {configured}"))
                    .why("no host runs, so the address of the configuration is compared")
                    .mend(format!("{}; then: hospes up", self.correct(configured, configured)));
                chain.fail(&A03, finding, &not_reached);
                false
            }
            None if listens(url).await => {
                self.present(found, chain);
                let finding =
                    DoctorFinding::new(format!("what listens at {url} is not known as a host of yours"))
                        .mend("end that program, and: hospes up; nothing is wrong if a container runs it");
                chain.warn(&A04, finding);
                true
            }
            None => {
                self.present(found, chain);
                let finding = DoctorFinding::new(format!("no host runs at {url}"))
                    .why("the application does not start one, because the entry is a URL")
                    .mend("hospes up; or, for every sign-in: hospes service install");
                chain.fail(&A04, finding, &[&A07]);
                false
            }
        }
    }

    /// Returns what makes the entry name an endpoint. `hospes connect` writes that of the configuration.
    fn correct(&self, endpoint: &str, configured: &str) -> String {
        if self.is_recorded && endpoint == configured {
            return self.reconnect(" --http");
        }
        let profile = profile_of(self.entry).map(|profile| format!("/{profile}")).unwrap_or_default();
        let shown = display_path(&self.file.path);
        format!("write {endpoint}{profile} as the URL of `{}` in {shown}", self.entry.name)
    }

    /// Checks the program of the entry. Returns false if it cannot be started.
    async fn program(&self, chain: &mut DoctorChain) -> bool {
        let ServerTransport::Stdio(stdio) = &self.entry.transport else { return true };
        let written = stdio.command.reveal();
        let program = Path::new(written);
        if !program.is_absolute() {
            let finding = DoctorFinding::new(format!("`{written}` is not an absolute path"))
                .why("applications that are started from a dock or menu have a short PATH")
                .mend(self.reconnect(""));
            chain.warn(&A04, finding);
            return true;
        }
        if let Err(error) = hospes_sandbox::resolve(program.as_os_str(), None, Path::new("/")) {
            let finding =
                DoctorFinding::new(format!("{} cannot start {written}", self.file.application.name))
                    .why(error.to_string())
                    .mend(self.reconnect(""));
            chain.fail(&A04, finding, &[&A07]);
            return false;
        }
        let this = std::env::current_exe().and_then(std::fs::canonicalize).ok();
        // The file of a project may come from others, who choose the program in it. A record does not say that the entry is
        // still the one that was written.
        let is_trusted = self.file.scope == PlaceScope::User;
        if is_trusted && this.is_none_or(|this| std::fs::canonicalize(program).ok() != Some(this)) {
            let said = version_of(program, &["--version"]).await;
            let version = said.as_deref().unwrap_or("unknown").trim_start_matches("hospes").trim();
            if version != VERSION {
                let finding = DoctorFinding::new(format!(
                    "{} starts {written}, of version {version}",
                    self.file.application.name
                ))
                .why(format!("this program is of version {VERSION}"))
                .mend(self.reconnect(""));
                chain.warn(&A04, finding);
                return true;
            }
        }
        chain.ok(&A04, "");
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn urls_are_compared_by_address_and_path() {
        let is_below = |url: &str, endpoint: &str| is_below(&Url::parse(url).unwrap(), endpoint);
        let endpoint = "http://127.0.0.1:7337/mcp";
        for url in ["http://127.0.0.1:7337/mcp", "http://localhost:7337/mcp", "http://[::1]:7337/mcp/work"] {
            assert!(is_below(url, endpoint), "{url}");
        }
        for url in [
            "http://127.0.0.1:7338/mcp",
            "https://127.0.0.1:7337/mcp",
            "http://127.0.0.1:7337/sse",
            "http://127.0.0.1:7337/mcp/a/b",
            "http://127.0.0.1:7337/mcpx",
            "http://192.0.2.1:7337/mcp",
        ] {
            assert!(!is_below(url, endpoint), "{url}");
        }
        assert!(is_below("https://hospes.example/mcp", "https://hospes.example/mcp"));
    }
}
