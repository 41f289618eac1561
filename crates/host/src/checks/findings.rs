//! Findings in the arguments of a call: secrets of other servers, local destinations and shell metacharacters.

use hospes::Peer;
use hospes_inspect::secrets::mask;
use hospes_inspect::shell::{ArgumentUse, find_metacharacter};
use hospes_model::Tool;
use hospes_policy::{AddressKind, CallArguments, find_addresses, visible_line};
use serde_json::{Map, Value};

use super::CallChecks;

/// Maximum number of findings in one call.
const MAX_FINDINGS: usize = 32;

/// Maximum length of an excerpt, in characters.
const EXCERPT_CHARACTERS: usize = 120;

/// A call whose arguments are searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InspectedCall<'a> {
    /// The application.
    pub(crate) peer: &'a Peer,
    /// The server that receives the arguments.
    pub(crate) server: &'a str,
    /// Definition of the tool, if it is known.
    pub(crate) tool: Option<&'a Tool>,
    pub(crate) arguments: &'a CallArguments,
    /// True if the arguments may reach other hosts. Destinations count only then.
    pub(crate) is_outbound: bool,
    /// True if the session has read text of third parties. Shell metacharacters count only then.
    pub(crate) untrusted_read: bool,
}

/// A finding in one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentFinding {
    pub(crate) kind: ArgumentFindingKind,
    /// JSON pointer of the argument.
    pub(crate) pointer: String,
    /// Start of the argument on one line, with secrets masked and hidden characters visible.
    pub(crate) excerpt: String,
}

/// Kind of a finding, with what a question about it has to name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentFindingKind {
    /// A secret that was delivered by a result of another server. To be asked about.
    Secret {
        /// The server that delivered it first.
        from_server: String,
    },
    /// The metadata service of a cloud. To be refused unless the deciding rule names the host
    /// ([`Policy::allows_host`](hospes_policy::Policy::allows_host)).
    Metadata {
        /// Address or name in its usual spelling.
        host: String,
    },
    /// This machine or its network. To be asked about once for each host.
    PrivateAddress {
        /// Address or name in its usual spelling.
        host: String,
        /// Kind of the host.
        kind: AddressKind,
    },
    /// A shell metacharacter in a name. To be asked about.
    Shell {
        /// The characters: `;`, `$(`.
        characters: &'static str,
        /// Use that the argument should have.
        used: ArgumentUse,
    },
}

impl ArgumentFinding {
    /// Returns a sentence for a person.
    pub(crate) fn message(&self) -> String {
        let at = visible_line(&self.pointer);
        match &self.kind {
            ArgumentFindingKind::Secret { from_server } => {
                format!("`{at}` contains a secret that came from the server `{}`", visible_line(from_server))
            }
            ArgumentFindingKind::Metadata { host } => {
                format!("`{at}` leads to {host}, {}", AddressKind::Metadata.as_str())
            }
            ArgumentFindingKind::PrivateAddress { host, kind } => {
                format!("`{at}` leads to {host}, {}", kind.as_str())
            }
            ArgumentFindingKind::Shell { characters, used } => {
                format!("`{at}` should be {used} but has `{characters}`, which a shell executes")
            }
        }
    }
}

impl CallChecks {
    /// Searches the arguments of a call. The guard decides what follows from a finding.
    pub(crate) fn find_in_arguments(&self, call: &InspectedCall<'_>) -> Vec<ArgumentFinding> {
        let mut found = Vec::new();
        let arguments = call.arguments.as_map();
        if call.is_outbound {
            found.extend(find_addresses(arguments).into_iter().map(|address| ArgumentFinding {
                excerpt: mask(&address.excerpt).into_owned(),
                pointer: address.pointer,
                kind: match address.kind {
                    AddressKind::Metadata => ArgumentFindingKind::Metadata { host: address.host },
                    kind => ArgumentFindingKind::PrivateAddress { host: address.host, kind },
                },
            }));
        }
        let schema =
            call.tool.and_then(|tool| tool.input_schema.to_value().ok()).filter(|_| call.untrusted_read);
        self.search_members(call, schema.as_ref(), "", arguments, &mut found);
        found.truncate(MAX_FINDINGS);
        found
    }

    fn search_members(
        &self,
        call: &InspectedCall<'_>,
        schema: Option<&Value>,
        pointer: &str,
        members: &Map<String, Value>,
        found: &mut Vec<ArgumentFinding>,
    ) {
        for (name, value) in members {
            let schema = schema.and_then(|schema| schema.get("properties")?.get(name));
            let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            // A name of a member can carry a secret as well as a value can.
            self.search_secrets(call, &pointer, name, found);
            self.search_value(call, schema, &pointer, name, value, found);
        }
    }

