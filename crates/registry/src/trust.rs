//! Proofs and conspicuous facts about an entry. This is data only; callers word it.

use jiff::Timestamp;

use crate::entry::{EntryStatus, ServerEntry};
use crate::launch::{own_domain, remote_host};

/// Age below which an entry is conspicuous, in days.
const YOUNG_DAYS: i64 = 30;
/// Edit distance up to which a name resembles another one.
const SIMILAR_DISTANCE: usize = 2;
/// Length from which a name is compared with distance 2. Shorter names are compared with distance 1.
const LONG_NAME: usize = 7;
/// Maximum number of texts with hidden characters that are listed.
const MAX_HIDDEN: usize = 20;

/// Last parts of names that many servers are known by. A name that resembles one of them is conspicuous.
const WELL_KNOWN: &[&str] = &[
    "airtable",
    "atlassian",
    "brave-search",
    "chrome-devtools",
    "cloudflare",
    "context7",
    "everything",
    "filesystem",
    "firecrawl",
    "github",
    "gitlab",
    "google-maps",
    "grafana",
    "memory",
    "mongodb",
    "notion",
    "playwright",
    "postgres",
    "puppeteer",
    "sentry",
    "sequential-thinking",
    "slack",
    "stripe",
    "supabase",
    "terraform",
];

/// Circumstances on which the signs depend, besides the entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrustContext<'a> {
    /// Host of the registry that lists the entry.
    pub registry_host: &'a str,
    /// The present time.
    pub now: Timestamp,
    /// Names of the servers that the person has: full names, or last parts.
    pub known_names: Vec<&'a str>,
    /// The version that is in use, if this one would replace it.
    pub previous: Option<&'a ServerEntry>,
}

impl<'a> TrustContext<'a> {
    /// Creates a context without known names.
    #[must_use]
    pub fn new(registry_host: &'a str, now: Timestamp) -> Self {
        Self { registry_host, now, known_names: Vec::new(), previous: None }
    }
}

/// Owner of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryPublisher {
    /// Account at GitHub.
    GitHubAccount(String),
    /// Owner of a domain.
    DomainOwner(String),
    /// The name has no namespace that says who it is.
    Unknown,
}

/// A sign about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustSign {
    /// The official registry has checked, when the entry was published, that the publisher owns the namespace.
    NamespaceProved(EntryPublisher),
    /// The namespace claims this owner. This registry does not say that it was checked.
    NamespaceClaimed(EntryPublisher),
    /// Nobody has looked at the code. This is true for every entry.
    NotAudited,
    /// The entry is younger than 30 days.
    Young {
        /// Age in days.
        days: i64,
    },
    /// The registry does not say when the entry was published.
    AgeUnknown,
    /// The name resembles another one.
    ResemblesName {
        /// The other name.
        other: String,
        /// Edit distance; 0 if only the namespaces differ.
        distance: usize,
        /// Is true if the person has a server of that name.
        is_yours: bool,
    },
    /// The entry is deprecated, with the reason of the publisher.
    Deprecated(Option<String>),
    /// The owner is another one than that of the version in use.
    OwnerChanged {
        /// Namespace of the version in use.
        from: String,
    },
    /// The repository is another one than that of the version in use.
    RepositoryChanged {
        /// URL in the version in use.
        from: String,
    },
    /// A remote is not below the domain that the namespace proves.
    ForeignRemoteHost {
        /// Host of the remote.
        host: String,
        /// Domain of the namespace, if it is one.
        domain: Option<String>,
    },
    /// The host of a remote is a variable: a person decides where requests go.
    VariableRemoteHost(String),
    /// The repository is at another account than the namespace.
    RepositoryOfOther {
        /// Account of the namespace.
        account: String,
        /// URL of the repository.
        repository: String,
    },
    /// A text contains hidden characters, or ones that change the direction of writing.
    HiddenText {
        /// Path in the entry.
        path: String,
        /// The characters.
        characters: Vec<char>,
    },
}

