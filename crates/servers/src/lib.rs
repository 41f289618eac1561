//! Servers worth having on day one.
//!
//! Each is a function that makes a [`Server`], to be served by [`hospes::serve`], called in memory, or added to a server
//! of one's own with [`Server::add`]:
//!
//! ```no_run
//! # async fn example() -> hospes::Result<()> {
//! hospes::serve(hospes_servers::time()).await
//! # }
//! ```
//!
//! | server | for |
//! |---|---|
//! | [`everything`] | one of each thing a server can offer, to try a client on |
//! | [`fetch`] | pages of the web, as Markdown |
//! | [`files`] | files in some folders, to read and, where that is wanted, to write |
//! | [`git`](git()) | git repositories: what changed, what was committed, and to commit |
//! | [`memory`] | what is to be known in the next conversation, too |
//! | [`time`] | the time, in every zone |
//!
//! Programs that start them by name, with arguments, find them in [`BUILTINS`].
//!
//! They are written with nothing but the public interface of the SDK, and as one would write one's own.

mod builtin;
mod everything;
mod fetch;
mod files;
mod git;
mod memory;
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

pub use hospes_egress::IpNetwork;

// What the documentation above links to.
#[cfg(doc)]
use hospes::Server;
