//! The official suite examines this server over HTTP; here is what it does not ask.

use std::sync::Arc;

use hospes::model::{
    ClientCapabilities, ElicitationCapability, Method, Reply, Revision, RootsCapability, SamplingCapability,
    ServerStamp,
};
use hospes::prelude::*;
use hospes::{Peer, Round, Server};
use serde_json::Value;

use super::everything;

fn everybody() -> ClientCapabilities {
    ClientCapabilities::new()
        .with_elicitation(ElicitationCapability::new())
        .with_sampling(SamplingCapability::new())
        .with_roots(RootsCapability::new())
}

async fn outcome(server: &Server, method: &Method, params: Value, round: Round) -> Outcome {
    let peer = Peer::new(Revision::LATEST, None, everybody());
    let context = Context::builder(Arc::new(peer)).round(round).build();
    server.call(Call::new(method.clone(), params.into(), context)).await
}

async fn result(server: &Server, method: Method, params: Value) -> Value {
    match outcome(server, &method, params, Round::default()).await {
        Outcome::Complete(reply) => json_of(&reply, &method),
        other => panic!("{other:?}"),
    }
}

fn json_of(reply: &Reply, method: &Method) -> Value {
    let mut out = Vec::new();
    reply.encode(method, Revision::LATEST, &ServerStamp::anonymous(), &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

async fn names(server: &Server, method: Method, list: &str) -> Vec<String> {
    let listed = result(server, method, json!({})).await;
    listed[list].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

/// The suite calls the first tool and reads the first resource that are listed.
#[tokio::test]
async fn what_is_listed_first_needs_nothing() {
    let server = everything();
    assert_eq!(names(&server, Method::ToolsList, "tools").await[0], "test_simple_text");
    let resources = result(&server, Method::ResourcesList, json!({})).await;
    assert_eq!(resources["resources"][0]["uri"], "test://static-text");
    assert_eq!(resources["resources"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn everything_is_described() {
    let server = everything();
    for (method, list) in [
        (Method::ToolsList, "tools"),
        (Method::PromptsList, "prompts"),
        (Method::ResourcesList, "resources"),
        (Method::ResourceTemplatesList, "resourceTemplates"),
    ] {
        let listed = result(&server, method, json!({})).await;
        for entry in listed[list].as_array().unwrap() {
            assert!(entry["description"].as_str().is_some_and(|text| text.len() > 10), "{entry}");
        }
    }
}

/// covers: TOOL-18
#[tokio::test]
async fn a_schema_written_by_hand_is_enforced() {
    let server = everything();
    let call = |arguments: Value| json!({ "name": "json_schema_2020_12_tool", "arguments": arguments });
    let good =
        result(&server, Method::ToolsCall, call(json!({ "contactMethod": "phone", "phone": "1" }))).await;
    assert_eq!(good.get("isError"), None, "{good}");
    for bad in [
        json!({}),
        json!({ "contactMethod": "phone", "email": "a@b" }),
        json!({ "email": "a@b", "fax": "1" }),
        json!({ "email": "a@b", "address": { "street": 5 } }),
    ] {
        let refused = result(&server, Method::ToolsCall, call(bad.clone())).await;
        assert_eq!(refused["isError"], true, "{bad}: {refused}");
    }
}

#[tokio::test]
async fn lists_change_and_stay_in_order() {
    let server = everything();
    let before = names(&server, Method::ToolsList, "tools").await;
    let toggle = |name: &str| json!({ "name": name });
    result(&server, Method::ToolsCall, toggle("test_trigger_tool_change")).await;
    result(&server, Method::ToolsCall, toggle("test_trigger_prompt_change")).await;
    let after = names(&server, Method::ToolsList, "tools").await;
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after[before.len()..], ["test_dynamic_tool"]);
    assert_eq!(names(&server, Method::PromptsList, "prompts").await.last().unwrap(), "test_dynamic_prompt");
    let called = result(&server, Method::ToolsCall, toggle("test_dynamic_tool")).await;
    assert_eq!(called["content"][0]["text"], "Still here.");
    result(&server, Method::ToolsCall, toggle("test_trigger_tool_change")).await;
    assert_eq!(names(&server, Method::ToolsList, "tools").await, before);
}

/// covers: COMP-03
#[tokio::test]
async fn completions_stop_at_a_hundred() {
    let server = everything();
    let complete = |reference: Value, name: &str, value: &str| json!({ "ref": reference, "argument": { "name": name, "value": value } });
    let prompt = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    let words = result(&server, Method::Complete, complete(prompt, "arg1", "test")).await;
    assert_eq!(words["completion"]["values"], json!(["test", "testing", "tested", "contest"]));
    let template = json!({ "type": "ref/resource", "uri": "test://template/{id}/data" });
    let ids = result(&server, Method::Complete, complete(template, "id", "")).await;
    assert_eq!(ids["completion"]["values"].as_array().unwrap().len(), 100);
    assert_eq!(ids["completion"]["total"], 200);
    assert_eq!(ids["completion"]["hasMore"], true);
}

/// The answers of all rounds are there in the end, and a wrong one is asked for again.
#[tokio::test]
async fn questions_go_on_where_they_stopped() {
    let server = everything();
    let call = json!({ "name": "test_input_required_result_multi_round" });
    let mut round = Round::default();
    for (key, content) in [
        ("step1", json!({ "name": 5 })),
        ("step1", json!({ "name": "Ada" })),
        ("step2", json!({ "color": "blue" })),
    ] {
        let asked = outcome(&server, &Method::ToolsCall, call.clone(), round).await;
        let Outcome::InputRequired(questions) = asked else { panic!("{asked:?}") };
        let keys: Vec<_> = questions.requests.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, [key]);
        round = questions.round;
        let answer = json!({ "action": "accept", "content": content });
        round.record_answers([(key.to_owned(), RawJson::from(answer))]);
    }
    let done = outcome(&server, &Method::ToolsCall, call, round).await;
    let Outcome::Complete(reply) = done else { panic!("{done:?}") };
    assert_eq!(json_of(&reply, &Method::ToolsCall)["content"][0]["text"], "Ada likes blue");
}

#[test]
fn the_media_are_what_they_say() {
    assert_eq!(super::PNG[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(super::PNG.len(), 8 + 25 + 24 + 12);
    let length = u32::from_le_bytes(super::WAV[4..8].try_into().unwrap());
    assert_eq!(usize::try_from(length).unwrap() + 8, super::WAV.len());
}
