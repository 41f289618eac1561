//! Source of a server, as it is named on the command line of `hospes add`.

use std::path::{Path, PathBuf};

use hospes_registry::{RegistryType, ServerEntry};
use serde_json::json;

use crate::args::AddArgs;
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::packages::name::{PREFIXES, package_entry};
use crate::{builtins, typed_commands};

/// Source of a server.
#[derive(Debug)]
pub(super) enum AddSource {
    /// Full name in the registry: it has a slash.
    Registered(String),
    /// Words to search for in the registry.
    Words(String),
    /// URL of a server.
    Url(String),
    /// A package, as an entry like those of the registry.
    Package(Box<ServerEntry>),
    /// A package without a version: the newest is meant.
    NewestPackage { kind: RegistryType, identifier: String },
    /// Bundle in a file.
    Bundle(PathBuf),
    /// Command line.
    Command(Vec<String>),
}

impl AddSource {
    /// Reads what was named.
    pub(super) fn parse(server: Option<&str>, command: &[String], sha256: Option<&str>) -> CliResult<Self> {
        if let Some(program) = command.first() {
            Self::check_program(program, command.len() == 1)?;
            return Ok(Self::Command(command.to_vec()));
        }
        let word = server.unwrap_or_default().trim();
        if word.is_empty() {
            return Err(CliError::usage("no server was named").hint("`hospes search WORD` finds servers"));
        }
        let is_bundle = |path: &str| {
            let path = path.to_ascii_lowercase();
            [".mcpb", ".dxt"].iter().any(|ending| path.ends_with(ending))
        };
        if word.contains("://") {
            let url = url::Url::parse(word).map_err(|error| {
                CliError::usage(format!("`{}` is not a URL", printable(word))).with_cause(&error)
            })?;
            // The query is no part of the name of the file. Only a bundle has a hash.
            return match is_bundle(url.path()) || sha256.is_some() {
                true => Self::bundle_url(word, url.path(), sha256),
                false => Ok(Self::Url(word.to_owned())),
            };
        }
        if is_bundle(word) {
            return Ok(Self::Bundle(PathBuf::from(word)));
        }
        let first = word.split_whitespace().next();
        if let Some(first) = first.filter(|_| typed_commands::is_command_line(word.split_whitespace())) {
            return Err(CliError::usage(format!(
                "`{}` is a command, and no server of the registry",
                printable(word)
            ))
            .hint(typed_commands::usage(&printable(first))));
        }
        // A stranger may publish a server of this name.
        if builtins::names().any(|name| name == word) {
            return Err(CliError::usage(format!("`{word}` is a server that is part of Hospes")).hint(format!(
                "write it into the configuration: [servers.{word}] with `builtin = \"{word}\"`. Name a server of the \
                 registry in full: `hospes search {word}` finds them"
            )));
        }
        for (prefix, kind) in &PREFIXES {
            if let Some(package) = word.strip_prefix(prefix) {
                // A version alone names no package either.
                if package.is_empty()
                    || package.starts_with("@") && !package.contains('/')
                    || package.starts_with("==")
                {
                    return Err(CliError::usage(format!("a package name is missing after `{prefix}`")).hint(
                        format!("`{prefix}NAME` names a package; `hospes search WORD` finds servers"),
                    ));
                }
                return Self::package(kind, package);
            }
        }
        Ok(match word.contains('/') && !word.contains(char::is_whitespace) {
            true => Self::Registered(word.to_owned()),
            false => Self::Words(word.to_owned()),
        })
    }

