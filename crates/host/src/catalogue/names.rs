//! Names of tools and prompts on an endpoint that many servers share.
//!
//! **Tools and prompts** are shown as `server__tool`, in `[A-Za-z0-9_-]` and at most [`MAX_NAME`] characters long,
//! because that is what model APIs accept (the protocol itself allows dots and 128 characters). The prefix is derived
//! from the *operator's* name for the server, never from the server's own data. It is present even if only one server
//! is configured, so that adding a second one renames nothing.
//!
//! The rules, all of which follow from "a name depends only on its server and its tool":
//!
//! 1. A [`ServerPrefix`] never contains `__` and never ends in `_`. The first `__` of a shown name is therefore always
//!    the separator, and no server can produce the name of another server's tool. Two servers whose prefixes are equal
//!    (ignoring case) are a [`PrefixCollision`], found before anything starts, and so are two whose names look alike.
//! 2. ASCII characters outside the alphabet become `_`.
//! 3. A name that is still too long, or that held anything but printable ASCII, keeps the *end* of the tool's name,
//!    which is what tells `…_issue_create` from `…_issue_delete`, followed by `_` and eight hexadecimal digits of a
//!    SHA-256 over both original names.
//! 4. Two tools with the same resulting name are a [`NameCollision`] that names both. Neither is shown, because the
//!    order must not decide which one is called.
//!
//! Shown names are never parsed to find the tool; [`ShownNameMap`] stores the origin of each.
//!
//! **Resource URIs** are in [`uris`](super::uris).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hospes_policy::visible_line;
use sha2::{Digest, Sha256};

use crate::server::confusables;

/// The longest name shown to an application, in characters: the limit of the model APIs.
pub const MAX_NAME: usize = 64;

/// Maximum length of a prefix. A longer one is cut and gets a hash.
pub const MAX_PREFIX: usize = 32;

/// Separator between the server's prefix and the tool's name.
pub const SEPARATOR: &str = "__";

/// Hexadecimal digits of a hash suffix.
const HASH_DIGITS: usize = 8;

/// Part of a shown name that identifies the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerPrefix(String);

impl ServerPrefix {
    /// Creates the prefix of the server with this configured name.
    pub fn of(server: &str) -> Self {
        let mut slug = String::with_capacity(server.len());
        for character in server.chars() {
            let character = allowed(character);
            // Runs collapse, so that the seam is the first `__` of every shown name.
            if character != '_' || !slug.ends_with('_') {
                slug.push(character);
            }
        }
        let slug = slug.trim_matches('_');
        if slug.is_empty() {
            return Self(format!("server-{}", hash(&[server])));
        }
        if slug.len() > MAX_PREFIX {
            // Cut anywhere it may end in `_`, which no prefix does.
            let kept = slug[..MAX_PREFIX - HASH_DIGITS - 1].trim_end_matches('_');
            return Self(format!("{kept}-{}", hash(&[server])));
        }
        Self(slug.to_owned())
    }

    /// Returns the prefix without the separator.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Key by which two prefixes are compared. It is lower case, because some clients lower the case of the host part
    /// of a URI.
    pub(super) fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Returns the shown name of `item`, a tool or prompt of `server`, whose prefix this is.
    pub fn name(&self, server: &str, item: &str) -> String {
        // A prefix has at most `MAX_PREFIX` characters, so this cannot fall below 30.
        let room = MAX_NAME - self.0.len() - SEPARATOR.len();
        let slug: String = item.chars().map(allowed).collect();
        // All other characters become the same `_`, so only the hash tells such names apart.
        let printable = !item.is_empty() && item.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
        if printable && slug.len() <= room {
            return format!("{}{SEPARATOR}{slug}", self.0);
        }
        // Only ASCII is left in the slug, so any index is a character boundary.
        let keep = slug.len().min(room - HASH_DIGITS - 1);
        let tail = &slug[slug.len() - keep..];
        format!("{}{SEPARATOR}{tail}_{}", self.0, hash(&[server, item]))
    }
}

impl std::fmt::Display for ServerPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The servers' prefixes, all different.
#[derive(Debug, Clone, Default)]
pub struct ServerPrefixes {
    by_server: BTreeMap<String, ServerPrefix>,
    by_key: HashMap<String, String>,
}

