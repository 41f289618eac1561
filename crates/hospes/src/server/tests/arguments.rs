use std::collections::BTreeMap;

use hospes_model::RawJson;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{refusal, result, tool};
use crate::server::{Args, Server, Tool};

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Seat {
    Window,
    Aisle,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Passenger {
    name: String,
    age: Option<u8>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Booking {
    train: String,
    seat: Option<Seat>,
    #[serde(default)]
    passengers: Vec<Passenger>,
}

fn booking() -> Server {
    Server::new("trips", "1")
        .tool("book", |Args(booking): Args<Booking>| async move { serde_json::to_string(&booking) })
}

#[tokio::test]
async fn arguments_are_decoded_into_their_type() {
    let (text, failed) = tool(
        &booking(),
        "book",
        json!({ "train": "IC 1", "seat": "aisle", "passengers": [{ "name": "Ada", "age": 36 }] }),
    )
    .await;
    assert!(!failed);
    assert_eq!(text, r#"{"train":"IC 1","seat":"aisle","passengers":[{"name":"Ada","age":36}]}"#);
}

/// covers: TOOL-18 TOOL-20
#[cfg(feature = "validate")]
#[tokio::test]
async fn every_mistake_is_named_with_path_and_wish_and_value() {
    let arguments = json!({
        "trian": "IC 1",
        "seat": "roof",
        "passengers": [{ "name": 7, "age": 300 }, { "age": "old" }],
    });
    let (text, failed) = tool(&booking(), "book", arguments).await;
    assert!(failed);
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.remove(0), "invalid arguments for book:");
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "- passengers[0].age: expected at most 255, got 300",
            "- passengers[0].name: expected string, got 7",
            "- passengers[1].age: expected integer or null, got \"old\"",
            "- passengers[1].name: missing; expected string",
            "- seat: expected one of \"window\", \"aisle\" or null, got \"roof\"",
            "- train: missing; expected string",
            "- trian: unknown property; did you mean `train`?",
        ]
    );
}

/// covers: TOOL-18
#[tokio::test]
async fn an_argument_that_is_not_declared_is_refused() {
    let server = booking().tool("plain", || async { "ran" });
    let (text, failed) = tool(&server, "book", json!({ "train": "IC 1", "class": 2 })).await;
    assert!(failed && text.contains("class: unknown property"), "{text}");
    let (text, failed) = tool(&server, "plain", json!({ "x": 1 })).await;
    assert!(failed && text.contains("x: unknown property"), "{text}");
    assert_eq!(tool(&server, "plain", json!({})).await, ("ran".into(), false));
    assert_eq!(tool(&server, "plain", Value::Null).await, ("ran".into(), false));
}

#[tokio::test]
async fn a_type_that_is_open_takes_any_argument() {
    #[derive(Deserialize, JsonSchema)]
    struct Open {
        known: u8,
        #[serde(flatten)]
        more: BTreeMap<String, Value>,
    }
    let server = Server::new("x", "1")
        .tool("map", |Args(all): Args<BTreeMap<String, u32>>| async move { all.len() })
        .tool("rest", |Args(Open { known, more })| async move { format!("{known} {}", more.len()) });
    assert_eq!(tool(&server, "map", json!({ "a": 1, "b": 2 })).await, ("2".into(), false));
    assert_eq!(tool(&server, "rest", json!({ "known": 1, "b": 2, "c": 3 })).await, ("1 2".into(), false));
}

#[tokio::test]
async fn flattened_structs_and_enumerations_are_arguments_too() {
    #[derive(Deserialize, JsonSchema)]
    struct Page {
        limit: Option<u32>,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Search {
        query: String,
        #[serde(flatten)]
        page: Page,
    }
    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "by", rename_all = "lowercase")]
    enum Find {
        Name { name: String },
        Id { id: u32 },
    }
    let server = Server::new("x", "1")
        .tool("search", |Args(Search { query, page })| async move { format!("{query} {:?}", page.limit) })
        .tool("find", |Args(find): Args<Find>| async move {
            match find {
                Find::Name { name } => name,
                Find::Id { id } => id.to_string(),
            }
        });
    assert_eq!(tool(&server, "search", json!({ "query": "q", "limit": 3 })).await.0, "q Some(3)");
    let (text, failed) = tool(&server, "search", json!({ "query": "q", "limti": 3 })).await;
    assert!(failed && text.contains("limti"), "{text}");
    assert_eq!(tool(&server, "find", json!({ "by": "id", "id": 3 })).await, ("3".into(), false));
    let (_, failed) = tool(&server, "find", json!({ "by": "id", "id": "three" })).await;
    assert!(failed);
    let listed = result(&server, "tools/list", json!({})).await;
    assert_eq!(listed["tools"][1]["inputSchema"]["type"], "object");
}

