//! Secret values of a server's entry, which are masked in what others say.

use std::fmt;

use url::Url;
use url::form_urlencoded;

use super::secret::{Secret, ServerUrl, looks_like_key};
use super::server_transport::ServerTransport;

/// Minimum length of a masked text, in bytes. A shorter one occurs by chance.
const MIN_MASKED_BYTES: usize = 6;

/// Text in place of a masked one.
const MASK: &str = "•••";

/// Headers whose values are no secrets.
const PLAIN_HEADERS: [&str; 4] = ["accept", "accept-language", "content-type", "user-agent"];

/// Secret values that a server was given and may repeat: errors reach logs, the status, the terminal and the model.
#[derive(Clone, Default)]
pub struct SecretValues(Vec<String>);

impl SecretValues {
    /// Collects the values of the headers and in the URL of a server. Those of a child process are not known to be secret.
    #[must_use]
    pub fn of(transport: &ServerTransport) -> Self {
        let mut values = Self::default();
        if let ServerTransport::Http(http) = transport {
            values.add_url(&http.url);
            let is_secret = |name: &str| !PLAIN_HEADERS.iter().any(|plain| name.eq_ignore_ascii_case(plain));
            for (_, value) in http.headers.iter().filter(|(name, _)| is_secret(name)) {
                values.add(value.reveal());
            }
        }
        values
    }

    /// Adds a value, and its words, such as the token in `Bearer TOKEN`.
    pub fn add(&mut self, value: &str) {
        let words = std::iter::once(value).chain(value.split_whitespace());
        for word in words.filter(|word| word.len() >= MIN_MASKED_BYTES) {
            if !self.0.iter().any(|known| known == word) {
                self.0.push(word.to_owned());
            }
        }
        // The longest first: a shorter one may be a part of it.
        self.0.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// Adds what [`redact_url`](super::redact_url) hides of a URL, and what stands in place of references.
    fn add_url(&mut self, url: &ServerUrl) {
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
    fn add_encoded(&mut self, text: &str) {
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
        self.0.iter().fold(text.to_owned(), |text, value| text.replace(value, MASK))
    }
}

impl Extend<Secret> for SecretValues {
    fn extend<T: IntoIterator<Item = Secret>>(&mut self, values: T) {
        values.into_iter().for_each(|value| self.add(value.reveal()));
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretValues").field("count", &self.0.len()).finish()
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
}
