//! Elicitation (MCP-6): forms with which a service asks the user. Each field becomes a question of the active call.
//!
//! Everything in a form is untrusted text. Each question begins with the name of the service that asks.

use dirigent_core::question::Question;
use dirigent_tools::AskUser;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};

use crate::config::ServiceName;
use crate::text::{clean, clean_line, cut};

/// Maximum number of fields of a form; a form with more is declined.
const MAX_FIELDS: usize = 12;
/// Maximum number of times that the user is asked for a field.
const MAX_TRIES: usize = 3;
/// Maximum length of a form's message, in characters.
const MAX_MESSAGE: usize = 1_000;
/// Maximum length of a field's title, description, choice or default, in characters.
const MAX_LINE: usize = 200;
/// Maximum number of choices of a field; a field with more accepts free text.
const MAX_CHOICES: usize = 50;

/// The answer with which the user declines the form.
const DECLINE: &str = "decline";
/// The answer with which the user leaves a field out, or chooses its default.
const SKIP: &str = "skip";
/// [`DECLINE`] and [`SKIP`] for a field that has a value of this name.
const DECLINE_FORM: &str = "decline this form";
const SKIP_FIELD: &str = "skip this field";

/// A field of a form.
struct Field {
    name: String,
    schema: Value,
    is_required: bool,
}

/// The user's answer to one question.
enum FieldAnswer {
    Value(Value),
    /// The field has no value.
    LeftOut,
    Declined,
    /// The text is not valid for the field, for this reason.
    Invalid(String),
}

/// Asks the user for the fields of a form, one after the other. A form behind a URL is declined.
pub(crate) async fn ask(
    service: &ServiceName,
    user: &dyn AskUser,
    form: ElicitRequestParams,
) -> ElicitResult {
    let (message, schema) = match form {
        ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } => (cut(clean(&message), MAX_MESSAGE), requested_schema),
        ElicitRequestParams::UrlElicitationParams { .. } | _ => return declined(),
    };
    let fields = fields(&schema);
    if fields.len() > MAX_FIELDS || fields.iter().any(|field| field.validator().is_none()) {
        return declined();
    }
    let asks = format!("The service {service} asks: {message}");
    if fields.is_empty() {
        return confirm(user, asks).await;
    }
    let mut content = Map::new();
    for field in fields {
        match ask_field(user, &asks, &field).await {
            Some(FieldAnswer::Value(value)) => drop(content.insert(field.name, value)),
            Some(FieldAnswer::LeftOut) => {}
            Some(FieldAnswer::Declined) => return declined(),
            Some(FieldAnswer::Invalid(_)) | None => return ElicitResult::new(ElicitationAction::Cancel),
        }
    }
    ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
}

pub(crate) fn declined() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Decline)
}

