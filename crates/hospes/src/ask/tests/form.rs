use std::collections::HashSet;

use hospes_model::{ElicitParams, InputRequest};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{accept, asked, block_on, first, form, next};
use crate::ask::AskError;
use crate::{Context, PendingInput};

#[derive(Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
pub(super) enum Seat {
    /// By the window
    Window,
    /// By the aisle
    Aisle,
}

#[derive(Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Meal {
    Meat,
    Fish,
    None,
}

fn one() -> u8 {
    1
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Booking {
    /// As in the passport.
    #[schemars(length(min = 1, max = 80))]
    name: String,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9))]
    seats: u8,
    place: Seat,
    meals: HashSet<Meal>,
    mail: Option<String>,
    insured: bool,
    weight: Option<f64>,
    meal: Option<Meal>,
}

/// covers: ELIC-04 ELIC-17
#[test]
fn a_struct_becomes_a_flat_form() {
    let context = first();
    let error = block_on(async { context.elicit::<Booking>("Details?").await }).unwrap_err();
    assert!(error.is_pending());
    let asked = asked(&context);
    assert_eq!(asked[0].0, "q1");
    assert_eq!(asked[0].1["method"], "elicitation/create");
    assert_eq!(asked[0].1["params"]["message"], "Details?");
    let properties = &asked[0].1["params"]["requestedSchema"]["properties"];
    assert_eq!(
        properties["name"],
        json!({ "type": "string", "description": "As in the passport.", "minLength": 1, "maxLength": 80 })
    );
    assert_eq!(properties["seats"], json!({ "type": "integer", "minimum": 1, "maximum": 9, "default": 1 }));
    assert_eq!(
        properties["place"],
        json!({ "type": "string", "oneOf": [
            { "const": "Window", "title": "By the window" }, { "const": "Aisle", "title": "By the aisle" },
        ] })
    );
    assert_eq!(
        properties["meals"],
        json!({ "type": "array", "items": { "type": "string", "enum": ["meat", "fish", "none"] } })
    );
    assert_eq!(properties["mail"], json!({ "type": "string" }));
    assert_eq!(properties["insured"], json!({ "type": "boolean" }));
    assert_eq!(properties["weight"], json!({ "type": "number" }));
    assert_eq!(properties["meal"], json!({ "type": "string", "enum": ["meat", "fish", "none"] }));
    let required = asked[0].1["params"]["requestedSchema"]["required"].as_array().unwrap().clone();
    let required: HashSet<_> = required.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(required, HashSet::from(["name", "place", "meals", "insured"]));
}

#[test]
fn the_fields_stand_in_the_order_written() {
    let context = first();
    block_on(async { context.elicit::<Booking>("Details?").await }).unwrap_err();
    let PendingInput { requests, .. } = context.take_questions().unwrap();
    let InputRequest::Elicit(params) = &requests[0].1 else { panic!("not a form") };
    let ElicitParams::Form(form) = &**params else { panic!("not a form") };
    let names: Vec<_> = form.requested_schema.properties.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["name", "seats", "place", "meals", "mail", "insured", "weight", "meal"]);
}

#[test]
fn the_answer_is_there_in_the_second_round() {
    let context = first();
    block_on(async { context.elicit::<Booking>("Details?").await }).unwrap_err();
    let content = json!({
        "name": "Ada", "seats": 2, "place": "Aisle", "meals": ["fish"], "insured": true, "mail": null, "extra": {},
    });
    let context = next(&context, [("q1", accept(content))]);
    let booking = block_on(async { context.elicit::<Booking>("Details?").await }).unwrap();
    assert_eq!(booking.seats, 2);
    assert_eq!(booking.meals, HashSet::from([Meal::Fish]));
    assert_eq!(booking.mail, None);
    assert!(context.take_questions().is_none());
}

