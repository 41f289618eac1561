use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes_fs::{FileLock, FileLockError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Maximum number of tokens.
pub const MAX_TOKENS: usize = 64;
/// Maximum length of a token's name, in characters.
const MAX_NAME: usize = 40;
/// Maximum size of the file, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// Maximum time that a change waits for one by another process.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Minimum length of a secret, in characters.
const MIN_SECRET: usize = 20;

/// A token of a program of the user, without its secret: it may decide in the place of the person, or use the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ProgramToken {
    /// The name that the person gave it.
    pub name: String,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of expiry.
    pub expires: Timestamp,
    /// SHA-256 of the secret, in hexadecimal digits.
    sha256: String,
}

/// Error of creating or finding a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramTokenError {
    /// The name is no name.
    #[error("invalid token name: use 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`")]
    Name,
    /// There is one of that name.
    #[error("a token named {0} already exists")]
    Taken(String),
    /// There is no token of that name.
    #[error("no token is named {0}")]
    Missing(String),
    /// The limit of [`MAX_TOKENS`] is reached.
    #[error("the limit of {MAX_TOKENS} tokens is reached; remove one of them first")]
    TooMany,
    /// The secret could be guessed.
    #[error("the secret is shorter than {MIN_SECRET} characters")]
    Short,
    /// The file cannot be read or written.
    #[error("{}: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// Tokens of programs, by name, in a file of the state folder. A host that runs reads it at each use. There are two such
/// files: of programs that may decide, and of applications that may use the endpoint.
#[derive(Clone, Debug)]
pub struct ProgramTokenStore {
    file: PathBuf,
}

impl ProgramTokenStore {
    /// Creates a store of the tokens in this file, which need not exist.
    #[must_use]
    pub fn at(file: impl AsRef<Path>) -> Self {
        Self { file: file.as_ref().to_owned() }
    }

    /// Returns all tokens, including expired ones.
    ///
    /// # Errors
    /// If the file cannot be read or is malformed.
    pub fn list(&self) -> Result<Vec<ProgramToken>, ProgramTokenError> {
        let file = match fs::File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(error)),
        };
        let mut text = String::new();
        file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| self.failed(error))?;
        serde_json::from_str(&text).map_err(|error| self.failed(error.into()))
    }

    /// Adds a token with this secret. Expired tokens are removed.
    ///
    /// # Errors
    /// The name is invalid or taken, there are too many tokens, or the file cannot be written.
    pub fn add(
        &self,
        name: &str,
        secret: &str,
        expires: Timestamp,
    ) -> Result<ProgramToken, ProgramTokenError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            return Err(ProgramTokenError::Name);
        }
        // The file holds a hash without salt, which protects only what cannot be guessed.
        if secret.len() < MIN_SECRET {
            return Err(ProgramTokenError::Short);
        }
        let now = Timestamp::now();
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        tokens.retain(|token| token.expires > now);
        if tokens.iter().any(|token| token.name == name) {
            return Err(ProgramTokenError::Taken(name.to_owned()));
        }
        if tokens.len() >= MAX_TOKENS {
            return Err(ProgramTokenError::TooMany);
        }
        let token = ProgramToken { name: name.to_owned(), created: now, expires, sha256: hash(secret) };
        tokens.push(token.clone());
        self.write(&tokens)?;
        Ok(token)
    }

    /// Ends a token.
    ///
    /// # Errors
    /// There is no token of that name, or the file cannot be written.
    pub fn end(&self, name: &str) -> Result<(), ProgramTokenError> {
        // Nothing is created if there is nothing to end.
        if self.list()?.is_empty() {
            return Err(ProgramTokenError::Missing(name.to_owned()));
        }
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            return Err(ProgramTokenError::Missing(name.to_owned()));
        }
        self.write(&tokens)
    }

    /// Returns the name of the unexpired token with this secret.
    #[must_use]
    pub fn name_of(&self, secret: &str) -> Option<String> {
        let tokens =
            self.list().inspect_err(|error| tracing::warn!(%error, "failed to read the decision tokens"));
        // How long the comparison of two hashes takes says nothing of the secret.
        let (hash, now) = (hash(secret), Timestamp::now());
        let mut tokens = tokens.ok()?.into_iter();
        tokens.find(|token| token.sha256 == hash && token.expires > now).map(|token| token.name)
    }

    /// Locks the file while it is read and written again. Otherwise a token that is ended here could be written again by
    /// another process.
    fn lock(&self) -> Result<FileLock, ProgramTokenError> {
        let lock = FileLock::acquire(&self.file.with_extension("lock"), "tokens", LOCK_WAIT, |_| {});
        lock.map_err(|error| {
            self.failed(match error {
                FileLockError::Io(error) => error,
                held => io::Error::new(io::ErrorKind::TimedOut, held),
            })
        })
    }

    fn write(&self, tokens: &[ProgramToken]) -> Result<(), ProgramTokenError> {
        let text = serde_json::to_vec_pretty(tokens).map_err(|error| self.failed(error.into()))?;
        hospes_fs::replace_private(&self.file, &text).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> ProgramTokenError {
        ProgramTokenError::File { file: self.file.clone(), source }
    }
}