/// covers: JSCH-01 TOOL-20
#[cfg(feature = "validate")]
#[tokio::test]
async fn what_decoding_does_not_check_the_schema_does() {
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only the schema and the decoding matter")]
    struct Exact {
        #[schemars(range(min = 1, max = 5))]
        stars: u8,
        #[schemars(regex(pattern = "^[A-Z]{2}$"))]
        country: String,
        #[schemars(length(min = 1))]
        tags: std::collections::HashSet<String>,
    }
    let server = Server::new("x", "1").tool("rate", |_: Args<Exact>| async { "ok" });
    assert!(!tool(&server, "rate", json!({ "stars": 5, "country": "NO", "tags": ["a"] })).await.1);
    let (text, failed) = tool(&server, "rate", json!({ "stars": 6, "country": "Norway", "tags": [] })).await;
    assert!(failed);
    assert!(text.contains("stars: expected at most 5, got 6"), "{text}");
    assert!(text.contains("country: expected text that matches ^[A-Z]{2}$, got \"Norway\""), "{text}");
    assert!(text.contains("tags: expected 1 items or more, got []"), "{text}");
}

/// covers: TOOL-36 TOOL-20 JSCH-01
#[cfg(feature = "validate")]
#[tokio::test]
async fn a_schema_given_by_hand_is_listed_as_written_and_enforced() {
    let schema = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"z":{"type":"integer"},"a":{"$ref":"#/$defs/x"}},"if":{"required":["z"]},"then":{"required":["a"]},"$defs":{"x":{"type":"string"}}}"##;
    let raw = RawJson::parse(schema).unwrap();
    let server = Server::new("x", "1")
        .tool(Tool::new("raw").input_schema(raw), |arguments: RawJson| async move {
            arguments.as_str().to_owned()
        });
    let listed = super::outcome(&server, "tools/list", json!({})).await;
    let text = format!("{listed:?}");
    assert!(text.contains(schema), "{text}");
    let arguments = json!({ "a": "x", "z": 1, "more": [] });
    let (text, _) = tool(&server, "raw", arguments.clone()).await;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), arguments);
    let (text, failed) = tool(&server, "raw", json!({ "z": 1 })).await;
    assert!(failed && text.contains("a: missing"), "{text}");
    let (text, failed) = tool(&server, "raw", json!({ "a": 3 })).await;
    assert!(failed && text.contains("a: expected string, got 3"), "{text}");
}

/// Arrays by position are written with `items` in draft 7 and with `prefixItems` in 2020-12; each means nothing in the
/// other.
///
/// covers: JSCH-02 JSCH-03 JSCH-06
#[cfg(feature = "validate")]
#[tokio::test]
async fn a_schema_is_read_in_the_dialect_that_it_names() {
    let pair = |dialect: Option<&str>, keyword: &str| {
        let mut schema = json!({
            "type": "object",
            "properties": { "pair": { "type": "array", keyword: [{ "type": "string" }, { "type": "integer" }] } },
        });
        if let Some(dialect) = dialect {
            schema["$schema"] = dialect.into();
        }
        Server::new("x", "1").tool(Tool::new("t").input_schema(schema), |_: RawJson| async { "ok" })
    };
    let refuses = async |server: Server| tool(&server, "t", json!({ "pair": [1, "x"] })).await.1;
    let (new, old) =
        ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#");
    assert!(refuses(pair(Some(old), "items")).await);
    assert!(!refuses(pair(Some(old), "prefixItems")).await);
    for newest in [Some(new), None] {
        assert!(refuses(pair(newest, "prefixItems")).await, "2020-12 where nothing is said");
    }
    // Another dialect is refused with a list of those that are spoken, the preferred one first.
    let said = refusal(file!(), || pair(Some("https://example.com/mine"), "items"));
    let spoken = said.split_once("supported: ").unwrap().1;
    assert!(spoken.starts_with(new) && spoken.contains("draft-07"), "{said}");
}

