//! Serves a built-in server by its name: `serve everything`, `serve time --http 127.0.0.1:8000`.

use hospes::prelude::*;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--http") {
        // For `hospes::serve`, which looks for itself.
        arguments.drain(at..(at + 2).min(arguments.len()));
    }
    let known = || {
        let names: Vec<_> = hospes_servers::BUILTINS.iter().map(|builtin| builtin.name).collect();
        Error::msg(format!("say which server: {}", names.join(", ")))
    };
    let name = arguments.first().and_then(|name| name.to_str()).ok_or_else(known)?;
    let builtin = hospes_servers::builtin(name).ok_or_else(known)?;
    hospes::serve(builtin.server(&arguments[1..])?).await
}
