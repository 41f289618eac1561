//! To a URL.

use std::sync::Arc;

use hospes_proto::era::{Outcome, Step};
use tokio::time::Instant;

use super::{Probing, outcome_of, ready};
use crate::client::Client;
use crate::client::builder::ClientBuilder;
use crate::client::core::Link;
use crate::client::duplex;
use crate::client::error::{Attempt, CallError, ConnectError, Stage};
use crate::client::target::Url;
use crate::transport::http_client::HttpLink;

pub(super) async fn connect(
    builder: ClientBuilder,
    url: &Url,
    shown: String,
) -> Result<Client, ConnectError> {
    let ClientBuilder { settings, desk, .. } = builder;
    let desk = Arc::new(desk);
    let open = || {
        let link = HttpLink::new(url, settings.limits, &settings.network, Arc::clone(&desk));
        link.map_err(|why| ConnectError::new(shown.clone(), Stage::Target, why))
    };
    let mut link = Link::Http(open()?);
    let mut probing = Probing::new(&settings, shown.clone());
    if settings.sse {
        probing.negotiation = probing.negotiation.with_sse();
    }
    loop {
        match probing.ask(&link).await {
            Step::Agreed(agreed) => return Ok(ready(probing, agreed, link, desk).await),
            Step::Failed(failure) => return Err(probing.failure(&failure)),
            Step::OpenSse => {
                let began = Instant::now();
                let opened = open()?.open_sse(probing.left()).await;
                let said = match &opened {
                    Ok(_) => "opened".to_owned(),
                    Err(error) => error.to_string(),
                };
                tracing::debug!(outcome = %said, "asked the server for a stream of the older HTTP+SSE");
                probing.tried.push(Attempt::new("GET (HTTP+SSE)", said, began.elapsed()));
                let outcome = match opened {
                    Ok(wire) => {
                        link = Link::Duplex(duplex::spawn(wire, settings.limits, Arc::clone(&desk)), None);
                        Outcome::SseOpened
                    }
                    Err(error) => probing.refused_sse(error),
                };
                probing.negotiation.handle_outcome(outcome);
            }
            // A server that says nothing is no process that could be started again.
            Step::Respawn => return Err(probing.gave_up()),
            // `ask` deals with these.
            Step::Discover { .. } | Step::Initialize { .. } => {}
        }
    }
}

impl Probing<'_> {
    /// Records a failed attempt to open a stream and returns its outcome. The error of the newer transport is kept in
    /// preference to that of the older one. Exceptions are a request for authentication and a stream that must not be
    /// trusted.
    fn refused_sse(&mut self, error: CallError) -> Outcome {
        let outcome = outcome_of(&error);
        if self.last.is_none() || !matches!(outcome, Outcome::Status(400 | 404..=499)) {
            self.last = Some(error);
        }
        outcome
    }
}
