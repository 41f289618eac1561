//! The guard over real sockets, and the checks of tokens.

mod http;
mod jwt;
