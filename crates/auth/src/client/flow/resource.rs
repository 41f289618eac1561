//! Which resource it is, and who makes out tokens for it (RFC 9728).

use std::collections::VecDeque;

use http::StatusCode;
use url::Url;

use super::server::FindServer;
use super::{Effect, Facts, Next, State, usable};
use crate::client::error::FlowError;
use crate::client::settings::LegacyDiscovery;
use crate::egress::FetchError;
use crate::exchange::{Undecoded, without_query};
use crate::metadata::{ProtectedResource, is_secure, resource_metadata_urls};
use crate::{MAX_METADATA_BYTES, Request, Response};

const WHAT: &str = "the metadata of the resource";

/// Asks for the resource's metadata: where the challenge says, or else at the well-known places.
#[derive(Debug)]
pub(super) struct FindResource {
    url: Url,
    rest: VecDeque<Url>,
    /// The challenge named the place, so there is no other.
    named: bool,
}

impl FindResource {
    pub(super) fn begin(facts: &Facts) -> Next {
        let named = facts.cause.challenge.as_ref().and_then(|challenge| challenge.get("resource_metadata"));
        let mut urls: VecDeque<Url> = match named {
            Some(text) => {
                let url = Url::parse(text).ok().filter(is_secure);
                VecDeque::from([url.ok_or_else(|| FlowError::Malformed {
                    what: WHAT,
                    url: crate::shown(text),
                    why: "is at no https URL".into(),
                })?])
            }
            None => resource_metadata_urls(&facts.cause.endpoint).into(),
        };
        match urls.pop_front() {
            Some(url) => Ok(Self { url, rest: urls, named: named.is_some() }.ask()),
            None => Err(FlowError::NoMetadata),
        }
    }

    fn ask(self) -> (State, Effect) {
        let request = Request::get(self.url.clone(), MAX_METADATA_BYTES);
        (State::Resource(self), Effect::Fetch(request))
    }

    pub(super) fn handle(mut self, facts: &Facts, response: Result<Response, FetchError>) -> Next {
        let response = usable(WHAT, &self.url, response)?;
        if response.status == StatusCode::OK {
            match response.decode_marked::<ProtectedResource>(&["resource", "authorization_servers"]) {
                Ok(metadata) => {
                    metadata.check(&facts.cause.endpoint, facts.settings.strict_resource)?;
                    return FindServer::begin(facts, metadata);
                }
                // A web site that answers everything with its front page, or with some JSON of its own.
                Err(Undecoded::Other(_)) if !self.named => {}
                Err(Undecoded::Other(why) | Undecoded::Malformed(why)) => {
                    let url = without_query(&self.url);
                    return Err(FlowError::Malformed { what: WHAT, url, why });
                }
            }
        } else if self.named {
            let url = without_query(&self.url);
            return Err(FlowError::Status { what: WHAT, url, status: response.status });
        }
        match self.rest.pop_front() {
            Some(url) => {
                self.url = url;
                Ok(self.ask())
            }
            None if facts.settings.legacy_discovery == LegacyDiscovery::Deny => Err(FlowError::NoMetadata),
            None => FindServer::begin_legacy(facts),
        }
    }
}
