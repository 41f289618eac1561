//! The resource server: whoever calls an MCP server shows a token that was made out for it.
//!
//! A [`Guard`] stands before the endpoint. It publishes the resource's metadata, has a [`Verify`] check the token of every
//! request, tells the endpoint who calls, and refuses calls that the token's scopes do not cover.

mod guard;
mod introspection;
mod jwt;
mod keys;
mod layer;
mod principal;
mod refusal;
mod rules;
#[cfg(test)]
mod tests;
mod tokens;
mod verify;

pub use crate::nonces::ProofNonces;
pub use crate::proofs::UsedProofs;
pub use guard::{DEFAULT_METADATA_AGE, Guard, GuardBuilder};
pub use introspection::Introspection;
pub(crate) use jwt::read_signed;
pub use jwt::{ALGORITHMS, JwtFlaw, JwtRules, check_jwt};
pub use keys::IssuerTokens;
pub use layer::Guarded;
pub use principal::Principal;
pub use refusal::{Refused, Schemes};
pub use rules::ScopeRules;
pub use tokens::StaticTokens;
pub use verify::{AnyOf, Flaw, MAX_TOKEN_LENGTH, Verify, VerifyFuture};
