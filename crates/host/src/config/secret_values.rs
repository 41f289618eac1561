//! Secret values of a server's entry, which are masked in what others say.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use url::Url;
use url::form_urlencoded;

use super::import::find_secrets;
use super::secret::{Secret, ServerUrl, is_reference};
use super::secret_finder::{looks_like_key, may_be_secret, names_secret};
use super::secret_matcher::SecretMatcher;
use super::server_transport::ServerTransport;

/// Minimum length of a masked text, in bytes. A shorter one occurs by chance.
const MIN_MASKED_BYTES: usize = 6;

/// Maximum number of values. It bounds the memory of a host whose secrets change often; the oldest are dropped.
const MAX_VALUES: usize = 4096;

/// Text in place of a masked one.
const MASK: &str = "•••";

/// Headers whose values are no secrets.
const PLAIN_HEADERS: [&str; 4] = ["accept", "accept-language", "content-type", "user-agent"];

/// Base64 with or without padding, as `Basic` credentials are written.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Secret values that a server was given and may repeat: errors reach logs, the status, the terminal and the model. They
/// are also found in base64, and with the escapes of JSON and URLs.
#[derive(Clone, Default)]
pub struct SecretValues {
    values: Vec<String>,
    /// Created for the first text after a change.
    matcher: OnceLock<Option<SecretMatcher>>,
}

impl SecretValues {
    /// Collects the values of the headers and in the URL of a server, and the secrets of a command.
    #[must_use]
    pub fn of(transport: &ServerTransport) -> Self {
        let mut values = Self::default();
        if let ServerTransport::Http(http) = transport {
            values.add_written_url(&http.url);
            for (_, value) in http.headers.iter().filter(|(name, _)| !is_plain_header(name)) {
                values.add(value.reveal());
            }
        }
        values.add_found(transport);
        values
    }

    /// Adds the values of a server that are certainly secrets. What a program prints has other texts than errors in it, and
    /// they must not be masked because an ordinary word is the value of a header.
    pub fn add_certain(&mut self, transport: &ServerTransport) {
        match transport {
            ServerTransport::Http(http) => {
                self.add_url(http.url.reveal());
                for (name, value) in &http.headers {
                    self.add_header(name, value.reveal());
                }
            }
            ServerTransport::Stdio(stdio) => {
                for (name, value) in &stdio.env {
                    self.add_variable(name, value.reveal());
                }
            }
            ServerTransport::Builtin(_) => {}
        }
        self.add_found(transport);
    }

    /// Adds the secrets that an import would seal. One that is written with percent escapes is used decoded.
    fn add_found(&mut self, transport: &ServerTransport) {
        for secret in find_secrets(transport) {
            match secret.reveal() {
                encoded if encoded.contains('%') => self.add_encoded(encoded),
                plain => self.add(plain),
            }
        }
    }

    /// Adds the value of a header if it is certainly a secret.
    pub fn add_header(&mut self, name: &str, value: &str) {
        if is_plain_header(name) {
            return;
        }
        if names_secret(name) {
            self.add(value);
        }
        value.split_whitespace().filter(|word| may_be_secret(word)).for_each(|word| self.add(word));
    }

    /// Adds the value of a variable if it is certainly a secret.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        if names_secret(name) {
            self.add(value);
        }
    }

    /// Adds the parts of a URL that are certainly secrets.
    pub fn add_url(&mut self, url: &Url) {
        self.add_encoded(url.password().unwrap_or_default());
        for text in [url.username(), url.fragment().unwrap_or_default()] {
            if may_be_secret(text) {
                self.add_encoded(text);
            }
        }
        for pair in url.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or(("", pair));
            if names_secret(name) || may_be_secret(value) {
                self.add_encoded(value);
            }
        }
        for segment in url.path_segments().into_iter().flatten().filter(|segment| looks_like_key(segment)) {
            self.add_encoded(segment);
        }
    }

    /// Adds a value, and its words, such as the token in `Bearer TOKEN`.
    pub fn add(&mut self, value: &str) {
        self.add_text(value);
        let words: Vec<&str> = value.split_whitespace().collect();
        // The scheme of `Bearer TOKEN` is no secret.
        let is_scheme = |word: &str| {
            words.len() > 1
                && ["bearer", "basic", "token", "apikey", "digest", "dpop"]
                    .iter()
                    .any(|scheme| word.eq_ignore_ascii_case(scheme))
        };
        words.iter().filter(|word| !is_scheme(word)).for_each(|word| self.add_text(word));
        // Of `Basic BASE64`, a server repeats the password.
        if let [scheme, credentials] = words.as_slice()
            && scheme.eq_ignore_ascii_case("basic")
            && let Some(decoded) =
                BASE64.decode(credentials).ok().and_then(|bytes| String::from_utf8(bytes).ok())
        {
            self.add_text(&decoded);
            self.add_text(decoded.split_once(':').map_or("", |(_, password)| password));
        }
    }

    /// Adds the values of another collection.
    pub fn extend_from(&mut self, others: &Self) {
        others.values.iter().for_each(|value| self.add_text(value));
    }

    /// Adds a value, but not its words. References to values, which are shown as they are, are left out.
    pub fn add_text(&mut self, value: &str) {
        if value.len() < MIN_MASKED_BYTES
            || value.split_whitespace().any(is_reference)
            || self.values.iter().any(|known| known == value)
        {
            return;
        }
        if self.values.len() >= MAX_VALUES {
            self.values.remove(0);
        }
        self.values.push(value.to_owned());
        self.matcher = OnceLock::new();
    }

    /// Adds what [`redact_url`](super::redact_url) hides of a URL, and what stands in place of references.
    fn add_written_url(&mut self, url: &ServerUrl) {
        let found = url.reveal();
        for text in [found.username(), found.password().unwrap_or_default()] {
            self.add_encoded(text);
        }
        for pair in found.query().unwrap_or_default().split('&') {
            self.add_encoded(pair.split_once('=').map_or(pair, |(_, value)| value));
        }
        self.add_encoded(found.fragment().unwrap_or_default());
        let written = Url::parse(url.written()).ok();
        let written: Vec<&str> = written.iter().flat_map(Url::path_segments).flatten().collect();
        for segment in found.path_segments().into_iter().flatten() {
            if looks_like_key(segment) || !written.contains(&segment) {
                self.add_encoded(segment);
            }
        }
    }

    /// Adds a part of a URL as it stands there, and decoded.
    pub(super) fn add_encoded(&mut self, text: &str) {
        self.add(text);
        // Decodes `%` and `+`, as for the value of a form.
        let pairs = form_urlencoded::parse(text.as_bytes());
        pairs.for_each(|(name, value)| {
            self.add(&name);
            self.add(&value);
        });
    }

    /// Replaces the values in a text.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        self.replace(text, MASK).into_owned()
    }

    /// Replaces the values in a text by another text.
    #[must_use]
    pub fn replace<'t>(&self, text: &'t str, mark: &str) -> Cow<'t, str> {
        let matcher = self.matcher.get_or_init(|| SecretMatcher::new(&self.values));
        let found = matcher.as_ref().map(|matcher| matcher.find(text)).unwrap_or_default();
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
        for range in found {
            shown.push_str(&text[at..range.start]);
            shown.push_str(mark);
            at = range.end;
        }
        shown.push_str(&text[at..]);
        Cow::Owned(shown)
    }
}

