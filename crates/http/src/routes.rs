//! Every path, and the document that describes them.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::state::ServerState;
use crate::v1::{
    agents, context, entries, events, export, keys, lineage, search, sessions, stats, trash, turns,
};
use crate::{admission, chat, health, openapi_document};

/// Every route with its description.
fn described() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::with_openapi(openapi_document::base())
        .routes(routes!(chat::chat))
        .routes(routes!(chat::chat_stream))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::get, sessions::patch, sessions::delete))
        .routes(routes!(sessions::archive))
        .routes(routes!(sessions::unarchive))
        .routes(routes!(trash::list_trash, trash::empty_trash))
        .routes(routes!(trash::restore_from_trash))
        .routes(routes!(entries::read, entries::append))
        .routes(routes!(events::follow))
        .routes(routes!(turns::run))
        .routes(routes!(turns::stream))
        .routes(routes!(turns::results))
        .routes(routes!(turns::results_stream))
        .routes(routes!(turns::record))
        .routes(routes!(turns::stop))
        .routes(routes!(context::show))
        .routes(routes!(stats::session_stats))
        .routes(routes!(lineage::preview, lineage::compact))
        .routes(routes!(lineage::resume))
        .routes(routes!(lineage::fork))
        .routes(routes!(lineage::undo))
        .routes(routes!(lineage::clear))
        .routes(routes!(export::export))
        .routes(routes!(keys::resolve, keys::bind, keys::unbind))
        .routes(routes!(search::search))
        .routes(routes!(agents::agents))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::openapi))
        .routes(routes!(health::docs))
        .routes(routes!(health::docs_script))
        .routes(routes!(health::docs_style))
}

/// The document that describes every route, as JSON.
pub fn openapi() -> String {
    let (_, api) = described().split_for_parts();
    openapi_document::finished(api)
}

/// The router.
pub(crate) fn router(state: Arc<ServerState>) -> Router {
    let (router, _) = described().split_for_parts();
    router
        .fallback(async || Problem::nothing_here())
        .method_not_allowed_fallback(async || Problem::no_method("this path has other methods"))
        .layer(from_fn_with_state(state.clone(), admission::admit))
        .with_state(state)
}
