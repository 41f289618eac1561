//! Metadata documents of the OAuth parties: parsed leniently, checked strictly, compared as written.

mod client;
mod resource;
mod server;
mod well_known;

pub use client::{
    ApplicationType, ClientDocument, ClientInformation, ClientMetadata, RejectedRedirect, document_url,
};
pub use hospes_http_client::is_loopback;
pub use resource::{ProtectedResourceMetadata, ResourceMetadataError, covers};
pub use server::{AuthorizationServerMetadata, ServerMetadataError};
pub use well_known::{resource_metadata_urls, server_metadata_urls};

use url::Url;

/// Returns true if secrets may be sent to this URL: over https, or over http within this machine.
#[must_use]
pub fn is_secure(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.host().is_some(),
        "http" => is_loopback(url),
        _ => false,
    }
}

/// Parses the URL of an endpoint, if it is allowed.
fn endpoint(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    // An endpoint has no fragment (RFC 6749, sections 3.1 and 3.2).
    let plain = url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
    (plain && is_secure(&url)).then_some(url)
}
