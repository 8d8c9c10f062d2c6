//! Renders the usage of a run as tables. Empty columns are omitted, such as the cost if no price is known.

use std::fmt::Write as _;

use dirigent_core::text::one_line;
use dirigent_core::time::Millis;
use dirigent_core::usage::{AgentUsage, UsageReport, UsageTotals};

use super::Detail;

/// A row of a table: names on the left, then figures.
struct Row {
    names: Vec<String>,
    totals: UsageTotals,
}

/// A column of figures; a cell is empty if its figure is zero.
struct Column {
    title: &'static str,
    cell: fn(&UsageTotals) -> String,
}

const MODEL_COLUMNS: [Column; 8] = [
    Column {
        title: "calls",
        cell: |totals| unless_zero(totals.usage.model_calls.into()),
    },
    // Calls whose token counts are estimates, because the provider sent no counts.
    Column {
        title: "estimated",
        cell: |totals| unless_zero(totals.usage.estimated_calls.into()),
    },
    Column {
        title: "tokens in",
        cell: |totals| unless_zero(totals.usage.input_tokens),
    },
    Column {
        title: "cached",
        cell: |totals| unless_zero(totals.usage.cached_input_tokens),
    },
    Column {
        title: "tokens out",
        cell: |totals| unless_zero(totals.usage.output_tokens),
    },
    Column {
        title: "cost",
        cell: |totals| {
            if totals.usage.cost.is_zero() {
                String::new()
            } else {
                totals.usage.cost.to_string()
            }
        },
    },
    Column {
        title: "malformed",
        cell: |totals| unless_zero(totals.malformed.into()),
    },
    Column {
        title: "time",
        cell: |totals| time(totals.usage.model_calls, totals.model_time),
    },
];

const TOOL_COLUMNS: [Column; 2] = [
    Column {
        title: "tool calls",
        cell: |totals| unless_zero(totals.usage.tool_calls.into()),
    },
    Column {
        title: "tool time",
        cell: |totals| time(totals.usage.tool_calls, totals.tool_time),
    },
];

/// Renders the usage of a run: a line for each model and, with [`Detail::Verbose`], a line for each model of each agent, with the agent's
/// tool calls. Empty if no model has replied and no agent has started.
pub fn usage(usage: &UsageReport, detail: Detail) -> String {
    let mut text = String::new();
    if !usage.models.is_empty() {
        let columns: Vec<&Column> = MODEL_COLUMNS.iter().collect();
        table(&mut text, &["model"], &columns, &rows_by_model(usage));
    }
    match detail {
        Detail::Concise => {}
        Detail::Verbose if usage.agents.is_empty() => {}
        Detail::Verbose => {
            let columns: Vec<&Column> = MODEL_COLUMNS.iter().chain(&TOOL_COLUMNS).collect();
            if !text.is_empty() {
                text.push('\n');
            }
            table(&mut text, &["agent", "model"], &columns, &rows_by_agent(usage));
        }
    }
    text
}

fn rows_by_model(usage: &UsageReport) -> Vec<Row> {
    let mut rows: Vec<Row> = usage
        .models
        .iter()
        .map(|model_usage| Row {
            names: vec![one_line(&model_usage.model)],
            totals: model_usage.totals,
        })
        .collect();
    if rows.len() > 1 {
        let mut all = UsageTotals::default();
        usage
            .models
            .iter()
            .for_each(|model_usage| all += model_usage.totals);
        rows.push(Row {
            names: vec!["all".to_owned()],
            totals: all,
        });
    }
    rows
}

fn rows_by_agent(usage: &UsageReport) -> Vec<Row> {
    let mut rows: Vec<Row> = usage.agents.iter().flat_map(rows_of_agent).collect();
    let mut agents = UsageTotals::default();
    usage
        .agents
        .iter()
        .for_each(|agent_usage| agents += agent_usage.totals);
    // The remaining usage comes from tool calls in the plans themselves.
    let run = UsageTotals {
        usage: usage.total.usage - agents.usage,
        tool_time: Millis(usage.total.tool_time.0.saturating_sub(agents.tool_time.0)),
        ..UsageTotals::default()
    };
    if run != UsageTotals::default() {
        rows.push(Row {
            names: vec!["run".to_owned(), String::new()],
            totals: run,
        });
    }
    rows
}

/// Returns one row, or a row for each model if the agent used several models.
fn rows_of_agent(agent: &AgentUsage) -> Vec<Row> {
    let name = one_line(&format!("{} {}", agent.agent, agent.name));
    match agent.models.as_slice() {
        [] => vec![Row {
            names: vec![name, String::new()],
            totals: agent.totals,
        }],
        [only] => vec![Row {
            names: vec![name, one_line(&only.model)],
            totals: agent.totals,
        }],
        several => several
            .iter()
            .enumerate()
            .map(|(index, model_usage)| Row {
                names: vec![
                    if index == 0 { name.clone() } else { String::new() },
                    one_line(&model_usage.model),
                ],
                totals: model_usage.totals,
            })
            .collect(),
    }
}

/// Appends a table: names aligned left, figures aligned right, two spaces before each column.
fn table(text: &mut String, names: &[&str], columns: &[&Column], rows: &[Row]) {
    let mut cells: Vec<Vec<String>> = vec![names.iter().map(|name| (*name).to_owned()).collect()];
    cells.extend(rows.iter().map(|row| row.names.clone()));
    for column in columns {
        let figures: Vec<String> = rows.iter().map(|row| (column.cell)(&row.totals)).collect();
        if figures.iter().any(|figure| !figure.is_empty()) {
            cells[0].push(column.title.to_owned());
            for (line, figure) in cells[1..].iter_mut().zip(figures) {
                line.push(figure);
            }
        }
    }
    let width = |index: usize| cells.iter().map(|line| line[index].chars().count()).max();
    let widths: Vec<usize> = (0..cells[0].len()).map_while(width).collect();
    for row in &cells {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if index < names.len() {
                write!(line, "  {cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Formats the total time of `calls` calls; empty if both arguments are zero. A call that has not ended has a time but is not counted.
fn time(calls: u32, span: Millis) -> String {
    if calls == 0 && span == Millis(0) {
        String::new()
    } else {
        span.to_string()
    }
}

fn unless_zero(number: u64) -> String {
    if number == 0 {
        String::new()
    } else {
        number.to_string()
    }
}
