//! The tool of a server that lists nothing before sign-in.

use std::sync::Arc;

use hospes_model::{RawJson, Tool};
use serde_json::json;

use crate::server::UpstreamListing;

/// The tool of a server at which the user has to sign in before it shows anything.
pub(super) const CONNECT_ACCOUNT: &str = "connect_account";

/// Returns the listing of a server at which the user has to sign in first.
pub(super) fn listing() -> UpstreamListing {
    let schema = RawJson::from(json!({ "type": "object", "additionalProperties": false }));
    let mut tool = Tool::new(CONNECT_ACCOUNT, schema);
    tool.description = Some(
        "Connects the user's own account at this server. Its tools appear once the user has signed in there."
            .to_owned(),
    );
    UpstreamListing { tools: Arc::new(vec![tool]), ..UpstreamListing::default() }
}
