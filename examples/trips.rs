//! A server that asks: the person which seat, and the client's model for a line of text.
//!
//! Handlers work the same for clients of 2024-11-05, of 2026-07-28 and of all revisions in between.

use std::sync::atomic::{AtomicU32, Ordering};

use hospes::prelude::*;

#[derive(Default)]
struct Trips {
    bookings: AtomicU32,
}

/// Where to sit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Seat {
    Window,
    Aisle,
}

/// Books trains. Ask before you book.
#[hospes::server(name = "trips")]
impl Trips {
    /// Books a train after the traveller agrees.
    #[tool(destructive)]
    async fn book(
        &self,
        ctx: &Context,
        /// The train, such as `ICE 599`.
        train: &str,
    ) -> Result<String> {
        // The handler leaves here until there is an answer, and then runs again from the top.
        let seat: Seat = ctx.elicit("Which seat?").await?;
        // What must not run twice is remembered.
        let number = ctx.once("booking", || self.reserve(train, &seat)).await?;
        ctx.elicit::<()>(format!("Pay for booking {number}?")).await?;
        Ok(format!("Booking {number}: {train}, {seat:?}."))
    }

    /// Has the client's model describe a city in one line.
    #[tool(read_only)]
    async fn describe(&self, ctx: &Context, city: &str) -> Result<String> {
        let answer = ctx.sample(format!("Describe {city} in one line.")).max_tokens(60).await?;
        Ok(answer.text())
    }
}

impl Trips {
    /// Books the seat; a real server would call the railway.
    #[expect(clippy::unused_async, reason = "the railway would take its time")]
    async fn reserve(&self, _train: &str, _seat: &Seat) -> Result<u32> {
        Ok(self.bookings.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[tokio::main]
async fn main() -> hospes::Result<()> {
    hospes::serve(Trips::default()).await
}
