//! Every path, and the document that describes them.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::desk::Desk;
use crate::problem::Problem;
use crate::{chat, entrance};

/// Every route with its description.
fn described() -> OpenApiRouter<Arc<Desk>> {
    OpenApiRouter::new().routes(routes!(chat::chat)).routes(routes!(chat::chat_stream))
}

/// What answers requests.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    let (router, _api): (Router<Arc<Desk>>, OpenApi) = described().split_for_parts();
    router
        .fallback(async || Problem::nothing_here())
        .method_not_allowed_fallback(async || Problem::no_method("the path takes other methods"))
        .layer(from_fn_with_state(desk.clone(), entrance::pass))
        .with_state(desk)
}
