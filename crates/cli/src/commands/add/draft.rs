//! A server that is being added: its entry for the configuration file, and its secrets.

use std::collections::BTreeMap;
use std::path::Path;

use hospes_bundle::BundleLaunch;
use hospes_bundle::launch::LaunchPart;
use hospes_host::config::import::secret_name;
use hospes_host::config::{ConfigLoader, PackageOrigin, PinMode, ServerConfig, TextPart, join_parts};
use hospes_registry::{LaunchPlan, PlannedText, TextPart as PlannedPart, TransportKind};
use secrecy::{ExposeSecret, SecretString};
use toml::{Table, Value};

use super::answers::AnswerMap;
use crate::exit::{CliError, CliResult};
use crate::secrets::SecretStore;

/// Name of the file that the entry is read as; it does not exist.
const DRAFT_FILE: &str = "the new entry.toml";

/// Minimum length of a secret that is masked in texts, in bytes. A shorter one occurs by chance.
const MIN_MASKED: usize = 6;

/// Maximum number of names that are tried for a secret.
const MAX_NAMES: usize = 100;

/// A server that is being added.
pub(in crate::commands) struct ServerDraft {
    /// Name in the configuration.
    pub(in crate::commands) name: String,
    /// Its table in Hospes' own format, with references in place of secrets.
    table: Table,
    /// Values of the secrets, by the names under which they are stored.
    pub(in crate::commands) secrets: BTreeMap<String, SecretString>,
    /// Names of the secrets, by the ids of the questions of a registry entry.
    secret_names: BTreeMap<String, String>,
    pub(in crate::commands) origin: PackageOrigin,
}

impl ServerDraft {
    /// Creates the draft of a command line.
    pub(in crate::commands) fn of_command(name: &str, words: &[String]) -> Self {
        let words = words.iter().map(|word| literal(word).into()).collect();
        let table = Table::from_iter([("command".to_owned(), Value::Array(words))]);
        Self::new(name, table)
    }

    /// Creates the draft of a URL. The values of its headers are sealed.
    ///
    /// # Errors
    /// If the store of the secrets cannot be read.
    pub(in crate::commands) fn of_url(
        name: &str,
        url: &str,
        headers: &[(String, SecretString)],
    ) -> CliResult<Self> {
        let mut draft = Self::new(name, Table::from_iter([("url".to_owned(), literal(url).into())]));
        let stored = StoredSecrets::open(!headers.is_empty())?;
        let mut table = Table::new();
        for (header, value) in headers {
            let wanted = secret_of(name, header);
            let secret = stored.free_name(&wanted, value.expose_secret(), &draft.secrets)?;
            draft.secrets.insert(secret.clone(), value.clone());
            table.insert(header.clone(), join_parts(&[TextPart::Secret(secret)]).into());
        }
        if !table.is_empty() {
            draft.table.insert("headers".to_owned(), Value::Table(table));
        }
        Ok(draft)
    }

    /// Creates the draft of a bundle's command. A text with a secret in it is sealed as a whole.
    ///
    /// # Errors
    /// If the store of the secrets cannot be read.
    pub(in crate::commands) fn of_bundle(
        name: &str,
        launch: &BundleLaunch,
        folder: &Path,
    ) -> CliResult<Self> {
        let mut draft = Self::new(name, Table::new());
        let stored = StoredSecrets::open(!launch.secrets.is_empty())?;
        let sealed = |part: &LaunchPart| launch.secrets.iter().find(|secret| secret.part == *part);
        let mut text = |part: LaunchPart, text: &str| -> CliResult<String> {
            let Some(secret) = sealed(&part) else { return Ok(literal(text)) };
            let wanted = secret_of(name, &secret.key);
            let name = stored.free_name(&wanted, text, &draft.secrets)?;
            draft.secrets.insert(name.clone(), SecretString::from(text.to_owned()));
            Ok(join_parts(&[TextPart::Secret(name)]))
        };
        let mut words = vec![Value::from(text(LaunchPart::Command, &launch.command)?)];
        for (index, arg) in launch.args.iter().enumerate() {
            words.push(text(LaunchPart::Argument(index), arg)?.into());
        }
        let env = launch.env.iter().map(|(name, value)| {
            Ok((name.clone(), Value::from(text(LaunchPart::Environment(name.clone()), value)?)))
        });
        let env = env.collect::<CliResult<Table>>()?;
        draft.table.insert("command".to_owned(), Value::Array(words));
        // Bundles name their files by relative paths, too.
        draft.table.insert("cwd".to_owned(), literal(&folder.to_string_lossy()).into());
        if !env.is_empty() {
            draft.table.insert("env".to_owned(), Value::Table(env));
        }
        Ok(draft)
    }

