//! The web console of the host: shows what happens and lets a person decide.
//!
//! For the program `hospes`, and for programs that embed a host with a console.
//!
//! A [`Console`] is a few pages, and the JSON behind them, on an origin of its own. It is never the origin that
//! applications connect to, so they cannot approve their own calls. A one-time [`ConsoleLink`] signs a browser in. The
//! same JSON is served over a Unix socket to programs of the same user (`hospes console`, `hospes approve`).
//!
//! ```no_run
//! # async fn example(host: hospes_host::Host) -> std::io::Result<()> {
//! use hospes_console::Console;
//!
//! let listening = Console::new(&host).listen("127.0.0.1:7338".parse().expect("an address")).await?;
//! println!("{}", listening.link().url());
//! # Ok(()) }
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `serve` | the loopback port and the Unix socket |
//! | `browser_auth`, `sessions` | one-time links, cookies and keys; checks of host and origin |
//! | `api` | the routes, one file for each subject |
//! | `events` | notifications that something has changed |
//! | `pages` | the pages, which are part of the program |
//! | `client` | a program that asks a console over its socket |
#![doc = include_str!("api.md")]

mod api;
mod browser_auth;
mod client;
mod events;
mod pages;
mod serve;
mod sessions;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use hospes_host::deciders::{DecisionSource, DecisionTokenStore};
use hospes_host::{ApprovalQueue, Host, HostServers, PinManager, PolicyEnforcer, Sampler};
use hospes_store::AuditLog;

pub use client::{ClientError, ConsoleEventStream, LocalConsole};
pub use serve::ConsoleServer;
pub use sessions::{ConsoleLink, SessionLifetimes};

use events::ConsoleEvents;
use sessions::BrowserSessions;

/// Default address of the console.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7338);

/// Settings for decisions: where they may be made, and the tokens of programs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeciderSettings {
    /// Source from which decisions are accepted.
    pub from: DecisionSource,
    /// Tokens of programs. Without them no token is valid.
    pub tokens: Option<DecisionTokenStore>,
}

impl DeciderSettings {
    /// Creates settings that accept decisions from this source, without tokens.
    #[must_use]
    pub fn new(from: DecisionSource) -> Self {
        Self { from, tokens: None }
    }

    /// Sets the tokens with which programs may decide.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Option<DecisionTokenStore>) -> Self {
        self.tokens = tokens;
        self
    }
}

/// The console of a host. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<ConsoleInner>);

struct ConsoleInner {
    servers: HostServers,
    guard: Option<Arc<PolicyEnforcer>>,
    pins: Option<PinManager>,
    sampler: Option<Arc<Sampler>>,
    sessions: BrowserSessions,
    news: ConsoleEvents,
    deciders: DeciderSettings,
    /// Address of the listener, once it is listening.
    address: OnceLock<SocketAddr>,
}

impl Console {
    /// Creates the console of this host.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        Self::with(host, SessionLifetimes::default(), DeciderSettings::default())
    }

    /// Creates the console of this host with the given lifetimes of links and sessions, and with the callers that may
    /// decide.
    #[must_use]
    pub fn with(host: &Host, lifetimes: SessionLifetimes, deciders: DeciderSettings) -> Self {
        let (sessions, news) = (BrowserSessions::new(lifetimes), ConsoleEvents::default());
        Self(Arc::new(ConsoleInner {
            servers: host.servers(),
            guard: host.guard().cloned(),
            pins: host.pins().cloned(),
            sampler: host.sampler().cloned(),
            sessions,
            news,
            deciders,
            address: OnceLock::new(),
        }))
    }

    /// Serves at a loopback address until the returned value is dropped. Port 0 selects any free port.
    ///
    /// # Errors
    /// If the address is not a loopback address, or cannot be bound.
    pub async fn listen(self, address: SocketAddr) -> io::Result<ConsoleServer> {
        ConsoleServer::bind(self, address).await
    }

    /// Creates a link that signs in one browser.
    fn link(&self) -> ConsoleLink {
        let (token, lifetime) = self.sessions().create_link();
        ConsoleLink::new(&format!("http://{}", self.address()), &token, lifetime)
    }

    fn address(&self) -> SocketAddr {
        // Set before the first route is served, so the default is never shown.
        self.0.address.get().copied().unwrap_or(DEFAULT_LISTEN)
    }

    fn servers(&self) -> &HostServers {
        &self.0.servers
    }

    fn audit(&self) -> Option<&AuditLog> {
        self.guard()?.audit()
    }

    fn pins(&self) -> Option<&PinManager> {
        self.0.pins.as_ref()
    }

    fn sampler(&self) -> Option<&Sampler> {
        self.0.sampler.as_deref()
    }

    fn guard(&self) -> Option<&PolicyEnforcer> {
        self.0.guard.as_deref()
    }

    fn queue(&self) -> Option<&ApprovalQueue> {
        self.guard().map(PolicyEnforcer::approvals)
    }

    fn sessions(&self) -> &BrowserSessions {
        &self.0.sessions
    }

    fn deciders(&self) -> &DeciderSettings {
        &self.0.deciders
    }

    fn news(&self) -> &ConsoleEvents {
        &self.0.news
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
