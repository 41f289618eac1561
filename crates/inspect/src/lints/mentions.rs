//! Calls for tools of other servers.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

/// Maximum number of names that are looked for.
const MAX_NAMES: usize = 4096;

/// Number of bytes before a name in which the imperative stands.
const IMPERATIVE_DISTANCE: usize = 48;

/// Names of the tools of all servers.
#[derive(Clone, Default)]
pub struct ToolNames {
    search: Option<AhoCorasick>,
    /// The servers of each name, in the order of the patterns.
    servers: Vec<HashSet<Arc<str>>>,
    names: Vec<Box<str>>,
}

impl fmt::Debug for ToolNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolNames").field("names", &self.names).finish_non_exhaustive()
    }
}

impl ToolNames {
    /// Creates a search for these tools, each with its server and the name there. Names that are ordinary words are left
    /// out.
    pub fn new<'a>(tools: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut all: HashMap<&str, HashSet<Arc<str>>> = HashMap::new();
        for (server, tool) in tools {
            if is_distinct(tool) && (all.contains_key(tool) || all.len() < MAX_NAMES) {
                all.entry(tool).or_default().insert(Arc::from(server));
            }
        }
        let (names, servers): (Vec<Box<str>>, Vec<_>) =
            all.into_iter().map(|(name, servers)| (Box::from(name), servers)).unzip();
        let names_of = || names.iter().map(|name| name.as_bytes());
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(names_of()).ok();
        Self { search: search.filter(|_| !names.is_empty()), servers, names }
    }

    /// Returns true if a text has the name of a tool that the server itself does not have. The text may be JSON.
    #[must_use]
    pub fn may_mention(&self, text: &str, own_server: &str) -> bool {
        self.mentions(text, own_server).next().is_some()
    }

    /// Finds the first call for a tool that the server itself does not have.
    pub(super) fn find_mention(&self, text: &str, own_server: &str) -> Option<Range<usize>> {
        static IMPERATIVE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(
                r#"(?i)(^|[.!?:;,>*\n-]\s*|\b(must|should|please|then|and|now|to|immediately|first|always|instead)\s+)(call|use|invoke|run|execute|trigger|calling|using|invoking)\s+(the\s+|its\s+|your\s+)?((tool|function|command)s?\s+)?(named\s+|called\s+)?[`"'“(]?(\w{1,40}__)?$"#,
            )
            .ok()
        });
        let imperative = IMPERATIVE.as_ref()?;
        self.mentions(text, own_server).find_map(|name| {
            let start = super::floor(text, name.start.saturating_sub(IMPERATIVE_DISTANCE));
            let found = imperative.find(&text[start..name.start])?;
            Some(start + found.start()..name.end)
        })
    }

    fn mentions<'t>(&'t self, text: &'t str, own_server: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
        let bytes = text.as_bytes();
        let is_part =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let hits = self.search.iter().flat_map(move |search| search.find_iter(text));
        hits.filter(move |hit| {
            let before = hit.start().checked_sub(1).and_then(|at| bytes.get(at));
            // The name that the application sees has the server's before it.
            let is_start = !is_part(before) || bytes[..hit.start()].ends_with(b"__");
            is_start
                && !is_part(bytes.get(hit.end()))
                && !self.servers[hit.pattern().as_usize()].contains(own_server)
        })
        .map(|hit| hit.range())
    }
}

/// Returns true if a name is no ordinary word: of several words, or with a digit.
fn is_distinct(tool: &str) -> bool {
    let hump =
        tool.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    tool.len() >= 4 && (tool.contains(['_', '-']) || hump || tool.bytes().any(|byte| byte.is_ascii_digit()))
}
