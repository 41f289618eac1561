//! `hospes::serve`: the one line of a server's `main`.

use std::ffi::OsString;

use crate::error::{Error, Result};
use crate::service::{IntoService, Service};

/// The environment variable that asks for HTTP and says where, as the flag `--http` does.
pub const HTTP_VARIABLE: &str = "HOSPES_HTTP";
/// The environment variable with the names, separated by commas, by which the server may be called over HTTP besides
/// the loopback ones: the setting `allowed_hosts`.
pub const ALLOWED_HOSTS_VARIABLE: &str = "HOSPES_ALLOWED_HOSTS";

/// Serves over stdio; or over HTTP where the program was started with `--http ADDR`, or with `HOSPES_HTTP=ADDR` in
/// its environment. `ADDR` is `HOST:PORT`, `:PORT` or `PORT`; without a host only this machine is served.
///
/// ```no_run
/// # async fn example(server: impl hospes::Service) -> hospes::Result<()> {
/// hospes::serve(server).await
/// # }
/// ```
///
/// It ends when the client does (stdio) or when a signal asks for it; what was accepted is answered first. A second
/// signal ends it at once, and a handler that does not give back its thread does not hold it: see
/// [`StdioServer::serve`](crate::transport::stdio_server::StdioServer::serve).
///
/// # Errors
/// Fails if the address is invalid or taken, or if the process has no usable stdin and stdout.
pub async fn serve(service: impl IntoService) -> Result<()> {
    let service = service.into_service();
    match http_address(std::env::args_os().skip(1), std::env::var_os(HTTP_VARIABLE))? {
        Some(address) => over_http(service, &address).await,
        None => over_stdio(service).await,
    }
}

#[cfg(feature = "stdio")]
async fn over_stdio(service: impl Service) -> Result<()> {
    use std::io::IsTerminal as _;

    // Started by hand it would say nothing for good.
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        eprintln!(
            "serving MCP over stdin and stdout; use `--http 8080` to serve over HTTP, or press Ctrl-D to exit"
        );
    }
    Ok(crate::transport::stdio_server::StdioServer::new(service).serve().await?)
}

#[cfg(not(feature = "stdio"))]
async fn over_stdio(_: impl Service) -> Result<()> {
    std::future::ready(Err(Error::msg("built without the feature `stdio`: start with --http ADDR"))).await
}

#[cfg(feature = "http")]
async fn over_http(service: impl Service, address: &str) -> Result<()> {
    use crate::transport::http_server::{Endpoint, HttpServer};

    let mut endpoint = Endpoint::builder(service);
    for host in allowed_hosts(&std::env::var(ALLOWED_HOSTS_VARIABLE).unwrap_or_default())? {
        endpoint = endpoint.allow_host(host);
    }
    let server = HttpServer::bind(address, endpoint.build()).await.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "; it is in use: choose another port, or 0 for any free port",
            _ => "",
        };
        Error::msg(format!("cannot listen on {address}: {error}{hint}"))
    })?;
    eprintln!("listening on {}", server.url());
    server.serve_until_signal().await?;
    Ok(())
}

#[cfg(not(feature = "http"))]
async fn over_http(_: impl Service, address: &str) -> Result<()> {
    let why = format!("built without the feature `http`, which --http {address} needs");
    std::future::ready(Err(Error::msg(why))).await
}

/// Splits a list of names. Fails with the first entry that cannot be a host name: it would never match, without any
/// notice.
#[cfg(feature = "http")]
fn allowed_hosts(list: &str) -> Result<Vec<&str>> {
    use crate::transport::http_server::AllowedHosts;

    let names: Vec<&str> = list.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
    match names.iter().find(|host| !AllowedHosts::is_valid_form(host)) {
        None => Ok(names),
        Some(wrong) => Err(Error::msg(format!(
            "{ALLOWED_HOSTS_VARIABLE}: {wrong:?} is not a valid host: write mcp.example.org, or with a port \
             mcp.example.org:8443"
        ))),
    }
}

/// The address asked for; the flag goes before the environment.
fn http_address(
    mut arguments: impl Iterator<Item = OsString>,
    variable: Option<OsString>,
) -> Result<Option<String>> {
    let mut asked = variable.filter(|address| !address.is_empty());
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        if text == "--http" {
            let address = arguments.next();
            asked = Some(
                address.ok_or_else(|| Error::msg("--http needs an address, as in --http 127.0.0.1:8000"))?,
            );
        } else if let Some(address) = text.strip_prefix("--http=") {
            asked = Some(address.into());
        }
    }
    let Some(asked) = asked else { return Ok(None) };
    let asked = asked.to_string_lossy();
    let port = asked.strip_prefix(':').unwrap_or(&asked);
    Ok(Some(match port.parse::<u16>() {
        // HTTP-06: without a host only this machine is served.
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) if asked.contains(':') => asked.into_owned(),
        Err(_) => {
            return Err(Error::msg(format!(
                "{asked:?} is not a valid address: write HOST:PORT, as in 127.0.0.1:8000"
            )));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str], variable: Option<&str>) -> Result<Option<String>, String> {
        let arguments = arguments.iter().map(OsString::from);
        http_address(arguments, variable.map(OsString::from)).map_err(|error| error.to_string())
    }

    #[cfg(feature = "http")]
    #[test]
    fn names_that_could_never_match_are_refused() {
        assert_eq!(allowed_hosts(" x.org, y:80 ,,*").unwrap(), ["x.org", "y:80", "*"]);
        assert!(allowed_hosts("").unwrap().is_empty());
        for wrong in ["http://x.org", "x.org/mcp", "a b"] {
            let why = allowed_hosts(wrong).unwrap_err().to_string();
            assert!(why.starts_with("HOSPES_ALLOWED_HOSTS: ") && why.contains(wrong), "{why}");
        }
    }

    #[test]
    fn http_is_asked_for_by_flag_or_variable() {
        assert_eq!(asked(&[], None), Ok(None));
        assert_eq!(asked(&["--verbose"], Some("")), Ok(None));
        assert_eq!(asked(&["--http", "0.0.0.0:80"], Some("1")), Ok(Some("0.0.0.0:80".into())));
        assert_eq!(asked(&["x", "--http=:0"], None), Ok(Some("127.0.0.1:0".into())));
        assert_eq!(asked(&[], Some("8000")), Ok(Some("127.0.0.1:8000".into())));
        assert_eq!(asked(&["--http", "[::1]:7"], None), Ok(Some("[::1]:7".into())));
        assert!(asked(&["--http"], None).unwrap_err().contains("needs an address"));
        assert!(asked(&["--http", "here"], None).unwrap_err().contains("\"here\" is not a valid address"));
    }
}
