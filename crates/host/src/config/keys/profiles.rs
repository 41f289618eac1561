//! Keys of profiles.

use super::ConfigKey as Key;
use super::KeyTable;
use super::KeyType::{Names, Table, Text, Texts};

pub(in crate::config) const PROFILE: KeyTable = KeyTable {
    path: "profiles.NAME",
    about: "A set of servers and tools with the endpoint `/mcp/NAME`. A name has lower-case letters, digits, `-` and `_`.",
    keys: &[
        Key::new("title", Text, "", "Title for people."),
        Key::new("description", Text, "", "Description for people."),
        Key::new("servers", Texts, "", "Names of the servers that it shows; all by default."),
        Key::new("exclude", Texts, "", "Names of servers that it does not show."),
        Key::new("tools", Table, "", "Filters of tools, by the name of the server."),
        Key::new(
            "groups",
            Texts,
            "",
            "Groups of the signed-in people who may use it. For all others there is no such profile. Everybody by default.",
        ),
        Key::new(
            "secrets",
            Names,
            "",
            "Stored secrets that replace others: `{ NAME = \"OTHER\" }` reads `${secret:NAME}` as `OTHER`.",
        ),
    ],
};

pub(in crate::config) const PROFILE_TOOLS: KeyTable = KeyTable {
    path: "profiles.NAME.tools.SERVER",
    about: "Filter of the tools of one server, by patterns with `*`. It narrows the filter of the server's own entry.",
    keys: &[
        Key::new("include", Texts, "", "Tools that the profile shows; all by default."),
        Key::new("exclude", Texts, "", "Tools that the profile does not show."),
    ],
};
