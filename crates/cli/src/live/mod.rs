//! The live screen of `hospes up`: what waits, the servers and the calls, while the host works.
//!
//! [`data`] gathers the state of the host, [`state`] knows the meaning of keys, [`draw`] draws both. The latter two have
//! no terminal, clock or host. [`screen`] connects them: a thread draws and reads keys, and a task acts on what the
//! person asks for.

mod cells;
mod data;
mod detail;
mod draw;
mod panes;
mod rows;
mod screen;
mod screen_focus;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use data::LiveSources;
pub(crate) use screen::LiveScreen;

use crate::args::UpArgs;
use crate::output::{self, CliOutput};

/// Returns true if the live screen is wanted: a person sits at a terminal that can be drawn on.
pub(crate) fn is_wanted(args: &UpArgs, output: CliOutput) -> bool {
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    !args.plain && !output.json && !output.quiet && !is_ci && output::is_screen() && output::is_seen()
}
