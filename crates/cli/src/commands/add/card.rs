//! Servers at URLs, and what their cards say about them.

use std::time::Duration;

use hospes_registry::{KeyValueInput, ServerEntry, domain_cards, endpoint_card};
use secrecy::SecretString;
use url::Url;

use super::answers::{self, Asker};
use super::asked_value::AskedValue;
use super::draft::{self, ServerDraft};
use super::headers::{self, MAX_HEADERS};
use super::plan::{PlanRequest, PlannedServer};
use super::screen::Screen;
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::progress::StepBar;

/// Maximum time for the card. It is an addition, and most servers have none.
const CARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Plans the server at a URL, with these headers. What its card says is shown as its claims; a person at the terminal is asked
/// for the headers that it demands.
pub(super) async fn plan(
    url: &str,
    headers: &[String],
    named: &(impl Fn(&str) -> String + Sync),
    request: &PlanRequest<'_>,
) -> CliResult<PlannedServer> {
    let parsed = Url::parse(url)
        .map_err(|error| CliError::usage(format!("`{}` is not a URL", printable(url))).with_cause(&error))?;
    let mut headers = headers::read(headers)?;
    let bar = StepBar::spinner("looking for a server card", request.output);
    let card = tokio::time::timeout(CARD_TIMEOUT, find(&parsed)).await.ok().flatten();
    drop(bar);
    let host = parsed.host_str().unwrap_or_default().to_owned();
    let name = named(&format!("url/{}", host.replace('.', "-")));
    let title = card.as_ref().and_then(|card| card.title.clone()).unwrap_or_else(|| name.clone());
    if let Some(card) = &card
        && matches!(request.asker, Asker::Terminal)
    {
        let missing = missing_headers(card, &headers);
        let questions: Vec<AskedValue<'_>> = missing
            .iter()
            .map(|header| {
                AskedValue::of_header(&header.name, header.input.description.as_deref().unwrap_or_default())
            })
            .collect();
        let answers = answers::collect(&questions, &title, &Screen::default(), request).await?;
        let value = |values: Vec<String>| values.into_iter().next().unwrap_or_default().into();
        headers.extend(answers.into_iter().map(|(name, values)| (name, value(values))));
    }
    let missing = card.as_ref().map(|card| missing_headers(card, &headers)).unwrap_or_default();
    let draft = {
        let (name, url) = (name.clone(), url.to_owned());
        draft::in_thread(move || ServerDraft::of_url(&name, &url, &headers)).await?
    };
    PlannedServer::of_draft(draft, &title, |screen| {
        if let Some(card) = &card {
            claims(screen, card, &missing, &host);
        }
    })
}

/// Returns the headers that a card demands and that are not given.
fn missing_headers<'c>(card: &'c ServerEntry, given: &[(String, SecretString)]) -> Vec<&'c KeyValueInput> {
    let headers = card.remotes.iter().flat_map(|remote| &remote.headers);
    let mut missing: Vec<&KeyValueInput> = Vec::new();
    for header in headers.filter(|header| header.input.is_required).take(MAX_HEADERS) {
        let is_same = |name: &str| name.eq_ignore_ascii_case(&header.name);
        let is_known =
            given.iter().any(|(name, _)| is_same(name)) || missing.iter().any(|known| is_same(&known.name));
        if !is_known && http::HeaderName::from_bytes(header.name.as_bytes()).is_ok() {
            missing.push(header);
        }
    }
    missing
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

fn claims(screen: &mut Screen, card: &ServerEntry, missing: &[&KeyValueInput], host: &str) {
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
    for header in missing {
        screen.warning(&format!("its card demands the header {0}: --header {0}=@FILE", header.name));
    }
}
