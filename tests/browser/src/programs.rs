//! The programs on both sides of the browser.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use http::Request;
use serde_json::Value;
use tempfile::TempDir;

use crate::{WAIT_TIMEOUT, fetch, program_from_env};

/// npm `oidc-provider`, as `tools/openid/provider.mjs` starts it.
#[derive(Debug)]
pub struct OpenIdProvider {
    process: Child,
    /// It ends when this is closed.
    _stdin: Option<ChildStdin>,
    /// Issuer identifier of the provider.
    pub issuer: String,
}

impl OpenIdProvider {
    /// Client id of Hospes at the provider.
    pub const CLIENT: &str = "hospes-there";
    /// Client id of an application without a secret. The provider issues signed tokens for any resource to it.
    pub const APPLICATION: &str = "application-there";
    /// The secret that it gave us.
    pub const SECRET: &str = "the-secret-of-hospes";

    /// Starts it; none, and a line that says so, where the environment names none.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        let (node, script) = (program_from_env("HOSPES_NODE")?, program_from_env("HOSPES_OPENID_PROVIDER")?);
        let mut command = Command::new(node);
        command.arg(script).env_remove("NODE_OPTIONS").stdin(Stdio::piped());
        let (mut process, lines, _) = start(command);
        let issuer = lines.recv_timeout(WAIT_TIMEOUT).expect("the provider starts").trim().to_owned();
        Some(Self { _stdin: process.stdin.take(), process, issuer })
    }

    /// Returns what the provider has issued and received: `tokens`, `requests` and `states`.
    ///
    /// # Panics
    /// When it does not say.
    pub async fn recorded_state(&self) -> Value {
        self.test("seen").await
    }

    /// Every token that it has given out.
    pub async fn tokens(&self) -> Vec<String> {
        let seen = self.recorded_state().await;
        let tokens = seen["tokens"].as_array().into_iter().flatten();
        tokens.filter_map(|one| one["token"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the number of requests of this kind and status, for example `refresh_token 200`.
    pub async fn times(&self, request: &str) -> usize {
        let seen = self.recorded_state().await;
        seen["requests"].as_array().into_iter().flatten().filter(|one| *one == request).count()
    }

    /// Revokes the tokens that were issued last.
    ///
    /// # Panics
    /// When it does not.
    pub async fn revoke(&self) {
        self.test("revoke").await;
    }

    async fn test(&self, what: &str) -> Value {
        let request = Request::get(format!("{}/test/{what}", self.issuer)).body(Bytes::new());
        let answer = fetch(request.expect("a request")).await.expect("an answer of the provider");
        serde_json::from_slice(answer.body()).expect("JSON")
    }
}

impl Drop for OpenIdProvider {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The program `hospes`, in a folder with nothing of the person's own in it.
#[derive(Debug)]
pub struct HospesProgram {
    program: String,
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// Result of a finished run.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProgramOutput {
    /// The exit code.
    pub code: Option<i32>,
    /// Output on both streams.
    pub said: String,
}

impl HospesProgram {
    /// None, and a line that says so, where the environment names no program.
    ///
    /// # Panics
    /// When there is no folder.
    #[must_use]
    pub fn find() -> Option<Self> {
        Some(Self {
            program: program_from_env("HOSPES_PROGRAM")?,
            folder: tempfile::tempdir().expect("a folder"),
            variables: Vec::new(),
        })
    }

    /// Sets variables of the environment of all its runs.
    pub fn set_variables(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        self.variables.extend(variables);
    }

    /// Starts `hospes up` with this `[auth]` and a server called `time`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_gateway(&self, auth: &str) -> RunningHospes {
        self.start_gateway_with(&format!("{auth}\n[servers.time]\nbuiltin = \"time\"\n"), &[])
    }

    /// Starts `hospes up` with this configuration and these further arguments.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_gateway_with(&self, config: &str, args: &[&str]) -> RunningHospes {
        let file = self.path("hospes.toml");
        std::fs::write(&file, config).expect("a file");
        let mut command = self.command(&["up", "--listen", "127.0.0.1:0"]);
        if !args.contains(&"--console") {
            command.args(["--console", "0"]);
        }
        command.arg("--config");
        // The tests have links made without a terminal.
        let links = self.path("links.toml");
        std::fs::write(&links, "[console]\ndecisions_from = \"programs\"\n").expect("a file");
        command.arg(&file).arg("--config").arg(&links).args(args);
        let (process, _, lines) = start(command);
        let mut said = String::new();
        let url = loop {
            let line =
                lines.recv_timeout(WAIT_TIMEOUT).unwrap_or_else(|_| panic!("hospes up says only: {said}"));
            let words = line.split_whitespace().map(|word| word.trim_matches(|c: char| c.is_control()));
            if let Some(url) =
                words.filter(|word| word.starts_with("http")).find(|word| word.ends_with("/mcp"))
            {
                break url.to_owned();
            }
            said += &line;
        };
        RunningHospes { process, url, lines }
    }

    /// Begins `hospes auth login`. Returns the URL of the page to open, and a future that waits for the end of the run.
    ///
    /// # Panics
    /// When it names no page.
    pub fn login(&self, url: &str) -> (String, impl Future<Output = ProgramOutput> + Send + use<>) {
        self.login_with(url, &[])
    }

    /// Begins `hospes auth login` with further arguments, see [`login`](Self::login).
    ///
    /// # Panics
    /// When it names no page.
    pub fn login_with(
        &self,
        url: &str,
        more: &[&str],
    ) -> (String, impl Future<Output = ProgramOutput> + Send + use<>) {
        let mut command = self.command(&["auth", "login", url]);
        command.args(more);
        // Nothing that would open one of the person's own.
        command.env("BROWSER", "false").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        let (mut process, _, lines) = start(command);
        let mut said = String::new();
        let page = loop {
            let line = lines
                .recv_timeout(WAIT_TIMEOUT)
                .unwrap_or_else(|_| panic!("hospes auth login says only: {said}"));
            if line.trim().starts_with("http") {
                break line.trim().to_owned();
            }
            said += &line;
        };
        let rest = async move {
            let ended = tokio::task::spawn_blocking(move || {
                while let Ok(line) = lines.recv_timeout(WAIT_TIMEOUT) {
                    said += &line;
                }
                // Whatever it is that it still waits for.
                let code = process.try_wait().ok().flatten();
                let code = code.or_else(|| process.wait().ok()).and_then(|status| status.code());
                ProgramOutput { code, said }
            });
            ended.await.expect("an end")
        };
        (page, rest)
    }

    /// A new link into the console of the host that runs.
    ///
    /// # Panics
    /// When the host prints no link.
    pub async fn console(&self) -> String {
        let ran = self.run(&["console", "--no-browser", "--json"]).await;
        let said: Value = serde_json::from_str(&ran.said).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        said["console"].as_str().expect("a link").to_owned()
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn run(&self, args: &[&str]) -> ProgramOutput {
        run(self.command(args)).await
    }

    /// Runs a line in a shell in which `hospes` is this program, as a person pastes it.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn run_in_shell(&self, line: &str) -> ProgramOutput {
        let folder = std::path::Path::new(&self.program).parent().expect("a folder");
        let paths = std::env::var("PATH").unwrap_or_default();
        let mut command = self.command_of("sh", &["-c", line]);
        command.env("PATH", format!("{}:{paths}", folder.display()));
        run(command).await
    }

    /// A file in its folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        self.command_of(&self.program, args)
    }

    fn command_of(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, folder) in [
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
        ] {
            command.env(name, self.path(folder));
        }
        command.env_remove("HOSPES_LOG").env_remove("HOSPES_CONFIG").env("NO_COLOR", "1");
        command.env_remove("HOSPES_REGISTRY").env_remove("XDG_DATA_HOME").env_remove("XDG_CACHE_HOME");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // The person's own keyring is none of the tests' business.
        command.env_remove("DBUS_SESSION_BUS_ADDRESS").env("HOSPES_CREDENTIALS_STORE", "file");
        command
    }
}