    /// Creates the draft of a plan.
    ///
    /// # Errors
    /// If the store of the secrets cannot be read.
    pub(in crate::commands) fn of_plan(name: &str, plan: &LaunchPlan) -> CliResult<Self> {
        let mut draft = Self::new(name, Table::new());
        draft.name_secrets(plan)?;
        if let Some(command) = &plan.command {
            let mut words = vec![Value::from(literal(command))];
            for arg in &plan.args {
                words.push(draft.text(arg).into());
            }
            draft.table.insert("command".to_owned(), Value::Array(words));
        }
        if let Some(url) = &plan.url {
            let url = draft.text(url);
            draft.table.insert("url".to_owned(), url.into());
            let transport = match plan.transport {
                TransportKind::Sse => Some("sse"),
                TransportKind::StreamableHttp => Some("streamable-http"),
                _ => None,
            };
            if let Some(transport) = transport {
                draft.table.insert("transport".to_owned(), transport.into());
            }
        }
        for (key, members) in [("env", &plan.env), ("headers", &plan.headers)] {
            if !members.is_empty() {
                let members =
                    members.iter().map(|(name, text)| (name.clone(), Value::from(draft.text(text))));
                let members = members.collect::<Table>();
                draft.table.insert(key.to_owned(), Value::Table(members));
            }
        }
        draft.origin.registry = Some(plan.registry_name.clone());
        draft.origin.version.clone_from(&plan.version);
        draft.origin.digest.clone_from(&plan.digest);
        Ok(draft)
    }

    /// Chooses the names of the secrets of a plan.
    fn name_secrets(&mut self, plan: &LaunchPlan) -> CliResult {
        let stored = StoredSecrets::open(!plan.secrets.is_empty())?;
        let values = plan.env.iter().chain(&plan.headers).map(|(_, text)| text);
        for part in values.chain(&plan.args).chain(&plan.url).flat_map(PlannedText::parts) {
            let PlannedPart::Secret { question, value } = part else { continue };
            let name = stored.free_name(&secret_of(&self.name, question), value, &self.secrets)?;
            self.secrets.insert(name.clone(), SecretString::from(value.clone()));
            self.secret_names.insert(question.clone(), name);
        }
        Ok(())
    }

    /// Returns the name under which the answer to a question is stored.
    pub(in crate::commands) fn secret_name(&self, question: &str) -> String {
        self.secret_names.get(question).cloned().unwrap_or_else(|| secret_of(&self.name, question))
    }

    fn new(name: &str, table: Table) -> Self {
        Self {
            name: name.to_owned(),
            table,
            secrets: BTreeMap::new(),
            secret_names: BTreeMap::new(),
            origin: PackageOrigin::default(),
        }
    }

    /// Replaces the first `count` words of the command.
    pub(in crate::commands) fn set_program(&mut self, count: usize, words: &[String]) {
        if let Some(Value::Array(command)) = self.table.get_mut("command") {
            let count = count.min(command.len());
            command.splice(..count, words.iter().map(|word| Value::from(literal(word))));
        }
    }

    /// Returns the program and its arguments, as written.
    pub(in crate::commands) fn program(&self) -> Vec<String> {
        let words = self.table.get("command").and_then(Value::as_array);
        words.into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
    }

    /// Sets the sandbox, or removes it.
    pub(in crate::commands) fn set_sandbox(&mut self, sandbox: Option<Table>) {
        self.table.remove("sandbox");
        if let Some(sandbox) = sandbox {
            self.table.insert("sandbox".to_owned(), Value::Table(sandbox));
        }
    }

    /// Switches the server off in its entry.
    pub(super) fn switch_off(&mut self) {
        self.table.insert("enabled".to_owned(), false.into());
        // Otherwise a host without rules would accept all when the server is switched on.
        self.table.insert("pins".to_owned(), PinMode::Ask.as_str().into());
    }

    /// Returns true if the server is switched off in its entry.
    pub(super) fn is_switched_off(&self) -> bool {
        self.table.contains_key("enabled")
    }

    /// Replaces the secrets in a text of the server, and the words of a secret, such as the token in `Bearer TOKEN`.
    pub(in crate::commands) fn mask(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for secret in self.secrets.values() {
            let secret = secret.expose_secret();
            let words = std::iter::once(secret).chain(secret.split_whitespace());
            for word in words.filter(|word| word.len() >= MIN_MASKED) {
                masked = masked.replace(word, "•••");
            }
        }
        masked
    }

    /// Replaces the secrets in an error of the server.
    pub(in crate::commands) fn mask_error(&self, error: CliError) -> CliError {
        let mask = |text: String| self.mask(&text);
        CliError {
            message: mask(error.message),
            hint: error.hint.map(mask),
            url: error.url.map(mask),
            cause: error.cause.map(mask),
            ..error
        }
    }

