//! Origin of an entry of a registry: who published it, and what is conspicuous about it.

use std::time::Duration;

use hospes_registry::{EntryPublisher, ServerEntry, TrustSign};

use super::screen::Screen;
use crate::registry::format_ago;

/// Formats where an entry comes from, and what is conspicuous about it.
pub(in crate::commands) fn origin(
    screen: &mut Screen,
    entry: &ServerEntry,
    signs: &[TrustSign],
    registry: &str,
) {
    if let Some((who, is_checked)) = publisher(signs) {
        let checked = match is_checked {
            true => format!("checked by {registry}"),
            false => format!("{registry} does not say that this was checked"),
        };
        screen.row("from", &format!("{who} ({checked}; not audited by anybody)"));
    }
    if let Some(published) = entry.published_at() {
        let age = jiff::Timestamp::now().duration_since(published);
        let ago = format_ago(age.try_into().unwrap_or_default());
        let repository = entry.repository.as_ref().map(|repository| repository.url.as_str());
        let source = repository.filter(|url| !url.is_empty());
        let source = source.map(|url| format!(" · source {url}")).unwrap_or_default();
        screen.row("published", &format!("{}, {ago}{source}", published.strftime("%Y-%m-%d")));
    }
    for text in trust_warnings(signs) {
        screen.warning(&text);
    }
}

/// Returns who published an entry, and whether the registry says that it has checked this.
pub(in crate::commands) fn publisher(signs: &[TrustSign]) -> Option<(String, bool)> {
    let (publisher, is_checked) = signs.iter().find_map(|sign| match sign {
        TrustSign::NamespaceProved(publisher) => Some((publisher, true)),
        TrustSign::NamespaceClaimed(publisher) => Some((publisher, false)),
        _ => None,
    })?;
    let who = match publisher {
        EntryPublisher::GitHubAccount(account) => format!("GitHub account {account}"),
        EntryPublisher::DomainOwner(domain) => format!("owner of {domain}"),
        _ => "nobody that the name tells".to_owned(),
    };
    Some((who, is_checked))
}

/// Returns what is conspicuous about an entry.
pub(in crate::commands) fn trust_warnings(signs: &[TrustSign]) -> Vec<String> {
    signs.iter().filter(|sign| sign.is_warning()).filter_map(sign_text).collect()
}

fn sign_text(sign: &TrustSign) -> Option<String> {
    Some(match sign {
        TrustSign::Young { days } => {
            format!("published {}", format_ago(Duration::from_hours(days.unsigned_abs().saturating_mul(24))))
        }
        TrustSign::ResemblesName { other, is_yours, .. } => match is_yours {
            true => format!("its name resembles your server {other}"),
            false => format!("its name resembles the well-known {other}"),
        },
        TrustSign::Deprecated(reason) => match reason {
            Some(reason) => format!("deprecated by its publisher: {reason}"),
            None => "deprecated by its publisher".to_owned(),
        },
        TrustSign::OwnerChanged { from } => format!("it belonged to {from} before"),
        TrustSign::RepositoryChanged { from } => format!("its source was at {from} before"),
        TrustSign::ForeignRemoteHost { host, domain } => match domain {
            Some(domain) => format!("it runs at {host}, which is not below {domain}"),
            None => format!("it runs at {host}, which its name does not prove"),
        },
        TrustSign::VariableRemoteHost(url) => format!("your answers decide where requests go: {url}"),
        TrustSign::RepositoryOfOther { account, repository } => {
            format!("its source {repository} is not of the account {account}")
        }
        TrustSign::HiddenText { path, .. } => format!("{path} has hidden characters"),
        _ => return None,
    })
}
