//! Programs by others sign in at our authorization server: OAuth client libraries that know nothing of each other, and the
//! official SDK's own clients.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::application::beside_the_packages;
use super::{CheckList, contains, start};
use crate::tools::{NodeTools, PythonTools};
use crate::{paths, process};

const LIMIT: Duration = Duration::from_secs(120);

/// A host that asks for tokens.
const CONFIG: &str = r#"
[auth]
registration = true
users = { ann = "correct horse" }
store = "judged.db"
[auth.clients.machine]
secret = "s3cret"
[servers.time]
builtin = "time"
"#;

/// Has each judge go through the flow.
pub(super) fn examine(
    node: &NodeTools,
    python: &PythonTools,
    folder: &Path,
    checks: &mut CheckList,
) -> Result<()> {
    let config = folder.join("judged.toml");
    fs::write(&config, CONFIG).context("writing the configuration")?;
    let config = config.to_string_lossy();
    let arguments = ["up", "--config", &*config, "--listen", "127.0.0.1:0", "--console", "off"];
    let server = start(node, folder, "peers judged", &arguments)?;
    for script in ["browser.mjs", "judge-openid-client.mjs", "judge-sdk.mjs"] {
        beside_the_packages(node, script)?;
    }
    let script = |name: &str, arguments: &[&str]| {
        let mut command = node.script(&node.modules.with_file_name(name).to_string_lossy());
        command.arg(&server.url).args(arguments);
        command
    };
    let judged = judge("openid-client", script("judge-openid-client.mjs", &[]), "bound to a key");
    checks.add("openid-client signs in at our authorization server", judged);
    for version in ["1", "2"] {
        let judged = judge(&format!("sdk {version}"), script("judge-sdk.mjs", &[version]), "+09:00");
        checks.add(&format!("the official client {version} signs in at our authorization server"), judged);
    }
    let mut command = python.script(&paths::root().join("tools/peers/judge_authlib.py"));
    command.args([&*server.url, "machine", "s3cret"]).env("AUTHLIB_INSECURE_TRANSPORT", "1");
    let judged = judge("authlib", command, "a client for itself");
    checks.add("authlib signs in at our authorization server", judged);
    checks.stop("judged: stops when asked to", server);
    Ok(())
}

/// Runs a judge and checks its last message.
fn judge(name: &str, command: Command, last: &str) -> Result<String> {
    let done = process::run(command, &format!("judge {name}"), LIMIT)?.success()?;
    contains(&done.stdout, last)
}
