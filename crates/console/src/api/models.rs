//! Routes of the models for sampling, and of the budgets of servers.

use axum::Json;
use axum::extract::State;
use hospes_host::sampling::SamplingOverview;
use serde::Serialize;

use crate::api_error::{ApiError, ApiResult};
use crate::console::Console;

/// All models and budgets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelsResponse {
    /// True if sampling is offered to servers, which requires a model.
    is_offered: bool,
    #[serde(flatten)]
    overview: Option<SamplingOverview>,
}

pub(super) async fn list(State(console): State<Console>) -> ApiResult<ModelsResponse> {
    let Some(sampler) = console.sampler() else {
        return Ok(Json(ModelsResponse { is_offered: false, overview: None }));
    };
    let status = console.servers().status();
    let servers = status.servers.iter().map(|server| server.name.as_str());
    let overview = sampler.overview(servers).await.map_err(ApiError::Spending)?;
    Ok(Json(ModelsResponse { is_offered: !overview.models.is_empty(), overview: Some(overview) }))
}
