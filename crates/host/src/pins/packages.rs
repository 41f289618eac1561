//! Command lines that name a package, which a runner such as `npx` or `uvx` fetches and runs.
//!
//! The hash of a server's program covers the runner and not the package. The runner's cache is not hashed either: the
//! first start fills it, so its hash would differ at the second start.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A package that a command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackageRun {
    /// The runner with its subcommand: `npx`, `uv tool run`.
    runner: &'static str,
    ecosystem: PackageEcosystem,
    /// Package with its version, as written in the command line.
    package: String,
    /// True if a word of the command line may make the runner run something else than the package of this name in the
    /// public registry.
    is_redirected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PackageEcosystem {
    Npm,
    Python,
}

/// Syntax of a package runner: the words that begin it, and the flags with a value before the package.
struct PackageRunner {
    words: &'static [&'static str],
    shown: &'static str,
    ecosystem: PackageEcosystem,
    /// Flags whose value is the package, in place of the first argument.
    packages: &'static [&'static str],
    /// Other flags that take a value.
    valued: &'static [&'static str],
}

const NPM_PACKAGES: &[&str] = &["-p", "--package"];
const NPM_VALUED: &[&str] = &["-c", "--call", "-w", "--workspace", "--registry", "--cache", "--prefix"];
const UV_VALUED: &[&str] = &[
    "-p",
    "--python",
    "--with",
    "-w",
    "--with-editable",
    "--with-requirements",
    "--index",
    "--index-url",
    "-i",
    "--extra-index-url",
    "--default-index",
    "-c",
    "--constraints",
    "--env-file",
    "--directory",
    "--cache-dir",
];

/// Options that do not change which package is run, nor where it comes from.
const HARMLESS_OPTIONS: [&str; 10] = [
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "-s",
    "--silent",
    "--offline",
    "--prefer-offline",
    "--refresh",
    "--isolated",
];

const RUNNERS: &[PackageRunner] = &[
    npm(&["npx"], "npx"),
    npm(&["bunx"], "bunx"),
    npm(&["pnpx"], "pnpx"),
    npm(&["npm", "exec"], "npm exec"),
    npm(&["npm", "x"], "npm x"),
    npm(&["pnpm", "dlx"], "pnpm dlx"),
    npm(&["yarn", "dlx"], "yarn dlx"),
    npm(&["bun", "x"], "bun x"),
    python(&["uvx"], "uvx", &["--from"], UV_VALUED),
    python(&["uv", "tool", "run"], "uv tool run", &["--from"], UV_VALUED),
    python(&["pipx", "run"], "pipx run", &["--spec"], &["--python", "--index-url", "-i", "--pip-args"]),
];

const fn npm(words: &'static [&'static str], shown: &'static str) -> PackageRunner {
    PackageRunner {
        words,
        shown,
        ecosystem: PackageEcosystem::Npm,
        packages: NPM_PACKAGES,
        valued: NPM_VALUED,
    }
}

const fn python(
    words: &'static [&'static str],
    shown: &'static str,
    packages: &'static [&'static str],
    valued: &'static [&'static str],
) -> PackageRunner {
    PackageRunner { words, shown, ecosystem: PackageEcosystem::Python, packages, valued }
}

