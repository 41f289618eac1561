//! Requests to URLs that came from somebody else: only where they may go, only as much as expected, never further.

mod http_client;

pub use hospes_egress::{Egress, FetchError, InvalidNetwork, Network};
pub use http_client::GuardedClient;
