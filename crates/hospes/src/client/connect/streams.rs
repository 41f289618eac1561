//! Over a pair of byte streams that are there already: in memory, a socket, whatever can be read and written.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Probing, settle};
use crate::client::Client;
use crate::client::builder::ClientBuilder;
use crate::client::core::Link;
use crate::client::duplex::{self, Wire};
use crate::client::error::ConnectError;

pub(in crate::client) async fn connect<R, W>(
    builder: ClientBuilder,
    read: R,
    write: W,
    shown: &str,
) -> Result<Client, ConnectError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ClientBuilder { settings, desk, .. } = builder;
    let desk = Arc::new(desk);
    let wire = Wire { read, write, gone: None, on_close: None };
    let link = Link::Duplex(duplex::spawn(wire, settings.limits, Arc::clone(&desk)), None);
    settle(Probing::new(&settings, shown.to_owned()), link, desk).await
}
