//! Export of servers in the form of an application.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use hospes_sandbox::SandboxKind;

use super::applications::{
    EntryShape, FileFormat, HttpShape, ServerListing, StdioShape, TimeoutShape, VariableSyntax,
};
use super::export_value::{ExportMembers, ExportValue, toml_text};
use super::import::take_secrets;
use super::model::{ServerConfig, ServerTimeouts};
use super::secret::{ExpandedText, Secret};
use super::server_transport::{
    BuiltinTransport, HttpFlavour, HttpTransport, ServerTransport, StdioTransport,
};
use super::text_parts::{TextPart, text_parts};

/// Maximum length of a variable that stands for a secret, in bytes.
const MAX_VARIABLE: usize = 64;

/// Function that returns the value of a sealed secret, or the reason why there is none.
pub type RevealSecret<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Servers in the form of an application.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExportedServers {
    /// Text of a file with the servers, and nothing else.
    pub text: String,
    /// Variables that stand for secrets, with the names of the secrets.
    pub variables: BTreeMap<String, String>,
    /// Servers and settings that the application cannot have, with the reasons.
    pub omitted: Vec<(String, String)>,
    /// True if the text has the values of secrets.
    pub has_secrets: bool,
}

/// Writes servers in the form of an application. Their references must have been
/// [kept](super::ConfigLoader::keep_references).
///
/// A secret becomes a reference to a variable, in the form of the application, or a placeholder in angle brackets if the
/// application has no references; so does one that stands in the configuration itself. With `reveal`, it becomes its
/// value. `program` is the path of this program, which
/// serves built-in servers.
///
/// # Errors
/// If the value of a secret cannot be read.
pub fn export_servers(
    servers: &[ServerConfig],
    shape: &EntryShape,
    program: &Path,
    reveal: Option<&RevealSecret<'_>>,
) -> Result<ExportedServers, String> {
    let mut writer = EntryWriter {
        shape,
        program,
        reveal,
        variables: BTreeMap::new(),
        taken: servers.iter().flat_map(own_variables).collect(),
        omitted: Vec::new(),
        inputs: BTreeSet::new(),
        literals: BTreeMap::new(),
        has_secrets: false,
        failure: None,
    };
    let mut entries = Vec::new();
    for server in servers {
        let mut sealed = server.clone();
        let literal = writer.take_literals(&mut sealed);
        match writer.entry(if literal && reveal.is_none() { &sealed } else { server }) {
            Ok(entry) => entries.push((server.name.clone(), entry)),
            Err(reason) => writer.omitted.push((server.name.clone(), reason)),
        }
    }
    if let Some(failure) = writer.failure {
        return Err(failure);
    }
    let mut root = match shape.listing {
        ServerListing::List => {
            let named = entries.into_iter().map(|(name, entry)| ExportValue::Object(with_name(&name, entry)));
            ExportValue::List(named.collect())
        }
        ServerListing::NamedObject => ExportValue::Object(
            entries
                .into_iter()
                .map(|(name, entry)| (name.clone(), ExportValue::Object(with_name(&name, entry))))
                .collect(),
        ),
        ServerListing::Object => ExportValue::Object(
            entries.into_iter().map(|(name, entry)| (name, ExportValue::Object(entry))).collect(),
        ),
    };
    for key in shape.key.iter().rev() {
        root = ExportValue::Object(vec![((*key).to_owned(), root)]);
    }
    if let ExportValue::Object(members) = &mut root
        && !writer.inputs.is_empty()
    {
        let inputs = writer.inputs.iter().map(|id| {
            ExportValue::Object(vec![
                ("id".to_owned(), ExportValue::text(id)),
                ("type".to_owned(), ExportValue::text("promptString")),
                ("description".to_owned(), ExportValue::text(id)),
                ("password".to_owned(), ExportValue::Boolean(true)),
            ])
        });
        members.insert(0, ("inputs".to_owned(), ExportValue::List(inputs.collect())));
    }
    let text = match shape.format {
        FileFormat::Json => format!("{}\n", root.json(0)),
        FileFormat::Yaml => root.yaml(0),
        FileFormat::Toml => toml_text(&root, shape.key),
    };
    let EntryWriter { variables, omitted, has_secrets, .. } = writer;
    Ok(ExportedServers { text, variables, omitted, has_secrets })
}

pub(super) fn with_name(name: &str, mut entry: ExportMembers) -> ExportMembers {
    entry.insert(0, ("name".to_owned(), ExportValue::text(name)));
    entry
}

