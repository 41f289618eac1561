//! Resources, prompts and completions.

use hospes::prelude::*;
use hospes::server::Json;

use super::PNG;

/// Content of the template's resources.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateData {
    id: String,
    template_test: bool,
    data: String,
}

pub(super) struct StaticContents;

#[hospes::server]
impl StaticContents {
    /// Text that never changes.
    #[resource("test://static-text", name = "Static text", mime = "text/plain")]
    fn static_text() -> &'static str {
        "This is the content of the static text resource."
    }

    /// Bytes that never change: a picture.
    #[resource("test://static-binary", name = "Static binary", mime = "image/png")]
    fn static_binary() -> &'static [u8] {
        PNG
    }

    /// Text that a client can be told of when it changes; `test_trigger_resource_update` says that it did.
    #[resource("test://watched-resource", name = "Watched resource", mime = "text/plain")]
    fn watched() -> &'static str {
        "This is the content of the watched resource."
    }

    /// A resource for every id.
    #[resource("test://template/{id}/data", name = "Template", mime = "application/json")]
    fn template(id: String) -> Json<TemplateData> {
        Json(TemplateData { data: format!("Data for ID: {id}"), template_test: true, id })
    }

    /// A prompt without arguments.
    #[prompt]
    fn test_simple_prompt() -> &'static str {
        "This is a simple prompt for testing."
    }

    /// A prompt with two arguments.
    #[prompt]
    fn test_prompt_with_arguments(
        /// The first argument.
        arg1: &str,
        /// The second argument.
        arg2: &str,
    ) -> String {
        format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
    }

    #[complete(test_prompt_with_arguments.arg1, test_prompt_with_arguments.arg2)]
    fn words(typed: &str) -> Vec<&'static str> {
        hospes::server::fitting(typed, &["test", "testing", "tested", "contest", "paris", "park", "party"])
    }

    #[complete(template.id)]
    fn ids(typed: &str) -> Vec<String> {
        let ids = (1..=200_u32).map(|id| id.to_string());
        ids.filter(|id| id.starts_with(typed)).collect()
    }

    /// A prompt with a resource's content in it.
    #[prompt]
    fn test_prompt_with_embedded_resource(
        /// The URI that the content is shown under.
        #[arg(name = "resourceUri")]
        uri: String,
    ) -> Vec<PromptMessage> {
        let resource = ResourceContents::text(uri, "Embedded resource content for testing.");
        vec![
            PromptMessage::user(ContentBlock::embedded(resource.with_mime_type("text/plain"))),
            PromptMessage::user("Please process the embedded resource above."),
        ]
    }

    /// A prompt with a picture in it.
    #[prompt]
    fn test_prompt_with_image() -> [PromptMessage; 2] {
        [
            PromptMessage::user(ContentBlock::image(PNG, "image/png")),
            PromptMessage::user("Please analyze the image above."),
        ]
    }
}
