//! The guard over real sockets, and the checks of tokens.

mod fetched;
mod http;
mod jwt;
mod proofs;
