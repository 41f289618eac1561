//! The gateway of `hospes up` in front of one server: routing, renaming, supervision, everything at its default.
//!
//! ```text
//! hospes-bench-gateway PORT BACKEND_URL
//! ```
//!
//! The server's name is `b`, so that its tools are shown as `b__echo` and so on. This is a package of its own because
//! the host wants more of the SDK than a server does, and a package is built with one set of features.

use std::error::Error;

use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_host::Host;
use hospes_host::config::Loader;
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, backend] = words.as_slice() else {
        return Err("hospes-bench-gateway PORT BACKEND_URL".into());
    };
    let configuration = json!({ "mcpServers": { "b": { "url": backend } } }).to_string();
    let configuration = Loader::new().parse("bench.json", &configuration)?;
    hospes_bench::raise_descriptor_limit();
    hospes_bench::runtime()?.block_on(async {
        let host = Host::builder(configuration).start()?;
        let endpoint = Endpoint::new(host.gateway());
        Ok(HttpServer::bind(("127.0.0.1", port.parse()?), endpoint).await?.serve().await?)
    })
}
