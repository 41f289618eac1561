//! A server in ten lines.
//!
//! `calc` speaks over stdio, `calc --http 127.0.0.1:8000` over HTTP.

struct Calc;

/// Reckons.
#[hospes::server(name = "calc")]
impl Calc {
    /// Adds two numbers.
    #[tool(read_only)]
    fn add(a: f64, b: f64) -> f64 {
        a + b
    }
}

#[tokio::main]
async fn main() -> hospes::Result<()> {
    hospes::serve(Calc).await
}
