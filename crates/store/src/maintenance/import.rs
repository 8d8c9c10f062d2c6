//! Imports a run from a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use dirigent_core::digest::sha256_hex;
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::journal::Input;
use dirigent_core::tool::FileVersion;
use rusqlite::{Connection, params};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::export_format::{
    Attachment, EndLine, EntryLine, ExportedRecord, FORMAT, FormatVersion, Header, LinesDigest, VERSION,
    from_hex,
};
use crate::chain::Chain;
use crate::contents;
use crate::error::StoreError;
use crate::job::{Job, JobOutcome};
use crate::journal::Journal;
use crate::sql::{integer, run_key};
use crate::stored_entry::StoredEntry;
use dirigent_runtime::run_log::{Durability, NewEntry, Original};

impl Journal {
    /// Adds a run to the journal from a file that [`Journal::export`] has written; returns the run's id. Reads and checks the whole file
    /// before anything is written. Blocks on the writer thread, so it must not be called from a callback of [`Journal::append`].
    ///
    /// # Errors
    /// [`StoreError::UnreadableExport`]; [`StoreError::NotAnExport`] with the first line that cannot be used; [`StoreError::RunExists`]; a
    /// failure to write the journal. In these cases, nothing is written.
    pub fn import(&self, file: &Path) -> Result<RunId, StoreError> {
        let imported = ImportedRun::read(file)?;
        let run = imported.record.id;
        self.wait(|reply| Job::Import {
            imported: Box::new(imported),
            reply,
        })?;
        Ok(run)
    }
}

/// A run read from a file.
pub(crate) struct ImportedRun {
    record: ExportedRecord,
    entries: Vec<NewEntry>,
    originals: Vec<Original>,
    contents: HashMap<String, Vec<u8>>,
}

impl ImportedRun {
    fn read(path: &Path) -> Result<Self, StoreError> {
        let fails = |e| StoreError::unreadable_export(path, e);
        let mut number = 0;
        let mut imported: Option<ImportedRun> = None;
        let mut ended = false;
        let mut digest = LinesDigest::default();
        let refused = |line, problem| {
            Err(StoreError::NotAnExport {
                path: path.to_owned(),
                line,
                problem,
            })
        };
        for line in BufReader::new(File::open(path).map_err(fails)?).split(b'\n') {
            number += 1;
            let line = line.map_err(fails)?;
            let before = digest.clone();
            digest.add(&line);
            let added = match (String::from_utf8(line), &mut imported) {
                (Err(_), _) => Err("is not UTF-8: give a file with an exported run".to_owned()),
                (Ok(_), _) if ended => Err("comes after the end of the run: export the run again".to_owned()),
                (Ok(line), None) => parse_header(&line).map(|record| {
                    imported = Some(ImportedRun {
                        record,
                        entries: Vec::new(),
                        originals: Vec::new(),
                        contents: HashMap::new(),
                    });
                }),
                (Ok(line), Some(imported)) => imported
                    .add(&line, &before)
                    .map(|added| ended = added == Added::End),
            };
            if let Err(problem) = added {
                return refused(number, problem);
            }
        }
        match imported {
            Some(imported) if ended => Ok(imported),
            Some(_) | None => refused(
                number + 1,
                "is missing: the file is not complete; export the run again".to_owned(),
            ),
        }
    }

    /// Adds a line after the header. The error completes the sentence "line 3 of FILE …".
    fn add(&mut self, line: &str, before: &LinesDigest) -> Result<Added, String> {
        /// The field that only entries have.
        #[derive(Deserialize)]
        struct Kind {
            seq: Option<IgnoredAny>,
        }
        let kind: Kind = serde_json::from_str(line).map_err(|e| not_json(&e))?;
        if kind.seq.is_some() {
            return self.add_entry(line);
        }
        match serde_json::from_str(line).map_err(|e| not_json(&e))? {
            Attachment::Original {
                effect,
                path,
                digest,
                mode,
            } => {
                let effect: EffectId = effect
                    .parse()
                    .map_err(|_| format!("has no valid call id: `{effect}`; export the run again"))?;
                self.originals.push(Original {
                    run: self.record.id,
                    effect,
                    path,
                    version: FileVersion { digest, mode },
                });
            }
            Attachment::Content { digest, text, hex } => {
                let bytes = match (text, hex) {
                    (Some(text), None) => Some(text.into_bytes()),
                    (None, Some(hex)) => from_hex(&hex),
                    (_, _) => None,
                };
                let bytes = bytes.filter(|bytes| sha256_hex(bytes) == digest);
                let bytes =
                    bytes.ok_or("has a content that does not match its digest: export the run again")?;
                self.contents.insert(digest, bytes);
            }
            Attachment::End(end) => {
                self.check_complete(&end, before)?;
                return Ok(Added::End);
            }
        }
        Ok(Added::Part)
    }

