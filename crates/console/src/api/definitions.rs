//! Routes of definitions: what servers offer, as it was accepted and as it is.

use std::collections::HashSet;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use hospes_host::Pins;
use hospes_host::pins::{Difference, Digest, ItemKind, PinState, PinnedServer, Recorded};
use serde::{Deserialize, Serialize};

use super::{Answer, Body, Refused};
use crate::Console;
use crate::door::MayDecide;

fn pins(console: &Console) -> Result<&Pins, Refused> {
    console
        .pins()
        .ok_or_else(|| Refused::Nothing("nothing is pinned here: definitions go unlooked at".to_owned()))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct All {
    /// True if definitions are pinned.
    is_pinned: bool,
    servers: Vec<PinnedServer>,
}

pub(super) async fn all(State(console): State<Console>) -> Answer<All> {
    Ok(Json(match console.pins() {
        Some(pins) => All { is_pinned: true, servers: pins.list().await? },
        None => All { is_pinned: false, servers: Vec::new() },
    }))
}

pub(super) async fn one(State(console): State<Console>, Path(server): Path<String>) -> Answer<PinnedServer> {
    Ok(Json(pins(&console)?.server(&server).await?))
}

/// One thing that a server offers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    kind: ItemKind,
    #[serde(default)]
    name: String,
}

type Asked = Result<Query<Item>, QueryRejection>;

fn item(asked: Asked) -> Result<Item, Refused> {
    asked.map(|Query(item)| item).map_err(|rejection| Refused::Misread(rejection.body_text()))
}

pub(super) async fn difference(
    State(console): State<Console>,
    Path(server): Path<String>,
    asked: Asked,
) -> Answer<Difference> {
    let Item { kind, name } = item(asked)?;
    Ok(Json(pins(&console)?.difference(&server, kind, &name).await?))
}

#[derive(Serialize)]
pub(super) struct History {
    history: Vec<Recorded>,
}

pub(super) async fn history(
    State(console): State<Console>,
    Path(server): Path<String>,
    asked: Asked,
) -> Answer<History> {
    let Item { kind, name } = item(asked)?;
    Ok(Json(History { history: pins(&console)?.history(&server, Some((kind, &name))).await? }))
}

/// Definitions to accept or reject: the server with everything it offers, or one item.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decided {
    /// Hash of the definitions that were reviewed; required to accept them.
    hash: Option<Digest>,
    item: Option<Item>,
    /// The hashes of the items that were shown to the person.
    #[serde(default)]
    seen: HashSet<Digest>,
}

impl Decided {
    fn about(&self) -> Option<(ItemKind, &str)> {
        self.item.as_ref().map(|item| (item.kind, item.name.as_str()))
    }
}

pub(super) async fn accept(
    State(console): State<Console>,
    MayDecide(by): MayDecide,
    Path(server): Path<String>,
    Body(decided): Body<Decided>,
) -> Answer<PinnedServer> {
    let seen = decided.hash.ok_or_else(|| {
        Refused::Misread("`hash` is missing: what is accepted is what was looked at".to_owned())
    })?;
    let pins = pins(&console)?;
    if decided.item.is_none() {
        let now = pins.server(&server).await?;
        // A hash of the server that is no longer its own is refused below, where nothing can change in between.
        let unseen: Vec<String> = now
            .items
            .iter()
            .filter(|item| item.state != PinState::Accepted && !decided.seen.contains(&item.hash))
            .map(|item| if item.name.is_empty() { item.kind.as_str().to_owned() } else { item.name.clone() })
            .collect();
        if !unseen.is_empty() {
            return Err(Refused::Unseen(unseen));
        }
    }
    Ok(Json(pins.accept(&server, decided.about(), seen, &by).await?))
}

pub(super) async fn reject(
    State(console): State<Console>,
    MayDecide(by): MayDecide,
    Path(server): Path<String>,
    Body(decided): Body<Decided>,
) -> Answer<PinnedServer> {
    Ok(Json(pins(&console)?.reject(&server, decided.about(), &by).await?))
}
