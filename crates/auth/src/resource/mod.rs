//! The resource server: clients of an MCP server present an access token that was issued for it.
//!
//! A [`BearerAuth`] stands before the endpoint. It publishes the resource's metadata, has a [`TokenVerifier`] check the token of every
//! request, tells the endpoint who calls, and refuses calls that the token's scopes do not cover.

mod bearer_auth;
mod bearer_error;
mod introspection;
mod jwt;
mod jwt_verifier;
mod layer;
mod principal;
mod scope_rules;
mod static_tokens;
#[cfg(test)]
mod tests;
mod token_verifier;

pub use bearer_auth::{BearerAuth, BearerAuthBuilder, DEFAULT_METADATA_AGE};
pub use bearer_error::{AcceptedSchemes, BearerAuthError};
pub use introspection::IntrospectionVerifier;
pub use jwt::{JwtRules, check_jwt};
pub use jwt_verifier::JwtVerifier;
pub use layer::BearerAuthService;
pub use principal::TokenPrincipal;
pub use scope_rules::ScopeRules;
pub use static_tokens::StaticTokenVerifier;
pub use token_verifier::{AnyTokenVerifier, TokenVerifier, VerifyFuture, VerifyTokenError};
