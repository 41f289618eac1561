//! `hospes stdio`: the whole host over stdin and stdout.

use hospes::transport::stdio_server::StdioServer;

use crate::args::Stdio;
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::settings::{defaults, host, load};

pub(crate) async fn run(args: Stdio) -> Outcome {
    // Standard output belongs to the protocol.
    let output = Output { json: false, quiet: false };
    let mut loaded = load(&args.host.files)?;
    if loaded.files.is_empty() {
        tracing::info!("no configuration: the built-in servers are started");
        loaded.config.servers = defaults();
    }
    let host = host(&args.host, loaded.config, output)?.start();
    let host = host.map_err(|error| Failure::usage("cannot start").because(&error))?;
    super::up::require(&host).await?;
    let served = StdioServer::new(host.gateway()).serve().await;
    host.stop().await;
    served.map_err(|error| Failure::usage("cannot serve over stdin and stdout").because(&error))
}