    fn add_entry(&mut self, line: &str) -> Result<Added, String> {
        let entry: EntryLine<'_> = serde_json::from_str(line).map_err(|e| not_json(&e))?;
        let expected = self.entries.len() as u64 + 1;
        if entry.run != self.record.id {
            return Err(format!(
                "is an entry of another run, {}: export the run again",
                entry.run
            ));
        }
        if entry.seq != expected {
            return Err(format!(
                "has entry {} where entry {expected} must follow: export the run again",
                entry.seq
            ));
        }
        let body = entry.input.get().to_owned();
        let input: Input = serde_json::from_str(&body).map_err(|e| {
            format!("has an entry that this version of Dirigent cannot read: {e}; use the version that exported the run")
        })?;
        self.entries.push(NewEntry {
            at: entry.at,
            scope: entry.scope,
            body,
            shared: input.as_ref().shared_texts(),
            durability: Durability::Full,
            consumes: None,
        });
        Ok(Added::Part)
    }

    fn check_complete(&self, end: &EndLine, before: &LinesDigest) -> Result<(), String> {
        let found = [
            self.entries.len() as u64,
            self.originals.len() as u64,
            self.contents.len() as u64,
        ];
        if found != [end.entries, end.originals, end.contents] {
            let [entries, originals, contents] = found;
            return Err(format!(
                "announces {} entries, {} original files and {} file contents, but the file has {entries}, {originals} and {contents}: export the run again",
                end.entries, end.originals, end.contents,
            ));
        }
        if before.hex() != end.sha256 {
            return Err(
                "has a checksum that does not match the lines before it: the file was changed; export the run again".to_owned(),
            );
        }
        let missing = self
            .originals
            .iter()
            .find(|original| !self.contents.contains_key(&original.version.digest));
        match missing {
            Some(original) => Err(format!(
                "ends the run, but the content of {} is missing: export the run again",
                original.path
            )),
            None => Ok(()),
        }
    }

    /// Adds the run within a transaction. If the run is refused, nothing has been written yet.
    pub(crate) fn insert(&self, db: &Connection) -> rusqlite::Result<JobOutcome> {
        let record = &self.record;
        let run = record.id;
        let created = db
            .prepare_cached(
                "INSERT INTO runs (run, goal, workspace, created_at, ended_at, status, paused, forked_from, forked_at, entries, chain)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                run_key(run),
                record.goal,
                record.workspace,
                integer(record.created_at.0),
                record.ended_at.map(|at| integer(at.0)),
                record.status,
                record.paused,
                record.forked_from.as_ref().map(|point| run_key(point.run)),
                record.forked_from.as_ref().map(|point| integer(point.at)),
                Chain::start(run),
            ])?;
        if created == 0 {
            return Ok(JobOutcome::Refused(StoreError::RunExists { run }));
        }
        let id = db.last_insert_rowid();
        let mut chain = Chain::start(run);
        for (seq, entry) in (1..).zip(&self.entries) {
            let row = StoredEntry::prepare(db, seq, entry)?;
            chain = row.chain_after(chain);
            row.insert(db, id, chain)?;
        }
        db.execute(
            "UPDATE runs SET entries = ?2, chain = ?3 WHERE id = ?1",
            params![id, integer(self.entries.len() as u64), chain],
        )?;
        for (digest, bytes) in &self.contents {
            contents::insert(db, digest, Some(bytes), None)?;
        }
        for original in &self.originals {
            contents::insert(db, &original.version.digest, None, Some(original))?;
        }
        Ok(JobOutcome::Done(0))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    Part,
    End,
}

fn parse_header(line: &str) -> Result<ExportedRecord, String> {
    let found: FormatVersion = serde_json::from_str(line)
        .map_err(|_| "is not the header of an exported run: give a file with an exported run".to_owned())?;
    if found.format != FORMAT {
        return Err(format!(
            "has the format `{}` instead of `{FORMAT}`: give a file with an exported run",
            found.format
        ));
    }
    if found.version != VERSION {
        return Err(format!(
            "has version {} of the format, but this version of Dirigent supports only version {VERSION}: use the version of Dirigent that \
             exported the run",
            found.version
        ));
    }
    let header: Header = serde_json::from_str(line).map_err(|e| not_json(&e))?;
    Ok(header.run)
}

fn not_json(error: &serde_json::Error) -> String {
    format!("cannot be read: {error}; export the run again")
}
