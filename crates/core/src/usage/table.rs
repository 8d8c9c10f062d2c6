//! An account as tables for people. A column with nothing in it is left out, so nothing is said of money where no price is
//! known.

use std::fmt::Write as _;

use super::{AgentUsage, UsageReport, UsageTotals};
use crate::run::Detail;
use crate::time::Millis;

/// A line of a table: whose it is, and what was used.
struct Row {
    names: Vec<String>,
    totals: UsageTotals,
}

/// What stands in a column, under its title. Empty where there is nothing to say.
struct Column {
    title: &'static str,
    cell: fn(&UsageTotals) -> String,
}

const MODEL_COLUMNS: [Column; 8] = [
    Column {
        title: "calls",
        cell: |totals| unless_zero(totals.usage.model_calls.into()),
    },
    // Of the calls, those whose tokens the provider did not count.
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

impl UsageReport {
    /// As text for people: a line for each model and, in detail, one for each agent and each of its models, with its tool
    /// calls. Empty where no model has replied and no agent has started.
    pub fn render(&self, detail: Detail) -> String {
        let mut text = String::new();
        if !self.models.is_empty() {
            let models: Vec<&Column> = MODEL_COLUMNS.iter().collect();
            table(&mut text, &["model"], &models, &self.by_model());
        }
        match detail {
            Detail::Concise => {}
            Detail::Verbose if self.agents.is_empty() => {}
            Detail::Verbose => {
                let all: Vec<&Column> = MODEL_COLUMNS.iter().chain(&TOOL_COLUMNS).collect();
                if !text.is_empty() {
                    text.push('\n');
                }
                table(&mut text, &["agent", "model"], &all, &self.by_agent());
            }
        }
        text
    }

    fn by_model(&self) -> Vec<Row> {
        let mut lines: Vec<Row> = self
            .models
            .iter()
            .map(|model_usage| Row {
                names: vec![single_line(&model_usage.model)],
                totals: model_usage.totals,
            })
            .collect();
        if lines.len() > 1 {
            let mut all = UsageTotals::default();
            self.models
                .iter()
                .for_each(|model_usage| all += model_usage.totals);
            lines.push(Row {
                names: vec!["all".to_owned()],
                totals: all,
            });
        }
        lines
    }

    fn by_agent(&self) -> Vec<Row> {
        let mut lines: Vec<Row> = self.agents.iter().flat_map(AgentUsage::lines).collect();
        let mut all = UsageTotals::default();
        self.agents.iter().for_each(|of_agent| all += of_agent.totals);
        // What is left are the calls that plans spelled out.
        let of_run = UsageTotals {
            usage: self.total.usage - all.usage,
            tool_time: Millis(self.total.tool_time.0.saturating_sub(all.tool_time.0)),
            ..UsageTotals::default()
        };
        if of_run != UsageTotals::default() {
            lines.push(Row {
                names: vec!["run".to_owned(), String::new()],
                totals: of_run,
            });
        }
        lines
    }
}

impl AgentUsage {
    /// One line, or one for each of its models where it had several.
    fn lines(&self) -> Vec<Row> {
        let name = single_line(&format!("{} {}", self.agent, self.name));
        match self.models.as_slice() {
            [] => vec![Row {
                names: vec![name, String::new()],
                totals: self.totals,
            }],
            [only] => vec![Row {
                names: vec![name, single_line(&only.model)],
                totals: self.totals,
            }],
            several => several
                .iter()
                .enumerate()
                .map(|(index, model_usage)| Row {
                    names: vec![
                        if index == 0 { name.clone() } else { String::new() },
                        single_line(&model_usage.model),
                    ],
                    totals: model_usage.totals,
                })
                .collect(),
        }
    }
}

/// Names to the left, figures to the right, two spaces between columns and before them.
fn table(text: &mut String, names: &[&str], columns: &[&Column], lines: &[Row]) {
    let mut rows: Vec<Vec<String>> = vec![names.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(lines.iter().map(|line| line.names.clone()));
    for column in columns {
        let cells: Vec<String> = lines.iter().map(|line| (column.cell)(&line.totals)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows[0].push(column.title.to_owned());
            for (row, cell) in rows[1..].iter_mut().zip(cells) {
                row.push(cell);
            }
        }
    }
    let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).map_while(width).collect();
    for row in &rows {
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

/// How long that many calls took, or one that has not ended.
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

/// A name in one line, whatever a provider calls its model.
fn single_line(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
