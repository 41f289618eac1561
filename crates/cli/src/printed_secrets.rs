//! Secrets that this program knows, which are masked in all that it prints and logs.
//!
//! Servers repeat what they were sent: in errors, results and lines on standard error. The texts reach the terminal, the
//! log files and JSON on many ways, so they are masked where they are written, and not where they are made.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hospes_host::config::{HostConfig, SecretValues, ServerTransport};
use parking_lot::RwLock;
use url::Url;

/// Text in place of a secret.
const MASK: &str = "•••";

static SECRETS: LazyLock<RwLock<SecretValues>> = LazyLock::new(RwLock::default);
/// True if the person has asked for secrets.
static IS_REVEALED: AtomicBool = AtomicBool::new(false);

/// Adds the secrets of all servers of a configuration.
pub(crate) fn add_config(config: &HostConfig) {
    let mut secrets = SECRETS.write();
    for server in config.servers.iter().chain(&config.profile_servers) {
        secrets.add_certain(&server.transport);
    }
    for (_, value) in config.telemetry.iter().flat_map(|telemetry| telemetry.headers.iter().flatten()) {
        secrets.add_text(value.reveal());
    }
    if let Some(fleet) = &config.fleet {
        for secret in fleet.secrets.iter().chain([&fleet.postgres, &fleet.redis]) {
            secrets.add_text(secret.reveal());
        }
    }
}

/// Adds a sealed secret.
pub(crate) fn add_value(value: &str) {
    SECRETS.write().add_text(value);
}

/// Adds the secrets of a URL that was typed.
pub(crate) fn add_url(url: &str) {
    if let Ok(url) = Url::parse(url) {
        SECRETS.write().add_certain(&ServerTransport::http(url));
    }
}

/// Adds the value of a header that was typed.
pub(crate) fn add_header(name: &str, value: &str) {
    SECRETS.write().add_header(name, value);
}

/// Adds the value of a variable that was typed.
pub(crate) fn add_variable(name: &str, value: &str) {
    SECRETS.write().add_variable(name, value);
}

/// Prints secrets from now on, because the person has asked for them.
pub(crate) fn reveal() {
    // Relaxed is enough for a flag that guards no other data.
    IS_REVEALED.store(true, Ordering::Relaxed);
}

/// Masks the known secrets in a text.
pub(crate) fn mask(text: &str) -> Cow<'_, str> {
    if IS_REVEALED.load(Ordering::Relaxed) {
        return Cow::Borrowed(text);
    }
    SECRETS.read().replace(text, MASK)
}