fn hash(secret: &str) -> String {
    let digest = Sha256::digest(secret);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    const SECRET: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn a_token_holds_until_it_is_ended_or_its_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = ProgramTokenStore::at(folder.path().join("state/tokens.json"));
        assert_eq!(tokens.list().unwrap(), []);
        assert_eq!(tokens.name_of(SECRET), None);
        let later = Timestamp::now() + 1.hour();
        tokens.add("ci", SECRET, later).unwrap();
        assert_eq!(tokens.name_of(SECRET).as_deref(), Some("ci"));
        assert_eq!(tokens.name_of(&SECRET[1..]), None);
        let kept = fs::read_to_string(folder.path().join("state/tokens.json")).unwrap();
        assert!(!kept.contains(SECRET), "the secret is not kept");
        assert!(matches!(tokens.add("ci", SECRET, later), Err(ProgramTokenError::Taken(_))));
        tokens.end("ci").unwrap();
        assert_eq!(tokens.name_of(SECRET), None);
        assert!(matches!(tokens.end("ci"), Err(ProgramTokenError::Missing(_))));
        tokens.add("old", SECRET, Timestamp::now() - 1.second()).unwrap();
        assert_eq!(tokens.name_of(SECRET), None, "its time is over");
        tokens.add("old", SECRET, later).unwrap();
    }

    #[test]
    fn no_token_is_lost_or_comes_back_when_several_change_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = ProgramTokenStore::at(folder.path().join("tokens.json"));
        let later = Timestamp::now() + 1.hour();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let tokens = &tokens;
                scope.spawn(move || {
                    for number in 0..8 {
                        let name = |what: &str| format!("{what}-{thread}-{number}");
                        tokens.add(&name("kept"), &format!("{SECRET}{thread}{number}"), later).unwrap();
                        tokens.add(&name("ended"), SECRET, later).unwrap();
                        tokens.end(&name("ended")).unwrap();
                    }
                });
            }
        });
        let left = tokens.list().unwrap();
        assert_eq!(left.len(), 32);
        assert!(left.iter().all(|token| token.name.starts_with("kept")));
    }

    #[test]
    fn names_and_numbers_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = ProgramTokenStore::at(folder.path().join("tokens.json"));
        let later = Timestamp::now() + 1.hour();
        for bad in ["", "a b", "x\u{202e}", &"x".repeat(41)] {
            assert!(matches!(tokens.add(bad, SECRET, later), Err(ProgramTokenError::Name)), "{bad}");
        }
        assert!(matches!(tokens.add("short", "1234", later), Err(ProgramTokenError::Short)));
        for number in 0..MAX_TOKENS {
            tokens.add(&format!("t{number}"), &format!("{SECRET}{number}"), later).unwrap();
        }
        assert!(matches!(tokens.add("more", SECRET, later), Err(ProgramTokenError::TooMany)));
        fs::write(folder.path().join("tokens.json"), "nonsense").unwrap();
        assert_eq!(tokens.name_of(SECRET), None, "what cannot be read lets nobody decide");
    }
}
