//! Targets of a client: a command to start, or a URL.

#[cfg(feature = "http")]
pub(crate) mod authorizer;
pub(crate) mod env_secrets;
#[cfg(feature = "stdio")]
pub(crate) mod process_event;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A server to connect to.
///
/// ```
/// use hospes::client::Target;
///
/// let files = Target::command("npx").args(["-y", "@modelcontextprotocol/server-filesystem", "."]).env("DEBUG", "1");
/// let remote = Target::url("https://example.com/mcp").header("authorization", "Bearer …");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A program that is started and spoken to over its stdin and stdout.
    Command(CommandTarget),
    /// A server that is reached over HTTP.
    Url(UrlTarget),
    /// Text that is neither a URL nor a command. Connecting returns the reason.
    Invalid {
        /// Text that was given.
        text: String,
        /// Reason it is not a target.
        why: String,
    },
}

/// A program to start. Its environment is limited to a few harmless variables (see [`CommandTarget::env`]).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandTarget {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Variables set besides those that every child gets.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory of the program. `None` inherits the client's.
    pub cwd: Option<PathBuf>,
    /// Names of the client's variables that it gets instead of the default ones.
    pub inherited: Option<Vec<OsString>>,
    /// Program that starts the server instead of the client.
    pub launcher: Option<Launcher>,
    shown: Option<String>,
}

/// A helper program that starts and supervises servers. It is run with its arguments, `--`, the server's program and
/// the server's arguments. It uses the server's pipes and exits with the server's status.
///
/// `SIGTERM` makes it end the server, `SIGQUIT` makes it kill the server and all its descendants. The helper itself is
/// killed only if it does not end then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launcher {
    /// Path of the helper.
    pub program: PathBuf,
    /// Arguments of the helper itself.
    pub args: Vec<OsString>,
    /// Prefix of the names of the server's variables in the launcher's environment. It keeps variables that change how
    /// programs are loaded from affecting the launcher itself.
    pub env_prefix: OsString,
}

impl Launcher {
    /// Creates a launcher from a program, its arguments and the prefix of the server's variables.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, args: Vec<OsString>, env_prefix: impl Into<OsString>) -> Self {
        Self { program: program.into(), args, env_prefix: env_prefix.into() }
    }
}

/// A server's URL, and headers for every request to it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlTarget {
    /// URL of the endpoint.
    pub url: String,
    /// Headers that go with every request.
    pub headers: Vec<(String, String)>,
    #[cfg(feature = "http")]
    pub(crate) authorizer: Option<crate::client::target::authorizer::SharedAuthorizer>,
    shown: Option<String>,
}

impl Target {
    /// Creates a target for a program to start.
    pub fn command(program: impl Into<OsString>) -> CommandTarget {
        CommandTarget {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            inherited: None,
            launcher: None,
            shown: None,
        }
    }

    /// Creates a target for a URL.
    pub fn url(url: impl Into<String>) -> UrlTarget {
        UrlTarget {
            url: url.into(),
            headers: Vec::new(),
            #[cfg(feature = "http")]
            authorizer: None,
            shown: None,
        }
    }

    /// Parses `text` as a URL if it starts with `http://` or `https://`, otherwise as a command line. A command line is
    /// split at blanks as in a shell, with quotes and backslashes. No shell runs, so nothing is expanded.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        // Schemes are compared without regard to case (RFC 3986, section 3.1).
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        if matches!(scheme.as_deref(), Some("http" | "https")) {
            return Self::Url(Self::url(text));
        }
        match split_words(text) {
            Ok(words) => match words.split_first() {
                Some((program, args)) => Self::Command(Self::command(program).args(args)),
                None => Self::Invalid { text: text.into(), why: "the command line is empty".into() },
            },
            Err(why) => Self::Invalid { text: text.into(), why: why.into() },
        }
    }
}

