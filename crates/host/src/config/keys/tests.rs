//! The table of keys is what the reader reads, and what the documentation says.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use super::{ALL, ConfigKey, KeyTable, config_reference};
use crate::config::ConfigLoader;

thread_local! {
    static READ: RefCell<BTreeSet<(&'static str, &'static str)>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes that the reader has asked for a key.
pub(in crate::config) fn record_read(table: &'static str, key: &'static str) {
    READ.with_borrow_mut(|read| read.insert((table, key)));
}

fn rows() -> impl Iterator<Item = (&'static KeyTable, &'static ConfigKey)> {
    ALL.into_iter().flat_map(|table| table.keys.iter().map(move |key| (table, key)))
}

/// Files that have each table once, so that the reader asks for each of its keys.
fn read_everything() {
    let own = "
        [endpoint]
        [console]
        [console.team]
        [console.team.roles]
        [notify]
        [auth]
        issuer = 'https://login.example.org'
        [auth.sign_in]
        client_id = 'a'
        [auth.provider]
        [auth.clients.editor]
        [accounts]
        [audit]
        [metrics]
        [telemetry]
        [fleet]
        [models]
        [sampling]
        [defaults]
        [servers.program]
        command = 'a'
        [servers.program.tools]
        [servers.program.sandbox]
        [servers.program.sandbox.files]
        [servers.remote]
        url = 'https://a.example'
        [servers.part]
        builtin = 'time'
        [profiles.work]
        [profiles.work.tools.part]";
    let loader = ConfigLoader::new().variables(|_| None);
    // Some of the tables contradict each other; the reader reads all of them before it says so.
    assert!(loader.parse("h.toml", own).is_err());
    let foreign = r#"{"mcpServers": {"a": {"command": "b"}, "c": {"url": "https://d.example"}}}"#;
    loader.parse("mcp.json", foreign).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn every_key_is_read_and_every_key_that_is_read_has_a_row() {
    READ.with_borrow_mut(BTreeSet::clear);
    read_everything();
    let read = READ.with_borrow(BTreeSet::clone);
    // These two are read by the crate of the models; the next test is about them.
    let is_typed = |table: &str| table == super::MODEL.path || table == super::ALLOWANCE.path;
    let rows = rows().filter(|(table, _)| !is_typed(table.path));
    let rows: BTreeSet<_> = rows.map(|(table, key)| (table.path, key.name)).collect();
    assert_eq!(read, rows);
}

/// The keys that a typed table accepts, as its error about another key lists them.
fn accepted(file: &str) -> BTreeSet<String> {
    let errors = ConfigLoader::new().parse("h.toml", file).unwrap_err().to_string();
    let list = errors.split("expected one of ").nth(1).unwrap_or_else(|| panic!("{errors}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn keys_of_models_and_allowances_have_rows() {
    let names = |table: &KeyTable| table.own_names().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(accepted("[models.a]\nprovider = 'openai'\nno_key = 1"), names(&super::MODEL));
    assert_eq!(accepted("[sampling.servers.a]\nno_key = 1"), names(&super::ALLOWANCE));
    assert_eq!(accepted("[sampling.every_server]\nno_key = 1"), names(&super::ALLOWANCE));
}

#[test]
fn rows_are_complete_and_unique() {
    let mut seen = BTreeSet::new();
    for (table, key) in rows() {
        let place = format!("{}.{}", table.path, key.name);
        assert!(seen.insert(place.clone()), "{place} has two rows");
        assert!(key.about.ends_with('.') && !key.about.contains(['\n', '|']), "{place}: {}", key.about);
        assert!(key.is_own || !key.foreign.is_empty(), "{place} cannot be written");
    }
    let spellings: Vec<&str> = super::SERVER.keys.iter().flat_map(|key| key.foreign).copied().collect();
    let unique: BTreeSet<&str> = spellings.iter().copied().collect();
    assert_eq!(unique.len(), spellings.len(), "a spelling stands for two keys");
}

/// The defaults that the reference names are those of the host.
#[test]
fn defaults_are_those_of_the_host() {
    let limits = crate::AccountLimits::default();
    let settings = crate::HostSettings::default();
    let seconds = |time: std::time::Duration| match time.as_secs() {
        whole if whole > 60 && whole % 60 == 0 => format!("{}m", whole / 60),
        whole => format!("{whole}s"),
    };
    for (table, key, expected) in [
        (&super::ENDPOINT, "start_wait", seconds(settings.start_wait)),
        (&super::DEFAULTS, "connect_timeout", seconds(settings.connect_timeout)),
        (&super::DEFAULTS, "park_timeout", seconds(settings.park_timeout)),
        (&super::DEFAULTS, "health_check", seconds(settings.health_check.unwrap())),
        (&super::DEFAULTS, "max_connections", settings.max_connections.to_string()),
        (&super::ACCOUNTS, "link_lifetime", seconds(limits.link_lifetime)),
        (&super::ACCOUNTS, "max_links", limits.max_links.to_string()),
        (&super::ACCOUNTS, "max_links_per_account", limits.max_links_per_account.to_string()),
        (&super::ACCOUNTS, "max_pending_sign_ins", limits.max_pending_sign_ins.to_string()),
        (&super::ACCOUNTS, "max_users", limits.max_users.to_string()),
        (&super::ACCOUNTS, "sign_in_wait", seconds(limits.sign_in_wait)),
        (&super::SAMPLING, "review_timeout", seconds(crate::sampling::DEFAULT_REVIEW_TIMEOUT)),
    ] {
        assert_eq!(table.key(key).unwrap().default, expected, "{}.{key}", table.path);
        // A server has the default that the table of defaults has.
        if let Some(of_server) = super::SERVER.key(key).filter(|_| table.path == super::DEFAULTS.path) {
            assert_eq!(of_server.default, expected, "{key} of a server");
        }
    }
}

#[test]
fn config_reference_is_what_the_table_renders() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration-keys.md");
    if std::env::var_os("HOSPES_WRITE").is_some() {
        std::fs::write(&page, config_reference()).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        written == config_reference(),
        "docs/configuration-keys.md is not what the table of keys renders; to write it anew: \
         HOSPES_WRITE=1 cargo test -p hospes-host config_reference"
    );
}
