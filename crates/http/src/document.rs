//! The OpenAPI document: what is said once about all routes.

use serde_json::{Value, json};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};

use crate::problem::KINDS;

/// The document before any route is in it.
pub(crate) fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Rethread")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Sessions of AI agents over HTTP. The log is the truth; the context is a view. On the \
             loopback no token is needed; elsewhere every request carries one, and it alone says \
             whose sessions are meant. Errors are problems (RFC 9457) with a stable `type`.",
        ))
        .build();
    OpenApiBuilder::new().info(info).build()
}

/// The document with what every route has in common: how to come in, and what can go wrong.
pub(crate) fn finished(api: OpenApi) -> String {
    let mut document: Value = serde_json::to_value(api).expect("a document is valid JSON");
    let mut statuses: Vec<u16> = KINDS.iter().map(|(_, status, _)| *status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    if let Some(paths) = document["paths"].as_object_mut() {
        let operations = paths.values_mut().filter_map(Value::as_object_mut);
        for operation in operations.flat_map(|path| path.values_mut()) {
            let Some(responses) = operation["responses"].as_object_mut() else { continue };
            for status in &statuses {
                let reference = format!("#/components/responses/Problem{status}");
                responses.insert(status.to_string(), json!({ "$ref": reference }));
            }
        }
    }
    for status in &statuses {
        let kinds = KINDS.iter().filter(|(_, of, _)| of == status);
        let said: Vec<String> =
            kinds.map(|(kind, _, title)| format!("`{kind}`: {title}")).collect();
        document["components"]["responses"][format!("Problem{status}")] = json!({
            "description": said.join("; "),
            "content": { "application/problem+json": {
                "schema": { "$ref": "#/components/schemas/Problem" },
            } },
        });
    }
    document["components"]["schemas"]["Problem"] = crate::problem::schema();
    document["components"]["securitySchemes"] =
        json!({ "token": { "type": "http", "scheme": "bearer" } });
    document["security"] = json!([{}, { "token": [] }]);
    let mut text = serde_json::to_string_pretty(&document).expect("a document is valid JSON");
    text.push('\n');
    text
}
