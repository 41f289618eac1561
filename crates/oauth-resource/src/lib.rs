//! OAuth 2.1 resource server of the Model Context Protocol: clients present an access token that was issued for the
//! server.
//!
//! It is for MCP servers over HTTP that take the tokens of an authorization server.
//! A [`BearerAuth`] stands before the endpoint. It publishes the resource's metadata, has a [`TokenVerifier`] check the token of every
//! request, tells the endpoint who calls, and refuses calls that the token's scopes do not cover.
//!
//! - [`BearerAuth`], [`BearerAuthBuilder`]: the middleware, also as a `tower` layer
//! - [`TokenVerifier`]: [`JwtVerifier`] for signed tokens, [`IntrospectionVerifier`] for opaque ones,
//!   [`StaticTokenVerifier`] for configured ones, [`AnyTokenVerifier`] for several kinds
//! - [`ScopeRules`]: the scopes that calls need
//! - [`TokenPrincipal`]: who calls, for the handlers behind it
//! - [`BearerAuthError`]: refusals and their challenges
//!
//! ```
//! use hospes_auth::egress::{EgressPolicy, GuardedClient};
//! use hospes_auth::{Issuer, Resource, Scopes};
//! use hospes_oauth_resource::{BearerAuth, JwtRules, JwtVerifier, ScopeRules};
//!
//! # fn main() -> Result<(), hospes_auth::InvalidIdentifier> {
//! let issuer = Issuer::new("https://as.example")?;
//! let resource = Resource::new("https://mcp.example/mcp")?;
//! let rules = JwtRules::new(issuer.clone(), vec![resource.clone()]);
//! let tokens = JwtVerifier::new(rules, GuardedClient::new(EgressPolicy::public()));
//! let auth = BearerAuth::builder(resource, vec![issuer], tokens)
//!     .rules(ScopeRules::default().always(Scopes::parse("mcp")))
//!     .build();
//! # drop(auth);
//! # Ok(())
//! # }
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `bearer_auth`, `layer` | [`BearerAuth`], also as a `tower` layer |
//! | `token_verifier` | [`TokenVerifier`], and [`AnyTokenVerifier`] over several |
//! | `jwt`, `jwt_verifier` | signed tokens, and the keys of their issuer |
//! | `introspection`, `static_tokens` | opaque tokens, and tokens of the configuration |
//! | `scope_rules` | [`ScopeRules`] |
//! | `principal` | [`TokenPrincipal`] |
//! | `bearer_error` | refusals and their challenges |

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