/// Asks for the user's consent to a form without fields.
async fn confirm(user: &dyn AskUser, question: String) -> ElicitResult {
    let choices = vec!["yes".to_owned(), "no".to_owned()];
    match user.ask(Question { question, choices }).await.as_deref() {
        Some("yes") => ElicitResult::new(ElicitationAction::Accept).with_content(json!({})),
        Some(_) => declined(),
        None => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// Asks for one field, and again if the answer is invalid. `None` if the user does not answer.
async fn ask_field(user: &dyn AskUser, asks: &str, field: &Field) -> Option<FieldAnswer> {
    let mut problem = String::new();
    for _ in 0..MAX_TRIES {
        let question = field.question(asks, &problem);
        match field.read(&user.ask(question).await?) {
            FieldAnswer::Invalid(reason) => problem = reason,
            answer @ (FieldAnswer::Value(_) | FieldAnswer::LeftOut | FieldAnswer::Declined) => {
                return Some(answer);
            }
        }
    }
    Some(FieldAnswer::Invalid(problem))
}

/// Returns the fields in the order of the form.
fn fields(schema: &ElicitationSchema) -> Vec<Field> {
    let required = schema.required.as_deref().unwrap_or_default();
    let ordered = schema.property_order.clone();
    let names = ordered.unwrap_or_else(|| schema.properties.keys().cloned().collect());
    let fields = names.into_iter().filter_map(|name| {
        let schema = serde_json::to_value(schema.properties.get(&name)?).ok()?;
        let is_required = required.contains(&name);
        Some(Field {
            name,
            schema,
            is_required,
        })
    });
    fields.collect()
}

impl Field {
    fn question(&self, asks: &str, problem: &str) -> Question {
        let line = |key: &str| {
            let text = self.schema[key].as_str().unwrap_or_default();
            clean_line(text, MAX_LINE)
        };
        let mut question = format!("{asks}\n");
        if !problem.is_empty() {
            question.push_str(&format!("Your answer is not valid: {problem}.\n"));
        }
        let title = match line("title") {
            title if title.is_empty() => clean_line(&self.name, MAX_LINE),
            title => title,
        };
        question.push_str(&title);
        match line("description") {
            description if description.is_empty() => {}
            description => question.push_str(&format!(": {description}")),
        }
        question.push_str(&format!(" ({})", self.expects()));
        let mut choices = self.choices();
        if choices.is_empty() {
            let skip = if self.can_skip() {
                format!(", `{}` to go on without", self.skip_word())
            } else {
                String::new()
            };
            question.push_str(&format!(". Answer `{}` to decline{skip}.", self.decline_word()));
        } else {
            choices.extend(self.can_skip().then(|| self.skip_word().to_owned()));
            choices.push(self.decline_word().to_owned());
        }
        Question { question, choices }
    }

    /// The answer that declines the form: another one if a value has its name.
    fn decline_word(&self) -> &'static str {
        if self.offers(DECLINE) {
            DECLINE_FORM
        } else {
            DECLINE
        }
    }

    /// The answer that leaves the field out: another one if a value has its name.
    fn skip_word(&self) -> &'static str {
        if self.offers(SKIP) { SKIP_FIELD } else { SKIP }
    }

    /// Returns true if the service offers a value with this name.
    fn offers(&self, word: &str) -> bool {
        let mut values = self.values().into_iter();
        values.any(|(value, name)| {
            let value = value.as_str().unwrap_or_default();
            name.trim().eq_ignore_ascii_case(word) || value.eq_ignore_ascii_case(word)
        })
    }

    /// Says which values are valid, and the default.
    fn expects(&self) -> String {
        let values = match self.schema["type"].as_str() {
            Some("boolean") => "yes or no".to_owned(),
            Some("integer") => "a whole number".to_owned(),
            Some("number") => "a number".to_owned(),
            Some("array") => {
                let names = self.values().into_iter().map(|(_, name)| name);
                let names = names.take(MAX_CHOICES).collect::<Vec<_>>().join(", ");
                format!("several, with commas: {names}")
            }
            Some(_) | None => match self.schema["format"].as_str() {
                Some(format) => format!("text: {}", clean_line(format, MAX_LINE)),
                None if self.values().is_empty() => "text".to_owned(),
                None => "one of the choices".to_owned(),
            },
        };
        let required = if self.is_required { "" } else { ", optional" };
        match &self.schema["default"] {
            Value::Null => format!("{values}{required}"),
            Value::String(text) => format!("{values}; default: {}", clean_line(text, MAX_LINE)),
            default => format!(
                "{values}; default: {}",
                clean_line(&default.to_string(), MAX_LINE)
            ),
        }
    }

    fn can_skip(&self) -> bool {
        !self.is_required || !self.schema["default"].is_null()
    }

    /// The choices that the service offers, each with its display name.
    fn values(&self) -> Vec<(Value, String)> {
        let place = if self.schema["items"].is_object() {
            &self.schema["items"]
        } else {
            &self.schema
        };
        let named = ["oneOf", "anyOf"]
            .into_iter()
            .find_map(|key| place[key].as_array());
        if let Some(named) = named {
            let named = named.iter().map(|item| (&item["const"], item["title"].as_str()));
            return named.map(|(value, name)| value_and_name(value, name)).collect();
        }
        let names = place["enumNames"].as_array();
        let values = place["enum"].as_array().into_iter().flatten().enumerate();
        let name = |index: usize| names.and_then(|names| names.get(index)?.as_str());
        values
            .map(|(index, value)| value_and_name(value, name(index)))
            .collect()
    }

    fn choices(&self) -> Vec<String> {
        match self.schema["type"].as_str() {
            Some("boolean") => vec!["yes".to_owned(), "no".to_owned()],
            Some("array") => Vec::new(),
            Some(_) | None => {
                let values = self.values();
                if values.len() > MAX_CHOICES {
                    return Vec::new();
                }
                values.into_iter().map(|(_, name)| name).collect()
            }
        }
    }

    fn read(&self, answer: &str) -> FieldAnswer {
        let answer = answer.trim();
        if answer.eq_ignore_ascii_case(self.decline_word()) {
            return FieldAnswer::Declined;
        }
        if answer.eq_ignore_ascii_case(self.skip_word()) && self.can_skip() {
            return match &self.schema["default"] {
                Value::Null => FieldAnswer::LeftOut,
                default => FieldAnswer::Value(default.clone()),
            };
        }
        let value = self.parse(answer);
        let valid = self
            .validator()
            .map(|validator| match validator.validate(&value) {
                Ok(()) => None,
                Err(error) => Some(clean_line(&error.to_string(), MAX_LINE)),
            });
        match valid {
            Some(None) => FieldAnswer::Value(value),
            Some(Some(reason)) => FieldAnswer::Invalid(reason),
            None => FieldAnswer::Declined,
        }
    }

    /// Returns the validator of the field's values; `None` if its schema is invalid.
    fn validator(&self) -> Option<jsonschema::Validator> {
        jsonschema::options().offline().build(&self.schema).ok()
    }

    /// Converts the answer to a value. An answer that cannot be converted is returned as text, which the schema then rejects.
    fn parse(&self, answer: &str) -> Value {
        let values = self.values();
        let named = |text: &str| {
            let mut named = values
                .iter()
                .filter(|(value, name)| name == text || value == text);
            named
                .next()
                .map_or_else(|| json!(text), |(value, _)| value.clone())
        };
        match self.schema["type"].as_str() {
            Some("boolean") => match answer.to_ascii_lowercase().as_str() {
                "yes" | "true" => json!(true),
                "no" | "false" => json!(false),
                other => json!(other),
            },
            Some("integer" | "number") => match serde_json::from_str(answer) {
                Ok(number @ Value::Number(_)) => number,
                Ok(_) | Err(_) => json!(answer),
            },
            Some("array") => {
                let parts = answer.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(named).collect()
            }
            Some(_) | None => named(answer),
        }
    }
}

fn value_and_name(value: &Value, name: Option<&str>) -> (Value, String) {
    let text = name.or_else(|| value.as_str()).unwrap_or_default();
    (value.clone(), clean_line(text, MAX_LINE))
}
