//! Shortens long results, marks the omissions, and adds the handle for reading the rest (PAOR-6).

use serde_json::Value;

use crate::text::{shorten, shorten_value};

/// The name of the tool that reads shortened output.
pub const READ_OUTPUT: &str = "read_output";

/// Minimum length of a shortened output in characters, even if the rest of the result is long.
const MIN_OUTPUT: usize = 400;

/// Shortens a tool's result for a model to about `max` characters. First shortens long strings, which preserves the structure. If this is
/// not enough, replaces the output with its text and omits the middle of that text.
pub(crate) fn shorten_result(mut result: Value, max: usize, handle: Option<&str>) -> Value {
    if size(&result) <= max {
        return result;
    }
    if let Some(error) = result.get_mut("error") {
        *error = shorten_value(error, max / 4, handle);
    }
    if let Some(Value::Array(changes)) = result.get_mut("changes") {
        bound(changes, max / 4);
    }
    let Some(output) = result.get("output").cloned() else {
        return result;
    };
    for most in [max / 8 * 7, max / 2, max / 4, max / 8] {
        result["output"] = shorten_value(&output, most, handle);
        if size(&result) <= max {
            return result;
        }
    }
    let text = match output {
        Value::String(text) => text,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            output.to_string()
        }
    };
    result["output"] = Value::Null;
    let room = max.saturating_sub(size(&result)).max(MIN_OUTPUT);
    // Characters such as quotes are escaped in a JSON string and take more room there.
    let quoted = size(&Value::from(text.as_str())).max(1);
    let share = room * text.chars().count() / quoted;
    result["output"] = Value::String(shorten(&text, share.max(MIN_OUTPUT), handle).into_owned());
    result
}

/// Keeps the first changes, up to about `max` characters, and adds a note with the number of the others.
fn bound(changes: &mut Vec<Value>, max: usize) {
    for change in changes.iter_mut() {
        *change = shorten_value(change, max, None);
    }
    let mut room = max;
    let fits = |change: &&Value| {
        let rest = room.checked_sub(size(change) + 1);
        room = rest.unwrap_or_default();
        rest.is_some()
    };
    let kept = changes.iter().take_while(fits).count().max(1);
    let more = changes.len().saturating_sub(kept);
    if more > 0 {
        changes.truncate(kept);
        changes.push(Value::String(format!("… and {more} more")));
    }
}

/// Length of the value as JSON, in characters.
fn size(value: &Value) -> usize {
    value.to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paor_6_a_long_list_of_changes_and_a_long_error_are_bounded_too() {
        let changes: Vec<String> = (1..=3_000)
            .map(|number| format!("edited src/module_{number}.rs"))
            .collect();
        let result = json!({"success": false, "error": "e".repeat(9_000), "changes": changes});

        let short = shorten_result(result, 4_000, Some("a1.3"));

        assert!(size(&short) <= 4_000, "{}", size(&short));
        let error = short["error"].as_str().unwrap_or_default();
        assert!(
            error.contains("read them with read_output, handle a1.3"),
            "{error}"
        );
        let changes = short["changes"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(changes[0], "edited src/module_1.rs");
        assert_eq!(
            changes[changes.len() - 1],
            format!("… and {} more", 3_001 - changes.len())
        );
    }

    #[test]
    fn paor_6_a_few_changes_are_shown_whole_beside_a_long_output() {
        let changes = json!(["edited a.rs", "edited b.rs"]);
        let result = json!({"success": true, "output": "o".repeat(9_000), "changes": changes});
        assert_eq!(shorten_result(result, 4_000, None)["changes"], changes);
    }
}
