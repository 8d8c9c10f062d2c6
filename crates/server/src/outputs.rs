//! `/v1/runs/{run}/outputs/{handle}`: whole outputs of a run, which events and prompts may shorten (PAOR-6).

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dirigent::{OutputHandle, OutputText};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::entrance::json_response;
use crate::input::{Parameters, Segments};
use crate::problem::Problem;
use crate::schemas;
use crate::service::Service;

/// The query of `GET /v1/runs/{run}/outputs/{handle}`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// The number of characters before the first one to return; 0 if absent.
    offset: Option<usize>,
    /// The number of characters to return; all that follow if absent.
    length: Option<usize>,
    /// The number of the first line to return, instead of `offset` and `length`. The lines of a file that was read have the numbers of the file.
    start_line: Option<usize>,
    /// The number of the last line to return; all that follow if absent.
    end_line: Option<usize>,
}

/// The part of an output to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputPart {
    Characters { offset: usize, length: usize },
    Lines { first: usize, last: usize },
}

impl OutputQuery {
    fn part(&self) -> Result<OutputPart, Problem> {
        let by_lines = self.start_line.is_some() || self.end_line.is_some();
        let by_characters = self.offset.is_some() || self.length.is_some();
        let (first, last) = (self.start_line.unwrap_or(1), self.end_line.unwrap_or(usize::MAX));
        if by_lines && by_characters {
            return Err(invalid(
                "use either `offset` and `length`, or `start_line` and `end_line`",
            ));
        }
        if first == 0 || last < first {
            return Err(invalid(
                "`start_line` must be at least 1, and `end_line` at least `start_line`",
            ));
        }
        Ok(match by_lines {
            true => OutputPart::Lines { first, last },
            false => OutputPart::Characters {
                offset: self.offset.unwrap_or(0),
                length: self.length.unwrap_or(usize::MAX),
            },
        })
    }
}

fn invalid(what: &str) -> Problem {
    let detail = format!("the query is invalid: {what}");
    Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail)
}

impl OutputPart {
    fn select(self, output: &OutputText) -> String {
        match self {
            OutputPart::Characters { offset, length } => {
                output.text.chars().skip(offset).take(length).collect()
            }
            OutputPart::Lines { first, last } => output.lines(first, last),
        }
    }
}

/// Returns an output of a run by its handle, whole or a part of it: of a call (`a3.2`, `run.7`), an agent (`a3`), an iteration (`iteration.2`, `diff.2`), or what the run has changed in
/// files (`diff`).
#[utoipa::path(get, path = "/v1/runs/{run}/outputs/{handle}", tag = "Runs", params(schemas::RunPath, schemas::HandlePath, OutputQuery),
    responses((status = 200, description = "The output", body = schemas::Output)))]
pub(crate) async fn show(
    State(service): State<Service>,
    Segments((text, handle)): Segments<(String, String)>,
    Parameters(query): Parameters<OutputQuery>,
) -> Result<Response, Problem> {
    let run = service.dirigent.find(&text).await?;
    let handle: OutputHandle = handle
        .parse()
        .map_err(|error| Problem::invalid(format!("`handle` is invalid: {error}")))?;
    let part = query.part()?;
    let Some(output) = service.dirigent.output(run, handle).await? else {
        let detail = format!(
            "run {} has no output `{handle}`: use the id of a finished call or agent of its events",
            run.short()
        );
        return Err(Problem::new(StatusCode::NOT_FOUND, "unknown_output", detail));
    };
    let texts = output
        .texts
        .iter()
        .map(|(name, line)| json!({"name": name, "line": line}));
    let texts: Vec<Value> = texts.collect();
    Ok(json_response(&json!({
        "run": run,
        "handle": handle.to_string(),
        "characters": output.text.chars().count(),
        "last_line": output.last_line(),
        "texts": texts,
        "other_values": output.other_values,
        "text": part.select(&output),
    })))
}
