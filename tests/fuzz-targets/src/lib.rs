//! Fuzz targets. Each is a function of bytes that panics when a promise is broken.
//!
//! `fuzz/` hands them to libFuzzer; the tests here run the same functions over the kept corpus and a few thousand
//! mutations of it, so that every target is alive on every run of the tests.

mod auth;
mod bundles;
mod decoders;
mod http_rules;
mod peers;
mod values;

/// One target.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FuzzTarget {
    /// Its name; the folder of its corpus.
    pub name: &'static str,
    /// Panics when a promise is broken.
    pub run: fn(&[u8]),
    /// Number of mutations that the tests run.
    pub rounds: usize,
}

/// Every target.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "envelope", run: decoders::envelope, rounds: 20_000 },
    FuzzTarget { name: "lines", run: decoders::lines, rounds: 10_000 },
    FuzzTarget { name: "events", run: decoders::events, rounds: 10_000 },
    FuzzTarget { name: "http_head", run: http_rules::head, rounds: 10_000 },
    FuzzTarget { name: "mirrored_headers", run: http_rules::mirrored, rounds: 5_000 },
    FuzzTarget { name: "sealed_state", run: values::sealed_state, rounds: 1_000 },
    FuzzTarget { name: "answers", run: values::answers, rounds: 3_000 },
    FuzzTarget { name: "notifications", run: values::notifications, rounds: 5_000 },
    FuzzTarget { name: "uri_template", run: values::uri_template, rounds: 10_000 },
    FuzzTarget { name: "config", run: values::config, rounds: 5_000 },
    FuzzTarget { name: "sessions", run: peers::sessions, rounds: 500 },
    FuzzTarget { name: "service", run: peers::service, rounds: 2_000 },
    FuzzTarget { name: "server", run: peers::server, rounds: 1_000 },
    FuzzTarget { name: "client", run: peers::client, rounds: 300 },
    FuzzTarget { name: "challenges", run: auth::challenges, rounds: 20_000 },
    FuzzTarget { name: "sign_in", run: auth::sign_in, rounds: 5_000 },
    FuzzTarget { name: "bundle_manifest", run: bundles::manifest, rounds: 5_000 },
    FuzzTarget { name: "bundle_archive", run: bundles::archive, rounds: 3_000 },
    FuzzTarget { name: "bundle_signature", run: bundles::signature, rounds: 2_000 },
    FuzzTarget { name: "http_server", run: peers::http_server, rounds: 1_000 },
];

/// Runs the target of this name.
///
/// # Panics
/// When there is no target of this name, or a promise is broken.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target is called {name}")).run)(data);
}

/// The text in front of the first byte of 0xff, and what is behind it.
fn split_at_marker(data: &[u8]) -> (&[u8], &[u8]) {
    let at = data.iter().position(|byte| *byte == 0xff).unwrap_or(data.len());
    (&data[..at], data.get(at + 1..).unwrap_or_default())
}
