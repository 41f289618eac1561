//! Metrics that a node has besides those of every host.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fleet::{FleetEngines, NodeEndpoint};
use crate::support::{House, eventually};

/// Highest lag of a node whose database answers, in seconds: above the interval of shipping.
const USUAL_LAG: f64 = 3.0;

fn scrape(listener: &NodeEndpoint) -> String {
    let response = listener.send("GET /metrics", &[], &Value::Null);
    response.says("# TYPE");
    response.body
}

/// Returns the sum of the samples of a name with these labels; `None` without any.
fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let has = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
    let values =
        text.lines().filter(has).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    values.reduce(|sum, value| sum + value)
}

/// Returns the metrics in the tables of a page, with their types.
fn documented(page: &str) -> BTreeMap<String, String> {
    let rows = page.lines().filter(|line| line.starts_with("| `hospes_") || line.starts_with("| `mcp_"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        (cells.next().unwrap(), cells.next().unwrap())
    })
    .collect()
}

#[test]
fn a_node_measures_its_database_and_what_is_not_shipped() {
    let mut engines = FleetEngines::start();
    let house = House::new();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let settings = house.write("metrics.toml", &format!("[metrics]\nlisten = \"{address}\"\n"));
    let listener = NodeEndpoint { address };
    let node = engines
        .node_in(house, &["--console", "off", "--preset", "off", "--config", settings.to_str().unwrap()]);
    let session = node.initialize();
    node.call(&session, "one__quick").says("was called");
    eventually("the entries are shipped", || {
        let text = scrape(&listener);
        let lag = value(&text, "hospes_audit_lag_seconds ", &[]).unwrap();
        let shipped = value(&text, "hospes_engine_seconds_count", &["engine=\"postgres\"", "op=\"change\""]);
        lag < USUAL_LAG && shipped.is_some_and(|count| count >= 2.0)
    });
    let text = scrape(&listener);
    for (name, labels) in [
        ("hospes_engine_seconds_count", &["engine=\"postgres\"", "pool=\"state\"", "op=\"read\""][..]),
        ("hospes_engine_seconds_count", &["engine=\"redis\"", "op=\"reserve\""]),
        ("hospes_pool_connections", &["pool=\"state\""]),
        ("hospes_pool_waiting", &["pool=\"state\""]),
        ("hospes_clock_offset_seconds", &["pool=\"state\""]),
    ] {
        assert!(value(&text, name, labels).is_some(), "{name} {labels:?} is missing in\n{text}");
    }
    assert_eq!(text.matches("# TYPE hospes_engine_seconds ").count(), 1, "one metric of two engines\n{text}");
    let errors = |text: &str| value(text, "hospes_engine_errors_total", &["engine=\"postgres\""]).unwrap();
    let before = errors(&text);
    let printed = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let printed: BTreeMap<String, String> =
        printed.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
    let of_nodes = documented(include_str!("../../../../docs/fleet.md"));
    let of_hosts = documented(include_str!("../../../../docs/operations.md"));
    assert!(of_nodes.iter().all(|(name, kind)| printed.get(name) == Some(kind)), "{of_nodes:?}\n{text}");
    for (name, kind) in &printed {
        let known = of_nodes.get(name).or_else(|| of_hosts.get(name));
        assert_eq!(known, Some(kind), "{name} is not documented");
    }
    // Entries that cannot be shipped are seen before they are missed.
    engines.postgres.kill();
    node.call(&session, "one__quick").says("was called");
    eventually("the lag rises", || {
        let text = scrape(&listener);
        value(&text, "hospes_audit_lag_seconds ", &[]).unwrap() > USUAL_LAG && errors(&text) > before
    });
    engines.postgres.restart();
    eventually("the lag ends", || {
        value(&scrape(&listener), "hospes_audit_lag_seconds ", &[]).unwrap() < USUAL_LAG
    });
}
