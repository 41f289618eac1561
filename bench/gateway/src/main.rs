//! The smallest gateway there can be: a connected client is a service, so it can be served.
//!
//! ```text
//! hospes-bench-gateway PORT BACKEND_URL
//! ```

use std::error::Error;

use hospes::client::Client;
use hospes::transport::http_server::{Endpoint, HttpServer};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, backend] = words.as_slice() else {
        return Err("hospes-bench-gateway PORT BACKEND_URL".into());
    };
    hospes_bench::raise_descriptor_limit();
    hospes_bench::runtime()?.block_on(async {
        let client = Client::connect(backend.as_str()).await?;
        let address = ("127.0.0.1", port.parse()?);
        Ok(HttpServer::bind(address, Endpoint::new(client)).await?.serve().await?)
    })
}
