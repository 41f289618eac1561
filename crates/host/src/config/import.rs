//! Import of servers from the files of applications: found, merged, freed of secrets, and added to Hospes' own file.
//!
//! Nothing here writes to a file of an application, and no command in one is run.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ConfigLoader;
use super::applications::{Application, ApplicationFile, PlaceScope};
use super::error::{ConfigError, ConfigSource};
use super::model::{ConfigInput, HostConfig, ServerConfig};
use super::secret::{ExpandedText, Secret, ServerUrl};
pub use super::secret_finder::MAX_SECRET_VALUE;
use super::secret_finder::{
    has_secret, is_secret_name, is_worth_sealing, names_secret, secret_ranges, url_secrets,
};
use super::server_transport::ServerTransport;
use super::text_parts::{TextPart, join_parts, text_parts};

/// File in which a server was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOrigin {
    /// The application; `None` for a file that was named.
    pub application: Option<&'static Application>,
    /// Owner of the file.
    pub scope: PlaceScope,
    /// Location of the entry.
    pub source: ConfigSource,
}

impl ServerOrigin {
    /// Returns the short name of the origin: the id of the application, or the name of the file.
    #[must_use]
    pub fn id(&self) -> String {
        match self.application {
            Some(application) => application.id.to_owned(),
            None => self.source.file().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// A server that was found, in one or several files. Its references are kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FoundServer {
    /// The server.
    pub server: ServerConfig,
    /// The files that have it, at least one.
    pub origins: Vec<ServerOrigin>,
    /// Values that an application asks its user for, and to which the server refers.
    pub inputs: Vec<ConfigInput>,
    /// Settings of the entries that are not taken over, as sentences.
    pub left_out: Vec<String>,
}

impl FoundServer {
    /// Returns true if the server is in files of projects only, which may come from others.
    #[must_use]
    pub fn is_of_project(&self) -> bool {
        self.origins.iter().all(|origin| origin.scope == PlaceScope::Project)
    }
}

/// An entry that cannot be taken over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RefusedServer {
    /// Name of the server.
    pub name: String,
    /// Where it is.
    pub origin: ServerOrigin,
    /// Reason.
    pub reason: String,
}

impl RefusedServer {
    /// Creates the refusal of an entry.
    pub fn new(name: impl Into<String>, origin: ServerOrigin, reason: impl Into<String>) -> Self {
        Self { name: name.into(), origin, reason: reason.into() }
    }
}

/// Servers of several files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundServers {
    /// The servers, those of one name beside each other. Several of one name are different.
    pub servers: Vec<FoundServer>,
    /// Entries that cannot be taken over.
    pub refused: Vec<RefusedServer>,
    /// Files with servers, and their number.
    pub files: Vec<(ApplicationFile, usize)>,
    /// Files that cannot be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl FoundServers {
    /// Reads the file of an application. A mistake in an entry stops this entry only. `variables` are those of the
    /// environment, for the home folder; `project` is the value of `${workspaceFolder}`.
    pub fn add_file(
        &mut self,
        file: &ApplicationFile,
        project: &Path,
        variables: &(dyn Fn(&str) -> Option<String> + Send + Sync),
    ) {
        let count = self.add(Some(file.application), file.scope, &file.path, project, variables);
        if let Some(count) = count {
            self.files.push((file.clone(), count));
        }
    }

    /// Reads a file that was named. Its servers belong to the user, who has chosen it.
    pub fn add_named(
        &mut self,
        file: &Path,
        project: &Path,
        variables: &(dyn Fn(&str) -> Option<String> + Send + Sync),
    ) {
        self.add(None, PlaceScope::User, file, project, variables);
    }

