//! The limits of runs in requests and answers.
//!
//! Numbers have one unit everywhere: times are in milliseconds, and money is in nano-dollars. Requests may also set a limit by a text in the form of the configuration, such as `"20m"`
//! or `"2.50"`, which is in US dollars.

use dirigent::events::Cost;
use dirigent::{
    LimitSetting, LimitSettings as _, Millis, RunLimitSettings, RunLimits, parse_dollars, set_limit,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// Returns the limits with those that a request sets: `{"max_iterations": 3, "timeout": "10m", "max_cost": "2.50"}`.
pub(crate) fn limits(set: &Map<String, Value>, defaults: RunLimits) -> Result<RunLimits, Problem> {
    let mut settings = RunLimitSettings::default();
    for (name, value) in set {
        let limit = RunLimitSettings::ALL.iter().find(|limit| limit.name == name);
        let Some(limit) = limit else {
            let known: Vec<&str> = RunLimitSettings::ALL.iter().map(|limit| limit.name).collect();
            return Err(Problem::invalid(format!(
                "`limits.{name}` is invalid: there is no such limit; there are {}",
                known.join(", ")
            )));
        };
        let result = match (&limit.setting, value) {
            (LimitSetting::Money(setting), value) => {
                money(value).map(|cost| *setting(&mut settings) = Some(cost))
            }
            (LimitSetting::Time(setting), Value::Number(_)) => {
                milliseconds(value).map(|time| *setting(&mut settings) = Some(time))
            }
            (_, Value::String(text)) => set_limit(limit, &mut settings, text),
            (_, value) => set_limit(limit, &mut settings, &value.to_string()),
        };
        result.map_err(|problem| Problem::invalid(format!("`limits.{name}` {problem}")))?;
    }
    Ok(settings.unwrap_or(defaults))
}

/// The limits that a run has, in a form in which a request can set them: a limit that the run does not have is left out.
pub(crate) fn limits_json(limits: &RunLimits) -> Value {
    let mut object = json!(limits);
    if let Some(limits) = object.as_object_mut() {
        limits.retain(|_, value| !value.is_null());
    }
    object
}

fn milliseconds(value: &Value) -> Result<Millis, String> {
    let expected =
        "must be a whole number of milliseconds above 0, or a time, such as \"90s\", \"10m\" or \"2h\"";
    match value.as_u64() {
        Some(time) if time > 0 => Ok(Millis(time)),
        Some(_) | None => Err(expected.to_owned()),
    }
}

fn money(value: &Value) -> Result<Cost, String> {
    let expected =
        "must be a whole number of nano-dollars above 0, or a text in US dollars above 0, such as \"2.50\"";
    let cost = match value {
        Value::String(text) => parse_dollars(text).ok(),
        value => value.as_u64().filter(|cost| *cost > 0).map(Cost),
    };
    cost.ok_or_else(|| expected.to_owned())
}

/// An amount of money in a request: a whole number of nano-dollars, or a text in US dollars.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Money(pub(crate) Cost);

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        money(&value).map(Money).map_err(serde::de::Error::custom)
    }
}
