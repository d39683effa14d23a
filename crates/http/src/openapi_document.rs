//! The OpenAPI document: everything that is common to all routes.

use serde_json::{Value, json};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};

use crate::health::PUBLIC;
use crate::problem::KINDS;

/// The document without any route.
pub(crate) fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Rethread")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Sessions of AI agents over HTTP. The log is the truth; the context is a view. Requests \
             from the same machine need no token. All others need one; the token alone decides whose \
             sessions a request can reach. Errors are problem details (RFC 9457) with a stable `type`.",
        ))
        .build();
    OpenApiBuilder::new().info(info).build()
}

/// Adds what all routes have in common: authentication, and errors.
pub(crate) fn finished(api: OpenApi) -> String {
    let mut document: Value = serde_json::to_value(api).expect("a document is valid JSON");
    let mut statuses: Vec<u16> = KINDS.iter().map(|(_, status, _)| *status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    unsigned(&mut document);
    let schemas = document["components"]["schemas"].clone();
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, operations) in paths {
            let Some(operations) = operations.as_object_mut() else { continue };
            for operation in operations.values_mut() {
                optional_body(operation, &schemas);
                if PUBLIC.contains(&path.as_str()) {
                    operation["security"] = json!([]);
                }
            }
        }
    }
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

/// A body whose fields are all optional is optional itself.
fn optional_body(operation: &mut Value, schemas: &Value) {
    let Some(body) = operation.get_mut("requestBody") else { return };
    let reference = body["content"]["application/json"]["schema"]["$ref"].as_str();
    let name = reference.and_then(|reference| reference.rsplit('/').next()).unwrap_or_default();
    if schemas.get(name).is_some_and(|schema| schema.get("required").is_none()) {
        body["required"] = json!(false);
    }
}

/// Numbers here are never negative, and use the full range of their type: a signed format would
/// promise less.
fn unsigned(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let signed = fields.get("format").and_then(Value::as_str);
            let most = match (signed, fields.get("minimum").and_then(Value::as_u64)) {
                (Some("int32"), Some(_)) => Some(json!(u32::MAX)),
                (Some("int64"), Some(_)) => None,
                _ => return fields.values_mut().for_each(unsigned),
            };
            fields.remove("format");
            if let (Some(most), None) = (most, fields.get("maximum")) {
                fields.insert("maximum".into(), most);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unsigned),
        _ => {}
    }
}
