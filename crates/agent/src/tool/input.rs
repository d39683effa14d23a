//! The arguments of a call, as models write them.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::ToolFailure;

/// The JSON schema of arguments: an object with these properties and no others.
pub(super) fn schema(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Parses arguments that must fit `schema`. Some models write an object, others a string that
/// contains one; both are accepted. `null` is the same as a missing argument.
///
/// # Errors
///
/// [`ToolFailure`] that names the argument and says what was expected.
pub(super) fn arguments<T: DeserializeOwned>(
    schema: &Value,
    input: &str,
) -> Result<T, ToolFailure> {
    let text = if input.trim().is_empty() { "{}" } else { input };
    let mut value = parse(text)?;
    if let Value::String(inner) = &value {
        value = parse(inner)?;
    }
    let Value::Object(mut given) = value else {
        let kind = kind(&value);
        return Err(ToolFailure(format!("the arguments must be a JSON object, not {kind}")));
    };
    without_nulls(&mut given);
    check(schema, &given)?;
    serde_json::from_value(Value::Object(given))
        .map_err(|error| ToolFailure(format!("the arguments are not valid: {error}")))
}

fn without_nulls(given: &mut Map<String, Value>) {
    given.retain(|_, value| !value.is_null());
    let items = given.values_mut().filter_map(Value::as_array_mut).flatten();
    items.filter_map(Value::as_object_mut).for_each(without_nulls);
}

fn parse(text: &str) -> Result<Value, ToolFailure> {
    serde_json::from_str(text)
        .map_err(|error| ToolFailure(format!("the arguments are not valid JSON: {error}")))
}

/// Checks names and types, which is all that our schemas contain. The parser would do it too, but
/// its errors do not name the argument.
fn check(schema: &Value, given: &Map<String, Value>) -> Result<(), ToolFailure> {
    let properties = schema["properties"].as_object().expect("a schema of ours has properties");
    let names = || properties.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if let Some(name) = given.keys().find(|name| !properties.contains_key(*name)) {
        return Err(ToolFailure(format!("there is no argument `{name}`; there are {}", names())));
    }
    for (name, property) in properties {
        let expected = expected(property);
        let required = schema["required"]
            .as_array()
            .is_some_and(|all| all.iter().any(|required| required.as_str() == Some(name.as_str())));
        match given.get(name) {
            Some(value) if !expected.iter().any(|expected| fits(value, expected)) => {
                let expected = expected.join(" or ");
                let found = kind(value);
                return Err(ToolFailure(format!("`{name}` must be {expected}, not {found}")));
            }
            Some(Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    check_item(&property["items"], item).map_err(|ToolFailure(what)| {
                        ToolFailure(format!("in `{name}`, item {}: {what}", index + 1))
                    })?;
                }
            }
            None if required => {
                let expected = expected.join(" or ");
                return Err(ToolFailure(format!("`{name}` is missing: {expected} is expected")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks an item of a list.
fn check_item(schema: &Value, item: &Value) -> Result<(), ToolFailure> {
    if schema.get("properties").is_some() {
        return match item {
            Value::Object(given) => check(schema, given),
            other => Err(ToolFailure(format!("an object is expected, not {}", kind(other)))),
        };
    }
    let expected = expected(schema);
    match expected.iter().any(|expected| fits(item, expected)) {
        true => Ok(()),
        false => {
            let (expected, found) = (expected.join(" or "), kind(item));
            Err(ToolFailure(format!("{expected} is expected, not {found}")))
        }
    }
}

const STRING: &str = "a string";
const NUMBER: &str = "a whole number (0 or more)";
const BOOL: &str = "true or false";
const LIST: &str = "a list";
const OBJECTS: &str = "a list of objects";

/// What a value of this schema is called.
fn expected(schema: &Value) -> Vec<&'static str> {
    let word = |name: &Value| match name.as_str() {
        Some("integer") => NUMBER,
        Some("boolean") => BOOL,
        Some("array") if schema["items"].get("properties").is_some() => OBJECTS,
        Some("array") => LIST,
        _ => STRING,
    };
    match &schema["type"] {
        Value::Array(several) => several.iter().map(word).collect(),
        one => vec![word(one)],
    }
}

fn fits(value: &Value, expected: &str) -> bool {
    match expected {
        NUMBER => value.is_u64(),
        BOOL => value.is_boolean(),
        LIST | OBJECTS => value.is_array(),
        _ => value.is_string(),
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let shown: String = text.chars().take(40).collect();
            format!("the string {}", Value::String(shown))
        }
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}
