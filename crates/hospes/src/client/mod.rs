//! Use a server.

mod error;
mod target;

pub use error::{Attempt, CallError, Closed, ConnectError, ConnectFailure, HttpFailure, Stage, TimeLimit};
pub use target::{Command, Target, Url};
