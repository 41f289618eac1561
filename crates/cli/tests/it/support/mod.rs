//! Runner of the program in a folder of its own, with servers scripted for the shell.

#[cfg(unix)]
pub(crate) mod checks;
pub(crate) mod desktop;
pub(crate) mod site;
pub(crate) mod terminal;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hospes_registry_testkit::RegistryServer;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum time of any step before a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A folder with nothing of the person's own in it.
pub(crate) struct House {
    folder: TempDir,
    /// The token with which programs decide here.
    token: OnceLock<String>,
}

impl House {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), token: OnceLock::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let file = self.path(name);
        std::fs::write(&file, content).unwrap();
        file
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The program with these arguments, a registry, and its package indexes. Keys are in files.
    pub(crate) fn command_at(&self, registry: &RegistryServer, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("HOSPES_REGISTRY", registry.url()).env("HOSPES_CREDENTIALS_STORE", "file");
        command.envs(registry.environment(&self.path("packages")));
        command
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_hospes"), args)
    }

    /// Starts the host on any port, without a console and without questions.
    pub(crate) fn up(&self, args: &[&str]) -> Running {
        let usual = ["up", "--listen", "127.0.0.1:0", "--console", "off", "--preset", "off"];
        Running::start(self.command(&[&usual, args].concat()))
    }

    /// Another program, with the same surroundings.
    pub(crate) fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path());
        for (name, folder) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_RUNTIME_DIR", "run"),
        ] {
            command.env(name, self.path(folder));
        }
        // They lead to files of the person's own applications.
        for name in ["CLINE_MCP_SETTINGS_PATH", "CODEX_HOME", "COPILOT_HOME", "OPENCODE_CONFIG"] {
            command.env_remove(name);
        }
        command
            .env_remove("HOSPES_REGISTRY")
            // Its `PATH` is none of the tests' business either.
            .env_remove("SHELL")
            .env_remove("HOSPES_LOG")
            .env_remove("HOSPES_CONFIG")
            .env_remove("HOSPES_APPROVE_TOKEN")
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        if let Some(token) = self.token.get() {
            command.env("HOSPES_APPROVE_TOKEN", token);
        }
        // The person's own keyring is none of the tests' business; elsewhere than on Linux no variable leads to it.
        command.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("HOSPES_CREDENTIALS_STORE");
        if !cfg!(target_os = "linux") {
            command.env("HOSPES_CREDENTIALS_STORE", "file");
        }
        command
    }

    /// Has the person make a token, at a terminal, with which what is started from now on decides.
    pub(crate) fn with_token(self) -> Self {
        let command = self.command(&["--json", "approve", "--make-token", "tests"]);
        let mut terminal = terminal::Terminal::start(&command, 200, 24);
        assert_eq!(terminal.wait(), 0, "{}", terminal.text());
        let text = terminal.sees("\"token\"");
        let token = text.split('"').find(|part| part.starts_with("hospes-")).unwrap().to_owned();
        self.token.set(token).unwrap();
        self
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// A server for the shell that speaks 2025-06-18 and writes what it is sent to `NAME.log`. `extra` are more
    /// branches of its `case`, which go before its own.
    pub(crate) fn server(&self, name: &str, tools: &[&str], extra: &str) -> Value {
        let log = self.path(&format!("{name}.log"));
        let tools: Vec<Value> =
            tools.iter().map(|tool| json!({ "name": tool, "inputSchema": { "type": "object" } })).collect();
        let tools = json!({ "tools": tools });
        let script = format!(
            r#"
echo $$ > '{pid}'
answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
refuse() {{ printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":%s,"message":"%s"}}}}\n' "$id" "$1" "$2"; }}
while IFS= read -r line; do
  printf '%s\n' "$line" >> '{log}'
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    {extra}
    *'"method":"initialize"'*) answer '{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"{name}","version":"1"}},"instructions":"Be {name}."}}';;
    *'"method":"tools/list"'*) answer '{tools}';;
    *'"method":"tools/call"'*) answer '{{"content":[{{"type":"text","text":"{name} was called"}}]}}';;
    *'"method":"notifications/'*) ;;
    *) refuse -32601 'method not found';;
  esac
done
"#,
            pid = self.path(&format!("{name}.pid")).display(),
            log = log.display(),
        );
        let file = self.write(&format!("{name}.sh"), &script);
        json!({ "command": "sh", "args": [file] })
    }

    /// An `mcpServers` file.
    pub(crate) fn config(&self, servers: &[(&str, Value)]) -> String {
        let servers: serde_json::Map<String, Value> =
            servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        let file = self.write("mcp.json", &json!({ "mcpServers": servers }).to_string());
        file.to_string_lossy().into_owned()
    }

    /// Returns true if the scripted server's process exists.
    pub(crate) fn is_running(&self, name: &str) -> bool {
        let pid = self.read(&format!("{name}.pid"));
        let pid = pid.trim();
        !pid.is_empty() && is_alive(pid)
    }
}

fn is_alive(pid: &str) -> bool {
    let alive = Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status();
    alive.is_ok_and(|status| status.success())
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The line of JSON on standard error.
    pub(crate) fn envelope(&self) -> Value {
        let line = self.stderr.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|_| panic!("no envelope in {self:?}"))
    }
}

/// A program that is spoken to.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    pub(crate) stdout: Receiver<String>,
    pub(crate) stderr: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdin, stdout, stderr }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request of the older era and waits for its answer.
    pub(crate) fn ask(&mut self, id: u32, method: &str, params: &Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The next message on standard output.
    pub(crate) fn next(&self) -> Value {
        let line = self.stdout.recv_timeout(LIMIT).expect("a message");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }

    /// Returns what `up --json` prints once it serves.
    pub(crate) fn greeting(&self) -> Value {
        let mut told = String::new();
        loop {
            told.push_str(&self.stdout.recv_timeout(LIMIT).expect("a greeting"));
            if let Ok(whole) = serde_json::from_str(&told) {
                return whole;
            }
        }
    }

    /// Opens a session of the older era.
    pub(crate) fn initialize(&mut self, capabilities: &Value) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client });
        let answer = self.ask(0, "initialize", &params);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer["result"].clone()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The first line on standard error that `wanted` takes.
    pub(crate) fn said(&self, wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + LIMIT;
        let mut heard = Vec::new();
        while let Ok(line) = self.stderr.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if wanted(&line) {
                return line;
            }
            heard.push(line);
        }
        panic!("it did not say that, but:\n{}", heard.join("\n"));
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not after {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the path of a program of the machine. Without it, `None` and a line that says so; a failure with CI=true,
/// where `cargo xtask test` installs what tools/versions.toml lists.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{program} is not installed");
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// The names in a list.
pub(crate) fn names(result: &Value, list: &str) -> Vec<String> {
    let items = result[list].as_array().unwrap_or_else(|| panic!("no {list} in {result}"));
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// A path as text.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
