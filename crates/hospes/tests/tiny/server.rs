//! A tiny server, for the tests of real processes.

use std::time::Duration;

use hospes::server::{Args, Server};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    millis: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> hospes::Result<()> {
    let server = Server::new("tiny", "1.0")
        .tool("echo", |Args(Echo { text })| async move { text })
        .tool("sleep", |Args(Sleep { millis })| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            "slept"
        })
        .tool("noise", || async { noise() });
    hospes::serve(server).await
}

/// What a careless library does: it must not reach the wire.
#[expect(clippy::print_stdout, reason = "that is the point")]
fn noise() -> hospes::Result<String> {
    println!("this is noise on stdout");
    let mut line = String::new();
    let bytes = std::io::stdin().read_line(&mut line)?;
    Ok(format!("read {bytes} bytes of somebody else's"))
}
