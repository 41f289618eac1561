//! `hospes approve`: what waits for a person at the host that runs here, decided in the terminal.

mod card;
mod draft;
mod draw;
mod editor;
mod edits;
mod entry;
mod gist;
mod json;
mod reach;
mod rule;
mod screen;
mod script;
mod state;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use card::{Risk, card, title};
pub(crate) use draft::{Draft, original};
pub(crate) use editor::edit;
pub(crate) use gist::gist;
use reach::look;
pub(crate) use state::{ARMING, done, ending};

use crate::args::Approve;
use crate::deciders;
use crate::exit::Outcome;
use crate::output::{Output, is_screen};

pub(crate) async fn run(args: Approve, output: Output) -> Outcome {
    if let Some(name) = &args.make_token {
        return deciders::make(name, args.days, output);
    }
    if args.tokens {
        return deciders::list(output);
    }
    if let Some(name) = &args.end_token {
        return deciders::end(name, output);
    }
    if let Some(decided) = script::Decided::of(&args)? {
        return script::decide(&decided, output).await;
    }
    let (console, _) = reach::find().await?;
    if args.follow {
        return script::follow(&console, output).await;
    }
    if args.list || output.json || !is_screen() {
        return script::list(&console, output).await;
    }
    screen::run(console).await
}
