//! A message bus with GNOME's keyring on it, or none: the programs of Debian, in a folder of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{eventually, text};

/// Configuration of a session bus that starts no services on demand.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:dir=FOLDER</listen>
  <policy context="default">
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>"#;

/// A bus, on which there may be a keyring.
pub(crate) struct Desktop {
    folder: TempDir,
    bus: Child,
    keyring: Option<Child>,
    /// Address of the bus.
    pub(crate) address: String,
    daemon: String,
    send: String,
    tool: String,
}

/// A program that the environment names; a line where it does not.
fn named(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok().filter(|text| !text.is_empty());
    if found.is_none() {
        eprintln!("skipped: {variable} names no program; `cargo xtask browser` finds or installs it");
    }
    found
}

/// Starts a session bus with its socket in a folder, and returns it with its address.
pub(crate) fn start_bus(program: &Path, folder: &Path) -> (Child, String) {
    let config = folder.join("bus.conf");
    std::fs::write(&config, BUS.replace("FOLDER", &text(folder))).unwrap();
    let mut command = Command::new(program);
    command.arg("--config-file").arg(&config).args(["--nofork", "--print-address=1"]);
    let mut bus = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
    (bus, address.trim().to_owned())
}

impl Desktop {
    /// A bus without a keyring; none, and a line that says so, where the environment names no programs.
    pub(crate) fn open() -> Option<Self> {
        let (bus, daemon) = (named("HOSPES_DBUS_DAEMON")?, named("HOSPES_KEYRING_DAEMON")?);
        let (send, tool) = (named("HOSPES_DBUS_SEND")?, named("HOSPES_SECRET_TOOL")?);
        let folder = tempfile::tempdir().unwrap();
        let (bus, address) = start_bus(Path::new(&bus), folder.path());
        Some(Self { folder, bus, keyring: None, address, daemon, send, tool })
    }

    /// Starts the keyring; unlocked, as a sign-in to the desktop does it, or not.
    pub(crate) fn start(&mut self, unlocked: bool) {
        let mut command = self.command(&self.daemon);
        command.args(["--foreground", "--components=secrets"]);
        if unlocked {
            command.arg("--unlock");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut keyring = command.spawn().unwrap();
        keyring.stdin.take().unwrap().write_all(b"a password").unwrap();
        self.keyring = Some(keyring);
        let wanted = format!("boolean {}", !unlocked);
        eventually("the keyring is there", || self.locked().contains(&wanted));
    }

    /// Returns the keyring's answer about its lock.
    fn locked(&self) -> String {
        let mut command = self.command(&self.send);
        command.args(["--print-reply", "--dest=org.freedesktop.secrets"]);
        command.args(["/org/freedesktop/secrets/aliases/default", "org.freedesktop.DBus.Properties.Get"]);
        command.args(["string:org.freedesktop.Secret.Collection", "string:Locked"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    /// Ends the keyring.
    pub(crate) fn stop(&mut self) {
        if let Some(mut keyring) = self.keyring.take() {
            keyring.kill().unwrap();
            keyring.wait().unwrap();
        }
    }

    /// Returns the key in the keyring, as libsecret's tool finds it; empty if there is none.
    pub(crate) fn key(&self) -> String {
        self.tool("lookup")
    }

    /// Removes the key from the keyring.
    pub(crate) fn forget(&self) {
        self.tool("clear");
        assert_eq!(self.key(), "");
    }

    fn tool(&self, what: &str) -> String {
        let mut command = self.command(&self.tool);
        command.args([what, "service", "hospes", "username", "credentials"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.address).env_remove("DISPLAY");
        command.env_remove("WAYLAND_DISPLAY");
        for (name, folder) in [("HOME", "home"), ("XDG_DATA_HOME", "data"), ("XDG_RUNTIME_DIR", "run")] {
            let folder: PathBuf = self.folder.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            command.env(name, folder);
        }
        command
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        let keyring = self.keyring.as_mut();
        for child in [Some(&mut self.bus), keyring].into_iter().flatten() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}
