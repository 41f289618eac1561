//! Servers that want a model's answer, and models that the configuration names.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use serde_json::{Value, json};
use support::{House, Running, text};

const MODEL: &str = "[models.demo]\nprovider = 'scripted'\nreplies = ['forty-two']\n";
const BUDGET: &str = "[sampling.servers.everything]\ntokens = 10_000\n";
const SERVER: &str = "[servers.everything]\nbuiltin = 'everything'\n";
const RULES: &str = "[[rule]]\ndecide = 'allow'\n";

/// Calls a tool whose server requests sampling, from an application without a model, and returns the result.
fn asked(config: &str, rules: &str) -> String {
    let house = House::new();
    let config = text(&house.write("hospes.toml", config));
    let rules = text(&house.write("policy.toml", rules));
    let args = ["stdio", "--config", &config, "--policy", &rules, "--start-wait", "10"];
    let mut host = Running::start(house.command(&args));
    host.initialize(&json!({}));
    let params = json!({ "name": "everything__test_sampling", "arguments": { "prompt": "What is it?" } });
    let answer: Value = host.ask(1, "tools/call", &params);
    answer.to_string()
}

/// The model of the configuration answers where the rules and the budget let it, and nothing is sent where they do not.
#[test]
fn a_model_of_the_configuration_answers_servers() {
    let whole = format!("{MODEL}{BUDGET}{SERVER}");
    let answer = asked(&whole, RULES);
    assert!(answer.contains("LLM response: forty-two"), "{answer}");
    for (config, rules, why) in [
        (format!("{MODEL}{SERVER}"), RULES, "has no budget"),
        (format!("{BUDGET}{SERVER}"), RULES, "sampling"),
        (whole.clone(), "[[rule]]\ndecide = 'allow'\nabout = 'tool'\n", "none is available"),
        (whole, "[[rule]]\ndecide = 'deny'\nabout = 'sampling'\n[[rule]]\ndecide = 'allow'\n", "not allowed"),
    ] {
        let answer = asked(&config, rules);
        assert!(!answer.contains("forty-two") && answer.contains(why), "{why}: {answer}");
    }
}