    fn add(
        &mut self,
        application: Option<&'static Application>,
        scope: PlaceScope,
        file: &Path,
        project: &Path,
        variables: &(dyn Fn(&str) -> Option<String> + Send + Sync),
    ) -> Option<usize> {
        let loader = ConfigLoader::new()
            .variables(variables)
            .workspace(project)
            .keep_references(true)
            .keep_going(true)
            .allow_unset(true);
        let config = match loader.load([file]) {
            Ok(config) => config,
            Err(errors) => {
                // Most files of settings name no servers.
                if application.is_none() || !errors.iter().all(ConfigError::names_no_servers) {
                    self.unreadable.push((file.to_owned(), errors.full_text()));
                }
                return None;
            }
        };
        let count = config.servers.len() + config.rejected.len() + config.skipped.len();
        let HostConfig { servers, rejected, skipped, inputs, warnings, .. } = config;
        let origin = |source| ServerOrigin { application, scope, source };
        for rejected in rejected {
            let (name, origin) = (rejected.name, origin(rejected.source));
            self.refused.push(RefusedServer { name, origin, reason: rejected.errors.to_string() });
        }
        for skipped in skipped {
            let (name, origin) = (skipped.name, origin(skipped.source));
            self.refused.push(RefusedServer { name, origin, reason: skipped.reason });
        }
        for mut server in servers {
            normalize(&mut server);
            if scope == PlaceScope::Project {
                start_in_project(&mut server, project);
            }
            let origin = origin(server.source.clone());
            if is_hospes(&server) {
                let reason = "it is Hospes itself".to_owned();
                self.refused.push(RefusedServer { name: server.name, origin, reason });
                continue;
            }
            let of_server = warnings.iter().filter(|one| one.server.as_ref() == Some(&server.name));
            let left_out = of_server.map(|one| one.message.clone()).collect();
            self.merge(server, origin, &inputs, left_out);
        }
        (count > 0).then_some(count)
    }

    /// Adds a server: to an equal one of the same name, or else after the others of its name.
    fn merge(
        &mut self,
        server: ServerConfig,
        origin: ServerOrigin,
        inputs: &[ConfigInput],
        left_out: Vec<String>,
    ) {
        let is_same = |found: &&mut FoundServer| {
            found.server.name == server.name
                && found.server.transport == server.transport
                && found.server.sandbox == server.sandbox
        };
        if let Some(found) = self.servers.iter_mut().find(is_same) {
            // It is on if it is on anywhere.
            found.server.disabled &= server.disabled;
            found.origins.push(origin);
            for text in left_out {
                if !found.left_out.contains(&text) {
                    found.left_out.push(text);
                }
            }
            return;
        }
        let used = input_ids(&server);
        let mut inputs: Vec<_> = inputs.iter().filter(|input| used.contains(&input.id)).cloned().collect();
        for id in used {
            if !inputs.iter().any(|input| input.id == id) {
                // The application has it elsewhere, in a keyring for example.
                let description = String::new();
                inputs.push(ConfigInput {
                    id,
                    description,
                    is_secret: true,
                    options: Vec::new(),
                    default: None,
                });
            }
        }
        let at = self.servers.iter().rposition(|found| found.server.name == server.name);
        let at = at.map_or(self.servers.len(), |last| last + 1);
        self.servers.insert(at, FoundServer { server, origins: vec![origin], inputs, left_out });
    }
}

/// Brings a server into the form in which its entry in Hospes' own file is read again.
fn normalize(server: &mut ServerConfig) {
    for text in texts(&mut server.transport) {
        let own = text.text.get().to_owned();
        text.text.set(own);
    }
    let times = &mut server.timeouts;
    for time in [&mut times.connect, &mut times.request, &mut times.park].into_iter().flatten() {
        *time = Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1));
    }
}

/// Sets the folder in which a server of a project is started, if its command line has a path that begins there.
fn start_in_project(server: &mut ServerConfig, project: &Path) {
    let ServerTransport::Stdio(stdio) = &mut server.transport else { return };
    let command = stdio.command.reveal();
    let is_path = |word: &str| {
        ["./", "../", ".\\", "..\\"].iter().any(|start| word.starts_with(start))
            || word == "."
            || word == ".."
    };
    let is_relative = command.contains(['/', '\\']) && Path::new(command).is_relative();
    let has_reference = command.starts_with("${");
    if stdio.cwd.is_none()
        && (is_relative && !has_reference || stdio.args.iter().any(|word| is_path(word.reveal())))
    {
        stdio.cwd = Some(project.to_owned());
    }
}

/// Returns true if an entry starts or reaches this program, whose servers would then be its own.
fn is_hospes(server: &ServerConfig) -> bool {
    match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let program = stdio.command.reveal().rsplit(['/', '\\']).next().unwrap_or_default();
            let is_own = program.trim_end_matches(".exe") == "hospes";
            is_own && stdio.args.first().is_some_and(|word| word.reveal() == "stdio")
        }
        ServerTransport::Http(http) => {
            let url = http.url.reveal();
            super::is_loopback(url) && url.port() == Some(7337) && url.path() == "/mcp"
        }
        ServerTransport::Builtin(_) => false,
    }
}

/// A text of a server, and how to replace it.
struct ServerText<'s> {
    /// The setting, as part of the name of a secret: `env.TOKEN`.
    field: String,
    /// True if the setting's name denotes a secret.
    is_secret: bool,
    text: TextSlot<'s>,
}

