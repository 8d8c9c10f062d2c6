//! An account as tables for people. A column with nothing in it is left out, so nothing is said of money where no price is
//! known.

use std::fmt::Write as _;

use super::{Account, AgentAccount, Tally};
use crate::run::Detail;
use crate::time::Millis;

/// A line of a table: whose it is, and what was used.
struct Line {
    names: Vec<String>,
    tally: Tally,
}

/// What stands in a column, under its title. Empty where there is nothing to say.
struct Column {
    title: &'static str,
    cell: fn(&Tally) -> String,
}

const MODEL_COLUMNS: [Column; 8] = [
    Column {
        title: "calls",
        cell: |tally| unless_zero(tally.usage.model_calls.into()),
    },
    // Of the calls, those whose tokens the provider did not count.
    Column {
        title: "estimated",
        cell: |tally| unless_zero(tally.usage.estimated_calls.into()),
    },
    Column {
        title: "tokens in",
        cell: |tally| unless_zero(tally.usage.input_tokens),
    },
    Column {
        title: "cached",
        cell: |tally| unless_zero(tally.usage.cached_input_tokens),
    },
    Column {
        title: "tokens out",
        cell: |tally| unless_zero(tally.usage.output_tokens),
    },
    Column {
        title: "cost",
        cell: |tally| {
            if tally.usage.cost.is_zero() {
                String::new()
            } else {
                tally.usage.cost.to_string()
            }
        },
    },
    Column {
        title: "malformed",
        cell: |tally| unless_zero(tally.malformed.into()),
    },
    Column {
        title: "time",
        cell: |tally| time(tally.usage.model_calls, tally.model_time),
    },
];

const TOOL_COLUMNS: [Column; 2] = [
    Column {
        title: "tool calls",
        cell: |tally| unless_zero(tally.usage.tool_calls.into()),
    },
    Column {
        title: "tool time",
        cell: |tally| time(tally.usage.tool_calls, tally.tool_time),
    },
];

impl Account {
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

    fn by_model(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self
            .models
            .iter()
            .map(|of_model| Line {
                names: vec![plain(&of_model.model)],
                tally: of_model.tally,
            })
            .collect();
        if lines.len() > 1 {
            let mut all = Tally::default();
            self.models.iter().for_each(|of_model| all += of_model.tally);
            lines.push(Line {
                names: vec!["all".to_owned()],
                tally: all,
            });
        }
        lines
    }

    fn by_agent(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self.agents.iter().flat_map(AgentAccount::lines).collect();
        let mut all = Tally::default();
        self.agents.iter().for_each(|of_agent| all += of_agent.tally);
        // What is left are the calls that plans spelled out.
        let of_run = Tally {
            usage: self.total.usage - all.usage,
            tool_time: Millis(self.total.tool_time.0.saturating_sub(all.tool_time.0)),
            ..Tally::default()
        };
        if of_run != Tally::default() {
            lines.push(Line {
                names: vec!["run".to_owned(), String::new()],
                tally: of_run,
            });
        }
        lines
    }
}

impl AgentAccount {
    /// One line, or one for each of its models where it had several.
    fn lines(&self) -> Vec<Line> {
        let name = plain(&format!("{} {}", self.agent, self.name));
        match self.models.as_slice() {
            [] => vec![Line {
                names: vec![name, String::new()],
                tally: self.tally,
            }],
            [only] => vec![Line {
                names: vec![name, plain(&only.model)],
                tally: self.tally,
            }],
            several => several
                .iter()
                .enumerate()
                .map(|(place, of_model)| Line {
                    names: vec![
                        if place == 0 { name.clone() } else { String::new() },
                        plain(&of_model.model),
                    ],
                    tally: of_model.tally,
                })
                .collect(),
        }
    }
}

/// Names to the left, figures to the right, two spaces between columns and before them.
fn table(text: &mut String, names: &[&str], columns: &[&Column], lines: &[Line]) {
    let mut rows: Vec<Vec<String>> = vec![names.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(lines.iter().map(|line| line.names.clone()));
    for column in columns {
        let cells: Vec<String> = lines.iter().map(|line| (column.cell)(&line.tally)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            rows[0].push(column.title.to_owned());
            for (row, cell) in rows[1..].iter_mut().zip(cells) {
                row.push(cell);
            }
        }
    }
    let width = |place: usize| rows.iter().map(|row| row[place].chars().count()).max();
    let widths: Vec<usize> = (0..rows[0].len()).map_while(width).collect();
    for row in &rows {
        let mut line = String::new();
        for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if place < names.len() {
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
fn plain(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
