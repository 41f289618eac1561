//! The terminal in raw mode on the alternate screen, restored on every way out.

use std::io::{self, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange, read,
};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use parking_lot::Mutex;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use crate::platform::poll_input;
use crate::screen_log;
use crate::tolerant_writer::TolerantWriter;

/// The screen that is shown, if there is one. Its leaving is written once, whoever is first: the drop, a panic or a
/// signal.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Held by whoever reads from the terminal or writes to it.
static TURN: Mutex<()> = Mutex::new(());
/// True if a question was asked on the terminal, so that the screen has to be shown again.
static WAS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The terminal in raw mode, on the alternate screen. It is restored on drop and on panic.
pub(crate) struct TerminalScreen {
    pub(crate) terminal: Terminal<CrosstermBackend<TolerantWriter<Stdout>>>,
}

impl TerminalScreen {
    pub(crate) fn enter() -> io::Result<Self> {
        // The terminal is restored before the panic message is printed, so that it stays visible. Only the panic of a
        // thread that nobody catches would end the screen, but a message over the screen is of no use to anybody.
        static HOOK: Once = Once::new();
        HOOK.call_once(|| restore_before_panic_message(leave));
        enter()?;
        // From here on, every path restores the terminal.
        let terminal = Terminal::new(backend());
        terminal.map(|terminal| Self { terminal }).inspect_err(|_| leave())
    }

    /// Runs `work` with the terminal restored, for example an external editor.
    pub(crate) fn aside<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        leave();
        let done = work();
        self.resume()?;
        Ok(done)
    }

    /// Shows the screen again after another program, or another screen, had the terminal.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        enter()?;
        // Keys typed in the meantime were meant for the other program.
        while poll_input(Duration::ZERO)? {
            read()?;
        }
        // The buffer no longer matches the screen, so a new terminal redraws everything.
        self.terminal = Terminal::new(backend())?;
        Ok(())
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        leave();
    }
}

/// Returns the output of a screen. That its terminal is gone is noticed when keys are read.
fn backend() -> CrosstermBackend<TolerantWriter<Stdout>> {
    CrosstermBackend::new(TolerantWriter(io::stdout()))
}

fn enter() -> io::Result<()> {
    let mut shown = SHOWN.lock();
    enable_raw_mode()?;
    *shown = true;
    drop(shown);
    write_entering(&mut io::stdout()).inspect_err(|_| leave())
}

/// Restores the terminal, if a screen is shown.
pub(crate) fn leave() {
    let mut shown = SHOWN.lock();
    if !std::mem::take(&mut *shown) {
        return;
    }
    // Ignored, because the terminal may be gone and this also runs on drop and in a panic.
    let _gone = write_leaving(&mut io::stdout());
    let _gone = disable_raw_mode();
}

/// Runs `work` of a screen while nobody else uses the terminal. Whoever wants to ask something gets a turn afterwards.
pub(crate) fn in_turn<T>(work: impl FnOnce() -> T) -> T {
    let turn = TURN.lock();
    let done = work();
    // Fair, because the screen takes the next turn at once.
    parking_lot::MutexGuard::unlock_fair(turn);
    done
}

/// Returns true, once, if a question was asked on the terminal while a screen was shown.
pub(crate) fn was_interrupted() -> bool {
    WAS_INTERRUPTED.swap(false, Ordering::SeqCst)
}

/// Runs `work`, which asks something on the terminal, with the terminal restored if a screen is shown.
pub(crate) fn without_screen<T>(work: impl FnOnce() -> T) -> T {
    if !*SHOWN.lock() {
        return work();
    }
    let _turn = TURN.lock();
    leave();
    screen_log::show(false);
    let done = work();
    screen_log::show(true);
    WAS_INTERRUPTED.store(true, Ordering::SeqCst);
    done
}

fn write_entering(out: &mut impl Write) -> io::Result<()> {
    execute!(out, EnterAlternateScreen, EnableBracketedPaste, EnableFocusChange, cursor::Hide)
}

fn write_leaving(out: &mut impl Write) -> io::Result<()> {
    execute!(out, DisableFocusChange, DisableBracketedPaste, LeaveAlternateScreen, cursor::Show)
}

/// Installs a hook that restores the terminal before the message of a panic is printed.
fn restore_before_panic_message(restore: impl Fn() + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// The text written on leaving undoes everything that was written on entering.
    #[test]
    fn leaving_undoes_entering() {
        let mut parser = vt100::Parser::new(10, 40, 0);
        parser.process(b"before");
        let mut bytes = Vec::new();
        write_entering(&mut bytes).unwrap();
        parser.process(&bytes);
        let screen = parser.screen();
        assert!(screen.alternate_screen() && screen.bracketed_paste() && screen.hide_cursor());
        let mut bytes = Vec::new();
        write_leaving(&mut bytes).unwrap();
        parser.process(&bytes);
        let screen = parser.screen();
        assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
        assert_eq!(screen.contents(), "before");
    }

    #[test]
    fn a_panic_restores_the_terminal_first() {
        let restored = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&restored);
        let before = std::panic::take_hook();
        let seen = Arc::clone(&restored);
        let at_message = Arc::new(AtomicUsize::new(0));
        let message = Arc::clone(&at_message);
        std::panic::set_hook(Box::new(move |_| {
            message.store(seen.load(Ordering::SeqCst), Ordering::SeqCst);
        }));
        restore_before_panic_message(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let caught = std::panic::catch_unwind(|| panic!("on purpose"));
        std::panic::set_hook(before);
        assert!(caught.is_err());
        assert_eq!(at_message.load(Ordering::SeqCst), 1, "restored before the message");
    }

    /// Without a screen nothing is written: the program may have no terminal at all.
    #[test]
    fn leaving_without_a_screen_does_nothing() {
        leave();
        assert!(!*SHOWN.lock());
    }
}
