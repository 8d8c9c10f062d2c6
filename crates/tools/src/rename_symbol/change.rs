//! Computing and checking the renamed content of each file. This module writes nothing.

use dirigent_core::digest::sha256_hex;
use dirigent_core::tool::{SeenFile, SeenFiles, code};
use tokio_util::sync::CancellationToken;

use super::scan::{Affected, Found, NameOccurrences, Source};
use super::syntax::{Part, State, Syntax};
use crate::diff::unified_diff;
use crate::syntax::{Language, ParseError};
use crate::transaction;

/// The planned new content of a file.
pub(super) struct PlannedEdit {
    path: String,
    before: Vec<u8>,
    after: Vec<u8>,
    diff: Option<String>,
}

impl PlannedEdit {
    pub(super) fn to_file_change(&self) -> transaction::FileChange {
        transaction::FileChange {
            operation: transaction::FileOperation::Replace {
                path: self.path.clone(),
                before: self.before.clone(),
                after: self.after.clone(),
            },
            diff: self.diff.clone(),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The lines that differ, with their numbers, as they are after the change.
    pub(super) fn changed_lines(&self) -> impl Iterator<Item = (usize, String)> {
        let (before, after) = (
            String::from_utf8_lossy(&self.before),
            String::from_utf8_lossy(&self.after),
        );
        let lines = (1..).zip(before.lines().zip(after.lines()));
        let changed = lines.filter(|(_, (before, after))| before != after);
        let changed: Vec<(usize, String)> = changed
            .map(|(number, (_, after))| (number, after.to_owned()))
            .collect();
        changed.into_iter()
    }

    /// Returns the read state ([`SeenFile`]) after the change: the agent counts as having seen the same lines of the new content as of the
    /// old. `None` if the agent has not seen the old content.
    pub(super) fn seen(&self, seen: &SeenFiles) -> Option<SeenFile> {
        let known = seen.get(&self.path)?;
        (known.digest.as_ref()? == &sha256_hex(&self.before)).then(|| SeenFile {
            digest: Some(sha256_hex(&self.after)),
            // A rename does not shift lines.
            ..known.clone()
        })
    }
}

/// Reason why the name cannot be replaced in a file.
pub(super) enum RenameError {
    Cancelled,
    /// The message and the failure code.
    Invalid(String, &'static str),
}

/// Computes the new content of a file, and checks that it replaces every occurrence of the name, changes nothing else, and adds no syntax
/// error.
pub(super) fn plan(
    affected: Affected,
    from: &str,
    to: &str,
    cancel: &CancellationToken,
) -> Result<PlannedEdit, RenameError> {
    let Affected { source, names } = affected;
    let text = replaced(&source, &names, to);
    let syntax = Syntax::parse(source.language, &text, cancel).map_err(|error| match error {
        ParseError::Cancelled => RenameError::Cancelled,
        ParseError::Grammar(reason) => RenameError::Invalid(reason, code::BAD_PARAMETERS),
    })?;
    let (old, new) = count(source.language, &syntax, from, to);
    let breaks_syntax = (names.state, syntax.state()) == (State::Clean, State::Broken);
    if old != 0 || new != names.found.len() + names.clashes || breaks_syntax {
        let why = format!(
            "replacing `{from}` with `{to}` would change the meaning or break the syntax of `{}`: choose another name",
            source.path
        );
        return Err(RenameError::Invalid(why, code::BAD_PARAMETERS));
    }
    let after = source
        .file
        .encode(&text)
        .map_err(|error| RenameError::Invalid(error.to_string(), error.code()))?;
    Ok(PlannedEdit {
        diff: unified_diff(&source.path, Some(&source.file.text), Some(&text)),
        path: source.path,
        before: source.bytes,
        after,
    })
}

fn replaced(source: &Source, names: &NameOccurrences, to: &str) -> String {
    let text = &source.file.text;
    let mut new = String::with_capacity(text.len());
    let mut done = 0;
    for Found { range, .. } in &names.found {
        new.push_str(text.get(done..range.start).unwrap_or_default());
        new.push_str(to);
        done = range.end;
    }
    new.push_str(text.get(done..).unwrap_or_default());
    new
}

/// Counts the identifiers with the old and with the new name.
fn count(language: Language, syntax: &Syntax<'_>, from: &str, to: &str) -> (usize, usize) {
    let (from, to) = (language.name_of(from), language.name_of(to));
    let (mut old, mut new) = (0, 0);
    syntax.visit(|_, name, part| match part {
        Part::Identifier(..) => {
            let name = language.name_of(name);
            old += usize::from(name == from);
            new += usize::from(name == to);
        }
        Part::Module(_) | Part::Prose(_) => {}
    });
    (old, new)
}
