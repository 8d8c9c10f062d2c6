//! The table of the goals' costs, and whether the bounds hold.

use crate::goal::Goal;
use crate::play::{Played, Size};
use crate::recorded::Figures;
use crate::replies::Role;

/// The most that a run may take of a plain conversation's tokens, in percent.
const MAX_PERCENT: usize = 150;

/// Requests and their tokens.
#[derive(Clone, Copy, Default)]
struct Cost {
    requests: usize,
    tokens: usize,
}

impl Cost {
    fn from_sizes(sizes: impl IntoIterator<Item = Size>) -> Cost {
        sizes.into_iter().fold(Cost::default(), |cost, size| Cost {
            requests: cost.requests + 1,
            tokens: cost.tokens + size.0,
        })
    }

    fn cell(self) -> String {
        match self.requests {
            0 => "-".to_owned(),
            requests => format!("{requests} / {}", self.tokens),
        }
    }
}

/// The cost of a goal.
pub struct Row {
    name: String,
    lead: Cost,
    agents: Cost,
    reflector: Cost,
    run: Cost,
    plain: Cost,
    /// The figures that have grown since they were recorded.
    grown: Vec<String>,
}

impl Row {
    /// Sums up the cost of a goal.
    pub fn new(goal: &Goal, played: &Played) -> Row {
        let of_role = |role| {
            let sizes = played.run.iter().filter(move |(of, _)| *of == role);
            Cost::from_sizes(sizes.map(|(_, size)| *size))
        };
        Row {
            name: goal.name.clone(),
            lead: of_role(Role::Lead),
            agents: of_role(Role::Agent),
            reflector: of_role(Role::Reflector),
            run: Cost::from_sizes(played.run.iter().map(|(_, size)| *size)),
            plain: Cost::from_sizes(played.plain.iter().copied()),
            grown: Vec::new(),
        }
    }

    /// Returns the figures of the run.
    pub fn figures(&self) -> Figures {
        Figures {
            requests: self.run.requests,
            tokens: self.run.tokens,
        }
    }

    /// Compares the run with the recorded figures, which are a bound, too.
    pub fn compare(&mut self, recorded: Option<Figures>) {
        self.grown = match recorded {
            Some(recorded) => self.figures().grown(recorded),
            None => vec!["no recorded figures: write them with --update".to_owned()],
        };
    }

    /// Returns the number of requests beyond the bound: those of the plain conversation, plus one if the reflector is asked.
    fn requests_beyond(&self) -> usize {
        let bound = self.plain.requests + self.reflector.requests.min(1);
        self.run.requests.saturating_sub(bound)
    }

    fn percent(&self) -> usize {
        (self.run.tokens * 100).div_ceil(self.plain.tokens.max(1))
    }

    /// Returns true if the bounds hold.
    pub fn holds(&self) -> bool {
        self.broken().is_empty()
    }

    /// Describes each bound that does not hold.
    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        match self.requests_beyond() {
            0 => {}
            1 => broken.push("1 request too many".to_owned()),
            beyond => broken.push(format!("{beyond} requests too many")),
        }
        if self.percent() > MAX_PERCENT {
            broken.push(format!("ratio above {}", ratio(MAX_PERCENT)));
        }
        broken.extend(self.grown.iter().cloned());
        broken
    }

    fn cells(&self) -> [String; 8] {
        let broken = self.broken();
        let bounds = if broken.is_empty() {
            "hold".to_owned()
        } else {
            format!("BROKEN: {}", broken.join(", "))
        };
        [
            self.name.clone(),
            self.lead.cell(),
            self.agents.cell(),
            self.reflector.cell(),
            self.run.cell(),
            self.plain.cell(),
            ratio(self.percent()),
            bounds,
        ]
    }
}

fn ratio(percent: usize) -> String {
    format!("{}.{:02}", percent / 100, percent % 100)
}

/// Renders the table: requests / tokens of each goal.
pub fn table(rows: &[Row]) -> String {
    let head = [
        "goal",
        "lead",
        "sub-agents",
        "reflector",
        "run",
        "plain",
        "ratio",
        "bounds",
    ];
    let rows: Vec<[String; 8]> = std::iter::once(head.map(str::to_owned))
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let mut text = String::new();
    for row in &rows {
        let cells = row
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("{cell:<width$}", width = width(column)));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(run: (usize, usize), plain: (usize, usize), reflector: usize) -> Row {
        let cost = |(requests, tokens)| Cost { requests, tokens };
        Row {
            name: "goal".to_owned(),
            lead: Cost::default(),
            agents: Cost::default(),
            reflector: cost((reflector, 0)),
            run: cost(run),
            plain: cost(plain),
            grown: Vec::new(),
        }
    }

    #[test]
    fn a_row_holds_with_up_to_one_more_reflector_request_and_half_more_tokens() {
        for (run, plain, reflector, holds) in [
            ((3, 100), (3, 100), 0, true),
            ((4, 100), (3, 100), 0, false),
            ((4, 150), (3, 100), 1, true),
            ((4, 151), (3, 100), 1, false),
            // A reflector that is asked twice costs one request more than allowed.
            ((5, 100), (3, 100), 2, false),
        ] {
            assert_eq!(row(run, plain, reflector).holds(), holds, "{run:?} {plain:?}");
        }
    }

    #[test]
    fn each_exceeded_bound_is_named() {
        for (run, bounds) in [
            ((3, 150), "hold"),
            ((4, 150), "BROKEN: 1 request too many"),
            ((5, 150), "BROKEN: 2 requests too many"),
            ((3, 151), "BROKEN: ratio above 1.50"),
            ((4, 151), "BROKEN: 1 request too many, ratio above 1.50"),
        ] {
            let [.., shown] = row(run, (3, 100), 0).cells();
            assert_eq!(shown, bounds, "{run:?}");
        }
    }
}
