//! The models that servers may ask, and what servers may spend on them.

use axum::Json;
use axum::extract::State;
use hospes_host::sampling::Overview;
use serde::Serialize;

use super::{Answer, Refused};
use crate::Console;

/// All models and budgets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Models {
    /// True if sampling is offered to servers; without a model it is not.
    is_offered: bool,
    #[serde(flatten)]
    overview: Option<Overview>,
}

pub(super) async fn all(State(console): State<Console>) -> Answer<Models> {
    let Some(sampler) = console.sampler() else {
        return Ok(Json(Models { is_offered: false, overview: None }));
    };
    let status = console.servers().status();
    let servers = status.servers.iter().map(|server| server.name.as_str());
    let overview = sampler.overview(servers).await.map_err(Refused::Spending)?;
    Ok(Json(Models { is_offered: !overview.models.is_empty(), overview: Some(overview) }))
}
