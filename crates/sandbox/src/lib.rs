//! Confinement of servers that run as child processes, and cleanup of all their processes.
//!
//! For programs that start servers which they do not trust.
//!
//! On Linux a server is not started by the host itself but by a *helper*: another process of the host's own program
//! ([`entry`]). It has two tasks:
//!
//! - **Orphans.** The helper is the subreaper of all processes that the server starts, even in a group or session of
//!   their own, or after their parent has ended. It ends all of them when the server has ended, on request, and when
//!   the host has died for any reason.
//! - **Confinement.** A [`SandboxProfile`] is enforced before the server's first instruction: by bubblewrap if it is
//!   installed and works, else by the kernel's Landlock and seccomp. If a profile cannot be enforced, this is an error
//!   ([`SandboxError`]), and the server is not started.
//!
//! On other systems there is no helper, and a profile with restrictions is an error.
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
//! `docs/sandbox.md` lists the system calls and the test of each.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `profile` | [`SandboxProfile`]: what is demanded |
//! | `resolve`, `loader_variables` | the file of a command; variables that decide which code it loads |
//! | `launch` | from a profile to the command line of the helper |
//! | `available` | the mechanisms that this machine has |
//! | `run` | the helper: confinement, supervision, cleanup |
//! | `error` | [`SandboxError`] |

mod error;
mod launch;
mod loader_variables;
mod profile;
mod resolve;
mod search_path;

#[cfg(target_os = "linux")]
mod available;
#[cfg(target_os = "linux")]
mod run;

pub use error::SandboxError;
pub use launch::{LaunchCommand, SandboxHelper};
pub use loader_variables::is_loader_variable;
pub use profile::{Confinement, SandboxFiles, SandboxKind, SandboxMechanism, SandboxNetwork, SandboxProfile};
pub use resolve::{ProgramNotFound, dead_link, resolve};
#[cfg(target_os = "linux")]
pub use run::entry;
pub use search_path::search_path;

/// Prefix of the server's variables in the environment of the helper. It keeps a variable such as `LD_PRELOAD` for the
/// server from affecting the helper, which is not confined.
pub const ENV_PREFIX: &str = "HOSPES_CHILD_";
