//! Confinement of servers that run as child processes, and cleanup of all their processes.
//!
//! On Linux a server is not started by the host itself but by a *helper*, which is the host's own program again
//! ([`entry`]). It stays beside the server for two reasons:
//!
//! - **Orphans.** The helper is the reaper of all that the server starts, however it was started: in a group or session of
//!   its own, by a parent that has ended. It ends them all when the server has ended, when it is told to, and when the
//!   host has died, however that came about.
//! - **Confinement.** What a [`SandboxProfile`] demands is enforced before the server's first instruction: by bubblewrap where it
//!   is installed and works, else by Landlock and seccomp of the kernel. What cannot be enforced here is an error
//!   ([`SandboxError`]), and the server is not started.
//!
//! Elsewhere there is no helper, and a profile that demands anything is an error.
//!
//! # What is enforced
//!
//! | | bubblewrap | Landlock and seccomp |
//! |---|---|---|
//! | files that are not granted | are not there | cannot be read, listed, written or executed; their names, modes and times can be seen, and not changed |
//! | system programs and libraries, a few files of `/etc` | can be read | can be read |
//! | `/tmp` | is empty and private | cannot be used; `TMPDIR` names a private folder |
//! | terminals | are not there; new ones can be made | cannot be opened, nor made |
//! | other processes | are not there | cannot be traced, limited, slowed down, nor (Linux 6.12) signalled; their command lines can be read |
//! | network `none` | there is no interface | no socket but Unix ones can be made |
//! | Unix sockets | only those in granted folders | none, where files are confined |
//! | orphans | ended by the kernel, with the helper | ended by the helper |
//!
//! `docs/sandbox.md` goes through the calls of the kernel, and names the test of each.

mod error;
mod launch;
mod loader_variables;
mod profile;
mod resolve;

#[cfg(target_os = "linux")]
mod available;
#[cfg(target_os = "linux")]
mod run;

pub use error::SandboxError;
pub use launch::{LaunchCommand, SandboxHelper};
pub use loader_variables::is_loader_variable;
pub use profile::{Confinement, SandboxFiles, SandboxKind, SandboxMechanism, SandboxNetwork, SandboxProfile};
pub use resolve::{ProgramNotFound, resolve};
#[cfg(target_os = "linux")]
pub use run::entry;

/// Prefix of the server's variables in the environment of the helper. It keeps a variable such as `LD_PRELOAD` for the
/// server from affecting the helper, which is not confined.
pub const ENV_PREFIX: &str = "HOSPES_CHILD_";
