//! To a URL.

use std::sync::Arc;

use super::{Probing, settle};
use crate::client::Client;
use crate::client::builder::ClientBuilder;
use crate::client::core::Link;
use crate::client::error::{ConnectError, Stage};
use crate::client::target::Url;
use crate::transport::http_client::HttpLink;

pub(super) async fn connect(
    builder: ClientBuilder,
    url: &Url,
    shown: String,
) -> Result<Client, ConnectError> {
    let ClientBuilder { settings, desk, .. } = builder;
    let desk = Arc::new(desk);
    let link = HttpLink::new(url, settings.limits, Arc::clone(&desk));
    let link = Link::Http(link.map_err(|why| ConnectError::new(shown.clone(), Stage::Target, why))?);
    settle(Probing::new(&settings, shown), link, desk).await
}