impl TrustSign {
    /// Returns true if a person should be warned.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::NamespaceProved(_) | Self::NotAudited | Self::AgeUnknown)
    }
}

/// Returns whose namespace a name claims.
#[must_use]
pub fn publisher(name: &str) -> EntryPublisher {
    let namespace = name.split_once('/').map_or("", |(namespace, _)| namespace);
    // Accounts are in the namespace as they are written.
    match namespace.get(..10).filter(|start| start.eq_ignore_ascii_case("io.github.")) {
        Some(_) if namespace.len() > 10 => EntryPublisher::GitHubAccount(namespace[10..].to_owned()),
        _ => own_domain(name).map_or(EntryPublisher::Unknown, EntryPublisher::DomainOwner),
    }
}

/// Lists the signs about an entry: what is proved first.
#[must_use]
pub fn trust_signs(entry: &ServerEntry, context: &TrustContext<'_>) -> Vec<TrustSign> {
    let publisher = publisher(&entry.name);
    let is_official = crate::DEFAULT_REGISTRY.strip_prefix("https://") == Some(context.registry_host);
    let mut signs = vec![
        match (&publisher, is_official) {
            (EntryPublisher::Unknown, _) | (_, false) => TrustSign::NamespaceClaimed(publisher.clone()),
            (_, true) => TrustSign::NamespaceProved(publisher.clone()),
        },
        TrustSign::NotAudited,
    ];
    match entry.published_at() {
        Some(published) => {
            let days = context.now.duration_since(published).as_hours() / 24;
            signs.extend((days < YOUNG_DAYS).then_some(TrustSign::Young { days: days.max(0) }));
        }
        None => signs.push(TrustSign::AgeUnknown),
    }
    if entry.status() == EntryStatus::Deprecated {
        let reason = entry.official.as_ref().and_then(|official| official.status_message.clone());
        signs.push(TrustSign::Deprecated(reason));
    }
    signs.extend(resemblance(entry, context));
    signs.extend(changes(entry, context));
    signs.extend(remote_hosts(entry));
    signs.extend(other_repository(entry, &publisher));
    signs.extend(hidden_texts(entry));
    signs
}

/// Finds the name that the entry's name resembles most.
fn resemblance(entry: &ServerEntry, context: &TrustContext<'_>) -> Option<TrustSign> {
    let name = entry.name.to_lowercase();
    let last = entry.last_part().to_lowercase();
    let is_previous = context.previous.is_some_and(|previous| previous.name == entry.name);
    let mut found: Option<(usize, &str, bool)> = None;
    let mut note = |distance: Option<usize>, other, is_yours| {
        if let Some(distance) = distance
            && found.is_none_or(|(least, ..)| distance < least)
        {
            found = Some((distance, other, is_yours));
        }
    };
    for other in &context.known_names {
        let lower = other.to_lowercase();
        if is_previous || lower == name {
            continue;
        }
        let other_last = lower.rsplit('/').next().unwrap_or(&lower);
        note(distance(&last, other_last, true), *other, true);
        if lower.contains('/') {
            note(distance(&name, &lower, false), *other, true);
        }
    }
    for other in WELL_KNOWN {
        // The same word is no imitation: many servers are called so.
        note(distance(&last, other, false), other, false);
    }
    let (distance, other, is_yours) = found?;
    Some(TrustSign::ResemblesName { other: other.to_owned(), distance, is_yours })
}

/// Returns the edit distance of two names if it is small for their length.
fn distance(left: &str, right: &str, may_be_equal: bool) -> Option<usize> {
    let most = if left.len().min(right.len()) >= LONG_NAME { SIMILAR_DISTANCE } else { 1 };
    // Names of different length are not compared, because the comparison takes time.
    if left.len().abs_diff(right.len()) > most {
        return None;
    }
    let distance = strsim::osa_distance(left, right);
    (distance <= most && (distance > 0 || may_be_equal)).then_some(distance)
}