impl PackageRun {
    /// Returns the package that a command line names. A path is not a package.
    pub(super) fn of<'a>(program: &'a str, args: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name);
        let words: Vec<&str> = std::iter::once(name).chain(args).collect();
        let runner = RUNNERS.iter().find(|runner| words.starts_with(runner.words))?;
        let mut rest = words[runner.words.len()..].iter();
        let mut is_redirected = false;
        while let Some(word) = rest.next() {
            let (flag, value) =
                word.split_once('=').map_or((*word, None), |(flag, value)| (flag, Some(value)));
            if runner.packages.contains(&flag) {
                let package = value.or_else(|| rest.next().copied())?;
                let run = runner.run(package, is_redirected)?;
                // Options and the name of another program may follow.
                let is_own_program = runner.ecosystem == PackageEcosystem::Python
                    && rest
                        .next()
                        .is_some_and(|next| normal_python_name(next) == normal_python_name(run.name()));
                return Some(Self { is_redirected: run.is_redirected || !is_own_program, ..run });
            }
            if *word == "--" {
                return runner.run(rest.next()?, is_redirected);
            }
            if !word.starts_with('-') {
                // `npm exec` reads the options after the package, too.
                let mut more = rest.take_while(|word| **word != "--");
                is_redirected |= runner.words[0] == "npm" && more.any(|word| word.starts_with('-'));
                return runner.run(word, is_redirected);
            }
            let value = match value {
                None if runner.valued.contains(&flag) => rest.next().copied(),
                value => value,
            };
            // The interpreter can be a path.
            let is_version = flag == "--python"
                && value.is_some_and(|value| value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
            is_redirected |= !is_version && !HARMLESS_OPTIONS.contains(&flag);
        }
        None
    }

    /// Returns true if the version is exact, so that each start runs the same one.
    fn is_exact(&self) -> bool {
        let version = match self.ecosystem {
            // An `@` at the beginning belongs to the scope.
            PackageEcosystem::Npm => self.package.rsplit_once('@').filter(|(name, _)| !name.is_empty()),
            PackageEcosystem::Python => {
                self.package.split_once("==").or_else(|| self.package.rsplit_once('@'))
            }
        };
        // In npm `1.2` is every `1.2.x`.
        let parts = if self.ecosystem == PackageEcosystem::Npm { 3 } else { 2 };
        version.is_some_and(|(_, version)| is_version(version, parts))
    }

    /// Returns the package as `npm:NAME` or `pypi:NAME`, without its version.
    pub(super) fn identity(&self) -> String {
        match self.ecosystem {
            PackageEcosystem::Npm => format!("npm:{}", self.name()),
            PackageEcosystem::Python => format!("pypi:{}", normal_python_name(self.name())),
        }
    }

    /// Returns true if the package of this name in the public registry is run, as far as the command line says.
    pub(super) fn is_of_public_registry(&self) -> bool {
        // A version can be an address, a file or another package: `name@npm:other`, `name@.folder`, `name@file.tgz`.
        let version = self.package.get(self.name().len()..).unwrap_or_default();
        let is_plain =
            version.chars().all(|one| one.is_ascii_alphanumeric() || ".-+_^~<>=!*,[]@".contains(one));
        let lower = version.to_ascii_lowercase();
        let is_file = version.starts_with("@.")
            || ["tgz", "tar", "tar.gz", "whl", "zip"].iter().any(|end| lower.ends_with(end));
        !self.is_redirected && is_plain && !is_file
    }

    /// Returns the name of the package without its version.
    fn name(&self) -> &str {
        // The first character may be the `@` of a scope.
        let name = match self.package.get(1..).and_then(|rest| rest.find('@')) {
            Some(at) => &self.package[..=at],
            None => &self.package,
        };
        name.split(['=', '<', '>', '~', '!', ' ', '[']).next().unwrap_or(name)
    }

    /// Returns the message for a person: the limits of the hash, and the command line to use instead.
    pub(super) fn message(&self) -> String {
        let Self { runner, package, .. } = self;
        if self.is_exact() {
            return format!(
                "`{runner}` fetches the package `{package}` and runs it: the hash of the program does not cover it. Its \
                 version is exact, but its dependencies may change"
            );
        }
        let exact = match (self.ecosystem, *runner) {
            (PackageEcosystem::Python, "pipx run") => format!("{}==1.2.3", self.name()),
            _ => format!("{}@1.2.3", self.name()),
        };
        format!(
            "`{runner}` fetches the package `{package}` and runs it: the hash of the program does not cover it, and each start \
             may run another version. Write an exact version, as in `{exact}`, or install it and name the file"
        )
    }

    /// Returns the files of the package if it is installed in this folder, from where `npx` then runs it: its
    /// description, its programs, and the versions and hashes of its dependencies.
    pub(super) fn installed_files(&self, folder: &Path) -> Vec<PathBuf> {
        // A name from the command line must not lead out of the folder.
        if self.ecosystem != PackageEcosystem::Npm
            || self.name().split('/').any(|part| matches!(part, "" | "." | ".."))
        {
            return Vec::new();
        }
        let modules = folder.join("node_modules");
        let package = modules.join(self.name());
        let description = package.join("package.json");
        let Ok(text) = std::fs::read_to_string(&description) else { return Vec::new() };
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let programs: Vec<&str> = match &value["bin"] {
            Value::String(one) => vec![one],
            Value::Object(all) => all.values().filter_map(Value::as_str).take(MAX_PROGRAMS).collect(),
            _ => Vec::new(),
        };
        let programs = programs.into_iter().map(|program| package.join(program));
        let lock = modules.join(".package-lock.json");
        [description].into_iter().chain(programs).chain([lock]).filter(|file| file.is_file()).collect()
    }
}

