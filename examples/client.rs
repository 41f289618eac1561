//! A client: `client TARGET` lists the tools of a server, `client TARGET TOOL ARGUMENTS` calls one.
//!
//! TARGET is a command in quotes, or a URL; ARGUMENTS are a JSON object.

use hospes::prelude::*;

#[tokio::main]
async fn main() -> hospes::Result<()> {
    let mut words = std::env::args().skip(1);
    let target = words.next().ok_or_else(|| Error::msg("usage: client TARGET [TOOL [ARGUMENTS]]"))?;
    let client = Client::connect(target.as_str()).await?;
    match words.next() {
        None => {
            for tool in client.tools().all().await? {
                say(&format!("{}: {}", tool.name, tool.description.unwrap_or_default()));
            }
        }
        Some(tool) => {
            let arguments = RawJson::parse(words.next().unwrap_or_else(|| "{}".to_owned()))?;
            let result = client.call(&tool, arguments).await?;
            say(&result.all_text());
        }
    }
    client.close().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "what the program is for")]
fn say(text: &str) {
    println!("{text}");
}
