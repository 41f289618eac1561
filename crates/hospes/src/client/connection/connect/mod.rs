//! Establishing a connection: starting or reaching the server, negotiating the revision, and describing failures.

#[cfg(feature = "stdio")]
mod child;
#[cfg(feature = "http")]
mod http;
mod probe;
mod streams;

use super::settings::ConnectOptions;
use crate::client::connection::handle::Client;
use crate::client::error::{ConnectError, ConnectStage};
use crate::client::target::Target;

pub(crate) use probe::build_task_protocol;
pub(super) use streams::{connect as connect_streams, dial};

pub(super) async fn connect(options: ConnectOptions, target: Target) -> Result<Client, ConnectError> {
    let shown = target.to_string();
    match target {
        #[cfg(feature = "stdio")]
        Target::Command(command) => child::connect(options, &command, shown).await,
        #[cfg(feature = "http")]
        Target::Url(url) => http::connect(options, &url, shown).await,
        Target::Invalid { why, .. } => Err(ConnectError::new(shown, ConnectStage::Target, why)),
        #[allow(unreachable_patterns, reason = "which targets are left depends on the features")]
        _ => {
            drop(options);
            Err(ConnectError::new(shown, ConnectStage::Target, "this transport is not compiled in"))
        }
    }
}