/// Writes a program and its arguments.
pub(super) fn command_members(shape: &StdioShape, command: &str, args: Vec<String>) -> ExportMembers {
    let mut entry = Vec::new();
    if let Some(kind) = shape.kind {
        entry.push(("type".to_owned(), ExportValue::text(kind)));
    }
    if shape.is_array {
        let words: Vec<String> = std::iter::once(command.to_owned()).chain(args).collect();
        entry.push((shape.command.to_owned(), ExportValue::texts(&words)));
    } else {
        entry.push((shape.command.to_owned(), ExportValue::text(command)));
        // Without it, a reader may split the command at spaces.
        entry.push(("args".to_owned(), ExportValue::texts(&args)));
    }
    entry
}

/// Writer of the entries of an application.
struct EntryWriter<'a> {
    shape: &'a EntryShape,
    program: &'a Path,
    reveal: Option<&'a RevealSecret<'a>>,
    variables: BTreeMap<String, String>,
    /// Variables to which the entries refer by themselves.
    taken: BTreeSet<String>,
    omitted: Vec<(String, String)>,
    /// Ids of values that the application asks for.
    inputs: BTreeSet<String>,
    /// Secrets that stand in the configuration itself, under the names that they would be stored by.
    literals: BTreeMap<String, String>,
    has_secrets: bool,
    failure: Option<String>,
}

