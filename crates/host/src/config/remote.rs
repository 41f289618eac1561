//! Reader of entries for servers with a URL.

use url::Url;

use super::document::{ConfigEntry, ConfigNode, ConfigValue};
use super::error::ConfigError;
use super::expand::ConfigDialect;
use super::nearest::hint;
use super::secret::{ExpandedText, Secret, ServerUrl};
use super::server::ServerEntryReader;
use super::server_transport::{AccountChoice, HttpFlavour, HttpTransport, PreregisteredClient};

impl ServerEntryReader<'_, '_, '_> {
    pub(super) fn http(&mut self, entry: &ConfigEntry, flavour: HttpFlavour) -> Option<HttpTransport> {
        let headers = self.headers();
        let text = self.table.expanded(&entry.node, &entry.key, self.scope, self.report)?;
        if self.scope.dialect != ConfigDialect::Own
            && let Some((scheme, _)) = text.reveal().split_once("://")
            && matches!(scheme, "unix" | "pipe")
        {
            let name = &entry.key;
            let reason = format!(
                "`{name}` is a local socket (`{scheme}:`), and Hospes connects by `http:` and `https:`"
            );
            self.unusable = Some(reason);
            return None;
        }
        if self.scope.keep {
            return Some(self.kept_http(headers, text.reveal(), flavour));
        }
        let url = match Url::parse(text.reveal()) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            // What could not be expanded makes no URL, and a disabled server needs none.
            _ if self.scope.allow_unset && text.reveal().contains(['$', '{']) => {
                Url::parse("http://unset.invalid/").ok()?
            }
            _ => {
                let hint = match text.reveal().split_once("://") {
                    None if text.reveal().contains(['.', ':']) => "; it lacks `https://`",
                    _ => "",
                };
                let expected = "a URL that begins with `http://` or `https://`";
                return self.table.invalid(&entry.node.at, &entry.key, expected, hint, self.report);
            }
        };
        let account = self.account(&headers);
        let scopes = self.scopes(&headers);
        let client = self.client(&headers);
        let plain_http = self.table.boolean("plain_http", self.report).unwrap_or(false);
        Some(HttpTransport {
            url: ServerUrl::expanded(text.written().to_owned(), url),
            headers,
            flavour,
            plain_http,
            account,
            scopes,
            client,
        })
    }

    /// Returns the transport with its references. The URL need not be one before they are resolved.
    fn kept_http(
        &mut self,
        headers: Vec<(String, Secret)>,
        written: &str,
        flavour: HttpFlavour,
    ) -> HttpTransport {
        let account = self.account(&headers);
        let scopes = self.scopes(&headers);
        let client = self.client(&headers);
        let plain_http = self.table.boolean("plain_http", self.report).unwrap_or(false);
        let url = ServerUrl::unresolved(written.to_owned());
        HttpTransport { url, headers, flavour, plain_http, account, scopes, client }
    }

    /// Reads the client that another application has for the server's authorization server.
    fn foreign_client(&mut self, headers: &[(String, Secret)]) -> Option<Box<PreregisteredClient>> {
        let entry = self.take("oauth")?;
        // `"auth": "oauth"` and `"oauth": false` hold no client.
        let members = entry.node.as_object()?;
        let (mut id, mut secret) = (None, None);
        for member in members {
            let found = match member.key.as_str() {
                "clientId" | "client_id" | "CLIENT_ID" => &mut id,
                "clientSecret" | "client_secret" | "CLIENT_SECRET" => &mut secret,
                "enabled" => continue,
                // Read with those of the entry.
                "scopes" | "scope" => continue,
                other => {
                    let message =
                        format!("`{}.{other}` is not supported by Hospes and is ignored", entry.key);
                    self.report.warn(&member.at, Some(self.name), message);
                    continue;
                }
            };
            let field = format!("{}.{}", entry.key, member.key);
            *found = self.table.expanded(&member.node, &field, self.scope, self.report);
        }
        let id = id?.reveal().to_owned();
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            let message = format!("`{}` is ignored because the header `Authorization` is set", entry.key);
            self.report.warn(&entry.at, Some(self.name), message);
            return None;
        }
        if !self.scope.keep && hospes_auth::ClientId::new(&*id).is_err() {
            let expected = "a client ID as issued by the authorization server";
            return self.table.invalid(&entry.node.at, &entry.key, expected, "", self.report);
        }
        let secret = secret.map(ExpandedText::into_secret);
        Some(Box::new(PreregisteredClient { id, secret, issuer: None }))
    }

    /// Reads the client that is registered with the server's authorization server.
    fn client(&mut self, headers: &[(String, Secret)]) -> Option<Box<PreregisteredClient>> {
        if self.scope.dialect != ConfigDialect::Own {
            return self.foreign_client(headers);
        }
        let mut given = None;
        let mut text = |reader: &mut Self, key| {
            let entry = reader.take(key)?;
            given.get_or_insert(entry);
            let text = reader.table.expanded(&entry.node, &entry.key, reader.scope, reader.report)?;
            if text.reveal().trim().is_empty() {
                let expected = "a non-empty string";
                return reader.table.invalid(&entry.node.at, &entry.key, expected, "", reader.report);
            }
            Some((entry, text.into_secret()))
        };
        let id = text(self, "client_id");
        let secret = text(self, "client_secret");
        let issuer = text(self, "client_issuer");
        if let Some((entry, issuer)) = &issuer
            && !self.scope.keep
            && hospes_auth::Issuer::new(issuer.reveal()).is_err()
        {
            let expected = "the issuer URL of the authorization server";
            self.table.invalid::<()>(&entry.node.at, &entry.key, expected, "", self.report);
        }
        let given = given?;
        // What is the same for everybody would be sent, and nobody would sign in.
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            self.report_contradiction(given, format!("`{}`", given.key), "the header `Authorization`");
        }
        let Some((_, id)) = id else {
            if self.table.has("client_id") {
                // It is there, and what is wrong with it was said.
                return None;
            }
            let expected = format!("a string, because `{}` is set", given.key);
            return self.table.invalid(&given.at, "client_id", expected, "", self.report);
        };
        if !self.scope.keep && hospes_auth::ClientId::new(id.reveal()).is_err() {
            return self.table.invalid(
                &given.node.at,
                "client_id",
                "a client ID as issued by the authorization server",
                "",
                self.report,
            );
        }
        let (secret, issuer) = (secret.map(|(_, text)| text), issuer.map(|(_, text)| text));
        let issuer = issuer.map(|issuer| issuer.reveal().to_owned());
        Some(Box::new(PreregisteredClient { id: id.reveal().to_owned(), secret, issuer }))
    }

    /// Reads the scopes to request at a sign-in. The client of another application may have them, too: as a list, or as
    /// one text with blanks between them.
    fn scopes(&mut self, headers: &[(String, Secret)]) -> Vec<String> {
        let given = self.table.entry("scopes");
        let mut scopes = self.table.strings("scopes", self.report).unwrap_or_default();
        if given.is_none()
            && self.scope.dialect != ConfigDialect::Own
            && let Some(client) = self.table.entry("oauth").or_else(|| self.table.entry("auth"))
            && let Some((key, node)) =
                ["scopes", "scope"].iter().find_map(|key| Some((key, client.node.get(key)?)))
        {
            scopes = self.client_scopes(node, &format!("{}.{key}", client.key));
        }
        let Some(entry) = given else { return scopes };
        let is_scope = |scope: &String| !scope.is_empty() && !scope.contains(char::is_whitespace);
        if !scopes.iter().all(is_scope) {
            let expected = "names of scopes without blanks";
            self.table.invalid::<()>(&entry.node.at, &entry.key, expected, "", self.report);
        }
        // What is the same for everybody would be sent, and nobody would sign in.
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            self.report_contradiction(entry, "`scopes`", "the header `Authorization`");
        }
        scopes
    }

    /// Reads the scopes of a client: a list, or one text with blanks between them.
    fn client_scopes(&mut self, node: &ConfigNode, field: &str) -> Vec<String> {
        let items = match &node.value {
            ConfigValue::String(text) => return text.split_whitespace().map(str::to_owned).collect(),
            ConfigValue::Null => return Vec::new(),
            ConfigValue::Array(items) => items,
            _ => {
                let expected = "a string or an array of strings";
                self.report.wrong_type::<()>(node, Some(self.name), field.to_owned(), expected);
                return Vec::new();
            }
        };
        let mut scopes = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(scope) => scopes.push(scope.to_owned()),
                None => {
                    let field = format!("{field}[{index}]");
                    self.report.wrong_type::<()>(item, Some(self.name), field, "a string");
                }
            }
        }
        scopes
    }

    fn account(&mut self, headers: &[(String, Secret)]) -> AccountChoice {
        let Some(entry) = self.take("account") else { return AccountChoice::Shared };
        match entry.node.as_str() {
            Some("shared") => AccountChoice::Shared,
            Some("per-user") => {
                // What is the same for everybody would be sent for everybody.
                if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                    self.report_contradiction(entry, "`account` = `per-user`", "the header `Authorization`");
                }
                AccountChoice::PerUser
            }
            Some(other) => {
                let hint = hint(other, ["shared", "per-user"]);
                let expected = "`shared` or `per-user`";
                self.table.invalid::<()>(&entry.node.at, &entry.key, expected, hint, self.report);
                AccountChoice::Shared
            }
            None => {
                self.report.wrong_type::<()>(&entry.node, Some(self.name), entry.key.clone(), "a string");
                AccountChoice::Shared
            }
        }
    }

    fn headers(&mut self) -> Vec<(String, Secret)> {
        let mut headers: Vec<(String, Secret)> = Vec::new();
        if let Some(entry) = self.take("headers") {
            self.header_table(&mut headers, &entry.node, &entry.key);
        }
        if let Some(entry) = self.take("request_options")
            && let Some(node) = entry.node.get("headers")
        {
            self.header_table(&mut headers, node, "requestOptions.headers");
        }
        if let Some(entry) = self.take("env_headers") {
            for header in entry.node.as_object().unwrap_or_default() {
                let field = format!("{}.{}", entry.key, header.key);
                if let Some(value) = self.named_variable(&header.node, &field) {
                    self.header(&mut headers, header, &field, Secret::new(value));
                }
            }
        }
        if let Some(entry) = self.take("bearer_env")
            && let Some(token) = self.named_variable(&entry.node, &entry.key)
        {
            let header = ConfigEntry {
                at: entry.at.clone(),
                key: "Authorization".to_owned(),
                node: ConfigNode { at: entry.node.at.clone(), value: ConfigValue::Null },
            };
            self.header(&mut headers, &header, &entry.key, Secret::new(format!("Bearer {token}")));
        }
        headers
    }

    fn header_table(&mut self, headers: &mut Vec<(String, Secret)>, node: &ConfigNode, path: &str) {
        let Some(entries) = node.as_object() else {
            self.report.wrong_type::<()>(node, Some(self.name), path.to_owned(), "a table");
            return;
        };
        for (index, header) in entries.iter().enumerate() {
            let field = format!("{path}.{}", header.key);
            let is_same = |first: &&ConfigEntry| first.key.eq_ignore_ascii_case(&header.key);
            if let Some(first) = entries[..index].iter().find(is_same) {
                self.report.report_repeated_key(header, Some(self.name), field, first);
                continue;
            }
            if let Some(value) = self.table.expanded(&header.node, &field, self.scope, self.report) {
                self.header(headers, header, &field, value.into_secret());
            }
        }
    }

    fn header(
        &mut self,
        headers: &mut Vec<(String, Secret)>,
        entry: &ConfigEntry,
        field: &str,
        value: Secret,
    ) {
        // RFC 9110, sections 5.1 and 5.5.
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if entry.key.is_empty() || !entry.key.bytes().all(is_token) {
            let expected = "the name of a header (letters, digits and `-`)";
            self.table.invalid::<()>(&entry.at, field, expected, "", self.report);
            return;
        }
        if value.reveal().bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
            let expected = "a value without line breaks and control characters";
            self.table.invalid::<()>(&entry.node.at, field, expected, "", self.report);
            return;
        }
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(&entry.key)) {
            self.report_contradiction(entry, format!("the header `{}`", entry.key), format!("`{field}`"));
            return;
        }
        headers.push((entry.key.clone(), value));
    }

    /// Returns the value of a variable that a setting names directly instead of by a reference.
    fn named_variable(&mut self, node: &ConfigNode, field: &str) -> Option<String> {
        let Some(name) = node.as_str() else {
            return self.report.wrong_type(node, Some(self.name), field.to_owned(), "a string");
        };
        if self.scope.keep {
            return Some(format!("${{{name}}}"));
        }
        let value = (self.scope.variable)(name);
        if value.is_none() && !self.scope.allow_unset {
            let (at, place) = (node.at.clone(), self.table.place(field));
            self.report.errors.push(ConfigError::Unset { at, place, variable: name.to_owned() });
        }
        value
    }
}
