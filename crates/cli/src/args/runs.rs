//! Arguments of `runs`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use dirigent::RunState;
use dirigent::events::{Millis, Timestamp};

use super::at_least_one;

#[derive(Args)]
pub(crate) struct RunsCommand {
    /// Print one JSON object per run
    #[arg(long)]
    pub(crate) json: bool,
    /// Maximum number of runs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// List only runs in this state; can be given several times
    #[arg(long, value_name = "STATE", value_parser = run_state())]
    pub(crate) state: Vec<RunState>,
    /// List only runs that work in this folder
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// List only runs with this text in their goal
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// List only runs that began in the last TIME, such as 12h or 2d, or since a day, such as 2026-11-20
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Since>,
    /// Continue the list after this run, with older runs
    #[arg(long, value_name = "RUN")]
    pub(crate) after: Option<String>,
}

impl RunsCommand {
    /// Returns true if the options leave out runs.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.state.is_empty()
            || self.workspace.is_some()
            || self.search.is_some()
            || self.since.is_some()
            || self.after.is_some()
    }
}

/// A time in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// This long ago.
    Ago(Millis),
    /// The beginning of a day, in the local time zone.
    Day(jiff::civil::Date),
}

impl Since {
    /// The moment; `None` if the day's beginning is not a time that clocks can show.
    pub(crate) fn moment(self) -> Option<Timestamp> {
        let at = match self {
            Since::Ago(time) => {
                let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).ok()?;
                now.saturating_sub(time.0)
            }
            Since::Day(day) => {
                let begin = day.to_zoned(jiff::tz::TimeZone::system()).ok()?;
                u64::try_from(begin.timestamp().as_millisecond()).unwrap_or(0)
            }
        };
        Some(Timestamp(at))
    }
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(day) = text.parse() {
        return Ok(Since::Day(day));
    }
    dirigent::parse_duration(text)
        .map(Since::Ago)
        .map_err(|_| "must be a time such as 90m, 12h or 2d, or a day such as 2026-11-20".to_owned())
}

/// Parses a state by its name in JSON.
fn run_state() -> impl TypedValueParser<Value = RunState> {
    let names = RunState::ALL.map(RunState::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<RunState>())
}
