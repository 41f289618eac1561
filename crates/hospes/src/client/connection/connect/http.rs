//! Connections to URLs.

use std::sync::Arc;

use hospes_proto::era::{NegotiationOutcome, NegotiationStep};
use tokio::time::Instant;

use super::probe::{RevisionProbe, build_client, outcome_of};
use crate::client::connection::handle::Client;
use crate::client::connection::settings::ConnectOptions;
use crate::client::error::{CallError, ConnectAttempt, ConnectError, ConnectStage};
use crate::client::link::Link;
use crate::client::target::UrlTarget;
use crate::client::transport::duplex;
use crate::client::transport::http::HttpLink;

pub(crate) async fn connect(
    options: ConnectOptions,
    url: &UrlTarget,
    shown: String,
) -> Result<Client, ConnectError> {
    let ConnectOptions { settings, dispatcher, .. } = options;
    let dispatcher = Arc::new(dispatcher);
    let open = || {
        let link = HttpLink::new(url, settings.limits, &settings.network, dispatcher.clone());
        link.map_err(|why| ConnectError::new(shown.clone(), ConnectStage::Target, why))
    };
    let mut link: Box<dyn Link> = Box::new(open()?);
    let mut probing = RevisionProbe::new(&settings, shown.clone());
    if settings.sse {
        probing.negotiation = probing.negotiation.with_sse();
    }
    loop {
        match probing.run_steps(&*link).await {
            NegotiationStep::Agreed(agreed) => {
                return Ok(build_client(probing, agreed, link, dispatcher).await);
            }
            NegotiationStep::Failed(failure) => return Err(probing.into_error(&failure)),
            NegotiationStep::OpenSse => {
                let began = Instant::now();
                // On a link of its own: once the stream says where messages go, its link serves nothing else.
                let opened = open()?.open_sse(probing.remaining_time()).await;
                let said = match &opened {
                    Ok(_) => "opened".to_owned(),
                    Err(error) => error.to_string(),
                };
                tracing::debug!(outcome = %said, "requested an HTTP+SSE stream from the server");
                probing.tried.push(ConnectAttempt::new("GET (HTTP+SSE)", said, began.elapsed()));
                let outcome = match opened {
                    Ok(wire) => {
                        link = Box::new(duplex::spawn(wire, settings.limits, dispatcher.clone()));
                        NegotiationOutcome::SseOpened
                    }
                    Err(error) => probing.record_sse_refusal(error),
                };
                probing.negotiation.handle_outcome(outcome);
            }
            // A server that says nothing is no process that could be started again.
            NegotiationStep::Respawn => return Err(probing.into_respawn_error()),
            // `ask` deals with these.
            NegotiationStep::Discover { .. } | NegotiationStep::Initialize { .. } => {}
        }
    }
}

impl RevisionProbe<'_> {
    /// Records a failed attempt to open a stream and returns its outcome. The error of the newer transport is kept in
    /// preference to that of the older one. Exceptions are a request for authentication and a stream that must not be
    /// trusted.
    fn record_sse_refusal(&mut self, error: CallError) -> NegotiationOutcome {
        let outcome = outcome_of(&error);
        if self.last.is_none() || !matches!(outcome, NegotiationOutcome::Status(400 | 404..=499)) {
            self.last = Some(error);
        }
        outcome
    }
}