    fn search_value(
        &self,
        call: &InspectedCall<'_>,
        schema: Option<&Value>,
        pointer: &str,
        name: &str,
        value: &Value,
        found: &mut Vec<ArgumentFinding>,
    ) {
        if found.len() >= MAX_FINDINGS {
            return;
        }
        match value {
            Value::String(text) => {
                self.search_secrets(call, pointer, text, found);
                if call.untrusted_read {
                    let format = schema.and_then(|schema| schema.get("format")?.as_str());
                    let used = ArgumentUse::of(name, format);
                    found.extend(find_metacharacter(used, text).map(|shell| ArgumentFinding {
                        kind: ArgumentFindingKind::Shell { characters: shell.characters, used },
                        pointer: pointer.to_owned(),
                        excerpt: excerpt(text),
                    }));
                }
            }
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.get("items"));
                for (index, item) in items.iter().enumerate() {
                    self.search_value(call, schema, &format!("{pointer}/{index}"), name, item, found);
                }
            }
            Value::Object(members) => self.search_members(call, schema, pointer, members, found),
            _ => {}
        }
    }

    fn search_secrets(
        &self,
        call: &InspectedCall<'_>,
        pointer: &str,
        text: &str,
        found: &mut Vec<ArgumentFinding>,
    ) {
        for server in self.secrets.find_foreign(call.peer, call.server, text) {
            found.push(ArgumentFinding {
                kind: ArgumentFindingKind::Secret { from_server: server.to_string() },
                pointer: pointer.to_owned(),
                // The secret may be a value whose name stands elsewhere, which no mask would find.
                excerpt: "[secret]".to_owned(),
            });
        }
    }
}

fn excerpt(text: &str) -> String {
    let masked = mask(text);
    visible_line(&masked.chars().take(EXCERPT_CHARACTERS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use hospes::model::{ClientCapabilities, RawJson, Revision};
    use serde_json::json;

    use super::*;

    fn found(
        call: impl Fn(InspectedCall<'_>) -> Vec<ArgumentFinding>,
        arguments: &Value,
    ) -> Vec<ArgumentFinding> {
        let peer = Peer::new(Revision::LATEST, None, ClientCapabilities::default());
        let arguments = CallArguments::read(&arguments.to_string()).unwrap();
        call(InspectedCall {
            peer: &peer,
            server: "web",
            tool: None,
            arguments: &arguments,
            is_outbound: true,
            untrusted_read: true,
        })
    }

    #[test]
    fn findings_name_the_argument_and_depend_on_the_call() {
        let checks = CallChecks::default();
        let arguments = json!({
            "url": "http://169.254.169.254/latest",
            "more": { "hosts": ["10.0.0.1; id"], "text": "a; b | c" },
            "callback": "http://localhost:3000/",
        });
        let all = found(|call| checks.find_in_arguments(&call), &arguments);
        let kinds: Vec<_> = all.iter().map(|one| (one.pointer.as_str(), &one.kind)).collect();
        assert!(
            kinds.contains(&("/url", &ArgumentFindingKind::Metadata { host: "169.254.169.254".to_owned() })),
            "{kinds:?}"
        );
        let loopback =
            ArgumentFindingKind::PrivateAddress { host: "localhost".to_owned(), kind: AddressKind::Loopback };
        assert!(kinds.contains(&("/callback", &loopback)), "{kinds:?}");
        let shell = ArgumentFindingKind::Shell { characters: ";", used: ArgumentUse::Host };
        assert!(kinds.contains(&("/more/hosts/0", &shell)), "{kinds:?}");
        let calm = |call: InspectedCall<'_>| {
            checks.find_in_arguments(&InspectedCall { is_outbound: false, untrusted_read: false, ..call })
        };
        assert_eq!(found(calm, &arguments), []);
    }

    #[test]
    fn a_format_of_the_schema_says_that_an_argument_is_a_host() {
        let checks = CallChecks::default();
        let schema = json!({ "properties": { "machine": { "type": "string", "format": "hostname" } } });
        let tool = Tool::new("x", RawJson::from(schema));
        let search = |call: InspectedCall<'_>| {
            checks.find_in_arguments(&InspectedCall { tool: Some(&tool), is_outbound: false, ..call })
        };
        let found = found(search, &json!({ "machine": "a|b" }));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message(), "`/machine` should be a host but has `|`, which a shell executes");
    }

    #[test]
    fn a_secret_of_another_server_is_found_and_not_shown() {
        let checks = CallChecks::default();
        let peer = Peer::new(Revision::LATEST, None, ClientCapabilities::default());
        let secret = "q7Zr2WmX9cVb4NtY6kLpD8sHf3GjT5aRe1";
        checks.secrets.note(&peer, "vault", secret);
        let search = |call: InspectedCall<'_>| checks.find_in_arguments(&call);
        let all = found(search, &json!({ "note": format!("it is {secret}.") }));
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].kind, ArgumentFindingKind::Secret { from_server: "vault".to_owned() });
        assert!(!format!("{all:?}").contains(secret) && !all[0].message().contains(secret));
        let own =
            |call: InspectedCall<'_>| checks.find_in_arguments(&InspectedCall { server: "vault", ..call });
        assert_eq!(found(own, &json!({ "note": secret })), []);
    }
}
