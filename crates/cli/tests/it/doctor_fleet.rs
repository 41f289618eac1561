//! Tests of `hospes doctor`: the engines and nodes of a fleet, with real servers.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use serde_json::Value;

use crate::fleet::{FleetEngines, SECRET};
use crate::support::checks::{assert_found, check, doctor};
use crate::support::{House, eventually};

/// Address at which nothing listens.
const NOWHERE: &str = "127.0.0.1:9";

/// Writes the default configuration of a user, with this fleet.
fn configure(house: &House, postgres: &str, redis: &str, node_address: &str) {
    let text = format!(
        "[fleet]\nsecret = {SECRET:?}\npostgres = {postgres:?}\nredis = {redis:?}\nnode_listen = \"127.0.0.1:0\"\n\
         node_address = {node_address:?}\n[servers.time]\nbuiltin = \"time\"\n"
    );
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", &text);
}

/// Returns what a check says, each time it is in the report.
fn said(report: &Value, code: &str) -> Vec<String> {
    let found = report["checks"].as_array().unwrap().iter().filter(|check| check["code"] == code);
    found.map(|check| check["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn settings_of_engines_that_lose_what_was_acknowledged_are_found() {
    let postgres = PostgresServer::start(PostgresOptions::default());
    let redis = RedisServer::start(RedisOptions::default());
    let house = House::new();
    configure(&house, &postgres.url(), &redis.url(), NOWHERE);
    let (_, well) = doctor(&house, &[]);
    for code in ["F01", "F02", "F03"] {
        assert_eq!(check(&well, "fleet", code)["status"], "ok", "{well:#}");
    }
    let replica = postgres.start_replica(postgres.port());
    eventually("the replica follows", || postgres.query("SELECT count(*) FROM pg_stat_replication") == "1");
    let _: String = redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let (ran, found) = doctor(&house, &[]);
    let mend = "docs/fleet.md";
    assert_found(&found, "fleet", "F01", "warning", "synchronous_standby_names is empty", mend);
    assert_found(&found, "fleet", "F02", "warning", "maxmemory-policy is allkeys-lru", mend);
    assert!(!ran.stdout.contains(SECRET) && !ran.stdout.contains(postgres.password()), "{ran:?}");
    let _done = postgres.query("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'");
    let _done = postgres.query("ALTER SYSTEM SET fsync = 'off'");
    let _done = postgres.query("SELECT pg_reload_conf()");
    eventually("the settings hold", || postgres.query("SHOW fsync") == "off");
    let (_, found) = doctor(&house, &[]);
    assert_eq!(said(&found, "F01").len(), 1, "{found:#}");
    assert_found(&found, "fleet", "F01", "warning", "fsync is off", mend);
    // The replica alone is not what nodes need.
    configure(&house, &replica.url(), &redis.url(), NOWHERE);
    let (_, found) = doctor(&house, &[]);
    assert_found(&found, "fleet", "F01", "fault", "does not allow writes", "start it");
}

#[test]
fn engines_and_nodes_that_cannot_be_reached_are_found() {
    let mut engines = FleetEngines::start();
    let house = House::new();
    configure(&house, &engines.postgres.url(), &engines.redis.url(), NOWHERE);
    let mut host = house.up(&[]);
    host.said(|line| line.contains("event=ready"));
    eventually("the node has its lease", || {
        let (_, found) = doctor(&house, &[]);
        said(&found, "F03").iter().any(|what| what.contains(NOWHERE))
    });
    let (_, found) = doctor(&house, &[]);
    assert_found(&found, "fleet", "F03", "warning", "Connection refused", "node_address");
    host.signal("-TERM");
    host.wait();
    let (_, found) = doctor(&house, &[]);
    assert_eq!(check(&found, "fleet", "F03")["what"], "no node runs", "{found:#}");
    engines.postgres.kill();
    engines.redis.kill();
    let (ran, found) = doctor(&house, &[]);
    assert!(!ran.stderr.contains("shared store"), "the report says it: {ran:?}");
    assert_found(&found, "fleet", "F01", "fault", "PostgreSQL cannot be used", "start it");
    assert_found(&found, "fleet", "F02", "fault", "Redis cannot be used", "start it");
    assert_eq!(check(&found, "fleet", "F03")["status"], "not_reached");
}
