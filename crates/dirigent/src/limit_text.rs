//! Parses limits from text, as written in agent files and on the command line.

use std::str::FromStr;

use dirigent_core::limits::{Limit, LimitSetting};
use dirigent_core::price::Cost;
use dirigent_core::time::Millis;
use jiff::SpanRelativeTo;

/// Sets one limit from text.
///
/// # Errors
/// A description of the valid values, such as `must be a whole number of at least 1`.
pub fn set_limit<S>(limit: &Limit<S>, settings: &mut S, text: &str) -> Result<(), String> {
    match limit.setting {
        LimitSetting::Count(setting) => *setting(settings) = Some(parse_count(text)?),
        LimitSetting::Tokens(setting) => *setting(settings) = Some(parse_count(text)?),
        LimitSetting::Time(setting) => *setting(settings) = Some(parse_duration(text)?),
        LimitSetting::Money(setting) => *setting(settings) = Some(parse_dollars(text)?),
    }
    Ok(())
}

fn parse_count<N: FromStr + Default + PartialOrd>(text: &str) -> Result<N, String> {
    match text.parse() {
        Ok(count) if count > N::default() => Ok(count),
        Ok(_) | Err(_) => Err("must be a whole number of at least 1".to_owned()),
    }
}

/// Parses a positive duration, such as `90s`, `10m`, `2h` or `30d`.
///
/// # Errors
/// A description of the valid values.
pub fn parse_duration(text: &str) -> Result<Millis, String> {
    let expected = "must be a time, such as \"90s\", \"10m\" or \"2h\"";
    let span: jiff::Span = text.parse().map_err(|_| expected.to_owned())?;
    let span = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| expected.to_owned())?;
    match std::time::Duration::try_from(span) {
        Ok(duration) if !duration.is_zero() => Ok(duration.into()),
        Ok(_) | Err(_) => Err(format!("{expected}, and longer than zero")),
    }
}

/// Parses an amount of US dollars above 0, such as `2.50`.
///
/// # Errors
/// A description of the valid amounts.
pub fn parse_dollars(text: &str) -> Result<Cost, String> {
    text.parse()
        .map_or_else(|_| Err(NOT_A_LIMIT), dollar_limit)
        .map_err(str::to_owned)
}

const NOT_A_LIMIT: &str = "must be an amount of US dollars above 0, such as 2.50";

/// Converts an amount of US dollars to a cost limit, which must not be zero.
///
/// # Errors
/// A description of the valid amounts.
pub(crate) fn dollar_limit(dollars: f64) -> Result<Cost, &'static str> {
    Cost::from_dollars(dollars)
        .filter(|cost| !cost.is_zero())
        .ok_or(NOT_A_LIMIT)
}
