use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{error, refusal, result};
use crate::server::{Args, Completes, Server, State, Typed};

#[derive(Deserialize, JsonSchema)]
struct Trip {
    city: String,
    street: Option<String>,
}

fn server() -> Server {
    Server::new("trips", "1")
        .state(vec!["Oslo".to_owned(), "Bergen".to_owned()])
        .prompt("plan", |Args(Trip { city, street })| async move { format!("{city} {street:?}") })
        .resource_template("trips://{city}/{street}", |Args(Trip { city, .. })| async move { city })
        .complete(Completes::prompt("plan", "city"), ["Oslo", "Bergen", "Solothurn", "Moscow"])
        .complete(
            Completes::prompt("plan", "street"),
            |Typed(typed): Typed, Args(settled): Args<Settled>| async move {
                vec![format!("{typed} street in {}", settled.city.unwrap_or_default())]
            },
        )
        .complete(
            Completes::template("trips://{city}/{street}", "city"),
            |Typed(typed), State(all): State<Vec<String>>| async move {
                all.iter().filter(|city| city.starts_with(&typed)).cloned().collect::<Vec<_>>()
            },
        )
}

#[derive(Deserialize, JsonSchema)]
struct Settled {
    city: Option<String>,
}

fn prompt(name: &str, argument: &str, value: &str) -> Value {
    json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": argument, "value": value } })
}

/// covers: COMP-02 COMP-04 COMP-05
#[tokio::test]
async fn a_list_offers_what_fits_the_likeliest_first() {
    let complete = async |typed: &str| {
        result(&server(), "completion/complete", prompt("plan", "city", typed)).await["completion"].clone()
    };
    let found = complete("so").await;
    assert_eq!(found, json!({ "values": ["Solothurn", "Oslo", "Moscow"], "total": 3, "hasMore": false }));
    assert_eq!(complete("").await["values"].as_array().unwrap().len(), 4);
    assert_eq!(complete("x").await["values"], json!([]));
}

/// covers: COMP-02
#[tokio::test]
async fn a_function_completes_with_what_is_settled() {
    let mut params = prompt("plan", "street", "Main");
    params["context"] = json!({ "arguments": { "city": "Oslo" } });
    let found = result(&server(), "completion/complete", params).await;
    assert_eq!(found["completion"]["values"], json!(["Main street in Oslo"]));
    let params = json!({ "ref": { "type": "ref/resource", "uri": "trips://{city}/{street}" },
        "argument": { "name": "city", "value": "B" } });
    let found = result(&server(), "completion/complete", params).await;
    assert_eq!(found["completion"]["values"], json!(["Bergen"]));
}

/// covers: COMP-03
#[tokio::test]
async fn at_most_a_hundred_values_are_sent() {
    let values: Vec<String> = (0..250).map(|n| format!("v{n}")).collect();
    let server = server().prompt("many", |Args(trip): Args<Trip>| async move { trip.city }).complete(
        Completes::prompt("many", "city"),
        move || {
            let values = values.clone();
            async move { values }
        },
    );
    let found = result(&server, "completion/complete", prompt("many", "city", "")).await;
    assert_eq!(found["completion"]["values"].as_array().unwrap().len(), 100);
    assert_eq!((&found["completion"]["total"], &found["completion"]["hasMore"]), (&json!(250), &json!(true)));
}

/// covers: COMP-07 COMP-11 COMP-15
#[tokio::test]
async fn what_cannot_be_completed_is_refused() {
    let server = server();
    for params in [
        prompt("paln", "city", ""),
        prompt("plan", "town", ""),
        json!({ "ref": { "type": "ref/prompt", "name": "plan" } }),
        json!({ "ref": { "type": "ref/thing", "name": "plan" }, "argument": { "name": "city", "value": "" } }),
        json!({ "ref": { "type": "ref/resource", "uri": "x://y" }, "argument": { "name": "city", "value": "" } }),
    ] {
        assert_eq!(error(&server, "completion/complete", params.clone()).await.code, -32602, "{params}");
    }
    // Known, but nobody knows values for it.
    let params = json!({ "ref": { "type": "ref/resource", "uri": "trips://{city}/{street}" },
        "argument": { "name": "street", "value": "M" } });
    assert_eq!(result(&server, "completion/complete", params).await["completion"]["values"], json!([]));
}

#[test]
fn mistakes_of_the_program_panic_at_its_line() {
    let said = refusal(file!(), || server().complete(Completes::prompt("plan", "town"), ["x"]));
    assert_eq!(said, "\"plan\" has no argument \"town\" to complete");
    let said = refusal(file!(), || server().complete(Completes::prompt("plan", "city"), ["x"]));
    assert_eq!(said, "duplicate completion \"city of plan\"");
}