fn changes(entry: &ServerEntry, context: &TrustContext<'_>) -> Vec<TrustSign> {
    let Some(previous) = context.previous else { return Vec::new() };
    let mut signs = Vec::new();
    if !previous.namespace().eq_ignore_ascii_case(entry.namespace()) {
        signs.push(TrustSign::OwnerChanged { from: previous.namespace().to_owned() });
    }
    let url = |entry: &ServerEntry| entry.repository.as_ref().map(|repository| repository.url.clone());
    let id = |entry: &ServerEntry| entry.repository.as_ref().and_then(|repository| repository.id.clone());
    let has_other_id = matches!((id(previous), id(entry)), (Some(from), Some(to)) if from != to);
    if let Some(from) = url(previous)
        && (url(entry).as_ref() != Some(&from) || has_other_id)
    {
        signs.push(TrustSign::RepositoryChanged { from });
    }
    signs
}

fn remote_hosts(entry: &ServerEntry) -> Vec<TrustSign> {
    let domain = own_domain(&entry.name);
    let mut signs = Vec::new();
    for remote in &entry.remotes {
        let authority = remote.url.split_once("://").map_or("", |(_, rest)| rest);
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        let sign = match remote_host(&remote.url) {
            // The end of the host decides whose it is.
            _ if authority
                .trim_end_matches(|letter: char| letter == ':' || letter.is_ascii_digit())
                .ends_with('}') =>
            {
                TrustSign::VariableRemoteHost(remote.url.clone())
            }
            Some(host)
                if domain.as_deref().is_some_and(|domain| crate::launch::is_at_domain(&host, domain)) =>
            {
                continue;
            }
            Some(host) => TrustSign::ForeignRemoteHost { host, domain: domain.clone() },
            None => continue,
        };
        if !signs.contains(&sign) {
            signs.push(sign);
        }
    }
    signs
}

fn other_repository(entry: &ServerEntry, publisher: &EntryPublisher) -> Option<TrustSign> {
    let (EntryPublisher::GitHubAccount(account), Some(repository)) = (publisher, &entry.repository) else {
        return None;
    };
    let url = url::Url::parse(&repository.url).ok()?;
    if !matches!(url.host_str(), Some("github.com" | "www.github.com")) {
        return None;
    }
    let owner = url.path_segments()?.next()?.to_owned();
    (!owner.eq_ignore_ascii_case(account)).then(|| TrustSign::RepositoryOfOther {
        account: account.clone(),
        repository: repository.url.clone(),
    })
}

/// Finds hidden characters in all texts. Line breaks are allowed.
fn hidden_texts(entry: &ServerEntry) -> Vec<TrustSign> {
    fn visit(value: &serde_json::Value, path: &str, signs: &mut Vec<TrustSign>) {
        if signs.len() >= MAX_HIDDEN {
            return;
        }
        let mut check = |text: &str| {
            let mut characters: Vec<char> = Vec::new();
            let is_hidden =
                |letter: &char| hospes_policy::is_hidden(*letter) && !matches!(letter, '\n' | '\r' | '\t');
            for letter in text.chars().filter(is_hidden) {
                if !characters.contains(&letter) && characters.len() < MAX_HIDDEN {
                    characters.push(letter);
                }
            }
            if !characters.is_empty() {
                let path = crate::entry::read_escape(path);
                signs.push(TrustSign::HiddenText { path, characters });
            }
        };
        match value {
            serde_json::Value::String(text) => check(text),
            serde_json::Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    visit(item, &format!("{path}[{index}]"), signs);
                }
            }
            serde_json::Value::Object(members) => {
                for (name, member) in members {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    visit(member, &path, signs);
                }
            }
            _ => {}
        }
    }

    let mut signs = Vec::new();
    // Data of others in `_meta` is neither shown nor used.
    let mut server = serde_json::to_value(entry).unwrap_or_default();
    if let Some(members) = server.as_object_mut() {
        members.remove("_meta");
    }
    visit(&server, "", &mut signs);
    let reason = entry.official.as_ref().and_then(|official| official.status_message.clone());
    visit(&reason.unwrap_or_default().into(), "statusMessage", &mut signs);
    signs
}

#[cfg(test)]
mod tests;
