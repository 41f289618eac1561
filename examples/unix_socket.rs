//! A server and a client over a Unix-domain socket.
//!
//! `unix_socket serve PATH` serves a calculator; `unix_socket add PATH A B` uses it.

#[cfg(unix)]
#[tokio::main]
async fn main() -> hospes::Result<()> {
    use hospes::prelude::*;
    use hospes_examples::unix::{SocketListener, connect};

    /// What is added.
    #[derive(Deserialize, JsonSchema)]
    struct Add {
        a: f64,
        b: f64,
    }

    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", path] => {
            let calc = Server::new("calc", "1.0").tool("add", |Args(Add { a, b })| async move { a + b });
            let listener = SocketListener::bind(path)?;
            tokio::select! {
                served = listener.serve(calc) => Ok(served?),
                () = hospes::transport::shutdown_signal()? => Ok(()),
            }
        }
        ["add", path, a, b] => {
            let client = connect(path.as_ref(), Client::builder()).await?;
            let (a, b): (f64, f64) = (a.parse()?, b.parse()?);
            hospes_examples::say(&client.call("add", json!({ "a": a, "b": b })).await?.all_text());
            client.close().await;
            Ok(())
        }
        _ => Err(Error::msg("usage: unix_socket serve PATH | unix_socket add PATH A B")),
    }
}

#[cfg(not(unix))]
fn main() {}