/// Number of programs of one package that are hashed.
const MAX_PROGRAMS: usize = 8;

impl PackageRunner {
    fn run(&self, package: &str, is_redirected: bool) -> Option<PackageRun> {
        let is_path =
            package.starts_with(['.', '/', '~']) || package.contains("://") || package.contains('\\');
        let package = (!is_path && !package.is_empty()).then(|| package.to_owned())?;
        Some(PackageRun { runner: self.shown, ecosystem: self.ecosystem, package, is_redirected })
    }
}

/// Returns the normal form of the name of a Python package (PEP 503).
pub(super) fn normal_python_name(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

/// Returns true if the text is one version with at least `least` parts, not a range or tag: `1.2.3`, `2026.5.1`,
/// `1.0.0-rc.1`.
fn is_version(text: &str, least: usize) -> bool {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| {
        part.bytes().next().is_some_and(|first| first.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && **part != *"x"
    };
    parts.len() >= least && parts.iter().all(is_number) && !text.contains([' ', '|', '*', '<', '>', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<PackageRun> {
        let mut words = line.split(' ');
        PackageRun::of(words.next().unwrap(), words)
    }

    #[test]
    fn packages_are_found_in_command_lines() {
        for (line, package, is_exact, name) in [
            ("npx some-server", "some-server", false, "some-server"),
            ("npx -y some-server@latest /srv", "some-server@latest", false, "some-server"),
            ("/usr/bin/npx --yes @scope/server", "@scope/server", false, "@scope/server"),
            ("npx -y @scope/server@1.2.3", "@scope/server@1.2.3", true, "@scope/server"),
            ("npx -y server@^1.2.3", "server@^1.2.3", false, "server"),
            ("npx -y server@1.2", "server@1.2", false, "server"),
            ("npx --package=server@1.0.0-rc.1 start", "server@1.0.0-rc.1", true, "server"),
            ("npx -p server start", "server", false, "server"),
            ("npx.cmd -- server", "server", false, "server"),
            ("npm exec --registry http://127.0.0.1 server", "server", false, "server"),
            ("pnpm dlx server", "server", false, "server"),
            ("uvx mcp-server-time", "mcp-server-time", false, "mcp-server-time"),
            (
                "uvx --python 3.12 --with x mcp-server-time@2026.5.1",
                "mcp-server-time@2026.5.1",
                true,
                "mcp-server-time",
            ),
            ("uvx --from server==1.2 start", "server==1.2", true, "server"),
            ("uvx --from server[cli]>=1.2 start", "server[cli]>=1.2", false, "server"),
            ("uv tool run server", "server", false, "server"),
            ("pipx run --spec server==1.2.3 start", "server==1.2.3", true, "server"),
        ] {
            let found = of(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (&*found.package, found.is_exact(), found.name()),
                (package, is_exact, name),
                "{line}"
            );
            let words = found.message();
            assert!(
                words.contains(&format!("`{package}`")) && words.contains("does not cover it"),
                "{words}"
            );
            assert_eq!(words.contains("1.2.3`, or install it"), !is_exact, "{words}");
        }
        for line in [
            "npx",
            "npx -y",
            "npx ./server",
            "npm run start",
            "uv run server.py",
            "node server.js",
            "my-npx x",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn a_package_that_is_installed_beside_the_server_is_covered() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("node_modules/@scope/server");
        std::fs::create_dir_all(&package).unwrap();
        let run = of("npx -y @scope/server@1.2.3").unwrap();
        assert_eq!(run.installed_files(folder.path()), Vec::<PathBuf>::new());
        for (name, text) in
            [("package.json", r#"{"bin":{"server":"run.js","gone":"gone.js"}}"#), ("run.js", "1")]
        {
            std::fs::write(package.join(name), text).unwrap();
        }
        let lock = folder.path().join("node_modules/.package-lock.json");
        std::fs::write(&lock, "{}").unwrap();
        let files = run.installed_files(folder.path());
        assert_eq!(files, [package.join("package.json"), package.join("run.js"), lock]);
        assert!(of("npx -y @scope/../server").unwrap().installed_files(folder.path()).is_empty());
    }
}
