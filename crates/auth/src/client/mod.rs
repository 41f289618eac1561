//! The client's side: from a refusal to a token.

mod credentials;
mod error;
pub mod flow;
mod proof;
mod renew;
mod settings;
mod token_request;
mod tokens;

pub use credentials::{Client, ClientAuth, InvalidKey, SigningKey};
pub use error::{FlowError, RedirectError};
pub use proof::{DPOP, DPOP_NONCE, ProofKey};
pub use renew::{Renewal, Renewed};
pub use settings::{GivenClient, Grant, IdentityProvider, LegacyDiscovery, Registration, Settings};
pub use tokens::{TokenKind, Tokens};
