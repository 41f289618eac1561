//! Measurement of the database's clock.

use std::time::{Duration, SystemTime};

use deadpool_postgres::{Object, Pool};
use tokio::time::Instant;

use crate::clock::DatabaseClock;

/// Interval of looks at the clock of the database.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);

/// Difference of the clocks from which on it is logged.
const CLOCK_WARNING: Duration = Duration::from_secs(2);

/// Measures the clock of the database again and again.
pub(super) async fn measure_clock(pool: Pool, limit: Duration, clock: DatabaseClock) {
    loop {
        tokio::time::sleep(CLOCK_INTERVAL).await;
        read_clock(&pool, limit, &clock).await;
    }
}

/// Measures the clock of the database once. Without an answer its offset stays.
pub(super) async fn read_clock(pool: &Pool, limit: Duration, clock: &DatabaseClock) {
    let Ok(client) = pool.get().await else { return };
    let now = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS bigint)";
    let (asked, begun) = (SystemTime::now(), Instant::now());
    let answer = tokio::time::timeout(limit, client.query_one(now, &[])).await;
    // The database has looked at its clock at some time in between.
    let half = begun.elapsed() / 2;
    let Ok(Ok(row)) = answer else {
        // A connection without an answer is not used again.
        drop(Object::take(client));
        return;
    };
    let here = (asked + half).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let Ok(there) = row.try_get::<_, i64>(0) else { return };
    let offset = there.saturating_sub(micros(here));
    if clock.measure(offset, micros(half)) && offset.saturating_abs() > micros(CLOCK_WARNING) {
        let milliseconds = offset / 1000;
        tracing::warn!(
            milliseconds,
            "the clock of this machine differs from that of the database, which is used where nodes compare times; \
             synchronize both by NTP"
        );
    }
}
