//! Locates the hunks of a patch in a file's text, and applies them.
//!
//! A hunk is applied only where the text contains its old lines exactly. Its line number only selects one of
//! several matching locations.

use std::ops::Range;

use tokio_util::sync::CancellationToken;

use crate::diff::{EofMarker, Hunk, HunkLine};
use crate::text::LineEnding;
use crate::truncate::truncate_chars;

/// Number of lines shown before and after the most similar location ([`Nearest`]).
const SHOWN_AROUND: usize = 3;
/// Maximum number of lines shown of the most similar location.
const MAX_SHOWN_LINES: usize = 60;
/// Maximum number of characters shown of each line.
const MAX_SHOWN_CHARS: usize = 300;
/// Maximum number of matching locations that an error lists.
const MAX_CANDIDATES: usize = 10;
/// Maximum product of the number of lines in the text and in the hunk. If the product is larger, the search
/// for the most similar location is skipped.
const MAX_COMPARED: usize = 20_000_000;

/// Maximum number of line comparisons for all hunks of a patch. A comparison of long lines counts several times.
const MAX_COMPARISONS: usize = 20_000_000;
/// Number of comparisons between two checks of the cancellation token.
const CANCEL_CHECK_INTERVAL: usize = 1_000_000;
/// Number of bytes in a compared line that count as one additional comparison.
const BYTES_PER_COMPARISON: usize = 64;

/// The number of line comparisons that remain for a patch.
pub(super) struct SearchBudget<'a> {
    remaining: usize,
    /// The value of `remaining` at which `cancel` is checked again.
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

/// Why the hunks of a file could not be located.
#[derive(Debug)]
pub(super) enum LocateError {
    HunkNotFound(HunkNotFound),
    /// The search needs more than [`MAX_COMPARISONS`] comparisons.
    BudgetExhausted,
    Cancelled,
}

impl From<HunkNotFound> for LocateError {
    fn from(not_found: HunkNotFound) -> Self {
        LocateError::HunkNotFound(not_found)
    }
}

/// The text with its hunks applied.
pub(super) struct Patched {
    pub(super) text: String,
    /// For each hunk, its first line in the old text, counted from 1. In ascending order.
    pub(super) lines: Vec<usize>,
}

/// Why a hunk cannot be applied. Hunks and lines are counted from 1.
#[derive(Debug)]
pub(super) enum HunkNotFound {
    /// The text does not contain the hunk's old lines.
    NoMatch {
        hunk: usize,
        nearest: Option<Nearest>,
        /// The first line where the text already contains the hunk's new lines; `None` if it does not contain them.
        applied: Option<usize>,
    },
    /// The text contains the old lines several times, and no match begins at the stated line number.
    Ambiguous { hunk: usize, lines: Vec<usize> },
    /// The hunk has neither context nor removed lines.
    NoContext { hunk: usize },
    /// Every match overlaps another hunk. `line` is the first matching line.
    Overlaps { hunk: usize, line: usize },
}

/// The location in the text that is most similar to a hunk's old lines.
#[derive(Debug)]
pub(super) struct Nearest {
    /// The number of the first line that differs, counted from 1.
    pub(super) line: usize,
    /// The text's content at `line`. `None` if the text ends before it.
    pub(super) actual: Option<String>,
    /// The content that the hunk expects at `line`.
    pub(super) expected: String,
    /// The number of the first line of `shown`, counted from 1.
    pub(super) start: usize,
    pub(super) shown: String,
}

/// A text, indexed by lines.
struct Lines<'a> {
    text: &'a str,
    /// The byte range of each line, line break included.
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

    /// Returns the line without its line break.
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
            let actual = self.bare(at + n);
            // Comparing lines of different lengths does not read their bytes.
            let bytes = if actual.len() == line.len() { line.len() } else { 0 };
            budget.reserve(1 + bytes / BYTES_PER_COMPARISON)?;
            if actual != *line {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn find_all(&self, expected: &[&str], budget: &mut SearchBudget<'_>) -> Result<Vec<usize>, LocateError> {
        let mut candidates = Vec::new();
        if expected.is_empty() {
            return Ok(candidates);
        }
        for at in 0..self.ranges.len() {
            if self.matches_at(at, expected, budget)? {
                candidates.push(at);
            }
        }
        Ok(candidates)
    }
}

