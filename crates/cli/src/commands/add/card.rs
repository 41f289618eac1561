//! Servers at URLs, and what their cards say about them.

use std::time::Duration;

use hospes_registry::{ServerEntry, domain_cards, endpoint_card};
use url::Url;

use super::draft::ServerDraft;
use super::plan::PlannedServer;
use super::view::Screen;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, printable};
use crate::progress::StepBar;

/// Maximum time for the card. It is an addition, and most servers have none.
const CARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Plans the server at a URL. What its card says is shown as its claims.
pub(super) async fn plan(
    url: &str,
    named: &(impl Fn(&str) -> String + Sync),
    output: CliOutput,
) -> CliResult<PlannedServer> {
    let parsed = Url::parse(url)
        .map_err(|error| CliError::usage(format!("`{}` is not a URL", printable(url))).with_cause(&error))?;
    let bar = StepBar::spinner("looking for a server card", output);
    let card = tokio::time::timeout(CARD_TIMEOUT, find(&parsed)).await.ok().flatten();
    drop(bar);
    let host = parsed.host_str().unwrap_or_default().to_owned();
    let name = named(&format!("url/{}", host.replace('.', "-")));
    let title = card.as_ref().and_then(|card| card.title.clone()).unwrap_or_else(|| name.clone());
    PlannedServer::of_draft(ServerDraft::of_url(&name, url), &title, |screen| {
        if let Some(card) = &card {
            claims(screen, card, &host);
        }
    })
}

/// Returns the card of an endpoint: its own, or the one for this URL among those of its domain.
async fn find(url: &Url) -> Option<ServerEntry> {
    match endpoint_card(url).await {
        Ok(Some(card)) => return Some(card),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "no server card"),
    }
    let cards = domain_cards(url).await.inspect_err(|error| tracing::debug!(%error, "no catalog")).ok()?;
    let is_meant = |card: &ServerEntry| {
        card.remotes.iter().any(|remote| Url::parse(&remote.url).is_ok_and(|remote| remote == *url))
    };
    cards.into_iter().find(is_meant)
}

fn claims(screen: &mut Screen, card: &ServerEntry, host: &str) {
    screen
        .row("says", &format!("that it is {} {} (its card; {host} proves no more)", card.name, card.version));
    if !card.description.is_empty() {
        screen.row("", &card.description);
    }
    let source =
        card.repository.as_ref().map(|repository| repository.url.as_str()).filter(|url| !url.is_empty());
    for (label, url) in [("website", card.website_url.as_deref()), ("source", source)] {
        if let Some(url) = url {
            screen.row(label, url);
        }
    }
    let headers = card.remotes.iter().flat_map(|remote| &remote.headers);
    let required: Vec<&str> =
        headers.filter(|header| header.input.is_required).map(|header| header.name.as_str()).collect();
    if !required.is_empty() {
        screen.warning(&format!(
            "its card demands the headers {}; write them into `headers`",
            required.join(", ")
        ));
    }
}
