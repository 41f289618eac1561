//! Settings of a server as texts for a form.

use std::time::Duration;

use hospes_sandbox::{SandboxKind, SandboxNetwork};
use serde_json::{Value, json};

use super::own_text::duration_text;
use super::server_transport::SandboxConfig;

/// Returns a time as it is written in the file, such as `30s`; empty for none.
#[must_use]
pub fn time(time: Option<Duration>) -> String {
    time.map(duration_text).unwrap_or_default()
}

/// Returns a sandbox in the form of a [`SandboxEdit`](super::SandboxEdit), with the names of the variables that it gets.
#[must_use]
pub fn sandbox(sandbox: &SandboxConfig) -> Value {
    let kind = match sandbox.profile.kind {
        SandboxKind::Bubblewrap => "bubblewrap",
        SandboxKind::Landlock => "landlock",
        SandboxKind::Off => "off",
        _ => "auto",
    };
    let files =
        sandbox.profile.files.as_ref().map(|files| json!({ "read": files.read, "write": files.write }));
    json!({
        "kind": kind, "network": sandbox.profile.network == SandboxNetwork::Host, "files": files,
        "environment": sandbox.environment,
    })
}
