//! Node of a fleet: several processes of one MCP server behind one address.
//!
//! A client of an older revision keeps a session, and a load balancer may send each of its requests to another node.
//! The node that answers `initialize` owns the session. The others forward its requests there. When the owner ends,
//! the next node that has a request of the session adopts it: it continues the session and its event streams, and
//! answers what the former owner has not.
//!
//! [`Membership`] joins the fleet over a [`Relay`](hospes_fleet::Relay) and keeps the lease. [`NodeServer`] and
//! [`NodePeers`] are the two ends of the connections between nodes. [`FleetSessions`] is the session directory of an
//! endpoint:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use hospes::transport::http_server::{DEFAULT_SESSION_IDLE_TIMEOUT, Endpoint};
//! # use hospes_node::{DEFAULT_RENEWAL_INTERVAL, FleetSecrets, FleetSessions, Membership, NodePeers, NodeServer};
//! # async fn example(
//! #     server: impl hospes::Service,
//! #     relay: Arc<dyn hospes_fleet::Relay>,
//! #     secrets: FleetSecrets,
//! #     stop: impl Future<Output = ()>,
//! # ) -> std::io::Result<()> {
//! let listener = NodeServer::bind("10.0.0.7:7400").await?;
//! let membership = Membership::start(relay, "10.0.0.7:7400", DEFAULT_RENEWAL_INTERVAL)?;
//! let peers = Arc::new(NodePeers::new(membership.clone(), secrets.clone()));
//! let sessions = FleetSessions::new(membership.clone(), peers, "/mcp", DEFAULT_SESSION_IDLE_TIMEOUT);
//! let endpoint = Endpoint::builder(server).session_directory(Arc::new(sessions)).build();
//! let shared = endpoint.clone();
//! let nodes = listener.server(membership, secrets, move |path| shared.serves(path).then(|| shared.clone()));
//! nodes.serve_until(stop, Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! A node acts as an owner only while its lease is valid, and every change in the shared state names the owner and its
//! epoch. So a former owner that still runs can neither answer a request nor append an event.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `membership` | node id and lease of this process |
//! | `directory` | [`FleetSessions`]: reserve, find and adopt sessions |
//! | `owned_session`, `owned_stream` | a session that this process owns, and its event streams |
//! | `owner_cache`, `node_list` | owners of sessions whose requests are forwarded, and the nodes as they were last listed |
//! | `rendezvous` | choice of the node that serves a caller |
//! | `server_claims` | [`ServerClaims`]: servers that one node runs for all nodes |
//! | `transport` | [`NodeTransport`], which forwards requests to other nodes |
//! | `peers`, `node_server` | both ends of the connections between nodes: HTTP/2 with mutual TLS |
//! | `certificates` | [`FleetSecrets`], and the certificates that are derived from them |
//! | `measured_relay`, `node_metrics` | metrics of the shared state, of forwarded requests and of the lease |
//! | `rate_limits` | [`FleetRateLimits`]: rate limits that all nodes share while Redis answers soon |
//! | `caller_context` | the sender of a forwarded request, signed for one connection |

mod caller_context;
mod certificates;
mod directory;
mod measured_relay;
mod membership;
mod node_list;
mod node_metrics;
mod node_server;
mod owned_session;
mod owned_stream;
mod owner_cache;
mod peers;
mod rate_limits;
mod rendezvous;
mod server_claims;
mod transport;

pub use certificates::{CertificateError, FleetSecrets};
pub use directory::{FleetSessions, RequestPlacement};
pub use measured_relay::MeasuredRelay;
pub use membership::{DEFAULT_RENEWAL_INTERVAL, Membership};
pub use node_metrics::NodeMetrics;
pub use node_server::{AcceptedServer, NodeListener, NodeServer};
pub use peers::{NodePeers, NodeStream, ServerConnection};
pub use rate_limits::FleetRateLimits;
pub use server_claims::{ClaimHold, ClaimedPlace, ServerClaims};
pub use transport::NodeTransport;
