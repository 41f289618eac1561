//! The engine on Redis keeps the contract.

use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

use crate::fixture::{TestFleet, failed_cases};

#[tokio::test]
async fn the_engine_on_redis_keeps_the_contract() {
    let server = RedisServer::start(RedisOptions::default());
    assert_eq!(failed_cases(|| TestFleet::redis(&server, None), |_| true).await, Vec::<&str>::new());
}
