//! The server that the yardstick measures: fifty tools, over HTTP or stdio.
//!
//! ```text
//! hospes-bench http PORT      serves /mcp on 127.0.0.1; `POST /bench/notify` tells all sessions of a change
//! hospes-bench stdio
//! ```

use std::error::Error;

use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes::transport::stdio_server::StdioServer;
use hospes_bench::tools;

/// One connection for each of ten thousand sessions, and some to spare.
const MAX_CONNECTIONS: usize = 32 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    hospes_bench::raise_descriptor_limit();
    hospes_bench::runtime()?.block_on(async {
        let server = tools::server();
        match words.as_slice() {
            ["http", port] => {
                let handle = server.handle();
                let endpoint =
                    Endpoint::builder(server).max_concurrent_calls(MAX_CONNECTIONS).pages(move |parts| {
                        (parts.uri.path() == "/bench/notify").then(|| {
                            tools::change(&handle);
                            http::Response::new("ok".into())
                        })
                    });
                let address = ("127.0.0.1", port.parse()?);
                Ok(HttpServer::bind(address, endpoint.build()).await?.serve().await?)
            }
            ["stdio"] => Ok(StdioServer::new(server).serve().await?),
            _ => Err("hospes-bench http PORT | stdio".into()),
        }
    })
}
