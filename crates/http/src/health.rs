//! Health, metrics, and the page that shows the API.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use rethread_core::Owner;
use serde_json::json;

use crate::limits::READY_TIME_MAX;
use crate::metrics::Now;
use crate::problem::Problem;
use crate::state::Caller;
use crate::tokens::is_only_for_metrics;
use crate::v1::shapes;

/// The page loads its own script and style and talks to its own server; nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What can be read without a token: a browser sends none when a person types an address, and these
/// contain only what is in the source.
pub(crate) const PUBLIC: [&str; 4] = ["/openapi.json", "/docs", "/docs/page.js", "/docs/page.css"];

/// What a token for metrics may read.
pub(crate) const METRICS_PATHS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// The document never changes while the process runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(crate::routes::openapi);

/// Report that the server is running
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "Running", body = shapes::Status)))]
pub(crate) async fn healthz(_: Caller) -> Response {
    axum::Json(json!({ "status": "ok" })).into_response()
}

/// Report whether the store can be read and written
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, description = "Ready", body = shapes::Status)))]
pub(crate) async fn readyz(caller: Caller) -> Result<Response, Problem> {
    if caller.state.closing.is_cancelled() {
        return Err(Problem::unready("the server is stopping"));
    }
    let asked = async {
        let filter = Default::default();
        caller.with(move |sessions| sessions.list(&filter, None, 1)).await?;
        caller.state.clone().writable().await
    };
    // Waiting for a store that cannot be reached takes longer than a load balancer waits.
    let asked = tokio::time::timeout(READY_TIME_MAX, asked).await.map_err(|_| {
        let seconds = READY_TIME_MAX.as_secs();
        Problem::unready(format!("the store has not answered within {seconds} s"))
    })?;
    asked.map_err(Problem::makes_unready)?;
    Ok(axum::Json(json!({ "status": "ready" })).into_response())
}

/// Return metrics for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "Counters", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(caller: Caller) -> Result<Response, Problem> {
    // They are totals of all owners, so not every owner may see them.
    let owner = caller.handle.owner();
    if *owner != Owner::local() && !is_only_for_metrics(owner) {
        let what = "the metrics are for this machine and for tokens of `rethread:metrics`";
        return Err(Problem::forbidden(what));
    }
    let kind = [("content-type", "text/plain; version=0.0.4")];
    let behind = caller.state.index_lag().await;
    let state = &caller.state;
    let bytes = state.quotas.bytes.taken() + state.quotas.answers.taken();
    let now = Now { turns: state.host.turns(), bytes, behind };
    Ok((kind, state.metrics.text(&now)).into_response())
}

/// Show this document
#[utoipa::path(get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(crate) async fn openapi() -> Response {
    ([("content-type", "application/json")], DOCUMENT.as_str()).into_response()
}

/// Show this document as a web page
#[utoipa::path(get, path = "/docs", tag = "operations",
    responses((status = 200, description = "A page that needs no network", body = String, content_type = "text/html")))]
pub(crate) async fn docs() -> Response {
    page("text/html; charset=utf-8", include_str!("docs/page.html"))
}

/// The script of the page at /docs
#[utoipa::path(get, path = "/docs/page.js", tag = "operations",
    responses((status = 200, description = "A script", body = String, content_type = "text/javascript")))]
pub(crate) async fn docs_script() -> Response {
    page("text/javascript; charset=utf-8", include_str!("docs/page.js"))
}

/// The style of the page at /docs
#[utoipa::path(get, path = "/docs/page.css", tag = "operations",
    responses((status = 200, description = "A style", body = String, content_type = "text/css")))]
pub(crate) async fn docs_style() -> Response {
    page("text/css; charset=utf-8", include_str!("docs/page.css"))
}

fn page(kind: &'static str, text: &'static str) -> Response {
    let headers = [("content-type", kind), ("content-security-policy", POLICY)];
    (headers, text).into_response()
}
