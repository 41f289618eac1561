use hospes::prelude::*;

async fn plan(ctx: &Context) -> Result<String> {
    let (city, day) = ctx.ask((ctx.elicit::<String>("Which city?"), "Which day?")).await?;
    let _ = ctx.sample(42).await?;
    Ok(city)
}

fn main() {}
