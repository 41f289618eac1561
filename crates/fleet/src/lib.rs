//! State that the nodes of a fleet share while it is in use.
//!
//! For the host, when several nodes serve one address. A single node needs none of it.
//!
//! A [`Relay`] holds what changes with each request: which node owns a session, the events of its streams, used request
//! states, data-flow labels, rate limits, and hints between nodes. It has two engines that keep one contract:
//! - [`MemoryRelay`]: in the memory of one process. Several handles on one [`MemoryStore`] act as several nodes.
//! - `RedisRelay` (feature `redis`): in Redis 7 or Valkey.
//!
//! # Ownership
//!
//! A node holds one lease under a [`NodeId`](node::NodeId) that is never used twice. A session names its owner and an epoch. A node
//! may adopt the session of a node whose lease has ended, with the next epoch. Each change compares owner and epoch in
//! the same step, so a former owner cannot write.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | [`relay`] | the trait, its errors, and the report on its state |
//! | [`node`] | node ids, records and leases |
//! | [`session`] | session keys, owners, records and changes |
//! | [`stream`] | streams, events and pending answers |
//! | [`keys`] | keys of single uses, rate limits and data flows |
//! | [`settings`] | times and limits |
//! | `sealing` | fleet keys, with which records in Redis are sealed |
//! | [`memory`] | [`MemoryRelay`] |
//! | `redis` | `RedisRelay` |

pub mod keys;
pub mod memory;
pub mod node;
mod own_nodes;
mod recovery;
#[cfg(feature = "redis")]
pub mod redis;
pub mod relay;
#[cfg(feature = "redis")]
pub mod sealing;
pub mod session;
pub mod settings;
pub mod stream;

pub use memory::{MemoryRelay, MemoryStore};
pub use relay::{Relay, RelayError};
