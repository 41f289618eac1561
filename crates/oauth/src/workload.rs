//! Tokens by which a platform identifies a workload.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use zeroize::Zeroizing;

/// Maximum length of such a token, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum run time of a command that prints one.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Source of a platform's workload token. Platforms replace it often, so a file or a command is read again for each
/// request to the token endpoint, and not before.
///
/// ```
/// use hospes_oauth::{GrantType, WorkloadToken};
///
/// let mounted = GrantType::Workload(WorkloadToken::file("/var/run/secrets/tokens/mcp"));
/// let printed = GrantType::Workload(WorkloadToken::command("cloud", ["identity-token", "--audience", "https://as.example"]));
/// # let _ = (mounted, printed);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum WorkloadToken {
    /// This token, regardless of its age.
    Given(SecretString),
    /// Contents of the file without surrounding white space: at most 64 KiB.
    File(PathBuf),
    /// Output of the program without surrounding white space: at most 64 KiB, within 30 seconds. It runs without a
    /// shell, and its standard error is not read.
    Command {
        /// The program: a path, or a name that is looked for in `PATH`.
        program: OsString,
        /// Its arguments, in which nothing secret should be: every user of the machine can read them.
        arguments: Vec<OsString>,
    },
}

impl WorkloadToken {
    /// Reads the token from this file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }

    /// Reads the token from the output of this program.
    pub fn command<A: Into<OsString>>(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::Command { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// Reads the current token. The error gives the reason and nothing of the token.
    pub(super) async fn read(&self) -> Result<SecretString, String> {
        match self {
            Self::Given(token) => Ok(token.clone()),
            Self::File(path) => from_file(path).await.map_err(|why| format!("{}: {why}", path.display())),
            Self::Command { program, arguments } => {
                tokio::time::timeout(MAX_TIME, printed(program, arguments))
                    .await
                    .unwrap_or_else(|_| Err(format!("timed out after {} s", MAX_TIME.as_secs())))
                    .map_err(|why| format!("{}: {why}", program.display()))
            }
        }
    }
}

async fn from_file(path: &Path) -> Result<SecretString, String> {
    let file = tokio::fs::File::open(path).await.map_err(|error| error.to_string())?;
    token(file).await
}

async fn printed(program: &OsString, arguments: &[OsString]) -> Result<SecretString, String> {
    let mut command = tokio::process::Command::new(program);
    // No standard input: a program that wants to ask something has to fail at once instead of waiting for
    // the time limit.
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // At the time limit the future is dropped, and the program must not outlive it.
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("cannot read the output of the command")?;
    // Read before the wait: a program that has filled the pipe would never end.
    let token = token(output).await?;
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(token) } else { Err(format!("the command failed with {status}")) }
}

async fn token(reader: impl AsyncRead + Unpin) -> Result<SecretString, String> {
    // All the room at once: a vector that grows would leave copies of the token behind that nothing erases.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES + 1));
    // One byte more than is allowed tells a token that is too long from one that just fits.
    let mut limited = reader.take(MAX_BYTES as u64 + 1);
    limited.read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    if bytes.len() > MAX_BYTES {
        return Err(format!("the token is longer than {MAX_BYTES} bytes"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| "the token is not valid UTF-8")?.trim();
    if text.is_empty() { Err("the token is empty".to_owned()) } else { Ok(text.to_owned().into()) }
}

impl<S: Into<Box<str>>> From<S> for WorkloadToken {
    /// Creates the source of this token, regardless of its age.
    fn from(token: S) -> Self {
        Self::Given(SecretString::new(token.into()))
    }
}

impl fmt::Debug for WorkloadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(token) => write!(f, "Given([{} bytes])", token.expose_secret().len()),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Command { program, arguments } => {
                write!(f, "Command({program:?} with {} arguments)", arguments.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(source: &WorkloadToken) -> Result<String, String> {
        source.read().await.map(|token| token.expose_secret().to_owned())
    }

    #[tokio::test]
    async fn files_and_commands_are_asked_each_time() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("token");
        let file = WorkloadToken::file(&path);
        let printed = WorkloadToken::command("cat", [&path]);
        assert!(read(&file).await.unwrap_err().contains("token: "), "it names the file");
        assert!(read(&printed).await.is_err());
        for token in ["first", "second"] {
            std::fs::write(&path, format!("\n{token}\r\n")).unwrap();
            assert_eq!(
                (read(&file).await, read(&printed).await),
                (Ok(token.to_owned()), Ok(token.to_owned()))
            );
        }
        for (content, says) in [(" \n".to_owned(), "empty"), ("x".repeat(MAX_BYTES + 1), "longer than 65536")]
        {
            std::fs::write(&path, content).unwrap();
            for source in [&file, &printed] {
                let why = read(source).await.unwrap_err();
                assert!(why.contains(says), "{why}");
            }
        }
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read(&file).await.unwrap_err().contains("not valid UTF-8"));
    }

    #[tokio::test]
    async fn a_command_that_fails_gives_no_token() {
        let failed = WorkloadToken::command("sh", ["-c", "echo half-a-token; exit 3"]);
        let why = read(&failed).await.unwrap_err();
        assert!(why.contains('3') && !why.contains("half-a-token"), "{why}");
        assert!(read(&WorkloadToken::command("no-such-program-here", [""; 0])).await.is_err());
        let shown = format!("{:?} {failed:?}", WorkloadToken::from("secret"));
        assert!(!shown.contains("secret") && !shown.contains("token"), "{shown}");
    }
}
