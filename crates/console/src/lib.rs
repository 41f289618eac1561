//! The web console of the host: what happens, and who decides.
//!
//! A [`Console`] is a few pages, and the JSON behind them, on an origin of its own. It is never the origin that
//! applications connect to, so they cannot approve their own calls. A one-time [`Link`] signs a browser in. The same
//! JSON is served over a Unix socket to programs of the same user (`hospes console`, `hospes approve`).
//!
//! ```no_run
//! # async fn example(host: hospes_host::Host) -> std::io::Result<()> {
//! use hospes_console::Console;
//!
//! let listening = Console::new(&host).listen("127.0.0.1:7338".parse().expect("an address")).await?;
//! println!("{}", listening.link().url());
//! # Ok(()) }
//! ```
#![doc = include_str!("api.md")]

mod api;
mod client;
mod door;
mod news;
mod pages;
mod serve;
mod sessions;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use hospes_host::deciders::{DecisionTokens, DecisionsFrom};
use hospes_host::{Desk, Guard, Host, Pins, Sampler, Servers};
use hospes_store::Audit;

pub use client::{ClientError, LocalConsole, NewsStream};
pub use serve::Listening;
pub use sessions::{Lifetimes, Link};

use news::News;
use sessions::Sessions;

/// Default address of the console.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7338);

/// From where decisions are taken, and the tokens with which programs may make them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Deciders {
    /// From where.
    pub from: DecisionsFrom,
    /// The tokens; without, none holds.
    pub tokens: Option<DecisionTokens>,
}

impl Deciders {
    /// Decisions from there alone, without tokens.
    #[must_use]
    pub fn new(from: DecisionsFrom) -> Self {
        Self { from, tokens: None }
    }

    /// Sets the tokens with which programs may decide.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Option<DecisionTokens>) -> Self {
        self.tokens = tokens;
        self
    }
}

/// The console of a host. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<Inner>);

struct Inner {
    servers: Servers,
    guard: Option<Arc<Guard>>,
    pins: Option<Pins>,
    sampler: Option<Arc<Sampler>>,
    sessions: Sessions,
    news: News,
    deciders: Deciders,
    /// Address of the listener, once there is one.
    address: OnceLock<SocketAddr>,
}

impl Console {
    /// The console of this host, with what the host records.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        Self::with(host, Lifetimes::default(), Deciders::default())
    }

    /// Creates the console of this host with the given lifetimes of links and sessions, and with the callers that may
    /// decide.
    #[must_use]
    pub fn with(host: &Host, lifetimes: Lifetimes, deciders: Deciders) -> Self {
        let (sessions, news) = (Sessions::new(lifetimes), News::default());
        Self(Arc::new(Inner {
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
    /// When the address is not of this machine alone, or cannot be taken.
    pub async fn listen(self, address: SocketAddr) -> io::Result<Listening> {
        Listening::begin(self, address).await
    }

    /// A new link that lets one browser in.
    fn link(&self) -> Link {
        let (token, lifetime) = self.sessions().link();
        Link::new(&format!("http://{}", self.address()), &token, lifetime)
    }

    fn address(&self) -> SocketAddr {
        self.0.address.get().copied().unwrap_or(DEFAULT_LISTEN)
    }

    fn servers(&self) -> &Servers {
        &self.0.servers
    }

    fn audit(&self) -> Option<&Audit> {
        self.guard()?.audit()
    }

    fn pins(&self) -> Option<&Pins> {
        self.0.pins.as_ref()
    }

    fn sampler(&self) -> Option<&Sampler> {
        self.0.sampler.as_deref()
    }

    fn guard(&self) -> Option<&Guard> {
        self.0.guard.as_deref()
    }

    fn desk(&self) -> Option<&Desk> {
        self.guard().map(Guard::desk)
    }

    fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    fn deciders(&self) -> &Deciders {
        &self.0.deciders
    }

    fn news(&self) -> &News {
        &self.0.news
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