fn without_break(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Applies all hunks to the text. Each hunk is located in the original text, not in the result of earlier hunks.
pub(super) fn apply(
    text: &str,
    hunks: &[Hunk],
    budget: &mut SearchBudget<'_>,
) -> Result<Patched, LocateError> {
    let lines = Lines::new(text);
    let mut placed: Vec<(Range<usize>, &Hunk)> = Vec::with_capacity(hunks.len());
    // How far the actual line of the previous hunk is from its stated line. Often all line numbers of a patch are off by the same amount.
    let mut drift = 0;
    // The first line after all hunks located so far.
    let mut end = 0;
    for (number, hunk) in (1..).zip(hunks) {
        let at = match match_at_stated_start(&lines, hunk, end, drift, budget)? {
            Some(at) => at,
            None => locate(&lines, hunk, number, &placed, drift, budget)?,
        };
        if let Some(start) = hunk.start {
            // The difference overflows only for an absurd line number, which says nothing about the number of the next hunk.
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
    /// Returns the first line that the hunk states plus `drift`, counted from 0. `None` if it states no line.
    fn stated_start(&self, drift: isize) -> Option<usize> {
        self.start?.saturating_sub(1).checked_add_signed(drift)
    }

    /// Returns true if the hunk's end-of-file marker permits a match at line `at`.
    fn eof_matches(&self, at: usize, old: &[&str], lines: &Lines<'_>) -> bool {
        match self.old_eof {
            EofMarker::Absent => true,
            EofMarker::NoNewline => at + old.len() == lines.ranges.len() && !lines.text.ends_with('\n'),
        }
    }
}

/// Returns the stated line if the hunk matches there and follows all hunks located so far. [`locate`] would choose the same line, but only
/// after searching the whole text.
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

/// Searches the text for the hunk. Returns its first line, counted from 0.
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
    let mut all = lines.find_all(&old, budget)?;
    all.retain(|at| hunk.eof_matches(*at, &old, lines));
    budget.reserve(all.len().saturating_mul(placed.len()))?;
    let free = |at: &usize| {
        placed
            .iter()
            .all(|(taken, _)| at + old.len() <= taken.start || *at >= taken.end)
    };
    let mut candidates: Vec<usize> = all.iter().copied().filter(free).collect();
    if let (Some(line), true) = (all.first(), candidates.is_empty()) {
        return Err(HunkNotFound::Overlaps {
            hunk: number,
            line: line + 1,
        }
        .into());
    }
    // The hunks of a patch are normally in the order of the file, so matches after the previous hunk take
    // precedence.
    let before = placed.last().map_or(0, |(range, _)| range.end);
    if candidates.iter().any(|at| *at >= before) {
        candidates.retain(|at| *at >= before);
    }
    let (stated, drifted) = (hunk.stated_start(0), hunk.stated_start(drift));
    match candidates.as_slice() {
        [only] => Ok(*only),
        [] => {
            let applied = lines.find_all(&hunk.new_lines(), budget)?;
            Err(HunkNotFound::NoMatch {
                hunk: number,
                nearest: nearest(lines, &old, stated.unwrap_or(0)),
                applied: applied.first().map(|at| at + 1),
            }
            .into())
        }
        [..] => {
            let exact = [drifted, stated].into_iter().flatten();
            let mut exact = exact.filter(|at| candidates.contains(at));
            exact.next().ok_or_else(|| {
                let lines = candidates.iter().take(MAX_CANDIDATES).map(|at| at + 1).collect();
                HunkNotFound::Ambiguous { hunk: number, lines }.into()
            })
        }
    }
}

/// Appends the new lines of a hunk whose old lines are at `range`. Context lines are copied from the text byte for byte.
fn write_hunk(lines: &Lines<'_>, range: Range<usize>, hunk: &Hunk, ending: LineEnding, new: &mut String) {
    let line_break = ending.apply("\n");
    let at_end = range.end == lines.ranges.len();
    let (begin, mut old) = (new.len(), range.start);
    for line in &hunk.lines {
        match line {
            HunkLine::Context(_) => {
                end_line(new, begin, &line_break);
                new.push_str(lines.whole(old));
                old += 1;
            }
            HunkLine::Removed(_) => old += 1,
            HunkLine::Added(text) => {
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

/// Appends a line break so that another line can follow, unless the text already ends with a line break. Does
/// nothing if the text ends at offset `begin`, where the hunk begins.
fn end_line(new: &mut String, begin: usize, line_break: &str) {
    if new.len() > begin && !new.ends_with('\n') {
        new.push_str(line_break);
    }
}

/// Finds the location where the most lines equal the hunk's old lines, ignoring leading and trailing
/// whitespace. Of equally similar locations, the closest to the stated line wins. `None` if the text is empty
/// or the search would take too long.
fn nearest(lines: &Lines<'_>, old: &[&str], stated: usize) -> Option<Nearest> {
    let count = lines.ranges.len();
    if count == 0 || count.saturating_mul(old.len()) > MAX_COMPARED {
        return None;
    }
    let actual: Vec<&str> = (0..count).map(|line| lines.bare(line).trim()).collect();
    let expected: Vec<&str> = old.iter().map(|line| line.trim()).collect();
    let equal_lines = |at: usize| {
        let pairs = actual.iter().skip(at).zip(&expected);
        pairs.filter(|(a, b)| a == b && !a.is_empty()).count()
    };
    let best = (0..count).max_by_key(|at| (equal_lines(*at), std::cmp::Reverse(at.abs_diff(stated))))?;
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