    /// Returns the names of the secrets that are exactly an answer, by the ids of the questions.
    pub(in crate::commands) fn whole_secrets(&self, answers: &AnswerMap) -> BTreeMap<String, String> {
        let found = self.secrets.iter().filter_map(|(name, value)| {
            let mut same = answers.iter().filter(|(_, values)| values.as_slice() == [value.expose_secret()]);
            Some((same.next()?.0.clone(), name.clone()))
        });
        found.collect()
    }

    /// Returns a text of the plan in the form of the configuration. Its secrets are taken out.
    fn text(&mut self, text: &PlannedText) -> String {
        let parts = text.parts().iter().map(|part| match part {
            PlannedPart::Plain(plain) => TextPart::Literal(plain.clone()),
            PlannedPart::Secret { question, value } => {
                let name = self.secret_name(question);
                self.secrets.insert(name.clone(), SecretString::from(value.clone()));
                TextPart::Secret(name)
            }
            _ => TextPart::Literal(String::new()),
        });
        let parts: Vec<TextPart> = parts.collect();
        join_parts(&parts)
    }

    /// Returns the entry as it is written to the file, with references.
    pub(in crate::commands) fn entry(&self) -> CliResult<ServerConfig> {
        self.read(&ConfigLoader::new().keep_references(true).allow_unset(true))
    }

    /// Returns the entry as it is started, with the secrets.
    pub(in crate::commands) fn resolved(&self) -> CliResult<ServerConfig> {
        let secrets: BTreeMap<String, String> = self
            .secrets
            .iter()
            .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
            .collect();
        self.read(&ConfigLoader::new().secrets(move |name| Ok(secrets.get(name).cloned())))
    }

    fn read(&self, loader: &ConfigLoader<'_>) -> CliResult<ServerConfig> {
        let servers = Table::from_iter([(self.name.clone(), Value::Table(self.table.clone()))]);
        let file = Table::from_iter([("servers".to_owned(), Value::Table(servers))]);
        let config = loader
            .parse(Path::new(DRAFT_FILE), &file.to_string())
            .map_err(|errors| CliError::usage(format!("the server cannot be configured: {errors}")))?;
        let mut server = config.servers.into_iter().next().ok_or_else(|| {
            CliError::usage("the server cannot be configured: its entry names no command and no URL")
        })?;
        server.origin = self.origin.clone();
        Ok(server)
    }
}

/// Creates a draft in a thread, because a keyring may ask the person before it answers.
pub(super) async fn in_thread(
    create: impl FnOnce() -> CliResult<ServerDraft> + Send + 'static,
) -> CliResult<ServerDraft> {
    let created = tokio::task::spawn_blocking(create).await;
    created.map_err(|error| CliError::usage("cannot read the stored secrets").with_cause(&error))?
}

/// Secrets that are stored already. Those of other servers are not overwritten.
struct StoredSecrets(Option<SecretStore>);

impl StoredSecrets {
    /// Opens the store, if there is one and something is to be stored.
    fn open(is_needed: bool) -> CliResult<Self> {
        let store = if is_needed { SecretStore::open_existing()? } else { None };
        Ok(Self(store))
    }

    /// Returns the wanted name, with a number if another secret has it.
    fn free_name(
        &self,
        wanted: &str,
        value: &str,
        given: &BTreeMap<String, SecretString>,
    ) -> CliResult<String> {
        for number in 1..=MAX_NAMES {
            let name =
                if number == 1 { wanted.to_owned() } else { secret_name(&format!("{wanted}.{number}")) };
            let is_other = |known: &SecretString| known.expose_secret() != value;
            if given.get(&name).is_some_and(is_other) {
                continue;
            }
            let stored = self.0.as_ref().map(|store| store.read(&name)).transpose()?.flatten();
            if stored.is_none_or(|stored| stored == value) {
                return Ok(name);
            }
        }
        Err(CliError::usage(format!("all names of the secret `{wanted}` are taken"))
            .hint("`hospes secret list` shows them; remove those that are not used"))
    }
}

/// Returns the name under which the answer to a question of a server is stored, if it is free.
fn secret_of(server: &str, question: &str) -> String {
    secret_name(&format!("{server}.{question}"))
}

/// Writes a text that is no reference, whatever is in it.
pub(in crate::commands) fn literal(text: &str) -> String {
    join_parts(&[TextPart::Literal(text.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_server_is_shown_without_its_secrets() {
        let mut draft = ServerDraft::new("a", Table::new());
        draft.secrets.insert("a.key".to_owned(), SecretString::from("Bearer s3cret-token".to_owned()));
        let mut error = CliError::usage("no s3cret-token").hint("not s3cret-token");
        error.cause = Some("it is s3cret-token".to_owned());
        let masked = draft.mask_error(error);
        assert_eq!(masked.message, "no •••");
        assert_eq!((masked.hint.as_deref(), masked.cause.as_deref()), (Some("not •••"), Some("it is •••")));
    }
}
