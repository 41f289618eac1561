//! The command `hospes serve NAME`, which runs one built-in server alone.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;

use hospes::BoxService;
use hospes::transport::http_server::{DEFAULT_PATH, Endpoint, HttpServer};
use hospes::transport::stdio_server::StdioServer;
use hospes_host::config::{AllowedCallers, parse_listen};

use crate::args::ServeArgs;
use crate::builtins;
use crate::callers;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, explain_stdio};
use crate::settings::check_allowed;

pub(crate) async fn run(args: ServeArgs, output: CliOutput) -> CliResult {
    let service = builtins::find_named(&args.server).map_err(|error| {
        CliError::usage(error.to_string())
            .hint(format!("`hospes serve {} --help` shows its arguments", args.server.name))
    })?;
    match &args.http {
        Some(address) => over_http(service, address, &args, output).await,
        None => {
            explain_stdio("`--http 8080` serves over HTTP");
            let served = StdioServer::boxed(service).serve().await;
            served.map_err(|error| CliError::usage("cannot serve over stdin and stdout").with_cause(&error))
        }
    }
}

async fn over_http(service: BoxService, address: &str, args: &ServeArgs, output: CliOutput) -> CliResult {
    let address = listen("--http", address)?;
    let hosts = &args.allow_host;
    check_allowed(hosts, &[])?;
    if !address.ip().is_loopback() && !args.no_auth {
        return Err(CliError::usage(format!("{address} is reachable from other machines, without authentication"))
            .hint(
                "serve it through `hospes up`, which requires tokens, or pass `--no-auth` if something else controls \
                 access",
            ));
    }
    // Some older applications support only HTTP+SSE (2024-11-05).
    let endpoint = Endpoint::builder(service).sse(true);
    let endpoint = hosts.iter().fold(endpoint, |endpoint, host| endpoint.allow_host(host)).build();
    let server =
        HttpServer::bind(address, endpoint).await.map_err(|error| listen_error(address, "--http", &error))?;
    let bound = server.local_addr();
    let said = args.no_auth.then_some(AllowedCallers::Any);
    let server = match callers::caller_check(said, bound, output)? {
        Some(own) => server.middleware(own.front),
        None => {
            output.warn(format_args!("every client that can reach {bound} can use this server"));
            server
        }
    };
    // From the bound address, because a wildcard address is not loopback.
    let url = format!("http://{bound}{DEFAULT_PATH}");
    let mut serving = pin!(server.serve_until_signal());
    let served = tokio::select! {
        // First, so that signals are handled by the time the port is announced.
        biased;
        served = &mut serving => served,
        // Part of the interface, printed even with `--quiet`: the parent process reads the port from it.
        () = async { crate::output::announce(format_args!("listening on {url}")) } => serving.await,
    };
    served.map_err(|error| CliError::usage("cannot serve").with_cause(&error))
}

/// Parses an address to listen on.
pub(crate) fn listen(flag: &str, text: &str) -> CliResult<SocketAddr> {
    parse_listen(text).ok_or_else(|| {
        CliError::usage(format!(
            "{flag}: expected an address and a port such as 127.0.0.1:7337, got `{text}`"
        ))
    })
}

/// Creates the error for an address that cannot be listened on, with a hint.
pub(crate) fn listen_error(address: SocketAddr, flag: &str, error: &std::io::Error) -> CliError {
    let failure = CliError::usage(format!("cannot listen on {address}"));
    match error.kind() {
        ErrorKind::AddrInUse => failure.with_cause(error).hint(format!(
            "port {} is in use, possibly by a running Hospes (`hospes status`). Choose another with \
             `{flag} 127.0.0.1:PORT`, or port 0 for any free port",
            address.port()
        )),
        ErrorKind::PermissionDenied => {
            failure.with_cause(error).hint("ports below 1024 require administrator rights")
        }
        ErrorKind::AddrNotAvailable => failure.with_cause(error).hint("this machine has no such address"),
        _ => failure.with_cause(error),
    }
}
