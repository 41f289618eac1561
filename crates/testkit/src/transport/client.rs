//! The client of the suite.

use hospes::client::{Client, ClientBuilder};
use hospes::model::{
    CreateMessageResult, ElicitParams, ElicitResult, RawJson, Revision, SamplingMessageContentBlock,
};

use super::site::TransportSite;

/// Creates a client that answers the suite's requests: forms with the name in their message, sampling with the number of
/// messages.
pub(super) fn client() -> ClientBuilder {
    Client::builder()
        .roots(["file:///srv"])
        .sampling(|question| async move {
            let answer = format!("{} messages", question.messages.len());
            Ok(CreateMessageResult::new("suite", SamplingMessageContentBlock::text(answer)))
        })
        .elicitation(|question| async move {
            let ElicitParams::Form(form) = question else {
                return Ok(ElicitResult::decline());
            };
            let name = form.message.replace("who is ", "name ");
            Ok(ElicitResult::accept(RawJson::from(serde_json::json!({ "name": name }))))
        })
}

/// Connects a client of one revision.
pub(super) async fn connect(site: &impl TransportSite, revision: Revision) -> Client {
    let client = site.connect(client().revision(revision)).await;
    client.unwrap_or_else(|error| panic!("no client of {revision}: {error}"))
}