enum TextSlot<'s> {
    Expanded(&'s mut ExpandedText),
    Secret(&'s mut Secret),
    Url(&'s mut ServerUrl),
}

impl TextSlot<'_> {
    fn get(&self) -> &str {
        match self {
            Self::Expanded(text) => text.reveal(),
            Self::Secret(text) => text.reveal(),
            Self::Url(url) => url.written(),
        }
    }

    fn set(self, text: String) {
        match self {
            // The written form is shown to people, so it must not keep what was replaced.
            Self::Expanded(slot) => *slot = ExpandedText::new(text.clone(), text),
            Self::Secret(slot) => *slot = Secret::new(text),
            Self::Url(slot) => *slot = ServerUrl::unresolved(text),
        }
    }
}

/// Returns the texts of a server that may hold references.
fn texts(transport: &mut ServerTransport) -> Vec<ServerText<'_>> {
    let mut texts = Vec::new();
    match transport {
        ServerTransport::Stdio(stdio) => {
            let expanded = TextSlot::Expanded;
            texts.push(ServerText {
                field: "command".to_owned(),
                is_secret: false,
                text: expanded(&mut stdio.command),
            });
            let mut after_option = false;
            for (index, arg) in stdio.args.iter_mut().enumerate() {
                let word = arg.reveal();
                let is_option = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
                let is_secret = std::mem::replace(&mut after_option, is_option) && !is_option;
                texts.push(ServerText { field: format!("arg{index}"), is_secret, text: expanded(arg) });
            }
            for (name, value) in &mut stdio.env {
                let is_secret = names_secret(name);
                texts.push(ServerText { field: name.clone(), is_secret, text: TextSlot::Secret(value) });
            }
        }
        ServerTransport::Http(http) => {
            let text = TextSlot::Url(&mut http.url);
            texts.push(ServerText { field: "url".to_owned(), is_secret: false, text });
            for (name, value) in &mut http.headers {
                let is_secret = names_secret(name);
                texts.push(ServerText { field: name.clone(), is_secret, text: TextSlot::Secret(value) });
            }
            if let Some(secret) = http.client.as_mut().and_then(|client| client.secret.as_mut()) {
                let field = "client_secret".to_owned();
                texts.push(ServerText { field, is_secret: true, text: TextSlot::Secret(secret) });
            }
        }
        ServerTransport::Builtin(_) => {}
    }
    texts
}

fn input_ids(server: &ServerConfig) -> BTreeSet<String> {
    let mut server = server.clone();
    let mut ids = BTreeSet::new();
    for text in texts(&mut server.transport) {
        for part in text_parts(text.text.get()) {
            if let TextPart::Input(id) = part {
                ids.insert(id);
            }
        }
    }
    ids
}

/// Returns the environment variables that a server refers to without a default.
#[must_use]
pub fn required_variables(server: &ServerConfig) -> BTreeSet<String> {
    references(server, |part| match part {
        TextPart::Variable { name, default: None } => Some(name),
        _ => None,
    })
}

/// Returns the sealed secrets that a server refers to.
#[must_use]
pub fn required_secrets(server: &ServerConfig) -> BTreeSet<String> {
    references(server, |part| match part {
        TextPart::Secret(name) => Some(name),
        _ => None,
    })
}

fn references(server: &ServerConfig, wanted: impl Fn(TextPart) -> Option<String>) -> BTreeSet<String> {
    let mut server = server.clone();
    let mut found: BTreeSet<String> = BTreeSet::new();
    for text in texts(&mut server.transport) {
        found.extend(text_parts(text.text.get()).into_iter().filter_map(&wanted));
    }
    found
}

/// A secret that was taken out of a server's entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SealedValue {
    /// Name under which it is stored.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

impl SealedValue {
    /// Creates a value that is stored under a name.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: Secret::new(value) }
    }
}

/// Replaces the secrets of a server by references to sealed ones, and returns them. A secret is a value whose name
/// denotes one (`API_TOKEN`, `Authorization`), text in the format of a known token, or the password or key in a URL.
///
/// `choose_name` returns the name under which a value is stored, from a proposed one.
pub fn take_secrets(
    server: &mut ServerConfig,
    choose_name: &mut dyn FnMut(&str, &str) -> String,
) -> Vec<SealedValue> {
    let prefix = server.name.clone();
    take_secrets_of(&prefix, &mut server.transport, choose_name)
}