impl CommandTarget {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable for the program. Besides these it gets only `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and
    /// `USER` (on Windows their counterparts), so that the client's secrets are not passed on.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets several variables.
    #[must_use]
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.env.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Passes on the client's variables with these names, if they are set, instead of the default ones (see
    /// [`env`](Self::env)).
    #[must_use]
    pub fn inherit<N: Into<OsString>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.inherited = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Has it started by another program, which looks after it.
    #[must_use]
    pub fn launched_by(mut self, launcher: Launcher) -> Self {
        self.launcher = Some(launcher);
        self
    }

    /// Sets the text that identifies the command in errors and logs. By default its arguments are shown, which may
    /// contain secrets.
    #[must_use]
    pub fn shown_as(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into());
        self
    }
}

impl UrlTarget {
    /// Adds a header to every request.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the authorizer of requests to the server. Its headers replace headers of the same name set here.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn authorizer(mut self, authorizer: std::sync::Arc<dyn crate::client::Authorizer>) -> Self {
        self.authorizer = Some(crate::client::target::authorizer::SharedAuthorizer(authorizer));
        self
    }

    /// Sets the text that identifies the URL in errors and logs. By default the URL is shown without user, password and
    /// query; its path may also contain secrets.
    #[must_use]
    pub fn shown_as(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into());
        self
    }
}

impl From<&str> for Target {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<&String> for Target {
    fn from(text: &String) -> Self {
        Self::parse(text)
    }
}

impl From<String> for Target {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

impl From<CommandTarget> for Target {
    fn from(command: CommandTarget) -> Self {
        Self::Command(command)
    }
}

impl From<UrlTarget> for Target {
    fn from(url: UrlTarget) -> Self {
        Self::Url(url)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => command.fmt(f),
            Self::Url(url) => url.fmt(f),
            Self::Invalid { text, .. } => f.write_str(text),
        }
    }
}

impl fmt::Display for CommandTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shown) = &self.shown {
            return f.write_str(shown);
        }
        f.write_str(&quote_word(&self.program.to_string_lossy()))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quote_word(&arg.to_string_lossy())))
    }
}

impl fmt::Display for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Some(shown) => f.write_str(shown),
            None => f.write_str(&redact_url(&self.url)),
        }
    }
}

// Variables and headers hold secrets, so only their names are shown.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => command.fmt(f),
            Self::Url(url) => url.fmt(f),
            Self::Invalid { text, why } => {
                f.debug_struct("Invalid").field("text", text).field("why", why).finish()
            }
        }
    }
}

impl fmt::Debug for CommandTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shown) = &self.shown {
            return f.debug_tuple("CommandTarget").field(shown).finish();
        }
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("inherited", &self.inherited)
            .field("launcher", &self.launcher)
            .finish()
    }
}

impl fmt::Debug for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlTarget")
            .field("url", &self.to_string())
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

/// Returns the URL for display, without user, password and query.
fn redact_url(url: &str) -> String {
    let Ok(mut parsed) = url::Url::parse(url) else { return url.to_owned() };
    if parsed.username().is_empty() && parsed.password().is_none() && parsed.query().is_none() {
        return url.to_owned();
    }
    // Neither fails on a URL that has a host, and one without has nothing to take away.
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    if parsed.query().is_some() {
        parsed.set_query(Some("…"));
    }
    parsed.to_string()
}

/// Quotes a word of a command line if necessary.
fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    // The backslash is part of a path on Windows, so it escapes nothing there.
    let quote = if cfg!(windows) { r#"'"'"'"# } else { r"'\''" };
    format!("'{}'", word.replace('\'', quote))
}

/// Splits a command line into words: blanks part, `'…'` keeps everything, `"…"` keeps everything but `\"` and `\\`, a
/// backslash outside of quotes keeps the next character. On Windows a backslash is part of a path.
// The crate `shell-words` drops words that begin with `#`, escapes on Windows too, and does not name the open quote.
fn split_words(line: &str) -> Result<Vec<String>, &'static str> {
    let escapes = !cfg!(windows);
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => loop {
                match chars.next() {
                    Some('\'') => {
                        // Even without a character between the quotes: `''` is an empty word.
                        word.get_or_insert_default();
                        break;
                    }
                    Some(c) => word.get_or_insert_default().push(c),
                    None => return Err("a single quote is not closed"),
                }
            },
            '"' => loop {
                match chars.next() {
                    Some('"') => {
                        word.get_or_insert_default();
                        break;
                    }
                    Some('\\') if matches!(chars.peek(), Some('"' | '\\')) => {
                        word.get_or_insert_default().extend(chars.next());
                    }
                    Some(c) => word.get_or_insert_default().push(c),
                    None => return Err("a double quote is not closed"),
                }
            },
            '\\' if escapes => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("the command line ends with a backslash"),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split_words(line).unwrap()
    }

    #[test]
    fn a_command_line_is_split_as_a_shell_does_it() {
        assert_eq!(words("npx -y  pkg"), ["npx", "-y", "pkg"]);
        assert_eq!(words(r#"a 'b c' "d \"e\" $F" g\ h"#), ["a", "b c", "d \"e\" $F", "g h"]);
        assert_eq!(words(r#"x --name="two words" ''"#), ["x", "--name=two words", ""]);
        assert_eq!(words(r#""a\nb""#), [r"a\nb"]);
        assert_eq!(words("  "), Vec::<String>::new());
        assert_eq!(split_words("it's"), Err("a single quote is not closed"));
        assert_eq!(split_words("say \"hi"), Err("a double quote is not closed"));
    }

    #[test]
    fn text_is_a_url_or_a_command() {
        assert!(matches!(Target::parse("HTTPS://example.com/mcp"), Target::Url(_)));
        assert!(matches!(Target::parse("server http://x"), Target::Command(_)));
        assert!(matches!(Target::parse(""), Target::Invalid { .. }));
        assert!(matches!(Target::parse("it's"), Target::Invalid { .. }));
    }

    #[test]
    fn what_is_shown_can_be_pasted_and_holds_no_secret() {
        let command = Target::command("my server").args(["it's", "a=b"]).env("TOKEN", "s3cret");
        assert_eq!(command.to_string(), r"'my server' 'it'\''s' a=b");
        assert_eq!(words(&command.to_string()), ["my server", "it's", "a=b"]);
        assert!(!format!("{command:?}").contains("s3cret"));
        let url =
            Target::url("https://me:s3cret@example.com/mcp?token=s3cret").header("authorization", "s3cret");
        assert!(!format!("{url:?} {url}").contains("s3cret"), "{url:?}");
    }
}
