//! Built-in servers for common tasks.
//!
//! For the program `hospes`, for programs that want one of these in the same process, and as examples of servers.
//!
//! Each is a function that creates a [`Server`], to be served by [`hospes::serve`], called in memory, or added to
//! another server with [`Server::add`]:
//!
//! ```no_run
//! # async fn example() -> hospes::Result<()> {
//! hospes::serve(hospes_servers::time()).await
//! # }
//! ```
//!
//! | server | description |
//! |---|---|
//! | [`everything`] | one of each item that a server can offer, for testing clients |
//! | [`fetch`] | web pages as Markdown |
//! | [`files`] | reading files in given folders, and writing them if enabled |
//! | [`git`](git()) | git repositories: changes, history, and committing if enabled |
//! | [`memory`] | a knowledge graph that persists across conversations |
//! | [`time`] | current time and conversion between time zones |
//!
//! [`BUILTINS`] lists them for programs that start them by name, with arguments.
//!
//! They use only the public API of the SDK, so they also serve as examples.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `builtin` | [`BUILTINS`], with the options of the command line |
//! | `everything`, `fetch`, `files`, `git`, `memory`, `time` | one server each |
//! | `platform` | the parts that differ between operating systems |

mod builtin;
mod everything;
mod fetch;
mod files;
mod git;
mod memory;
mod platform;
#[cfg(test)]
mod testing;
mod time;

pub use builtin::{BUILTINS, BuiltinOptionsError, BuiltinServer, builtin};
pub use everything::everything;
pub use fetch::{FetchConfig, InvalidUserAgent, fetch};
pub use files::{FilesConfig, FilesError, files};
pub use git::{GitConfig, GitError, git};
pub use memory::{MemoryConfig, MemoryError, memory};
pub use time::time;

pub use hospes_http_client::IpNetwork;

// For links in the documentation above.
#[cfg(doc)]
use hospes::Server;
