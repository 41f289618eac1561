//! Content of the pages of an addition. All texts of it may be those of a publisher or a server.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Rows about a server, as `hospes add` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionScreen {
    /// Title of the server, with its version.
    pub title: String,
    /// The rows.
    pub rows: Vec<AdditionRow>,
}

/// A row: a label and its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionRow {
    /// Label. Empty if the row continues the one before.
    pub label: String,
    /// Text.
    pub text: String,
    /// True if the person should be warned.
    pub is_warning: bool,
}

/// A value that the server asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionQuestion {
    /// Unique name among the questions.
    pub id: String,
    /// Text of the publisher. May be empty.
    pub description: String,
    /// `text`, `number`, `boolean`, `path`, `choice` or `secret`.
    pub kind: &'static str,
    /// Permitted values, if there are only some.
    pub choices: Vec<String>,
    /// True if the server does not work without an answer.
    pub is_required: bool,
    /// True if several answers are possible.
    pub is_repeated: bool,
    /// Value that is used without an answer.
    pub default: Option<String>,
    /// Example of the publisher.
    pub placeholder: Option<String>,
    /// Place of the answer, such as `variable API_KEY`. `None` if it is not known.
    pub target: Option<String>,
}

/// The questions of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionQuestions {
    /// Publisher of the server, and what is unusual about its entry.
    pub screen: AdditionScreen,
    /// The questions.
    pub questions: Vec<AdditionQuestion>,
    /// Reasons that answers given before cannot be used, by the ids of the questions.
    pub problems: BTreeMap<String, String>,
}

/// The start of a server, planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionPlan {
    /// Rows about the start: publisher, version, hash, command, permissions, warnings.
    pub screen: AdditionScreen,
    /// Name in the configuration.
    pub server: String,
    /// Proposed sandbox, in words. `None` if there is none, or servers are not confined on this system.
    pub sandbox: Option<String>,
    /// True if the package is installed before the start.
    pub is_installed: bool,
    /// Other ways to run the server, such as `oci`.
    pub other_packages: Vec<String>,
}

/// Sign-in that a server requires. The page of its authorization server leads back to the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionSignIn {
    /// Host of the server.
    pub host: String,
    /// Page at which the person signs in. It is https, or on this machine.
    pub url: String,
}

/// Definitions that a started server offers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AdditionOffer {
    /// The server as it has started, with the number of its tools and what is conspicuous.
    pub screen: AdditionScreen,
    /// Findings in the command or URL itself.
    pub findings: Vec<String>,
    /// Its tools, prompts, resources and instructions.
    pub items: Vec<OfferedItem>,
}

/// A tool, prompt, resource or resource template, or the instructions of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct OfferedItem {
    /// `tool`, `prompt`, `resource`, `template` or `instructions`.
    pub kind: String,
    /// Name at the server. Empty for instructions.
    pub name: String,
    /// Findings in the definition.
    pub findings: Vec<String>,
    /// Definition as the server sent it. `None` if it is too long to be stored.
    pub definition: Option<Value>,
}

/// A server that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "the program fills in all of it")]
pub struct AddedServer {
    /// Name in the configuration.
    pub server: String,
    /// Configuration file, for display.
    pub file: String,
    /// Name of a tool that says that it only reads and needs no argument.
    pub example: Option<String>,
}
