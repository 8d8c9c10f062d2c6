//! Finding where the hunks of a patch belong in a text, and what the text is then.
//!
//! A hunk is put only where its old lines stand word for word. Line numbers choose between several such places; they never make one.

use std::ops::Range;

use tokio_util::sync::CancellationToken;

use super::parse::{EofMarker, Hunk, Line};
use crate::text::{LineEnding, truncate_chars};

/// How many lines around a place that nearly fits are shown.
const SHOWN_AROUND: usize = 3;
/// The most lines that are shown, and the longest part of one, in characters.
const MAX_SHOWN_LINES: usize = 60;
const MAX_SHOWN_CHARS: usize = 300;
/// How many of several places are named.
const MAX_PLACES: usize = 10;
/// Lines of a text times lines of a hunk up to which the nearest place is looked for.
const MAX_COMPARED: usize = 20_000_000;

/// How much is compared for all hunks of a patch: lines with lines, long ones count for more.
const MAX_COMPARISONS: usize = 20_000_000;
/// After so much of it a look is taken at whether somebody still waits.
const CANCEL_CHECK_INTERVAL: usize = 1_000_000;
/// So many bytes that are compared count as one more line.
const BYTES_PER_COMPARISON: usize = 64;

/// What may still be compared for a patch.
pub(super) struct SearchBudget<'a> {
    remaining: usize,
    /// The next look at `cancel` is taken when no more than this is left.
    next_check: usize,
    cancel: &'a CancellationToken,
}

impl<'a> SearchBudget<'a> {
    pub(super) fn new(cancel: &'a CancellationToken) -> Self {
        SearchBudget {
            remaining: MAX_COMPARISONS,
            next_check: MAX_COMPARISONS,
            cancel,
        }
    }

    fn reserve(&mut self, comparisons: usize) -> Result<(), LocateError> {
        self.remaining = self
            .remaining
            .checked_sub(comparisons)
            .ok_or(LocateError::BudgetExhausted)?;
        if self.remaining <= self.next_check {
            self.next_check = self.remaining.saturating_sub(CANCEL_CHECK_INTERVAL);
            if self.cancel.is_cancelled() {
                return Err(LocateError::Cancelled);
            }
        }
        Ok(())
    }
}

/// Why the hunks of a file were not put into it.
#[derive(Debug)]
pub(super) enum LocateError {
    /// One has no place.
    HunkNotFound(HunkNotFound),
    /// It takes more than [`MAX_COMPARISONS`] to find out.
    BudgetExhausted,
    /// Nobody waits for it any more.
    Cancelled,
}

impl From<HunkNotFound> for LocateError {
    fn from(not_found: HunkNotFound) -> Self {
        LocateError::HunkNotFound(not_found)
    }
}

/// A text after its hunks.
pub(super) struct Patched {
    pub(super) text: String,
    /// The first line of each hunk in the old text, from 1, in the order of the text.
    pub(super) lines: Vec<usize>,
}

/// Why a hunk has no place. Hunks and lines are counted from 1.
#[derive(Debug)]
pub(super) enum HunkNotFound {
    /// It stands nowhere.
    NoMatch {
        hunk: usize,
        /// Where it nearly does.
        nearest: Option<Nearest>,
        /// Where its new lines stand already.
        applied: Option<usize>,
    },
    /// It stands in several places, and its line number is that of none.
    Ambiguous { hunk: usize, lines: Vec<usize> },
    /// It has neither context nor lines that it removes.
    NoContext { hunk: usize },
    /// It stands only where another one is.
    Overlaps { hunk: usize, line: usize },
}

/// The place in a text that a hunk fits best.
#[derive(Debug)]
pub(super) struct Nearest {
    /// The first line that differs.
    pub(super) line: usize,
    /// What is there; none past the end.
    pub(super) actual: Option<String>,
    /// What the hunk has in its place.
    pub(super) expected: String,
    /// The first line that is shown.
    pub(super) start: usize,
    pub(super) shown: String,
}