/// Returns the secrets of a server whose references are resolved: those that an import would seal.
pub(super) fn find_secrets(transport: &ServerTransport) -> Vec<Secret> {
    let mut transport = transport.clone();
    if let ServerTransport::Http(http) = &mut transport {
        // The written form has references in place of the values.
        http.url = ServerUrl::new(http.url.reveal().clone());
    }
    let found = take_secrets_of("", &mut transport, &mut |name, _| name.to_owned());
    found.into_iter().map(|sealed| sealed.value).collect()
}

fn take_secrets_of(
    prefix: &str,
    transport: &mut ServerTransport,
    choose_name: &mut dyn FnMut(&str, &str) -> String,
) -> Vec<SealedValue> {
    let mut taken = Vec::new();
    for ServerText { field, is_secret, text } in texts(transport) {
        let is_url = matches!(text, TextSlot::Url(_));
        let mut seal = |value: &str| {
            let name = choose_name(&secret_name(&format!("{prefix}.{field}")), value);
            taken.push(SealedValue { name: name.clone(), value: Secret::new(value) });
            TextPart::Secret(name)
        };
        let before = text_parts(text.get());
        let is_whole = before.len() == 1;
        let mut in_urls = url_secrets_of_parts(&before).into_iter();
        let mut after = Vec::with_capacity(before.len());
        for part in before {
            let in_urls = in_urls.next().unwrap_or_default();
            match part {
                TextPart::Literal(literal) => {
                    let ranges = secret_ranges(&literal, &field, is_secret && is_whole, is_url, in_urls);
                    seal_literal(&literal, ranges, &mut seal, &mut after);
                }
                // A default cannot be a reference, so the whole reference is replaced.
                TextPart::Variable { name, default: Some(default) }
                    if is_worth_sealing(&default)
                        && (is_secret || has_secret(&field, &default) || names_secret(&name)) =>
                {
                    after.push(seal(&default));
                }
                other => after.push(other),
            }
        }
        let joined = join_parts(&after);
        if joined != text.get() {
            text.set(joined);
        }
    }
    taken
}

/// Returns the secrets of the URLs in a text, for each of its parts. A URL may go on after a reference.
fn url_secrets_of_parts(parts: &[TextPart]) -> Vec<Vec<Range<usize>>> {
    /// Stands for a reference, and is in no URL.
    const REFERENCE: &str = "\u{fffc}";
    let mut whole = String::new();
    let mut places = Vec::with_capacity(parts.len());
    for part in parts {
        let start = whole.len();
        match part {
            TextPart::Literal(literal) => whole.push_str(literal),
            _ => whole.push_str(REFERENCE),
        }
        places.push(start..whole.len());
    }
    let found = url_secrets(&whole);
    let of_part = |place: Range<usize>| {
        let cut = found.iter().map(|range| range.start.max(place.start)..range.end.min(place.end));
        let cut = cut.filter(|range| range.start < range.end);
        cut.map(|range| range.start - place.start..range.end - place.start).collect()
    };
    places.into_iter().map(of_part).collect()
}

/// Seals the secrets in a literal text, and appends its parts.
fn seal_literal(
    literal: &str,
    ranges: Vec<Range<usize>>,
    seal: &mut dyn FnMut(&str) -> TextPart,
    parts: &mut Vec<TextPart>,
) {
    let mut at = 0;
    let push = |from: usize, to: usize, parts: &mut Vec<TextPart>| {
        if from < to {
            parts.push(TextPart::Literal(literal[from..to].to_owned()));
        }
    };
    for range in ranges {
        push(at, range.start, parts);
        parts.push(seal(&literal[range.clone()]));
        at = range.end;
    }
    push(at, literal.len(), parts);
}

/// Returns a valid name of a secret: characters that it cannot have become `-`.
#[must_use]
pub fn secret_name(text: &str) -> String {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let valid = text.chars().map(|letter| if is_valid(letter) { letter } else { '-' });
    let name: String = valid.take(super::MAX_SECRET_NAME).collect();
    if name.is_empty() { "secret".to_owned() } else { name }
}

/// Replaces `${input:ID}` by an answer: a text, or a reference to a sealed secret.
pub fn fill_input(server: &mut ServerConfig, id: &str, answer: &TextPart) {
    for text in texts(&mut server.transport) {
        let parts = text_parts(text.text.get());
        if parts.iter().any(|part| matches!(part, TextPart::Input(used) if used == id)) {
            let filled = parts.into_iter().map(|part| match part {
                TextPart::Input(used) if used == id => answer.clone(),
                other => other,
            });
            text.text.set(join_parts(&filled.collect::<Vec<_>>()));
        }
    }
}

#[cfg(test)]
mod tests;