    /// Applies the options of the command line.
    ///
    /// # Errors
    /// If the source does not use an option that was given: it would not have the effect that the person expects.
    pub(super) fn with_options(self, args: &AddArgs) -> CliResult<Self> {
        let (is_url, is_command) = (matches!(self, Self::Url(_)), matches!(self, Self::Command(_)));
        let is_file = matches!(self, Self::Bundle(_));
        let is_downloaded = matches!(&self, Self::Package(entry)
            if entry.packages.iter().any(|package| package.registry_type == RegistryType::Mcpb));
        let is_of_registry = matches!(self, Self::Registered(_) | Self::Words(_));
        let is_newest = matches!(self, Self::NewestPackage { .. });
        let has_answers = !is_url && !is_command;
        let is_installed = has_answers && !is_file && !is_downloaded;
        for (option, is_given, is_used) in [
            ("--sha256", args.sha256.is_some(), is_file || is_downloaded),
            ("--version", args.version.is_some(), is_of_registry || is_newest),
            ("--package", args.package.is_some(), is_of_registry),
            ("--no-install", args.no_install, is_installed),
            ("--set", !args.set.is_empty(), has_answers),
            ("--secret", !args.secret.is_empty(), has_answers),
            ("--header", !args.header.is_empty(), is_url),
        ] {
            if is_given && !is_used {
                return Err(CliError::usage(format!("{option} is not used for {}", self.describe()))
                    .hint("nothing was added; leave it out, or see `hospes add --help`"));
            }
        }
        match (self, args.version.as_deref()) {
            (Self::NewestPackage { kind, identifier }, Some(version)) if version != "latest" => {
                let entry = package_entry(&kind, &identifier, Some(version))?;
                Ok(Self::Package(Box::new(entry)))
            }
            (source, _) => Ok(source),
        }
    }

    /// Checks the first word of a command.
    fn check_program(program: &str, is_alone: bool) -> CliResult {
        if typed_commands::is_url(program) {
            return Err(CliError::usage("this is a URL, and no command").hint(
                "write it without `--`: hospes add --name NAME URL; in the configuration, `url = \"…\"`",
            ));
        }
        let first = program.split_whitespace().next().unwrap_or_default();
        if is_alone && first != program && !Path::new(program).exists() {
            return Err(CliError::usage(format!("there is no program `{}`", printable(program))).hint(format!(
                "if these are a program and its arguments, they must not be quoted together: hospes add -- {} …",
                printable(first)
            )));
        }
        Ok(())
    }

    fn describe(&self) -> &'static str {
        match self {
            Self::Registered(_) | Self::Words(_) => "a server of the registry",
            Self::Url(_) => "a server at a URL",
            Self::Package(_) => "a package whose version is named",
            Self::NewestPackage { .. } => "a package",
            Self::Bundle(_) => "a bundle",
            Self::Command(_) => "a command",
        }
    }

    /// Makes an entry of the URL of a bundle, whose hash has to be known.
    fn bundle_url(url: &str, path: &str, sha256: Option<&str>) -> CliResult<Self> {
        let Some(sha256) = sha256 else {
            return Err(CliError::usage(
                "the hash of the bundle is not known, so the download could not be checked",
            )
            .hint(
                "add --sha256 HEX with the hash that its publisher names, or download it and add the file",
            ));
        };
        let name = path.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or_default();
        let name: String =
            name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
        let entry = json!({
            "name": format!("package/{}", if name.is_empty() { "bundle" } else { &name }),
            "description": "Bundle",
            "version": "1",
            "packages": [{
                "registryType": "mcpb",
                "identifier": url,
                "fileSha256": sha256.to_ascii_lowercase(),
                "transport": { "type": "stdio" },
            }],
        });
        let entry = ServerEntry::from_value(entry).map_err(|error| {
            CliError::usage(format!("`{}` is not a bundle", printable(url))).with_cause(&error)
        })?;
        Ok(Self::Package(Box::new(entry)))
    }

    /// Splits the text of a package into its name and its version.
    fn package(kind: &RegistryType, package: &str) -> CliResult<Self> {
        let entry = |entry: CliResult<ServerEntry>| entry.map(|entry| Self::Package(Box::new(entry)));
        let (identifier, version) = match kind {
            // The tag or digest of an image belongs to its name.
            RegistryType::Oci => return entry(package_entry(kind, package, None)),
            RegistryType::Pypi => {
                package.split_once("==").map_or((package, None), |(name, version)| (name, Some(version)))
            }
            // An `@` at the beginning belongs to the scope.
            _ => match package.rfind('@').filter(|at| *at > 0) {
                Some(at) => (&package[..at], Some(&package[at + 1..])),
                None => (package, None),
            },
        };
        match version.filter(|version| *version != "latest") {
            Some(version) => entry(package_entry(kind, identifier, Some(version))),
            None => Ok(Self::NewestPackage { kind: kind.clone(), identifier: identifier.to_owned() }),
        }
    }
}
