//! A server and a client over WebSocket.
//!
//! `websocket serve ADDRESS` serves a calculator; `websocket add ADDRESS A B` uses it. ADDRESS is as in `127.0.0.1:8000`.

use hospes::prelude::*;
use hospes_examples::websocket::{connect, serve};
use tokio::net::TcpListener;

/// What is added.
#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[tokio::main]
async fn main() -> hospes::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address] => {
            let calc = Server::new("calc", "1.0").tool("add", |Args(Add { a, b })| async move { a + b });
            let listener = TcpListener::bind(address).await?;
            eprintln!("listening on {}", listener.local_addr()?);
            tokio::select! {
                served = serve(&listener, calc) => Ok(served?),
                () = hospes::transport::shutdown_signal()? => Ok(()),
            }
        }
        ["add", address, a, b] => {
            let client = connect(address, Client::builder()).await?;
            let (a, b): (f64, f64) = (a.parse()?, b.parse()?);
            hospes_examples::say(&client.call("add", json!({ "a": a, "b": b })).await?.all_text());
            client.close().await;
            Ok(())
        }
        _ => Err(Error::msg("usage: websocket serve ADDRESS | websocket add ADDRESS A B")),
    }
}
