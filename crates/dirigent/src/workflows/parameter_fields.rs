//! Reads the `parameters` of a workflow file.

use super::file::is_parameter_name;
use super::parameter::{Parameter, ParameterKind, check_pattern};
use crate::markdown::{Field, Fields, FileError, Value, truncated};
use crate::suggest;

/// Maximum number of parameters.
const MAX_PARAMETERS: usize = 20;
/// Maximum number of choices of a parameter.
const MAX_CHOICES: usize = 50;
/// Maximum length of a description, a choice or a pattern, in bytes.
const MAX_TEXT: usize = 1_000;
/// The fields of a parameter.
const FIELDS: [&str; 6] = ["type", "required", "default", "pattern", "choices", "description"];
/// The types of parameters.
const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "path", "choice"];

/// Reads the parameters in the order of the file.
pub(super) fn parameters(field: Option<&Field>) -> Result<Vec<Parameter>, FileError> {
    let Some(field) = field else {
        return Ok(Vec::new());
    };
    let fields = match &field.value {
        Value::Table(fields) => fields,
        Value::Text(text) if text.trim().is_empty() || text == "~" => return Ok(Vec::new()),
        Value::Text(_) | Value::List(_) | Value::Nested => {
            let problem =
                "`parameters` must be a table: write `NAME: {type: string, description: …}` below it";
            return Err(FileError::new(field.line, problem));
        }
    };
    if fields.len() > MAX_PARAMETERS {
        let problem = format!("there are more than {MAX_PARAMETERS} parameters: remove some");
        return Err(FileError::new(field.line, problem));
    }
    fields.iter().map(parameter).collect()
}

fn parameter(field: &Field) -> Result<Parameter, FileError> {
    let name = &field.key;
    if !is_parameter_name(name) {
        let problem = format!(
            "`{}` is not a valid parameter name: use letters a to z, digits and `_`, such as `new_name`",
            truncated(name)
        );
        return Err(FileError::new(field.line, problem));
    }
    let empty = Vec::new();
    let properties = match &field.value {
        Value::Table(properties) => properties,
        Value::Text(text) if text.trim().is_empty() || text == "~" => &empty,
        Value::Text(_) | Value::List(_) | Value::Nested => {
            let problem = format!("`{name}` must be a table, such as `{{type: string, description: …}}`");
            return Err(FileError::new(field.line, problem));
        }
    };
    if let Some(unknown) = properties
        .iter()
        .find(|property| !FIELDS.contains(&property.key.as_str()))
    {
        let hint = suggest::hint(&unknown.key, FIELDS);
        let problem = format!("a parameter has no field `{}`; {hint}", truncated(&unknown.key));
        return Err(FileError::new(unknown.line, problem));
    }
    let fields = Fields::new(properties);
    let text = |key| -> Result<Option<(String, usize)>, FileError> {
        match fields.text(key)? {
            Some((text, line)) if text.len() > MAX_TEXT => Err(FileError::new(
                line,
                format!("`{key}` is longer than {MAX_TEXT} bytes: shorten it"),
            )),
            text => Ok(text),
        }
    };
    let kind = kind(text("type")?, fields.get("choices"), field.line)?;
    let default = text("default")?;
    let required = match text("required")? {
        None => default.is_none(),
        Some((text, line)) => match text.as_str() {
            "true" => true,
            "false" => false,
            _ => return Err(FileError::new(line, "`required` must be true or false")),
        },
    };
    let pattern = text("pattern")?;
    if let Some((pattern, line)) = &pattern {
        check_pattern(pattern).map_err(|problem| FileError::new(*line, format!("`pattern`: {problem}")))?;
    }
    let mut parameter = Parameter {
        name: name.clone(),
        kind,
        required,
        default: None,
        pattern: pattern.map(|(pattern, _)| pattern),
        description: text("description")?.map(|(text, _)| text).unwrap_or_default(),
    };
    if let Some((value, line)) = default {
        let checked = parameter.check(&value);
        let value = checked.map_err(|reason| {
            FileError::new(
                line,
                format!(
                    "`default` of `{name}` cannot be `{}`: {reason}",
                    truncated(&value)
                ),
            )
        })?;
        parameter.default = Some(value);
    }
    Ok(parameter)
}

fn kind(
    text: Option<(String, usize)>,
    choices: Option<&Field>,
    line: usize,
) -> Result<ParameterKind, FileError> {
    let (name, line) = match (text, choices) {
        (Some((name, line)), _) => (name, line),
        (None, Some(choices)) => ("choice".to_owned(), choices.line),
        (None, None) => ("string".to_owned(), line),
    };
    let kind = match name.as_str() {
        "string" => ParameterKind::String,
        "integer" => ParameterKind::Integer,
        "number" => ParameterKind::Number,
        "boolean" => ParameterKind::Boolean,
        "path" => ParameterKind::Path,
        "choice" => return self::choices(choices, line),
        _ => {
            let hint = suggest::hint(&name, TYPES);
            let problem = format!("there is no type `{}`; {hint}", truncated(&name));
            return Err(FileError::new(line, problem));
        }
    };
    match choices {
        None => Ok(kind),
        Some(choices) => Err(FileError::new(choices.line, "`choices` needs `type: choice`")),
    }
}

fn choices(field: Option<&Field>, line: usize) -> Result<ParameterKind, FileError> {
    let choices = match field {
        Some(field) => field.names()?,
        None => Vec::new(),
    };
    let line = field.map_or(line, |field| field.line);
    if choices.is_empty() || choices.len() > MAX_CHOICES {
        let problem =
            format!("`choices` must be a list of 1 to {MAX_CHOICES} strings, such as [rust, python]");
        return Err(FileError::new(line, problem));
    }
    if choices
        .iter()
        .any(|choice| choice.is_empty() || choice.len() > MAX_TEXT)
    {
        let problem = format!("each of `choices` must have 1 to {MAX_TEXT} bytes");
        return Err(FileError::new(line, problem));
    }
    Ok(ParameterKind::Choice(choices))
}
