//! Patterns of files that are not packed.

use std::io;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{IGNORE_NAME, MAX_IGNORE_BYTES, PackError, read_bounded};

/// Patterns that the reference tool leaves out, by subject.
const ALWAYS: &[&str] = &[
    // Version control and the system.
    ".git",
    ".gitignore",
    ".DS_Store",
    "Thumbs.db",
    // Bundles.
    IGNORE_NAME,
    "*.mcpb",
    // Secrets of the environment.
    ".env*",
    // Package managers.
    ".npm",
    ".npmrc",
    ".pnp.*",
    ".yarn",
    ".yarnrc",
    "node_modules/.bin",
    "node_modules/.cache",
    "package-lock.json",
    "yarn.lock",
    // Settings of tools.
    ".babelrc",
    ".editorconfig",
    ".eslintignore",
    ".eslintrc",
    ".nycrc",
    ".prettierignore",
    ".prettierrc",
    "tsconfig.json",
    // Logs and by-products.
    "*.d.ts",
    "*.log",
    "*.map",
    "*.tsbuildinfo",
    "npm-debug.log*",
    "yarn-debug.log*",
    "yarn-error.log*",
];

/// Patterns for a folder: the fixed ones, then those of its `.mcpbignore`.
#[derive(Debug)]
pub(super) struct PackPatterns(Gitignore);

impl PackPatterns {
    pub(super) fn of(folder: &Path) -> Result<Self, PackError> {
        let path = folder.join(IGNORE_NAME);
        let failed = |why: String| PackError::File { name: IGNORE_NAME.to_owned(), why };
        let own = match read_bounded(&path, MAX_IGNORE_BYTES + 1) {
            Ok(own) if own.len() as u64 > MAX_IGNORE_BYTES => {
                return Err(failed(format!("it has more than {MAX_IGNORE_BYTES} bytes; that is the limit")));
            }
            Ok(own) => own,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(format!("it cannot be read: {error}"))),
        };
        let own = String::from_utf8(own).map_err(|_| failed("it is not UTF-8".to_owned()))?;
        // Names are relative to the folder, whatever it is called.
        let mut builder = GitignoreBuilder::new("");
        // The reference tool's patterns do not tell capitals.
        let added = builder
            .case_insensitive(true)
            .and_then(|builder| ALWAYS.iter().try_for_each(|line| builder.add_line(None, line).map(drop)));
        added.map_err(|error| failed(error.to_string()))?;
        for (index, line) in own.lines().enumerate() {
            let line = line.trim();
            builder.add_line(None, line).map_err(|error| failed(format!("line {}: {error}", index + 1)))?;
        }
        Ok(Self(builder.build().map_err(|error| failed(error.to_string()))?))
    }

    /// Returns true if a file or folder is left out. What is in a folder that is left out must not be asked for.
    pub(super) fn leaves_out(&self, name: &str, is_folder: bool) -> bool {
        self.0.matched(name, is_folder).is_ignore()
    }
}