/// A value that is no struct is asked for in a form of one field.
#[test]
fn single_values_are_wrapped_and_unwrapped() {
    async fn ask<T: serde::de::DeserializeOwned + JsonSchema>(context: &Context) -> Result<T, AskError> {
        context.elicit::<T>("?").await
    }
    fn round_trip<T: serde::de::DeserializeOwned + JsonSchema + std::fmt::Debug>(
        field: Value,
        value: Value,
    ) -> T {
        let context = first();
        block_on(ask::<T>(&context)).unwrap_err();
        assert_eq!(form(&context)["properties"]["value"], field);
        let context = next(&context, [("q1", accept(json!({ "value": value })))]);
        block_on(ask::<T>(&context)).unwrap()
    }
    assert_eq!(round_trip::<String>(json!({ "type": "string" }), json!("x")), "x");
    assert!(round_trip::<bool>(json!({ "type": "boolean" }), json!(true)));
    let byte = json!({ "type": "integer", "minimum": 0, "maximum": 255 });
    assert_eq!(round_trip::<u8>(byte, json!(7)), 7);
    assert_eq!(round_trip::<f32>(json!({ "type": "number" }), json!(0.5)), 0.5);
    let meal = json!({ "type": "string", "enum": ["meat", "fish", "none"] });
    assert_eq!(round_trip::<Meal>(meal.clone(), json!("fish")), Meal::Fish);
    let meals = json!({ "type": "array", "items": meal });
    assert_eq!(round_trip::<Vec<Meal>>(meals, json!(["fish"])), [Meal::Fish]);
    assert_eq!(round_trip::<Option<i64>>(json!({ "type": "integer" }), Value::Null), None);
}

#[test]
fn a_yes_needs_no_field() {
    let context = first();
    block_on(async { context.elicit::<()>("Go on?").await }).unwrap_err();
    assert_eq!(form(&context), json!({ "type": "object", "properties": {} }));
    let context = next(&context, [("q1", json!({ "action": "accept" }))]);
    block_on(async { context.elicit::<()>("Go on?").await }).unwrap();
}

#[test]
fn the_one_field_can_be_named() {
    let context = first();
    block_on(async { context.elicit::<String>("?").key("user_name").field("name").await }).unwrap_err();
    let asked = asked(&context);
    assert_eq!(asked[0].0, "user_name");
    assert_eq!(asked[0].1["params"]["requestedSchema"]["required"], json!(["name"]));
}

/// covers: ELIC-14 MRTR-15
#[test]
fn an_answer_that_does_not_fit_is_asked_for_again() {
    let good = json!({ "name": "Ada", "seats": 2, "place": "Aisle", "meals": [], "insured": true });
    let with = |field: &str, value: Value| {
        let mut content = good.clone();
        content[field] = value;
        accept(content)
    };
    for (answer, words) in [
        (with("name", json!(12345)), "`name` must be a string"),
        (with("name", json!("")), "`name` must have at least 1 characters"),
        (with("name", Value::Null), "`name` is missing"),
        (with("seats", json!(10)), "`seats` must be at most 9"),
        (with("seats", json!(1.5)), "`seats` must be a whole number"),
        (with("place", json!("Roof")), "`place` must be one of Window, Aisle"),
        (with("meals", json!(["meat", "soup"])), "`meals` must be one of meat, fish, none"),
        (with("meals", json!("meat")), "`meals` must be a list of choices"),
        (with("insured", json!("yes")), "`insured` must be true or false"),
        (json!({ "action": "accept" }), "`name` is missing"),
        (json!({ "action": "accept", "content": [] }), "invalid type"),
    ] {
        let context = next(&first(), [("q1", answer.clone())]);
        let error = block_on(async { context.elicit::<Booking>("Details?").await }).unwrap_err();
        assert!(error.is_pending(), "{answer}: {error}");
        let message = asked(&context)[0].1["params"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("Details?") && message.contains(words), "{answer}: {message}");
        assert!(context.round().answers.is_empty());
    }
    for answer in [json!(null), json!("yes"), json!({ "content": {} }), json!({ "action": 1 })] {
        let context = next(&first(), [("q1", answer.clone())]);
        let error = block_on(async { context.elicit::<Booking>("Details?").await }).unwrap_err();
        assert!(error.is_pending(), "{answer}: {error}");
        assert_eq!(asked(&context)[0].1["params"]["message"], "Details?");
    }
}

