//! Requests to URLs that came from somebody else: only where they may go, only as much as expected, never further.

mod addresses;
mod error;
mod guard;
mod http_client;

pub use addresses::{InvalidNetwork, Network};
pub use error::FetchError;
pub use guard::Egress;
pub use http_client::GuardedClient;
