//! A program in a terminal, and what is seen there.

use std::io::{Read as _, Write};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::LIMIT;

/// Time that the last output of an ended program may take to the screen.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// A terminal with a program in it, which ends with the test.
pub(crate) struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    reading: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a command in a terminal of this size.
    pub(crate) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut inside = CommandBuilder::new(command.get_program());
        inside.args(command.get_args());
        inside.cwd(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            }
        }
        inside.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(inside).unwrap();
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 500)));
        let seen = Arc::clone(&screen);
        let reading = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.lock().process(&bytes[..count]);
            }
        });
        Self { child, master: pair.master, keys, screen, reading: Some(reading) }
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        self.screen.lock().screen_mut().set_size(rows, columns);
        self.master.resize(size).unwrap();
    }

    /// Returns the text on the screen.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().screen().contents()
    }

    /// Waits until a text is seen, and returns the screen.
    pub(crate) fn sees(&self, text: &str) -> String {
        self.until(text, |screen| screen.contents().contains(text))
    }

    /// Waits until the screen is as wanted.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) -> String {
        let until = Instant::now() + LIMIT;
        loop {
            {
                let parser = self.screen.lock();
                if is_so(parser.screen()) {
                    return parser.screen().contents();
                }
            }
            assert!(Instant::now() < until, "{what} is not seen, but:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns true if the program uses the alternate screen.
    pub(crate) fn has_own_screen(&self) -> bool {
        self.screen.lock().screen().alternate_screen()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits for the end of the program; its exit code.
    pub(crate) fn wait(&mut self) -> u32 {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.wait_for_last_output();
                return status.exit_code();
            }
            assert!(Instant::now() < until, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until what an ended program has written is on the screen. A process that it leaves may keep the terminal
    /// open, so this does not wait long.
    fn wait_for_last_output(&self) {
        let until = Instant::now() + LAST_OUTPUT;
        while self.reading.as_ref().is_some_and(|reading| !reading.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        drop(self.reading.take());
    }
}