#[test]
fn what_no_form_can_show_is_refused_with_the_reason() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Nested {
        inner: Inner,
    }
    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Inner {
        x: Option<Box<Self>>,
    }
    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Data {
        A { x: u8 },
        B(u8),
    }
    fn refused<T: serde::de::DeserializeOwned + JsonSchema + std::fmt::Debug>(words: &str) {
        let context = first();
        let error = block_on(async { context.elicit::<T>("?").await }).unwrap_err();
        assert!(matches!(error, AskError::Form(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(context.take_questions().is_none());
    }
    refused::<Nested>("a form cannot ask for `Nested`: `inner` is a nested object");
    refused::<Inner>("`x` is a nested object");
    refused::<Data>("is a union of types");
    refused::<Vec<String>>("`value` is a list of something other than choices");
    refused::<Value>("`value` has no type");
}

#[test]
fn a_schema_by_hand_is_held_to_the_same_rules() {
    let schema = json!({ "type": "object", "required": ["color"], "properties": {
        "color": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "x-ours": 1 },
        "when": { "type": "string", "format": "date", "pattern": ".*" },
    } });
    let context = first();
    block_on(async { context.elicit::<Value>("?").schema(schema.clone()).await }).unwrap_err();
    assert_eq!(
        form(&context),
        json!({ "type": "object", "required": ["color"], "properties": {
            "color": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] },
            "when": { "type": "string", "format": "date" },
        } })
    );
    let context = next(&context, [("q1", accept(json!({ "color": "r", "when": "2026-11-21" })))]);
    let answer = block_on(async { context.elicit::<Value>("?").schema(schema).await }).unwrap();
    assert_eq!(answer, json!({ "color": "r", "when": "2026-11-21" }));

    let nested = json!({ "type": "object", "properties": { "a": { "type": "object" } } });
    let error = block_on(async { context.elicit::<Value>("?").schema(nested).await }).unwrap_err();
    assert!(error.to_string().contains("`a` is a nested object"), "{error}");
}

#[test]
fn formats_and_open_bounds_are_checked() {
    let schema = json!({ "type": "object", "properties": {
        "mail": { "type": "string", "format": "email" },
        "page": { "type": "string", "format": "uri" },
        "day": { "type": "string", "format": "date" },
        "id": { "type": "string", "format": "uuid" },
        "age": { "type": "integer", "exclusiveMinimum": 17, "exclusiveMaximum": 100 },
    } });
    let ask = |content: Value| {
        let context = next(&first(), [("q1", accept(content))]);
        block_on(async { context.elicit::<Value>("?").schema(schema.clone()).await })
            .map_err(|_| asked(&context)[0].1["params"].clone())
    };
    let fits = json!({ "mail": "a@b", "page": "https://a/", "day": "2026-11-21", "id": "any", "age": 18 });
    assert_eq!(ask(fits.clone()).unwrap(), fits);
    for (field, value, words) in [
        ("mail", json!("a.b"), "an e-mail address"),
        ("page", json!("/a"), "an absolute URI"),
        ("day", json!("21.11.2026"), "a date"),
        ("age", json!(17), "at least 18"),
        ("age", json!(100), "at most 99"),
    ] {
        let mut content = fits.clone();
        content[field] = value;
        let params = ask(content).unwrap_err();
        assert!(params["message"].as_str().unwrap().contains(words), "{params}");
        let properties = &params["requestedSchema"]["properties"];
        assert_eq!(properties["id"], json!({ "type": "string" }));
        assert_eq!(properties["age"], json!({ "type": "integer", "minimum": 18, "maximum": 99 }));
    }
}