impl ServerPrefixes {
    /// Assigns a prefix to every server. Fails if two servers would share one, or have names that look alike.
    pub fn assign<'a>(servers: impl IntoIterator<Item = &'a str>) -> Result<Self, PrefixCollision> {
        let mut prefixes = Self::default();
        // Sorted, so that the error names the same pair whatever order the servers are configured in.
        let mut servers: Vec<&str> = servers.into_iter().collect();
        servers.sort_unstable();
        servers.dedup();
        let mut seen: HashMap<String, &str> = HashMap::new();
        for server in servers {
            let prefix = ServerPrefix::of(server);
            if let Some(first) = prefixes.by_key.insert(prefix.key(), server.to_owned()) {
                return Err(PrefixCollision::Same { prefix, first, second: server.to_owned() });
            }
            if let Some(first) = seen.insert(confusables::strict_skeleton(server), server) {
                return Err(PrefixCollision::Alike { first: first.to_owned(), second: server.to_owned() });
            }
            prefixes.by_server.insert(server.to_owned(), prefix);
        }
        Ok(prefixes)
    }

    /// Returns the prefix of a server.
    pub fn of(&self, server: &str) -> Option<&ServerPrefix> {
        self.by_server.get(server)
    }

    /// Returns the server with a prefix, ignoring case.
    pub fn server(&self, prefix: &str) -> Option<&str> {
        self.by_key.get(&prefix.to_ascii_lowercase()).map(String::as_str)
    }

    /// The stored copy of a server's name.
    pub(super) fn canonical(&self, server: &str) -> Option<&str> {
        self.by_server.get_key_value(server).map(|(name, _)| name.as_str())
    }

    /// Iterates over the servers' names in sorted order.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.by_server.keys().map(String::as_str)
    }
}

/// Error for two servers whose tools could not be distinguished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixCollision {
    /// By a program: their names would be the same.
    #[error("servers `{first}` and `{second}` would both be shown as `{prefix}`; rename one of them")]
    Same {
        /// The prefix both would have.
        prefix: ServerPrefix,
        /// Name of one server.
        first: String,
        /// Name of the other server.
        second: String,
    },
    /// By a person: their names look alike.
    #[error(
        "the names of the servers `{}` and `{}` look alike ({}); rename one of them",
        visible_line(first),
        visible_line(second),
        spelled(first, second)
    )]
    Alike {
        /// Name of one server.
        first: String,
        /// Name of the other server.
        second: String,
    },
}

/// Origin of a shown name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct NameOrigin {
    /// The server, as the operator calls it.
    pub server: String,
    /// The tool or prompt, as the server calls it.
    pub name: String,
}

impl NameOrigin {
    /// Creates the origin for the tool or prompt `name` of `server`.
    pub fn new(server: impl Into<String>, name: impl Into<String>) -> Self {
        Self { server: server.into(), name: name.into() }
    }
}

