//! Inspection of text that passes the gateway: arguments, results and definitions.
//!
//! For the host. Nothing here does I/O, reads a clock or decides about a call: a function returns what it found and
//! where, and its caller decides.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `secrets` | secrets in texts: known formats of tokens, and random values beside a telling name |
//! | `encoding` | decoders of Base64 and hexadecimal digits |
//! | `hidden` | characters that a reader does not see: found, counted and stripped |
//! | `shell` | shell metacharacters in values that name a host, a file or an identifier |
//! | `pages` | pages of MCP Apps that send a password to a place that they do not declare |
//! | `provenance` | origin of values: which results an argument stands in |
//! | `lints` | lints of results: instructions to a model, other servers' tools, look-alike hosts, encoded instructions |

mod encoding;
pub mod hidden;
pub mod lints;
pub mod pages;
pub mod provenance;
pub mod secrets;
pub mod shell;
