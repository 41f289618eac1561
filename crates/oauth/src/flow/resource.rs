//! Discovery of the protected resource and of its authorization servers (RFC 9728).

use std::collections::VecDeque;

use hospes_auth::egress::FetchError;
use hospes_auth::metadata::{ProtectedResourceMetadata, is_secure, resource_metadata_urls};
use hospes_auth::{DecodeDocumentError, FetchRequest, FetchResponse, MAX_METADATA_BYTES, without_query};
use http::StatusCode;
use url::Url;

use super::effect::FlowEffect;
use super::server::{FindServer, ServerState};
use super::step::{FlowContext, FlowStep, check_response, into_state};
use crate::error::FlowError;
use crate::settings::LegacyDiscovery;

const RESOURCE_METADATA_NAME: &str = "the protected resource metadata";

/// Fetches the resource's metadata, from the URL in the challenge or from the well-known URLs.
#[derive(Debug)]
pub(super) struct FindResource {
    url: Url,
    rest: VecDeque<Url>,
    /// The challenge named the place, so there is no other.
    named: bool,
}

/// State of the discovery, or of what follows.
pub(super) enum ResourceState {
    Resource(FindResource),
    Server(ServerState),
}

impl From<ServerState> for ResourceState {
    fn from(state: ServerState) -> Self {
        Self::Server(state)
    }
}

impl FindResource {
    pub(super) fn begin(facts: &FlowContext) -> FlowStep<ResourceState> {
        let named = facts.cause.challenge.as_ref().and_then(|challenge| challenge.get("resource_metadata"));
        let mut urls: VecDeque<Url> = match named {
            Some(text) => {
                let url = Url::parse(text).ok().filter(is_secure);
                VecDeque::from([url.ok_or_else(|| FlowError::Malformed {
                    what: RESOURCE_METADATA_NAME,
                    url: hospes_auth::shown(text),
                    why: "the URL does not use https".into(),
                })?])
            }
            None => resource_metadata_urls(&facts.cause.endpoint).into(),
        };
        match urls.pop_front() {
            Some(url) => Ok(Self { url, rest: urls, named: named.is_some() }.ask()),
            None => Err(FlowError::NoMetadata),
        }
    }

    fn ask(self) -> (ResourceState, FlowEffect) {
        let request = FetchRequest::get(self.url.clone(), MAX_METADATA_BYTES);
        (ResourceState::Resource(self), FlowEffect::Fetch(request))
    }

    pub(super) fn handle(
        mut self,
        facts: &FlowContext,
        response: Result<FetchResponse, FetchError>,
    ) -> FlowStep<ResourceState> {
        let response = check_response(RESOURCE_METADATA_NAME, &self.url, response)?;
        if response.status == StatusCode::OK {
            match response.decode_marked::<ProtectedResourceMetadata>(&["resource", "authorization_servers"])
            {
                Ok(metadata) => {
                    metadata.check(&facts.cause.endpoint, facts.settings.strict_resource)?;
                    return FindServer::begin(facts, metadata).map(into_state);
                }
                // A web site that answers everything with its front page, or with some JSON of its own.
                Err(DecodeDocumentError::Other(_)) if !self.named => {}
                Err(DecodeDocumentError::Other(why) | DecodeDocumentError::Malformed(why)) => {
                    let url = without_query(&self.url);
                    return Err(FlowError::Malformed { what: RESOURCE_METADATA_NAME, url, why });
                }
            }
        } else if self.named {
            let url = without_query(&self.url);
            return Err(FlowError::Status { what: RESOURCE_METADATA_NAME, url, status: response.status });
        }
        match self.rest.pop_front() {
            Some(url) => {
                self.url = url;
                Ok(self.ask())
            }
            None if facts.settings.legacy_discovery == LegacyDiscovery::Deny => Err(FlowError::NoMetadata),
            None => FindServer::begin_legacy(facts).map(into_state),
        }
    }
}
