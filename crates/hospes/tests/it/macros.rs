//! `#[hospes::server]`: what it makes of an `impl` block is what a person would write with the builder.
#![expect(clippy::unused_async, reason = "methods are async where a real server's would be")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hospes::model::{
    ClientCapabilities, ElicitationCapability, Method, Reply, Revision, SamplingCapability, ServerStamp,
};
use hospes::prelude::*;
use hospes::{IntoServer, Peer, Round, Server};
use serde_json::Value;

#[derive(Debug, Deserialize, JsonSchema)]
struct City(String);

#[derive(Debug, Deserialize, JsonSchema)]
enum Seat {
    Window,
    Aisle,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Train {
    number: u32,
    to: String,
}

struct Greeting(&'static str);

#[derive(Default)]
struct Trips {
    booked: AtomicU64,
}

/// Plans journeys.
///
/// By rail, mostly.
#[hospes::server(name = "trips", version = "2.1", title = "Trips")]
impl Trips {
    /// Trains between two cities on a day.
    #[tool(read_only, open_world = false, title = "Find trains")]
    async fn trains(
        &self,
        /// Where from.
        from: String,
        to: City,
        day: Option<&str>,
        #[arg(default = 3, range(min = 1, max = 9))] most: u32,
    ) -> Result<Json<Vec<Train>>> {
        let day = day.unwrap_or("today");
        let trains = (1..=most).map(|number| Train { number, to: format!("{from} {} {day}", to.0) });
        Ok(Json(trains.collect()))
    }

    /// Books a train after the traveller agrees.
    #[tool(destructive)]
    async fn book(&self, ctx: &Context, train: u32) -> Result<String> {
        let seat: Seat = ctx.elicit("Which seat?").await?;
        let note = ctx.sample("Write a one-line confirmation").max_tokens(60).await?;
        let number =
            ctx.once("booking", || async { Ok::<_, Error>(self.booked.fetch_add(1, Ordering::Relaxed)) });
        Ok(format!("{train} {seat:?} {} {}", number.await?, note.text()))
    }

    #[tool(name = "type.of")]
    fn r#type(&self, r#type: &str, words: &[String]) -> String {
        format!("{} {}", r#type, words.len())
    }

    #[tool]
    fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    #[tool]
    fn greet(&self, greeting: &State<Greeting>, #[arg(name = "fullName")] name: &str) -> String {
        format!("{} {name}", greeting.0.0)
    }

    /// Never there.
    #[cfg(any())]
    #[tool]
    fn absent(&self, x: NoSuchType) -> String {
        x
    }

    /// Today's departures.
    #[resource("trips://{city}/today", mime = "application/json")]
    async fn today(&self, city: City) -> Result<Json<Vec<String>>> {
        Ok(Json(vec![city.0]))
    }

    #[resource("trips://about", name = "About", mime = "text/plain")]
    fn about(&self) -> &'static str {
        "Trips by rail"
    }

    /// What to take along.
    #[prompt(title = "Packing list")]
    fn packing_list(
        &self,
        /// Where to.
        city: &str,
        days: u8,
    ) -> Vec<PromptMessage> {
        vec![PromptMessage::user(format!("Pack for {days} days in {city}"))]
    }

    #[complete(today.city, packing_list.city)]
    fn cities(&self, typed: &str) -> Vec<String> {
        ["Basel", "Bern", "Chur"]
            .iter()
            .filter(|city| city.starts_with(typed))
            .map(|&c| c.to_owned())
            .collect()
    }

    fn helper(&self) -> u64 {
        self.booked.load(Ordering::Relaxed)
    }
}

fn server() -> Server {
    let trips = Trips::default();
    assert_eq!(trips.helper(), 0);
    trips.into_server().state(Greeting("Hello"))
}

fn capabilities() -> ClientCapabilities {
    ClientCapabilities::new()
        .with_elicitation(ElicitationCapability::new())
        .with_sampling(SamplingCapability::new())
}

async fn outcome(server: &Server, method: Method, params: Value, round: Round) -> Outcome {
    let peer = Peer::new(Revision::LATEST, None, capabilities());
    let context = Context::builder(Arc::new(peer)).round(round).build();
    server.call(Call::new(method, params.into(), context)).await
}

async fn result(server: &Server, method: Method, params: Value) -> Value {
    match outcome(server, method.clone(), params, Round::default()).await {
        Outcome::Complete(reply) => json_of(&reply, &method),
        other => panic!("{other:?}"),
    }
}

fn json_of(reply: &Reply, method: &Method) -> Value {
    let mut out = Vec::new();
    let stamp = ServerStamp::new(&RawJson::empty_object());
    reply.encode(method, Revision::LATEST, &stamp, &mut out).expect("every reply here can be written");
    serde_json::from_slice(&out).expect("what was written is JSON")
}

async fn text(server: &Server, tool: &str, arguments: Value) -> String {
    let result = result(server, Method::ToolsCall, json!({ "name": tool, "arguments": arguments })).await;
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn the_block_describes_the_server() {
    let discovered = result(&server(), Method::Discover, json!({})).await;
    assert_eq!(discovered["instructions"], "Plans journeys.\n\nBy rail, mostly.");
    for capability in ["tools", "resources", "prompts", "completions"] {
        assert!(discovered["capabilities"].get(capability).is_some(), "{capability}: {discovered}");
    }
}

#[tokio::test]
async fn methods_become_tools() {
    let listed = result(&server(), Method::ToolsList, json!({})).await;
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["trains", "book", "type.of", "add", "greet"]);
    let trains = &listed["tools"][0];
    assert_eq!(trains["description"], "Trains between two cities on a day.");
    assert_eq!(trains["title"], "Find trains");
    assert_eq!(trains["annotations"], json!({ "readOnlyHint": true, "openWorldHint": false }));
    let schema = &trains["inputSchema"];
    assert_eq!(schema["required"], json!(["from", "to"]));
    assert_eq!(schema["properties"]["from"]["description"], "Where from.");
    assert_eq!(schema["properties"]["most"]["default"], 3);
    assert_eq!(schema["properties"]["most"]["maximum"], 9);
    assert!(trains.get("outputSchema").is_some());
    assert_eq!(listed["tools"][4]["inputSchema"]["required"], json!(["fullName"]));
}

#[tokio::test]
async fn arguments_reach_the_method() {
    let server = server();
    let arguments = json!({ "from": "Bern", "to": "Chur", "most": 1 });
    let trains =
        result(&server, Method::ToolsCall, json!({ "name": "trains", "arguments": arguments })).await;
    let structured = &trains["structuredContent"];
    assert_eq!(*structured, json!([{ "number": 1, "to": "Bern Chur today" }]));
    assert_eq!(text(&server, "type.of", json!({ "type": "x", "words": ["a", "b"] })).await, "x 2");
    assert_eq!(text(&server, "add", json!({ "a": 2, "b": 3 })).await, "5");
    assert_eq!(text(&server, "greet", json!({ "fullName": "Ada" })).await, "Hello Ada");
    let refused =
        result(&server, Method::ToolsCall, json!({ "name": "add", "arguments": { "a": "2" } })).await;
    assert_eq!(refused["isError"], true);
}

#[tokio::test]
async fn a_method_may_ask() {
    let server = server();
    let params = json!({ "name": "book", "arguments": { "train": 599 } });
    let mut round = Round::default();
    for (key, answer) in [
        ("q1", json!({ "action": "accept", "content": { "value": "Aisle" } })),
        ("q2", json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Done." } })),
    ] {
        let Outcome::InputRequired(questions) =
            outcome(&server, Method::ToolsCall, params.clone(), round).await
        else {
            panic!("it asks");
        };
        assert_eq!(questions.requests[0].0, key);
        round = questions.round;
        round.record_answers([(key.to_owned(), RawJson::from(answer))]);
    }
    let done = outcome(&server, Method::ToolsCall, params, round).await;
    let Outcome::Complete(reply) = done else { panic!("{done:?}") };
    assert_eq!(json_of(&reply, &Method::ToolsCall)["content"][0]["text"], "599 Aisle 0 Done.");
}

#[tokio::test]
async fn methods_become_resources() {
    let server = server();
    let listed = result(&server, Method::ResourcesList, json!({})).await;
    assert_eq!(listed["resources"][0]["uri"], "trips://about");
    assert_eq!(listed["resources"][0]["name"], "About");
    let listed = result(&server, Method::ResourceTemplatesList, json!({})).await;
    let template = &listed["resourceTemplates"][0];
    assert_eq!(template["uriTemplate"], "trips://{city}/today");
    assert_eq!(template["description"], "Today's departures.");
    assert_eq!(template["mimeType"], "application/json");
    let read = result(&server, Method::ResourcesRead, json!({ "uri": "trips://Bern/today" })).await;
    assert_eq!(read["contents"][0]["text"], "[\"Bern\"]");
    assert_eq!(read["contents"][0]["mimeType"], "application/json");
    let read = result(&server, Method::ResourcesRead, json!({ "uri": "trips://about" })).await;
    assert_eq!(read["contents"][0]["text"], "Trips by rail");
}

#[tokio::test]
async fn methods_become_prompts_and_completions() {
    let server = server();
    let listed = result(&server, Method::PromptsList, json!({})).await;
    let prompt = &listed["prompts"][0];
    assert_eq!(prompt["name"], "packing_list");
    assert_eq!(prompt["title"], "Packing list");
    assert_eq!(prompt["description"], "What to take along.");
    assert_eq!(
        prompt["arguments"],
        json!([
            { "name": "city", "description": "Where to.", "required": true },
            { "name": "days", "required": true },
        ])
    );
    let params = json!({ "name": "packing_list", "arguments": { "city": "Bern", "days": "3" } });
    let got = result(&server, Method::PromptsGet, params).await;
    assert_eq!(got["messages"][0]["content"]["text"], "Pack for 3 days in Bern");
    for reference in [
        json!({ "type": "ref/prompt", "name": "packing_list" }),
        json!({ "type": "ref/resource", "uri": "trips://{city}/today" }),
    ] {
        let params = json!({ "ref": reference, "argument": { "name": "city", "value": "B" } });
        let completed = result(&server, Method::Complete, params).await;
        assert_eq!(completed["completion"]["values"], json!(["Basel", "Bern"]));
    }
}

/// Names that are keywords, and types that are called like what the macro writes.
#[tokio::test]
#[expect(clippy::needless_pass_by_value, reason = "arguments come by value")]
async fn no_name_of_yours_is_in_the_way() {
    #[derive(Deserialize, JsonSchema)]
    struct Arguments {
        a: i64,
    }

    struct Odd;

    #[hospes::server]
    impl Odd {
        #[tool]
        fn take(arguments: Arguments) -> i64 {
            arguments.a
        }

        #[prompt]
        fn r#use(r#type: &str) -> String {
            r#type.to_owned()
        }

        #[complete(r#use.r#type)]
        fn types(typed: &str) -> Vec<String> {
            vec![format!("{typed}s")]
        }
    }

    let server = Odd.into_server();
    let params = json!({ "name": "take", "arguments": { "arguments": { "a": 3 } } });
    let taken = result(&server, Method::ToolsCall, params).await;
    assert_eq!(taken["content"][0]["text"], "3", "{taken}");
    let argument = json!({ "name": "type", "value": "tool" });
    let params = json!({ "ref": { "type": "ref/prompt", "name": "use" }, "argument": argument });
    let completed = result(&server, Method::Complete, params).await;
    assert_eq!(completed["completion"]["values"], json!(["tools"]));
}

/// The same server twice: what the macro writes is what the builder's calls make.
#[tokio::test]
async fn the_builder_makes_the_same_server() {
    struct Twice;

    /// Doubles.
    #[hospes::server(name = "twice", version = "1")]
    impl Twice {
        /// Doubles a number.
        #[tool(idempotent, title = "Twice")]
        fn twice(
            &self,
            /// What to double.
            #[arg(range(min = 0), header = "Number")]
            number: i64,
            note: Option<&str>,
        ) -> String {
            format!("{} {}", number * 2, note.unwrap_or_default())
        }

        #[resource("twice://{number}", mime = "text/plain")]
        fn read(number: i64) -> String {
            (number * 2).to_string()
        }

        /// Asks for the double.
        #[prompt]
        fn ask(number: i64) -> String {
            format!("What is twice {number}?")
        }

        #[complete(read.number)]
        fn numbers(typed: &str) -> Vec<String> {
            vec![format!("{typed}0")]
        }
    }

    #[derive(Deserialize, JsonSchema)]
    struct Number {
        /// What to double.
        #[schemars(range(min = 0), extend("x-mcp-header" = "Number"))]
        number: i64,
        note: Option<String>,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Read {
        number: i64,
    }

    let by_macro = Twice.into_server();
    let by_hand =
        Server::new("twice", "1")
            .instructions("Doubles.")
            .tool(
                Tool::new("twice").title("Twice").description("Doubles a number.").idempotent(true),
                |Args(Number { number, note })| async move {
                    format!("{} {}", number * 2, note.unwrap_or_default())
                },
            )
            .resource_template(
                Template::new("twice://{number}").name("read").mime("text/plain"),
                |Args(Read { number })| async move { (number * 2).to_string() },
            )
            .prompt(
                Prompt::new("ask").description("Asks for the double."),
                |Args(Read { number })| async move { format!("What is twice {number}?") },
            )
            .complete(Completes::template("twice://{number}", "number"), |Typed(typed)| async move {
                vec![format!("{typed}0")]
            });
    for (method, params) in [
        (Method::Discover, json!({})),
        (Method::ToolsList, json!({})),
        (Method::ResourceTemplatesList, json!({})),
        (Method::PromptsList, json!({})),
        (Method::ToolsCall, json!({ "name": "twice", "arguments": { "number": 4, "note": "x" } })),
        (Method::ToolsCall, json!({ "name": "twice", "arguments": { "number": -4 } })),
        (Method::ResourcesRead, json!({ "uri": "twice://21" })),
        (Method::PromptsGet, json!({ "name": "ask", "arguments": { "number": "4" } })),
        (
            Method::Complete,
            json!({
                "ref": { "type": "ref/resource", "uri": "twice://{number}" },
                "argument": { "name": "number", "value": "2" },
            }),
        ),
    ] {
        let made = result(&by_macro, method.clone(), params.clone()).await;
        assert_eq!(made, result(&by_hand, method.clone(), params).await, "{method}");
    }
}

trait Api: Send + Sync + 'static {
    fn name(&self) -> String;
}

struct Fixed;

impl Api for Fixed {
    fn name(&self) -> String {
        "fixed".to_owned()
    }
}

struct Over<A>(A);

#[hospes::server]
impl<A: Api> Over<A> {
    #[tool]
    fn name(&self) -> String {
        self.0.name()
    }
}

#[tokio::test]
async fn a_type_may_have_parameters() {
    let server = Over(Fixed).into_server();
    assert_eq!(text(&server, "name", json!({})).await, "fixed");
    assert_eq!(server.info().name, "over");
}
