//! The web console of the host: shows what happens and lets a person decide.
//!
//! For the program `hospes`, and for programs that embed a host with a console.
//!
//! A [`Console`] is a few pages, and the JSON behind them, on an origin of its own. It is never the origin that
//! applications connect to, so they cannot approve their own calls. A one-time [`ConsoleLink`] signs a browser in. The
//! same JSON is served over a Unix socket to programs of the same user (`hospes console`, `hospes approve`).
//!
//! ```no_run
//! # async fn example(host: hospes_host::Host) -> std::io::Result<()> {
//! use hospes_console::Console;
//!
//! let listening = Console::new(&host).listen("127.0.0.1:7338".parse().expect("an address")).await?;
//! println!("{}", listening.link().url());
//! # Ok(()) }
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `console` | the console itself: the host that it shows, sessions and settings |
//! | `environment` | what the program knows about the host: endpoint, policy file, applications |
//! | `serve` | the loopback port and the Unix socket |
//! | `browser_auth`, `sessions` | one-time links, cookies and keys; checks of host and origin |
//! | `team` | a console for several people: sign-in at a provider, sessions in the shared state, roles |
//! | `access` | the table of endpoints and of the people who may use them |
//! | `api`, `api_error` | the routes, one file for each subject, and their errors |
//! | `edited_file` | the files that the console changes: the policy file and Hospes' own configuration file |
//! | `new_rule`, `rule_undo` | rules of the rule editor as lines of the policy file, and their undo |
//! | `server_undo` | the last change of a server's settings, and its undo |
//! | `file_on_disk` | the file that a call would replace, as far as its server can reach it |
//! | `additions` | servers of a registry that are being added: the interface of the program, one for each session |
//! | `setup` | the onboarding: commands that the program carries out, and its progress |
//! | `events` | notifications that something has changed |
//! | `pages` | the pages, which are part of the program |
//! | `client` | a program that asks a console over its socket |
#![doc = include_str!("api.md")]

mod access;
mod additions;
mod api;
mod api_error;
mod browser_auth;
mod client;
mod client_quota;
mod console;
mod edited_file;
mod environment;
mod events;
mod file_on_disk;
mod new_rule;
mod pages;
mod platform;
mod rule_edits;
mod rule_undo;
mod serve;
mod server_undo;
mod sessions;
mod setup;
mod team;
#[cfg(test)]
mod tests;

pub use additions::{
    AddedServer, AdditionAnswers, AdditionFailure, AdditionOffer, AdditionOutcome, AdditionPerson,
    AdditionPlan, AdditionQuestion, AdditionQuestions, AdditionRow, AdditionScreen, AdditionSignIn,
    OfferedItem, ServerAdder, WantedServer, WantedUpdate,
};
pub use client::{ClientError, ConsoleEventStream, LocalConsole};
pub use console::{Console, DEFAULT_LISTEN, DeciderSettings};
pub use edited_file::FileReplacer;
pub use environment::{
    ApplicationFinder, ConfigFile, ConnectedApplication, ConsoleEnvironment, PolicyFile, SecretWriter,
};
pub use serve::ConsoleServer;
pub use sessions::{ConsoleLink, SessionLifetimes};
pub use setup::{FollowedCommand, FollowedOutcome, SeenServer, SetupCommand, SetupCommands, SetupOutcome};
pub use team::{
    BegunTeamSignIn, ClaimedPerson, InvalidPublicUrl, InvalidTeamRole, PrincipalName, TeamConsole,
    TeamLogout, TeamRole, TeamRoles, TeamSignIn, TeamSignInError, TeamSignInFuture, TeamSignInResponse,
};