fn is_plain_header(name: &str) -> bool {
    PLAIN_HEADERS.iter().any(|plain| name.eq_ignore_ascii_case(plain))
}

impl Extend<Secret> for SecretValues {
    fn extend<T: IntoIterator<Item = Secret>>(&mut self, values: T) {
        values.into_iter().for_each(|value| self.add(value.reveal()));
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretValues").field("count", &self.values.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConfigLoader;
    use super::*;

    fn values(entry: &str) -> SecretValues {
        let variable = |name: &str| Some(format!("s3cret-{}", name.to_lowercase()));
        let loader = ConfigLoader::new().variables(variable);
        let config = loader.parse("h.toml", &format!("[servers.a]\n{entry}")).unwrap();
        SecretValues::of(&config.servers[0].transport)
    }

    #[test]
    fn what_a_server_repeats_of_its_headers_is_masked() {
        let values = values(
            "url = 'https://a.example/mcp'\n[servers.a.headers]\nAuthorization = 'Bearer ${KEY}'\n\
             X-Short = 'abc'\naccept = 'application/json'",
        );
        assert_eq!(
            values.mask("401: bad token s3cret-key; send application/json, not abc"),
            "401: bad token •••; send application/json, not abc"
        );
        assert!(!format!("{values:?}").contains("s3cret"));
    }

    #[test]
    fn what_a_server_repeats_of_its_url_is_masked() {
        let values = values(
            "url = 'https://me:pass%20word@a.example/v1/${KEY}/4f1c0ab93d7e/mcp?key=${QUERY}&app=a+longer%2Fone#fragment'",
        );
        for (text, masked) in [
            ("no pass word, no pass%20word", "no •••, no •••"),
            ("/v1/s3cret-key/4f1c0ab93d7e/mcp", "/v1/•••/•••/mcp"),
            ("key=s3cret-query", "key=•••"),
            ("a longer/one is a+longer%2Fone", "••• is •••"),
            ("the server at a.example", "the server at a.example"),
        ] {
            assert_eq!(values.mask(text), masked);
        }
    }

    #[test]
    fn a_value_within_another_leaves_nothing_of_it() {
        let mut values = SecretValues::default();
        values.extend(["s3cret".into(), "s3cret-token".into()].map(|text: String| Secret::new(text)));
        assert_eq!(values.mask("s3cret-token and s3cret"), "••• and •••");
    }

    #[test]
    fn the_encoded_forms_of_a_header_are_masked_and_ordinary_words_of_a_program_stay() {
        let text = "url = 'https://me:pass%20word@a.example/mcp?api_key=${QUERY}&app=console'\n[servers.a.headers]\n\
                    Authorization = 'Basic bWU6aHVudGVyMg=='\nX-Team = 'engineering'";
        let variable = |name: &str| Some(format!("s3cret-{}", name.to_lowercase()));
        let config =
            ConfigLoader::new().variables(variable).parse("h.toml", &format!("[servers.a]\n{text}")).unwrap();
        let mut values = SecretValues::default();
        values.add_certain(&config.servers[0].transport);
        for (text, masked) in [
            ("bWU6aHVudGVyMg== is me:hunter2, or hunter2", "••• is •••, or •••"),
            ("the console of engineering", "the console of engineering"),
            ("czNjcmV0LXF1ZXJ5 \\u0073\\u0033cret-query s3cret%2Dquery", "••• ••• •••"),
            ("pass word pass%20word", "••• •••"),
        ] {
            assert_eq!(values.mask(text), masked);
        }
        let all = SecretValues::of(&config.servers[0].transport);
        assert_eq!(all.mask("the console of engineering"), "the ••• of •••");
    }

    #[test]
    fn secrets_of_a_command_are_masked() {
        let values = values(
            "command = ['x', '--api-key', '${KEY}', 'postgresql://app:pw%2Fof-db@db/x']\n\
             env = { DSN = 'mysql://u:other-pw@h/d', MODE = 'production' }",
        );
        assert_eq!(
            values.mask("s3cret-key pw/of-db pw%2fof-db other-pw production"),
            "••• ••• ••• ••• production"
        );
    }
}
