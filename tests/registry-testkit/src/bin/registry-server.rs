//! Serves a registry on loopback until standard input ends, for tests by hand. Prints the variables that select it.

use std::io::{Read as _, Write as _};

use hospes_registry_testkit::RegistryServer;

fn main() -> std::io::Result<()> {
    let server = RegistryServer::start();
    server.publish_clocks(true);
    let folder = std::env::temp_dir().join("hospes-registry-server");
    let mut out = std::io::stdout().lock();
    writeln!(out, "export HOSPES_REGISTRY={}", server.url())?;
    for (name, value) in server.environment(&folder) {
        writeln!(out, "export {name}={value}")?;
    }
    out.flush()?;
    std::io::stdin().lock().read_to_end(&mut Vec::new()).map(drop)
}
