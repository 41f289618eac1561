//! Routes of definitions: what servers offer, compared with what was accepted.

use std::collections::HashSet;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use hospes_host::PinManager;
use hospes_host::pins::{
    DefinitionDifference, ItemKind, PinState, PinnedServer, RecordedDefinition, Sha256Digest,
};
use serde::{Deserialize, Serialize};

use super::body::JsonBody;
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::AuthorizedDecider;
use crate::console::Console;

fn require_pins(console: &Console) -> Result<&PinManager, ApiError> {
    console.pins().ok_or_else(|| ApiError::Nothing("definitions are not pinned on this host".to_owned()))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DefinitionsResponse {
    /// True if definitions are pinned.
    is_pinned: bool,
    servers: Vec<PinnedServer>,
}

pub(super) async fn list(State(console): State<Console>) -> ApiResult<DefinitionsResponse> {
    Ok(Json(match console.pins() {
        Some(pins) => DefinitionsResponse { is_pinned: true, servers: pins.list().await? },
        None => DefinitionsResponse { is_pinned: false, servers: Vec::new() },
    }))
}

pub(super) async fn show(
    State(console): State<Console>,
    Path(server): Path<String>,
) -> ApiResult<PinnedServer> {
    Ok(Json(require_pins(&console)?.server(&server).await?))
}

/// Query for one item that a server offers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemQuery {
    kind: ItemKind,
    #[serde(default)]
    name: String,
}

type ItemQueryResult = Result<Query<ItemQuery>, QueryRejection>;

fn parse_item(asked: ItemQueryResult) -> Result<ItemQuery, ApiError> {
    asked.map(|Query(item)| item).map_err(|rejection| ApiError::Misread(rejection.body_text()))
}

pub(super) async fn difference(
    State(console): State<Console>,
    Path(server): Path<String>,
    asked: ItemQueryResult,
) -> ApiResult<DefinitionDifference> {
    let ItemQuery { kind, name } = parse_item(asked)?;
    Ok(Json(require_pins(&console)?.difference(&server, kind, &name).await?))
}

#[derive(Serialize)]
pub(super) struct HistoryResponse {
    history: Vec<RecordedDefinition>,
}

pub(super) async fn history(
    State(console): State<Console>,
    Path(server): Path<String>,
    asked: ItemQueryResult,
) -> ApiResult<HistoryResponse> {
    let ItemQuery { kind, name } = parse_item(asked)?;
    Ok(Json(HistoryResponse {
        history: require_pins(&console)?.history(&server, Some((kind, &name))).await?,
    }))
}

/// Definitions to accept or reject: the server with everything it offers, or one item.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PinDecision {
    /// Hash of the definitions that were reviewed; required to accept them.
    hash: Option<Sha256Digest>,
    item: Option<ItemQuery>,
    /// Hashes of the items that were shown to the person.
    #[serde(default)]
    seen: HashSet<Sha256Digest>,
}

impl PinDecision {
    fn about(&self) -> Option<(ItemKind, &str)> {
        self.item.as_ref().map(|item| (item.kind, item.name.as_str()))
    }
}

pub(super) async fn accept(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(server): Path<String>,
    JsonBody(decided): JsonBody<PinDecision>,
) -> ApiResult<PinnedServer> {
    let seen = decided.hash.ok_or_else(|| {
        ApiError::Misread("`hash` is missing: give the hash of the definition that was reviewed".to_owned())
    })?;
    let pins = require_pins(&console)?;
    // The hash of one item proves that it was seen; the hash of a server also covers items that stayed folded.
    if decided.item.is_none() {
        let now = pins.server(&server).await?;
        // A hash of the server that is out of date is refused below, where nothing can change in between.
        let unseen: Vec<String> = now
            .items
            .iter()
            .filter(|item| item.state != PinState::Accepted && !decided.seen.contains(&item.hash))
            .map(|item| if item.name.is_empty() { item.kind.as_str().to_owned() } else { item.name.clone() })
            .collect();
        if !unseen.is_empty() {
            return Err(ApiError::Unseen(unseen));
        }
    }
    Ok(Json(pins.accept(&server, decided.about(), seen, &by).await?))
}

pub(super) async fn reject(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(server): Path<String>,
    JsonBody(decided): JsonBody<PinDecision>,
) -> ApiResult<PinnedServer> {
    Ok(Json(require_pins(&console)?.reject(&server, decided.about(), &by).await?))
}
