use hospes::prelude::*;

struct Trips;

#[hospes::server]
impl Trips {
    #[tool]
    fn generic<T: Deserialize<'static>>(&self, x: T) -> String {
        drop(x);
        String::new()
    }

    #[tool]
    fn pattern(&self, (a, b): (u8, u8)) -> u8 {
        a + b
    }

    #[tool]
    fn hidden(&self, x: impl Into<String>) -> String {
        x.into()
    }

    #[tool]
    fn changed(&self, x: &mut String) -> String {
        x.clone()
    }

    #[tool]
    fn own(&self, other: Option<Self>) -> bool {
        other.is_some()
    }

    #[tool]
    fn described(&self, #[arg(description = "the call")] ctx: &Context) -> bool {
        ctx.progress_token().is_some()
    }

    fn plain(&self, #[arg(default)] x: u8) -> u8 {
        x
    }
}

fn main() {}
