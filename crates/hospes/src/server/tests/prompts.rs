use hospes_model::{ContentBlock, PromptArgument, PromptMessage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{error, refusal, result};
use crate::server::{Args, Prompt, Server};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Season {
    Summer,
    Winter,
}

/// Writes a packing list.
#[derive(Deserialize, JsonSchema)]
struct Packing {
    /// Where to.
    city: String,
    /// For how long.
    days: u8,
    season: Option<Season>,
}

fn server() -> Server {
    Server::new("trips", "1")
        .prompt("packing_list", |Args(Packing { city, days, season })| async move {
            let season = match season {
                Some(Season::Summer) => "in summer",
                Some(Season::Winter) => "in winter",
                None => "at any time",
            };
            format!("What to pack for {days} days in {city} {season}?")
        })
        .prompt(Prompt::new("hello").title("Hello").description("Greets."), || async {
            [PromptMessage::user("Hello"), PromptMessage::assistant("Hi")]
        })
        .prompt("picture", || async { ContentBlock::image(b"x", "image/png") })
        .prompt("broken", || async { Err::<String, _>("no paper") })
        .prompt(Prompt::new("by_hand").argument(PromptArgument::new("city").with_required(true)), || async {
            "fixed"
        })
}

/// covers: PRM-03 PRM-04
#[tokio::test]
async fn a_prompt_is_listed_with_the_arguments_of_its_type() {
    let list = result(&server(), "prompts/list", json!({})).await;
    assert_eq!(
        list["prompts"][0],
        json!({
            "name": "packing_list",
            "description": "Writes a packing list.",
            "arguments": [
                { "name": "city", "description": "Where to.", "required": true },
                { "name": "days", "description": "For how long.", "required": true },
                { "name": "season" },
            ],
        })
    );
    assert_eq!(list["prompts"][1], json!({ "name": "hello", "title": "Hello", "description": "Greets." }));
    assert_eq!(list["prompts"][4]["arguments"], json!([{ "name": "city", "required": true }]));
}

/// covers: PRM-05 PRM-07 PRM-08
#[tokio::test]
async fn a_prompt_is_filled_in() {
    let server = server();
    let params =
        json!({ "name": "packing_list", "arguments": { "city": "Oslo", "days": "3", "season": "winter" } });
    let filled = result(&server, "prompts/get", params).await;
    assert_eq!(
        filled["messages"],
        json!([{ "role": "user", "content": { "type": "text", "text": "What to pack for 3 days in Oslo in winter?" } }])
    );
    assert_eq!(filled["description"], "Writes a packing list.");
    let filled = result(&server, "prompts/get", json!({ "name": "hello" })).await;
    assert_eq!(filled["messages"][1]["role"], "assistant");
    let filled = result(&server, "prompts/get", json!({ "name": "picture" })).await;
    assert_eq!(filled["messages"][0]["content"]["data"], "eA==");
}

/// covers: PRM-11 PRM-12 PRM-14
#[tokio::test]
async fn wrong_arguments_are_refused_by_name() {
    let server = server();
    let said = async |name: &str, arguments| {
        let refused = error(&server, "prompts/get", json!({ "name": name, "arguments": arguments })).await;
        assert_eq!(refused.code, -32602);
        refused.message.into_owned()
    };
    assert_eq!(
        said("paking_list", json!({})).await,
        "unknown prompt: paking_list; did you mean `packing_list`?"
    );
    assert_eq!(
        said("packing_list", json!({ "citty": "Oslo" })).await,
        "invalid arguments for the prompt packing_list: city is missing; days is missing; citty is not known; did you mean `city`?"
    );
    assert_eq!(
        said("packing_list", json!({ "city": "Oslo", "days": "many" })).await,
        "days: wanted a whole number from 0 to 255, given \"many\""
    );
    let season = said("packing_list", json!({ "city": "Oslo", "days": "1", "season": "spring" })).await;
    assert_eq!(season, "season: wanted one of summer, winter, given \"spring\"");
    assert!(said("packing_list", json!({ "city": 7 })).await.contains("arguments.city"));
    assert!(said("by_hand", json!({})).await.contains("city is missing"));
}

/// covers: PRM-13
#[tokio::test]
async fn a_failing_handler_is_an_internal_error() {
    let failed = error(&server(), "prompts/get", json!({ "name": "broken" })).await;
    assert_eq!((failed.code, &*failed.message), (-32603, "no paper"));
}

#[test]
fn mistakes_of_the_program_panic_at_its_line() {
    let said = refusal(file!(), || {
        Server::new("x", "1").prompt("a", || async { "a" }).prompt("a", || async { "b" })
    });
    assert_eq!(said, "there is a prompt called \"a\" already");
    assert_eq!(
        refusal(file!(), || Server::new("x", "1").prompt("", || async { "a" })),
        "a prompt must have a name"
    );
}
