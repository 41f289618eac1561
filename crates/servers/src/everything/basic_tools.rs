//! Tools that need nothing but themselves: one for each kind of content, and for the notifications of a call.

use std::time::Duration;

use hospes::model::{AudioContent, ImageContent};
use hospes::prelude::*;
use hospes::server::{Server, Tool};
use tokio::time::sleep;

use super::{PNG, WAV};

/// The time between two reports, long enough to be told apart.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
/// Duration of the call without a stream. It is longer than any client needs to notice that the stream is closed.
const RECONNECT_DELAY: Duration = Duration::from_millis(300);

/// Schema of which clients must show every keyword as it is written here.
const PRESERVED_SCHEMA: &str = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
 "$defs":{"address":{"$anchor":"addressDef","type":"object",
   "properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
 "properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
   "contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
 "allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
 "if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
 "then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}"##;

pub(super) struct BasicTools;

#[hospes::server]
impl BasicTools {
    /// Answers with one line of text.
    #[tool(read_only)]
    fn test_simple_text() -> &'static str {
        "This is a simple text response for testing."
    }

    /// Answers with a picture.
    #[tool(read_only)]
    fn test_image_content() -> ImageContent {
        ImageContent::from_bytes(PNG, "image/png")
    }

    /// Answers with a sound.
    #[tool(read_only)]
    fn test_audio_content() -> AudioContent {
        AudioContent::from_bytes(WAV, "audio/wav")
    }

    /// Answers with a resource's content.
    #[tool(read_only)]
    fn test_embedded_resource() -> ResourceContents {
        ResourceContents::text("test://embedded-resource", "This is an embedded resource content.")
            .with_mime_type("text/plain")
    }

    /// Answers with text, a picture and a resource.
    #[tool(read_only)]
    fn test_multiple_content_types() -> Vec<ContentBlock> {
        let resource =
            ResourceContents::text("test://mixed-content-resource", r#"{"test":"data","value":123}"#)
                .with_mime_type("application/json");
        vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            ContentBlock::embedded(resource),
        ]
    }

    /// Fails every time.
    #[tool(read_only)]
    fn test_error_handling() -> Result<()> {
        Err(Error::msg("This tool intentionally returns an error for testing"))
    }

    /// Reports its progress three times.
    #[tool(read_only)]
    async fn test_tool_with_progress(ctx: &Context) -> &'static str {
        for done in [0.0, 50.0, 100.0] {
            ctx.progress(done, Some(100.0), Some(&format!("Completed step {done} of 100")));
            sleep(PROGRESS_INTERVAL).await;
        }
        "Completed, with progress on the way."
    }

    /// Logs three messages while it runs.
    #[tool(read_only)]
    async fn test_tool_with_logging(ctx: &Context) -> &'static str {
        for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            ctx.log(LoggingLevel::Info, message);
            sleep(PROGRESS_INTERVAL).await;
        }
        "Completed, with log messages on the way."
    }

    /// Logs one message at each level; the request says which of them it wants.
    #[tool(read_only)]
    fn test_logging_tool(ctx: &Context) -> &'static str {
        for level in LoggingLevel::ALL {
            ctx.log(level, format!("A message at level {level}"));
        }
        "Logged a message at each level."
    }

    /// Closes the stream it is answered on; the client has to come back for the answer.
    #[tool(read_only)]
    async fn test_reconnection(ctx: &Context) -> &'static str {
        ctx.close_stream();
        sleep(RECONNECT_DELAY).await;
        "The stream was closed and taken up again."
    }

    /// Its one argument also travels in an HTTP header.
    #[tool(read_only)]
    fn test_custom_header(#[schemars(extend("x-mcp-header" = "Value"))] value: &str) -> String {
        format!("The value is {value}")
    }
}

/// The tools of the block above, and one whose schema no Rust type makes.
pub(super) fn server() -> Server {
    let preserved = Tool::new("json_schema_2020_12_tool")
        .description("Takes a contact, by a schema with keywords that no struct has.")
        .read_only(true)
        .input_schema(raw(PRESERVED_SCHEMA));
    BasicTools
        .into_server()
        .tool(preserved, |contact: RawJson| async move { format!("The contact is {contact}") })
}

fn raw(json: &'static str) -> RawJson {
    RawJson::parse(json).expect("it is written here as JSON")
}