/// Runs a program to its end.
async fn run(command: Command) -> ProgramOutput {
    let mut command = tokio::process::Command::from(command);
    let output = tokio::time::timeout(WAIT_TIMEOUT, command.kill_on_drop(true).output()).await;
    let output = output.expect("in time").expect("the program starts");
    let said = [output.stdout, output.stderr].concat();
    ProgramOutput { code: output.status.code(), said: String::from_utf8_lossy(&said).into_owned() }
}

/// `hospes up`, which ends when this is dropped.
#[derive(Debug)]
pub struct RunningHospes {
    process: Child,
    /// Its endpoint.
    pub url: String,
    lines: Receiver<String>,
}

impl RunningHospes {
    /// Its origin.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.url.trim_end_matches("/mcp")
    }

    /// Returns the lines on standard error that were not taken yet.
    #[must_use]
    pub fn said_so_far(&self) -> String {
        self.lines.try_iter().collect()
    }

    /// Waits for a line that `wanted` makes something of.
    ///
    /// # Panics
    /// When no line matches within [`WAIT_TIMEOUT`].
    pub fn wait_for_line<T>(&self, wanted: impl Fn(&str) -> Option<T>) -> T {
        loop {
            let line = self.lines.recv_timeout(WAIT_TIMEOUT).expect("it says so");
            if let Some(found) = wanted(&line) {
                return found;
            }
        }
    }
}

impl Drop for RunningHospes {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Starts a program: its lines on standard output, and those on standard error.
fn start(mut command: Command) -> (Child, Receiver<String>, Receiver<String>) {
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut process = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (process.stdout.take().expect("output"), process.stderr.take().expect("errors"));
    (process, follow(stdout), follow(stderr))
}

fn follow(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // Read on to the end: a program whose output nobody takes would wait.
            let _gone = send.send(line + "\n");
        }
    });
    lines
}
