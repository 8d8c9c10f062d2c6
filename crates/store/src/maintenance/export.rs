//! Exports a run to a file.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::{AgentId, RunId, Scope};
use dirigent_core::time::Timestamp;
use rusqlite::Connection;
use serde::Serialize;
use serde_json::value::RawValue;

use super::export_format::{
    Attachment, EndLine, EntryLine, ExportedForkPoint, ExportedRecord, FORMAT, Header, LinesDigest, VERSION,
};
use super::new_file::NewFile;
use crate::chained_entries::{Head, walk};
use crate::contents;
use crate::error::{EntryProblem, StoreError};
use crate::journal::Journal;
use crate::sql::{parsed, unsigned};
use dirigent_runtime::run_log::Original;

impl Journal {
    /// Writes a run to a new file, as lines of JSON: its record, its entries, and the recorded contents of
    /// the files that it changed. [`Journal::import`] adds the run to another journal. An active run is
    /// written in its current state. Messages to the run that are not yet accepted are left out. Only the
    /// current user can access the file.
    ///
    /// # Errors
    /// [`StoreError::FileExists`], [`StoreError::NoSuchRun`], [`StoreError::BrokenEntry`], [`StoreError::BrokenContent`],
    /// [`StoreError::Entry`]; any failure to read the journal or to write the file. In these cases, there is no file.
    pub fn export(&self, run: RunId, file: &Path) -> Result<(), StoreError> {
        self.run(run)?;
        let new = NewFile::create(file)?;
        let mut lines = Lines {
            out: BufWriter::new(new.file()),
            digest: LinesDigest::default(),
            file,
        };
        self.readers()
            .with(|db| write_run(&*db.unchecked_transaction()?, run, &mut lines))??;
        lines.flush()?;
        drop(lines);
        new.finish().map(drop)
    }
}

type Written = rusqlite::Result<Result<(), StoreError>>;

/// Writes values as lines of JSON.
struct Lines<'a> {
    out: BufWriter<&'a std::fs::File>,
    digest: LinesDigest,
    /// The path for error messages.
    file: &'a Path,
}

impl Lines<'_> {
    fn write(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let mut write = || {
            let line = serde_json::to_vec(line)?;
            self.digest.add(&line);
            self.out.write_all(&line)?;
            self.out.write_all(b"\n")
        };
        write().map_err(|e| StoreError::io("write the file", self.file, e))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.out
            .flush()
            .map_err(|e| StoreError::io("write the file", self.file, e))
    }
}

/// Returns early with the error of a step whose database access succeeded.
macro_rules! ok {
    ($step:expr) => {
        if let Err(error) = $step {
            return Ok(Err(error));
        }
    };
}

fn write_run(db: &Connection, run: RunId, lines: &mut Lines<'_>) -> Written {
    // The run has no entries if it was deleted after the caller found it.
    let Some(head) = Head::read(db, run)? else {
        return Ok(Err(StoreError::broken(run, 1, EntryProblem::Missing)));
    };
    ok!(lines.write(&Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        run: record(db, run, head)?,
    }));
    let mut digests = BTreeSet::new();
    ok!(walk(db, run, head, 0, u64::MAX, &mut |mut entry| {
        if let Err(problem) = entry.complete_body(db)? {
            return Ok(Err(StoreError::broken(run, entry.seq, problem)));
        }
        digests.extend(digests_in(&entry.body).map(str::to_owned));
        let (seq, at, agent, body) = (entry.seq, entry.at, entry.agent, entry.body.clone().into_owned());
        ok!(entry.parse(run));
        let input = match RawValue::from_string(one_line(body)) {
            Ok(input) => input,
            Err(source) => {
                let source = source.into();
                return Ok(Err(StoreError::Entry { run, seq, source }));
            }
        };
        Ok(lines.write(&EntryLine {
            run,
            seq,
            at: Timestamp(at),
            scope: agent.map_or(Scope::Run, |number| Scope::Agent(AgentId(number))),
            input: &input,
        }))
    })?);
    let originals = contents::originals(db, run)?;
    digests.extend(originals.iter().map(|original| original.version.digest.clone()));
    let mut contents_written = 0;
    for original in &originals {
        ok!(lines.write(&exported(original)));
    }
    for digest in digests {
        let Some(bytes) = contents::load(db, &digest)? else {
            if originals.iter().any(|original| original.version.digest == digest) {
                return Ok(Err(broken_content(run, digest, EntryProblem::Missing)));
            }
            continue;
        };
        if sha256_hex(&bytes) != digest {
            return Ok(Err(broken_content(run, digest, EntryProblem::Changed)));
        }
        ok!(lines.write(&Attachment::content(digest, bytes)));
        contents_written += 1;
    }
    let end = EndLine {
        entries: head.entries,
        originals: originals.len() as u64,
        contents: contents_written,
        sha256: lines.digest.hex(),
    };
    Ok(lines.write(&Attachment::End(end)))
}

fn record(db: &Connection, run: RunId, head: Head) -> rusqlite::Result<ExportedRecord> {
    db.query_row(
        "SELECT goal, workspace, created_at, ended_at, status, paused, forked_from, forked_at FROM runs WHERE id = ?1",
        [head.id],
        |row| {
            let ended_at: Option<i64> = row.get(3)?;
            let forked_from = match row.get::<_, Option<String>>(6)? {
                Some(_) => Some(ExportedForkPoint {
                    run: parsed(row, 6)?,
                    at: unsigned(row, 7)?,
                }),
                None => None,
            };
            Ok(ExportedRecord {
                id: run,
                goal: row.get(0)?,
                workspace: row.get(1)?,
                created_at: Timestamp(unsigned(row, 2)?),
                ended_at: ended_at.map(|at| Timestamp(at.unsigned_abs())),
                status: row.get(4)?,
                paused: row.get(5)?,
                forked_from,
            })
        },
    )
}

fn exported(original: &Original) -> Attachment {
    Attachment::Original {
        effect: original.effect.to_string(),
        path: original.path.clone(),
        digest: original.version.digest.clone(),
        mode: original.version.mode,
    }
}

fn broken_content(run: RunId, digest: String, problem: EntryProblem) -> StoreError {
    StoreError::BrokenContent { run, digest, problem }
}

/// Replaces line breaks in JSON, which can occur only between its tokens, with spaces.
fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) {
        json.replace(['\n', '\r'], " ")
    } else {
        json
    }
}

/// Returns the strings in an entry's JSON that look like the digest of a recorded content.
pub(super) fn digests_in(body: &str) -> impl Iterator<Item = &str> {
    const DIGEST_LENGTH: usize = 64;
    body.split(|c: char| !matches!(c, '0'..='9' | 'a'..='f'))
        .filter(|text| text.len() == DIGEST_LENGTH)
}
