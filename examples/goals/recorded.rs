//! The figures of the goals when they were last written, to notice when they grow.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::AnyError;

/// The requests and tokens of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    pub requests: usize,
    pub tokens: usize,
}

impl Figures {
    /// Returns the figures that are more than a tenth above the recorded ones.
    pub fn grown(self, recorded: Figures) -> Vec<String> {
        [
            ("requests", self.requests, recorded.requests),
            ("tokens", self.tokens, recorded.tokens),
        ]
        .into_iter()
        .filter(|(_, now, before)| now * 10 > before * 11)
        .map(|(what, _, before)| format!("{what} more than a tenth above {before}"))
        .collect()
    }
}

/// The figures of each goal, in a file.
pub struct RecordedFigures {
    file: PathBuf,
    goals: BTreeMap<String, Figures>,
}

impl RecordedFigures {
    /// Reads the figures; empty if the file does not exist.
    pub fn read(file: &Path) -> Result<Self, AnyError> {
        let goals = match fs::read_to_string(file) {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(format!("{}: {error}", file.display()).into()),
        };
        let file = file.to_owned();
        Ok(RecordedFigures { file, goals })
    }

    /// Returns the figures of a goal.
    pub fn get(&self, goal: &str) -> Option<Figures> {
        self.goals.get(goal).copied()
    }

    /// Replaces the figures of a goal.
    pub fn set(&mut self, goal: &str, figures: Figures) {
        self.goals.insert(goal.to_owned(), figures);
    }

    /// Writes the file.
    pub fn write(&self) -> Result<(), AnyError> {
        fs::write(&self.file, format!("{:#}\n", serde_json::json!(self.goals)))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_figures_may_grow_by_at_most_a_tenth() {
        let recorded = Figures {
            requests: 10,
            tokens: 1_000,
        };
        for (requests, tokens, grown) in [
            (10, 1_000, vec![]),
            (11, 1_100, vec![]),
            (1, 1, vec![]),
            (12, 1_100, vec!["requests more than a tenth above 10"]),
            (11, 1_101, vec!["tokens more than a tenth above 1000"]),
        ] {
            assert_eq!(
                Figures { requests, tokens }.grown(recorded),
                grown,
                "{requests} {tokens}"
            );
        }
    }
}