impl EntryWriter<'_> {
    /// Writes an entry, or returns the reason why the application cannot have it.
    fn entry(&mut self, server: &ServerConfig) -> Result<ExportMembers, String> {
        // A server must not run with more rights there without a word.
        if server.sandbox.profile.is_demanding() && server.sandbox.profile.kind != SandboxKind::Off {
            return Err("its sandbox cannot be exported, and it would run without it".to_owned());
        }
        let mut entry = match &server.transport {
            ServerTransport::Stdio(stdio) => self.stdio(&server.name, stdio)?,
            ServerTransport::Http(http) => match &self.shape.http {
                Some(shape) => self.http(&server.name, http, shape)?,
                None => return Err("the application's file cannot name a server with a URL".to_owned()),
            },
            ServerTransport::Builtin(builtin) => self.builtin(builtin)?,
        };
        if server.disabled {
            match self.shape.off {
                Some((key, value)) => entry.push((key.to_owned(), ExportValue::Boolean(value))),
                None => return Err("it is disabled, and the application's file cannot say so".to_owned()),
            }
        }
        self.timeouts(&server.name, &server.timeouts, &mut entry);
        for (key, value) in self.shape.required {
            if !entry.iter().any(|(known, _)| known == key) {
                entry.push(((*key).to_owned(), value.written()));
            }
        }
        if server.tools.include.is_some() || !server.tools.exclude.is_empty() {
            self.omit(&server.name, "the filter of its tools is not exported");
        }
        Ok(entry)
    }

    fn timeouts(&mut self, name: &str, times: &ServerTimeouts, entry: &mut ExportMembers) {
        // Rounded up: a call must not have less time there than here.
        let seconds = |time: Duration| ExportValue::Number(time.as_millis().div_ceil(1000).to_string());
        let milliseconds = |time: Duration| ExportValue::Number(time.as_millis().to_string());
        let fraction = |time: Duration| match time.subsec_millis() {
            0 => ExportValue::Number(time.as_secs().to_string()),
            part => ExportValue::Number(format!("{}.{part:03}", time.as_secs())),
        };
        let mut push = |key: &str, value: Option<ExportValue>| {
            let is_written = value.is_some();
            entry.extend(value.map(|value| (key.to_owned(), value)));
            is_written
        };
        let (connect, request) = (times.connect, times.request);
        let (has_connect, has_request) = match self.shape.timeouts {
            TimeoutShape::Nothing => (false, false),
            TimeoutShape::Seconds => (false, push("timeout", request.map(seconds))),
            TimeoutShape::Milliseconds => (false, push("timeout", request.map(milliseconds))),
            TimeoutShape::StartAndTool => (
                push("startup_timeout_sec", connect.map(fraction)),
                push("tool_timeout_sec", request.map(fraction)),
            ),
            TimeoutShape::StartAndExecution => {
                let members = [("startup", connect), ("execution", request)].into_iter();
                let members: ExportMembers =
                    members.filter_map(|(key, time)| Some((key.to_owned(), milliseconds(time?)))).collect();
                push("timeout", (!members.is_empty()).then_some(ExportValue::Object(members)));
                (true, true)
            }
        };
        for (key, is_set, is_written) in [
            ("connect_timeout", connect.is_some(), has_connect),
            ("request_timeout", request.is_some(), has_request),
        ] {
            if is_set && !is_written {
                self.omit(
                    name,
                    &format!("`{key}` is not exported: the application's file has no such setting"),
                );
            }
        }
    }

    /// Replaces the secrets that stand in an entry by references. Returns true if there are any.
    fn take_literals(&mut self, server: &mut ServerConfig) -> bool {
        let taken = take_secrets(server, &mut |proposed, value| {
            let is_free = |name: &String| self.literals.get(name).is_none_or(|known| known == value);
            let numbered = (2..).map(|number| format!("{proposed}_{number}"));
            let name = std::iter::once(proposed.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
            self.literals.insert(name.clone(), value.to_owned());
            name
        });
        self.has_secrets |= self.reveal.is_some() && !taken.is_empty();
        !taken.is_empty()
    }

    fn omit(&mut self, server: &str, reason: &str) {
        self.omitted.push((server.to_owned(), reason.to_owned()));
    }

    fn stdio(&mut self, name: &str, stdio: &StdioTransport) -> Result<ExportMembers, String> {
        let command = self.text(stdio.command.reveal())?;
        let args = stdio.args.iter().map(|arg| self.text(arg.reveal())).collect::<Result<Vec<_>, _>>()?;
        let mut entry = command_members(&self.shape.stdio, &command, args);
        let mut env = Vec::new();
        let mut passed = stdio.pass_env.clone();
        for (variable, value) in &stdio.env {
            // Codex has no references, but hands on variables by their names.
            let is_passed = matches!(
                text_parts(value.reveal()).as_slice(),
                [TextPart::Variable { name, default: None }] if name == variable
            );
            if is_passed && self.shape.format == FileFormat::Toml {
                passed.push(variable.clone());
            } else {
                env.push((variable.clone(), ExportValue::Text(self.text(value.reveal())?)));
            }
        }
        if self.shape.format == FileFormat::Toml {
            if !passed.is_empty() {
                entry.push(("env_vars".to_owned(), ExportValue::texts(&passed)));
            }
        } else {
            for variable in passed {
                let reference = self.shape.variables.reference(&variable, false);
                let Some(reference) = reference else {
                    self.omit(name, &format!("`{variable}` of `pass_env` is not exported"));
                    continue;
                };
                env.push((variable, ExportValue::Text(reference)));
            }
        }
        if !env.is_empty() {
            entry.push((self.shape.stdio.env.to_owned(), ExportValue::Object(env)));
        }
        if stdio.env_file.is_some() {
            self.omit(name, "`env_file` is not exported");
        }
        match &stdio.cwd {
            Some(folder) if self.shape.stdio.has_cwd => {
                entry.push(("cwd".to_owned(), ExportValue::text(&folder.to_string_lossy())));
            }
            Some(_) => self.omit(name, "`cwd` is not exported"),
            None => {}
        }
        Ok(entry)
    }

    fn builtin(&mut self, builtin: &BuiltinTransport) -> Result<ExportMembers, String> {
        let mut args = vec!["serve".to_owned(), builtin.name.clone()];
        for arg in builtin.args.iter().map(ExpandedText::reveal) {
            args.push(self.text(arg)?);
        }
        Ok(command_members(&self.shape.stdio, &self.program.to_string_lossy(), args))
    }

    fn http(&mut self, name: &str, http: &HttpTransport, shape: &HttpShape) -> Result<ExportMembers, String> {
        let mut entry = Vec::new();
        let kind = match http.flavour {
            HttpFlavour::Sse if shape.kind.is_some() => {
                let sse = shape.sse.ok_or("the application does not support HTTP+SSE")?;
                Some(sse)
            }
            _ => shape.kind,
        };
        if let Some(kind) = kind {
            entry.push(("type".to_owned(), ExportValue::text(kind)));
        }
        entry.push((shape.url.to_owned(), ExportValue::Text(self.text(http.url.written())?)));
        let mut headers = Vec::new();
        let mut from_variables = Vec::new();
        for (header, value) in &http.headers {
            let parts = text_parts(value.reveal());
            let variable = match parts.as_slice() {
                [TextPart::Variable { name, default: None }] => Some(name),
                [TextPart::Literal(scheme), TextPart::Variable { name, default: None }]
                    if scheme == "Bearer " && header.eq_ignore_ascii_case("authorization") =>
                {
                    Some(name)
                }
                _ => None,
            };
            match variable {
                Some(variable) if self.shape.format == FileFormat::Toml && parts.len() == 2 => {
                    entry.push(("bearer_token_env_var".to_owned(), ExportValue::text(variable)));
                }
                Some(variable) if self.shape.format == FileFormat::Toml => {
                    from_variables.push((header.clone(), ExportValue::text(variable)));
                }
                _ => headers.push((header.clone(), ExportValue::Text(self.text(value.reveal())?))),
            }
        }
        if !from_variables.is_empty() {
            entry.push(("env_http_headers".to_owned(), ExportValue::Object(from_variables)));
        }
        if !headers.is_empty()
            && let Some((first, rest)) = shape.headers.split_first()
        {
            let mut value = ExportValue::Object(headers);
            for key in rest.iter().rev() {
                value = ExportValue::Object(vec![((*key).to_owned(), value)]);
            }
            entry.push(((*first).to_owned(), value));
        }
        if !http.scopes.is_empty() {
            match self.shape.format {
                FileFormat::Toml => {
                    entry.push(("scopes".to_owned(), ExportValue::texts(&http.scopes)));
                }
                _ => self.omit(
                    name,
                    "its scopes are not exported; choose them at the sign-in within the application",
                ),
            }
        }
        if http.client.is_some() {
            self.omit(name, "its registered client is not exported; sign in within the application");
        }
        Ok(entry)
    }

    /// Translates a text of Hospes' own form.
    fn text(&mut self, text: &str) -> Result<String, String> {
        let syntax = self.shape.variables;
        let mut written = String::new();
        for part in text_parts(text) {
            match part {
                TextPart::Literal(literal) => {
                    let is_reference = match syntax {
                        VariableSyntax::None => false,
                        VariableSyntax::OpenCode => literal.contains("{env:") || literal.contains("{file:"),
                        _ => literal.contains("${"),
                    };
                    if is_reference {
                        return Err(
                            "it has a text that the application would take for a reference".to_owned()
                        );
                    }
                    written.push_str(&literal);
                }
                TextPart::Variable { name, default } => match syntax.reference(&name, false) {
                    Some(_) if default.is_some() && syntax == VariableSyntax::Braces => {
                        let _ = write!(written, "${{{name}:-{}}}", default.unwrap_or_default());
                    }
                    Some(reference) => written.push_str(&reference),
                    None => {
                        let _ = write!(written, "<{name}>");
                    }
                },
                TextPart::Secret(name) => {
                    let secret = self.secret(&name);
                    written.push_str(&secret);
                }
                TextPart::Input(id) => {
                    return Err(format!("it refers to the input `{id}`, which is not exported"));
                }
                TextPart::Other(reference) => {
                    return Err(format!("it refers to `{reference}`, which is not exported"));
                }
            }
        }
        Ok(written)
    }

    fn secret(&mut self, name: &str) -> String {
        if let Some(reveal) = self.reveal {
            self.has_secrets = true;
            return match reveal(name) {
                Ok(value) => value,
                Err(problem) => {
                    self.failure.get_or_insert(problem);
                    String::new()
                }
            };
        }
        let variable = variable_name(name, &self.variables, &self.taken);
        self.variables.insert(variable.clone(), name.to_owned());
        match self.shape.variables.reference(&variable, true) {
            Some(reference) => {
                if self.shape.variables == VariableSyntax::Inputs {
                    self.inputs.insert(variable);
                }
                reference
            }
            None => format!("<{variable}>"),
        }
    }
}