impl std::fmt::Display for NameOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` of server `{}`", self.name, self.server)
    }
}

/// Two or more tools (or prompts) with the same shown name, none of which is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} would all be shown as `{name}`, so none of them is listed; exclude or rename all but one", list(.origins))]
#[non_exhaustive]
pub struct NameCollision {
    /// The name they would share.
    pub name: String,
    /// Origins of the colliding items, sorted.
    pub origins: Vec<NameOrigin>,
}

/// Mapping between shown names and their origins, for either tools or prompts.
#[derive(Debug, Clone, Default)]
pub struct ShownNameMap {
    origins: BTreeMap<String, NameOrigin>,
    shown: HashMap<NameOrigin, String>,
}

impl ShownNameMap {
    /// Assigns names to `items`, which are pairs of a server and the server's name for the item.
    ///
    /// Neither the mapping nor the collisions depend on the order of `items`. A pair given twice counts once. An item
    /// whose server has no prefix is left out.
    pub fn build<'a>(
        prefixes: &ServerPrefixes,
        items: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> (Self, Vec<NameCollision>) {
        let mut claims: BTreeMap<String, BTreeSet<NameOrigin>> = BTreeMap::new();
        for (server, item) in items {
            let Some(prefix) = prefixes.of(server) else { continue };
            claims.entry(prefix.name(server, item)).or_default().insert(NameOrigin::new(server, item));
        }
        let mut names = Self::default();
        let mut collisions = Vec::new();
        for (name, origins) in claims {
            match <[NameOrigin; 1]>::try_from(Vec::from_iter(origins)) {
                Ok([origin]) => {
                    names.shown.insert(origin.clone(), name.clone());
                    names.origins.insert(name, origin);
                }
                Err(origins) => collisions.push(NameCollision { name, origins }),
            }
        }
        (names, collisions)
    }

    /// Maps `items`, which are pairs of a server and the server's name for the item, to the unchanged names. Of items
    /// with the same name, the first counts.
    pub fn unchanged<'a>(items: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut names = Self::default();
        for (server, item) in items {
            if !names.origins.contains_key(item) {
                names.origins.insert(item.to_owned(), NameOrigin::new(server, item));
                names.shown.insert(NameOrigin::new(server, item), item.to_owned());
            }
        }
        names
    }

    /// Returns the origin of a shown name.
    pub fn origin(&self, shown: &str) -> Option<&NameOrigin> {
        self.origins.get(shown)
    }

    /// Returns the shown name of a server's tool or prompt.
    pub fn shown(&self, server: &str, name: &str) -> Option<&str> {
        self.shown.get(&NameOrigin::new(server, name)).map(String::as_str)
    }

    /// Iterates over all shown names and their origins, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NameOrigin)> {
        self.origins.iter().map(|(name, origin)| (name.as_str(), origin))
    }

    /// Number of shown names.
    pub fn len(&self) -> usize {
        self.origins.len()
    }

    /// Returns true if no names are shown.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }
}

fn allowed(character: char) -> char {
    if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' }
}

/// Hashes parts with their lengths, so that no two lists of parts run together into one text.
fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Describes the difference between two names that look alike.
fn spelled(first: &str, second: &str) -> String {
    let spell = |name: &str| {
        let letters = name.chars().map(|letter| match letter.is_ascii_graphic() {
            true => letter.to_string(),
            false => letter.escape_unicode().to_string(),
        });
        letters.collect::<String>()
    };
    format!("one is spelled `{}`, the other `{}`", spell(first), spell(second))
}

fn list(origins: &[NameOrigin]) -> String {
    let texts: Vec<String> = origins.iter().map(ToString::to_string).collect();
    texts.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(name: &str) -> bool {
        (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    }

    fn show(server: &str, tool: &str) -> String {
        ServerPrefix::of(server).name(server, tool)
    }

    /// covers: TOOL-41
    #[test]
    fn a_name_carries_the_operators_name_for_the_server() {
        let prefixes = ServerPrefixes::assign(["files"]).unwrap();
        let (names, collisions) = ShownNameMap::build(&prefixes, [("files", "read_file")]);
        assert!(collisions.is_empty());
        assert_eq!(names.shown("files", "read_file"), Some("files__read_file"));
        assert_eq!(names.origin("files__read_file"), Some(&NameOrigin::new("files", "read_file")));
    }

    #[test]
    fn characters_outside_the_alphabet_become_underscores() {
        assert_eq!(show("my server", "search.query/v2"), "my_server__search_query_v2");
        assert_eq!(show("a-b", "c-d"), "a-b__c-d");
    }

    #[test]
    fn a_long_name_keeps_its_distinguishing_end() {
        let stem = "x".repeat(70);
        let create = show("tracker", &format!("{stem}_issue_create"));
        let delete = show("tracker", &format!("{stem}_issue_delete"));
        assert!(is_valid(&create) && create.len() == MAX_NAME, "{create}");
        assert!(create.starts_with("tracker__"), "{create}");
        assert!(create.contains("_issue_create_"), "{create}");
        assert!(delete.contains("_issue_delete_"), "{delete}");
    }

    #[test]
    fn long_names_with_one_end_are_told_apart_by_their_hash() {
        let tail = "y".repeat(80);
        let one = show("s", &format!("one{tail}"));
        let two = show("s", &format!("two{tail}"));
        assert_ne!(one, two);
        assert_eq!(one, show("s", &format!("one{tail}")), "the hash is deterministic");
    }

    /// The suffix is part of what applications store, so it may never change by accident.
    #[test]
    fn the_hash_suffix_is_stable() {
        assert_eq!(
            show("server", &"a".repeat(64)),
            format!("server__{}_{}", "a".repeat(47), hash(&["server", &"a".repeat(64)]))
        );
        assert_eq!(hash(&["server", "tool"]), "c802bc57");
    }

    #[test]
    fn the_limit_itself_needs_no_hash() {
        let fits = "a".repeat(MAX_NAME - "s__".len());
        assert_eq!(show("s", &fits), format!("s__{fits}"));
        assert_eq!(show("s", &format!("{fits}a")).len(), MAX_NAME);
    }

    #[test]
    fn names_without_ascii_stay_apart() {
        let (one, two) = (show("wiki", "検索"), show("wiki", "編集"));
        assert!(is_valid(&one) && is_valid(&two));
        assert_ne!(one, two);
        assert!(is_valid(&show("検索", "")));
        assert_ne!(ServerPrefix::of("検索"), ServerPrefix::of("編集"));
    }

    #[test]
    fn a_collision_names_both_and_shows_neither() {
        let prefixes = ServerPrefixes::assign(["wiki"]).unwrap();
        let (names, collisions) =
            ShownNameMap::build(&prefixes, [("wiki", "a_b"), ("wiki", "plain"), ("wiki", "a.b")]);
        assert_eq!(names.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["wiki__plain"]);
        assert_eq!(collisions.len(), 1);
        assert_eq!(
            collisions[0].to_string(),
            "`a.b` of server `wiki` and `a_b` of server `wiki` would all be shown as `wiki__a_b`, so none of \
             them is listed; exclude or rename all but one"
        );
    }

    #[test]
    fn nothing_depends_on_the_order_of_arrival() {
        let prefixes = ServerPrefixes::assign(["a", "b"]).unwrap();
        let mut items = vec![("a", "x.y"), ("b", "x"), ("a", "x_y"), ("a", "z"), ("b", "x"), ("a", "x-y")];
        let (first, collisions) = ShownNameMap::build(&prefixes, items.clone());
        for _ in 0..items.len() {
            items.rotate_left(1);
            let (again, collisions_again) = ShownNameMap::build(&prefixes, items.clone());
            assert!(first.iter().eq(again.iter()));
            assert_eq!(collisions, collisions_again);
        }
        assert_eq!(first.len(), 3);
    }

    /// Without rule 1, `a` could knock out the tools of `a__b` by offering `b__c`.
    #[test]
    fn a_server_cannot_take_names_from_another() {
        let servers = ["a", "a__b", "a_b_", "x-y", "A B", "a__", "long".repeat(20).leak()];
        let tools = ["b__c", "c", "_c", "__c", "b_c", "__", "_", "", "b__c__d", &"t".repeat(100), "ü"];
        for one in servers {
            for two in servers {
                if ServerPrefix::of(one).key() == ServerPrefix::of(two).key() {
                    continue;
                }
                for tool in tools {
                    for other in tools {
                        assert_ne!(show(one, tool), show(two, other), "{one} {tool} {two} {other}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_name_is_valid_and_comes_back() {
        let servers = ["a", "with space", "_", "é", &"s".repeat(200), "UPPER", "a.b", "--"];
        let prefixes = ServerPrefixes::assign(servers).unwrap();
        let tools = ["t", "", " ", "a/b", &"t".repeat(MAX_NAME), &"ß".repeat(90), "x\u{0}y", "ok_name-1"];
        let items = servers.iter().flat_map(|server| tools.iter().map(move |tool| (*server, *tool)));
        let (names, collisions) = ShownNameMap::build(&prefixes, items);
        assert_eq!(collisions, []);
        assert_eq!(names.len(), servers.len() * tools.len());
        for (name, origin) in names.iter() {
            assert!(is_valid(name), "{name}");
            assert_eq!(names.shown(&origin.server, &origin.name), Some(name));
        }
    }

    #[test]
    fn servers_with_one_prefix_are_refused_by_name() {
        let collision = ServerPrefixes::assign(["Git Hub", "other", "git_hub"]).unwrap_err();
        assert_eq!(
            collision.to_string(),
            "servers `Git Hub` and `git_hub` would both be shown as `git_hub`; rename one of them"
        );
        assert_eq!(ServerPrefixes::assign(["git_hub", "Git Hub"]).unwrap_err(), collision);
    }

    /// A person who approves a call of one server must not mistake it for the other.
    #[test]
    fn servers_whose_names_look_alike_are_refused_and_told_apart() {
        for (one, other) in [("a-b", "a_b"), ("m\u{430}il", "mail"), ("db1", "dbl"), ("x", "x\u{200b}")] {
            let collision = ServerPrefixes::assign(["other", one, other]).unwrap_err();
            assert_eq!(ServerPrefixes::assign([other, one, "other"]).unwrap_err(), collision);
            let said = collision.to_string();
            assert!(said.contains("look alike") || said.contains("would both be shown"), "{said}");
        }
        assert_eq!(
            ServerPrefixes::assign(["mail", "m\u{430}il"]).unwrap_err().to_string(),
            "the names of the servers `mail` and `m\u{430}il` look alike (one is spelled `mail`, the other `m\\u{430}il`); \
             rename one of them"
        );
        // These a person tells apart.
        ServerPrefixes::assign(["mail", "mall", "a-b", "ab", "db1", "db2", "検索", "編集"]).unwrap();
    }

    #[test]
    fn a_long_server_name_is_cut_with_a_hash_and_leaves_room() {
        let (one, two) =
            (format!("{}-one", "organisation-".repeat(4)), format!("{}-two", "organisation-".repeat(4)));
        assert_eq!(ServerPrefix::of(&one).as_str().len(), MAX_PREFIX);
        assert_ne!(ServerPrefix::of(&one), ServerPrefix::of(&two));
    }
}