/// A `$ref` to a listening socket opens no connection to it.
///
/// covers: JSCH-08
#[cfg(feature = "validate")]
#[test]
fn no_schema_makes_us_connect_to_anybody() {
    let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    door.set_nonblocking(true).unwrap();
    let there = format!("http://{}/schema", door.local_addr().unwrap());
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": there } } });
    let said = refusal(file!(), || {
        Server::new("x", "1").tool(Tool::new("raw").input_schema(schema), |_: RawJson| async {})
    });
    assert!(said.contains("schemas are never fetched"), "{said}");
    assert_eq!(door.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// covers: JSCH-04 JSCH-05 JSCH-07 JSCH-10
#[cfg(feature = "validate")]
#[test]
fn a_schema_that_cannot_be_used_is_refused_and_nothing_is_fetched() {
    let build = |schema: Value| {
        refusal(file!(), || {
            Server::new("x", "1").tool(Tool::new("raw").input_schema(schema), |_: RawJson| async {})
        })
    };
    let said = build(json!({ "$schema": "https://example.com/my-dialect", "type": "object" }));
    assert!(said.contains("unsupported schema dialect https://example.com/my-dialect"), "{said}");
    let said =
        build(json!({ "type": "object", "properties": { "a": { "$ref": "http://127.0.0.1:9/schema" } } }));
    assert!(said.contains("schemas are never fetched"), "{said}");
    let said = build(json!({ "type": "object", "properties": { "a": { "type": "strnig" } } }));
    assert!(said.contains("cannot be used"), "{said}");
}

/// Thirty short definitions can ask for a thousand million checks of one value, and one for endless ones.
///
/// covers: JSCH-11
#[cfg(feature = "validate")]
#[test]
fn a_schema_that_multiplies_by_references_is_refused() {
    let build = |schema: Value| {
        Server::new("x", "1").tool(Tool::new("raw").input_schema(schema), |_: RawJson| async {})
    };
    let doubling = |levels: usize| {
        let mut definitions = json!({ "d0": { "type": "object" } });
        for level in 1..=levels {
            let below = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
            definitions[format!("d{level}")] = json!({ "allOf": [below, below] });
        }
        json!({ "type": "object", "$ref": format!("#/$defs/d{levels}"), "$defs": definitions })
    };
    for schema in [doubling(30), doubling(64), json!({ "type": "object", "allOf": [{ "$ref": "#" }] })] {
        let said = refusal(file!(), || build(schema));
        assert!(said.contains("applies more than 10000 schemas to one value"), "{said}");
    }
    let _ = build(doubling(8));
    // One that refers to itself further down is a tree, and fine.
    let _ = build(
        json!({ "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } }),
    );
}

/// Of several shapes the one that was meant is explained, not all of them at once.
#[cfg(feature = "validate")]
#[tokio::test]
async fn a_choice_is_explained_by_the_shape_that_comes_nearest() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Shape {
        Circle { radius: f64 },
        Square { side: f64, turned: Option<bool> },
    }
    let server = Server::new("x", "1").tool("draw", |_: Args<Shape>| async { "ok" });
    assert!(!tool(&server, "draw", json!({ "kind": "circle", "radius": 1 })).await.1);
    let (text, _) = tool(&server, "draw", json!({ "kind": "square", "side": "long" })).await;
    assert_eq!(text, "invalid arguments for draw:\n- side: expected number, got \"long\"");
    let (text, _) = tool(&server, "draw", json!({ "kind": "circle" })).await;
    assert_eq!(text, "invalid arguments for draw:\n- radius: missing; expected number");
    let (text, _) = tool(&server, "draw", json!({ "kind": "line", "radius": 1 })).await;
    let kinds = "\"circle\", \"square\"";
    assert_eq!(text, format!("invalid arguments for draw:\n- kind: expected one of {kinds}, got \"line\""));
    let (text, _) = tool(&server, "draw", json!({ "radius": 1 })).await;
    assert_eq!(text, format!("invalid arguments for draw:\n- kind: missing; expected one of {kinds}"));
}

/// Maps may have numbers for keys.
#[tokio::test]
async fn names_of_members_are_read_as_whatever_type_they_have() {
    let server = Server::new("x", "1").tool(
        "sum",
        |Args(all): Args<std::collections::BTreeMap<u32, i64>>| async move {
            all.into_iter().map(|(key, value)| i64::from(key) * value).sum::<i64>()
        },
    );
    assert_eq!(tool(&server, "sum", json!({ "2": 10, "3": 1 })).await, ("23".into(), false));
    assert!(tool(&server, "sum", json!({ "two": 1 })).await.1);
}

/// covers: JSCH-11
#[test]
fn a_schema_without_measure_is_refused() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..200 {
        deep = json!({ "type": "array", "items": deep });
    }
    let schema = json!({ "type": "object", "properties": { "a": deep } });
    let text = refusal(file!(), || {
        Server::new("x", "1").tool(Tool::new("raw").input_schema(schema), |_: RawJson| async {})
    });
    assert!(text.contains("cannot be used"), "{text}");
}

/// covers: TOOL-32
#[cfg(feature = "validate")]
#[tokio::test]
async fn an_output_schema_given_by_hand_is_kept_or_the_call_fails() {
    let tool = || Tool::new("t").output_schema(json!({ "type": "object", "required": ["sum"] }));
    let good = Server::new("x", "1")
        .tool(tool(), || async { hospes_model::CallToolResult::structured(&json!({ "sum": 3 })) });
    let bad = Server::new("x", "1").tool(tool(), || async { "text alone" });
    let failing = Server::new("x", "1").tool(tool(), || async { Err::<String, _>("no luck") });
    assert_eq!(
        result(&good, "tools/call", json!({ "name": "t" })).await["structuredContent"],
        json!({ "sum": 3 })
    );
    assert_eq!(super::error(&bad, "tools/call", json!({ "name": "t" })).await.code, -32603);
    assert_eq!(super::tool(&failing, "t", json!({})).await, ("no luck".into(), true));
}

/// covers: HHDR-19 HHDR-23 HHDR-22
#[tokio::test]
async fn headers_that_repeat_arguments_must_agree_with_them() {
    use hospes_model::{Method, Revision};
    let schema =
        json!({ "type": "object", "properties": { "value": { "type": "string", "x-mcp-header": "Value" } } });
    let server = Server::new("x", "1").tool(Tool::new("t").input_schema(schema), |_: RawJson| async { "ok" });
    let call = |revision: Revision, header: Option<&'static str>, arguments: Value| {
        let (mut head, ()) = http::Request::new(()).into_parts();
        if let Some(header) = header {
            head.headers.insert("mcp-param-value", header.parse().unwrap());
        }
        let context = crate::Context::builder(super::peer(revision)).http(Box::new(head)).build();
        let params = json!({ "name": "t", "arguments": arguments });
        crate::Service::call(&server, crate::Call::new(Method::ToolsCall, params.into(), context))
    };
    let code = |outcome| match outcome {
        crate::Outcome::Failed(error) => error.code,
        crate::Outcome::Complete(_) => 0,
        other => panic!("{other:?}"),
    };
    let (new, old) = (Revision::LATEST, Revision::LATEST_LEGACY);
    assert_eq!(code(call(new, Some("Hello"), json!({ "value": "Hello" })).await), 0);
    assert_eq!(code(call(new, Some("=?base64?SGVsbG8=?="), json!({ "value": "Hello" })).await), 0);
    assert_eq!(code(call(new, None, json!({})).await), 0);
    assert_eq!(code(call(new, None, json!({ "value": "Hello" })).await), -32020);
    assert_eq!(code(call(new, Some("Other"), json!({ "value": "Hello" })).await), -32020);
    assert_eq!(code(call(old, None, json!({ "value": "Hello" })).await), 0);
    let schema =
        json!({ "type": "object", "properties": { "n": { "type": "number", "x-mcp-header": "N" } } });
    let said = refusal(file!(), || {
        Server::new("x", "1").tool(Tool::new("t").input_schema(schema), |_: RawJson| async { "ok" })
    });
    assert!(said.contains("x-mcp-header"), "{said}");
}