/// Returns the variables to which the entry of a server refers.
fn own_variables(server: &ServerConfig) -> Vec<String> {
    let texts: Vec<&str> = match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let values = stdio.env.values().map(Secret::reveal);
            let words = std::iter::once(&stdio.command).chain(&stdio.args).map(ExpandedText::reveal);
            words.chain(values).collect()
        }
        ServerTransport::Http(http) => {
            let values = http.headers.iter().map(|(_, value)| value.reveal());
            std::iter::once(http.url.written()).chain(values).collect()
        }
        ServerTransport::Builtin(builtin) => builtin.args.iter().map(ExpandedText::reveal).collect(),
    };
    let mut names = match &server.transport {
        ServerTransport::Stdio(stdio) => stdio.pass_env.clone(),
        _ => Vec::new(),
    };
    for part in texts.into_iter().flat_map(text_parts) {
        if let TextPart::Variable { name, .. } = part {
            names.push(name);
        }
    }
    names
}

/// Returns the variable that stands for a secret: its last part, or all of its name if another secret has that, or an
/// entry refers to a variable of that name.
fn variable_name(secret: &str, known: &BTreeMap<String, String>, taken: &BTreeSet<String>) -> String {
    let valid = |text: &str| {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name: String = text.chars().take(MAX_VARIABLE).map(letter).collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
            format!("_{name}")
        } else {
            name
        }
    };
    let is_free =
        |name: &String| !taken.contains(name) && known.get(name).is_none_or(|known| known == secret);
    let last = secret.rsplit('.').next().unwrap_or(secret);
    let proposed = [valid(last), valid(secret)].into_iter();
    let numbered = (2..).map(|number| format!("{}_{number}", valid(secret)));
    proposed.chain(numbered).find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests;