/// A text by lines: where each is, with its line break.
struct Lines<'a> {
    text: &'a str,
    ranges: Vec<Range<usize>>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let mut end = 0;
        let ranges = text.split_inclusive('\n').map(|line| {
            let start = end;
            end += line.len();
            start..end
        });
        Lines {
            text,
            ranges: ranges.collect(),
        }
    }

    fn whole(&self, line: usize) -> &'a str {
        let range = self.ranges.get(line).cloned();
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
    }

    /// Without its line break.
    fn bare(&self, line: usize) -> &'a str {
        without_break(self.whole(line))
    }

    fn matches_at(
        &self,
        at: usize,
        expected: &[&str],
        budget: &mut SearchBudget<'_>,
    ) -> Result<bool, LocateError> {
        if at.saturating_add(expected.len()) > self.ranges.len() {
            return Ok(false);
        }
        for (n, line) in expected.iter().enumerate() {
            let there = self.bare(at + n);
            // Only lines of one length are looked into.
            let bytes = if there.len() == line.len() { line.len() } else { 0 };
            budget.reserve(1 + bytes / BYTES_PER_COMPARISON)?;
            if there != *line {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn places(&self, expected: &[&str], budget: &mut SearchBudget<'_>) -> Result<Vec<usize>, LocateError> {
        let mut places = Vec::new();
        if expected.is_empty() {
            return Ok(places);
        }
        for at in 0..self.ranges.len() {
            if self.matches_at(at, expected, budget)? {
                places.push(at);
            }
        }
        Ok(places)
    }
}

fn without_break(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Puts all hunks into the text, each at its place in the text as it was.
pub(super) fn apply(
    text: &str,
    hunks: &[Hunk],
    budget: &mut SearchBudget<'_>,
) -> Result<Patched, LocateError> {
    let lines = Lines::new(text);
    let mut placed: Vec<(Range<usize>, &Hunk)> = Vec::with_capacity(hunks.len());
    // By how much the line numbers of the hunk before were wrong: often all are by as much.
    let mut drift = 0;
    // Behind all hunks so far.
    let mut end = 0;
    for (number, hunk) in (1..).zip(hunks) {
        let at = match match_at_stated_start(&lines, hunk, end, drift, budget)? {
            Some(at) => at,
            None => locate(&lines, hunk, number, &placed, drift, budget)?,
        };
        if let Some(start) = hunk.start {
            // A number that no file has says nothing of the next one.
            drift = (at + 1).checked_signed_diff(start).unwrap_or(0);
        }
        let range = at..at + hunk.old_lines().len();
        end = end.max(range.end);
        placed.push((range, hunk));
    }
    placed.sort_by_key(|(range, _)| range.start);
    let ending = LineEnding::detect(text);
    let mut new = String::with_capacity(text.len());
    let mut done = 0;
    for (range, hunk) in &placed {
        (done..range.start).for_each(|line| new.push_str(lines.whole(line)));
        write_hunk(&lines, range.clone(), hunk, ending, &mut new);
        done = range.end;
    }
    (done..lines.ranges.len()).for_each(|line| new.push_str(lines.whole(line)));
    Ok(Patched {
        text: new,
        lines: placed.iter().map(|(range, _)| range.start + 1).collect(),
    })
}

impl Hunk {
    /// The line from 0 at which it says that it begins, where those before it were wrong by so much.
    fn stated_start(&self, drift: isize) -> Option<usize> {
        self.start?.saturating_sub(1).checked_add_signed(drift)
    }

    /// Whether it may stand there as far as the end of the text goes.
    fn eof_matches(&self, at: usize, old: &[&str], lines: &Lines<'_>) -> bool {
        match self.old_eof {
            EofMarker::Absent => true,
            EofMarker::NoNewline => at + old.len() == lines.ranges.len() && !lines.text.ends_with('\n'),
        }
    }
}

/// The place that a hunk says, where it stands there, behind all before it: no other would be chosen, so that none need be looked for.
fn match_at_stated_start(
    lines: &Lines<'_>,
    hunk: &Hunk,
    end: usize,
    drift: isize,
    budget: &mut SearchBudget<'_>,
) -> Result<Option<usize>, LocateError> {
    let old = hunk.old_lines();
    let Some(at) = hunk
        .stated_start(drift)
        .filter(|at| *at >= end && !old.is_empty())
    else {
        return Ok(None);
    };
    let fits = lines.matches_at(at, &old, budget)? && hunk.eof_matches(at, &old, lines);
    Ok(fits.then_some(at))
}

/// The line from 0 at which a hunk begins.
fn locate(
    lines: &Lines<'_>,
    hunk: &Hunk,
    number: usize,
    placed: &[(Range<usize>, &Hunk)],
    drift: isize,
    budget: &mut SearchBudget<'_>,
) -> Result<usize, LocateError> {
    let old = hunk.old_lines();
    if old.is_empty() {
        return match lines.ranges.is_empty() && placed.is_empty() {
            true => Ok(0),
            false => Err(HunkNotFound::NoContext { hunk: number }.into()),
        };
    }
    let mut all = lines.places(&old, budget)?;
    all.retain(|at| hunk.eof_matches(*at, &old, lines));
    budget.reserve(all.len().saturating_mul(placed.len()))?;
    let free = |at: &usize| {
        placed
            .iter()
            .all(|(taken, _)| at + old.len() <= taken.start || *at >= taken.end)
    };
    let mut places: Vec<usize> = all.iter().copied().filter(free).collect();
    if let (Some(line), true) = (all.first(), places.is_empty()) {
        return Err(HunkNotFound::Overlaps {
            hunk: number,
            line: line + 1,
        }
        .into());
    }
    // Hunks stand in the order of the file.
    let before = placed.last().map_or(0, |(range, _)| range.end);
    if places.iter().any(|at| *at >= before) {
        places.retain(|at| *at >= before);
    }
    let (stated, drifted) = (hunk.stated_start(0), hunk.stated_start(drift));
    match places.as_slice() {
        [only] => Ok(*only),
        [] => {
            let applied = lines.places(&hunk.new_lines(), budget)?;
            Err(HunkNotFound::NoMatch {
                hunk: number,
                nearest: nearest(lines, &old, stated.unwrap_or(0)),
                applied: applied.first().map(|at| at + 1),
            }
            .into())
        }
        [..] => {
            let exact = [drifted, stated].into_iter().flatten();
            let mut exact = exact.filter(|at| places.contains(at));
            exact.next().ok_or_else(|| {
                let lines = places.iter().take(MAX_PLACES).map(|at| at + 1).collect();
                HunkNotFound::Ambiguous { hunk: number, lines }.into()
            })
        }
    }
}

/// Writes the new lines of a hunk whose old lines stand in that range. Context stays byte for byte as it is.
fn write_hunk(lines: &Lines<'_>, range: Range<usize>, hunk: &Hunk, ending: LineEnding, new: &mut String) {
    let line_break = ending.apply("\n");
    let at_end = range.end == lines.ranges.len();
    let (begin, mut old) = (new.len(), range.start);
    for line in &hunk.lines {
        match line {
            Line::Context(_) => {
                end_line(new, begin, &line_break);
                new.push_str(lines.whole(old));
                old += 1;
            }
            Line::Removed(_) => old += 1,
            Line::Added(text) => {
                end_line(new, begin, &line_break);
                new.push_str(text);
                new.push_str(&line_break);
            }
        }
    }
    let ended = lines.text.ends_with('\n') || lines.text.is_empty();
    let ends = match (hunk.new_eof, hunk.old_eof) {
        (EofMarker::NoNewline, _) => false,
        (EofMarker::Absent, EofMarker::NoNewline) => true,
        (EofMarker::Absent, EofMarker::Absent) => ended,
    };
    if !at_end || new.len() == begin {
        return;
    }
    match (ends, new.ends_with('\n')) {
        (true, false) => new.push_str(&line_break),
        (false, true) => new.truncate(begin + without_break(&new[begin..]).len()),
        (true, true) | (false, false) => {}
    }
}

/// The last line of a file may have no line break; one that follows it gives it one.
fn end_line(new: &mut String, begin: usize, line_break: &str) {
    if new.len() > begin && !new.ends_with('\n') {
        new.push_str(line_break);
    }
}

/// Where most of the lines stand, spaces apart; of several such places the one nearest to where they were said to be.
fn nearest(lines: &Lines<'_>, old: &[&str], stated: usize) -> Option<Nearest> {
    let count = lines.ranges.len();
    if count == 0 || count.saturating_mul(old.len()) > MAX_COMPARED {
        return None;
    }
    let there: Vec<&str> = (0..count).map(|line| lines.bare(line).trim()).collect();
    let expected: Vec<&str> = old.iter().map(|line| line.trim()).collect();
    let alike = |at: usize| {
        let pairs = there.iter().skip(at).zip(&expected);
        pairs.filter(|(a, b)| a == b && !a.is_empty()).count()
    };
    let best = (0..count).max_by_key(|at| (alike(*at), std::cmp::Reverse(at.abs_diff(stated))))?;
    let first = (0..old.len())
        .find(|n| best + n >= count || Some(&lines.bare(best + n)) != old.get(*n))
        .unwrap_or(0);
    let start = best.saturating_sub(SHOWN_AROUND);
    let end = (best + old.len() + SHOWN_AROUND)
        .min(count)
        .min(start + MAX_SHOWN_LINES);
    let shown: Vec<String> = (start..end)
        .map(|line| truncate_chars(lines.bare(line), MAX_SHOWN_CHARS))
        .collect();
    Some(Nearest {
        line: best + first + 1,
        actual: (best + first < count).then(|| truncate_chars(lines.bare(best + first), MAX_SHOWN_CHARS)),
        expected: truncate_chars(old.get(first).copied().unwrap_or_default(), MAX_SHOWN_CHARS),
        start: start + 1,
        shown: shown.join("\n"),
    })
}
