//! A journal in its own folder, and helpers that write and read it.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use dirigent_core::id::{RunId, Scope};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::time::Timestamp;
use dirigent_store::{
    Durability, Journal, JournalOptions, NewEntry, NewRun, RunClaim, RunEnding, StoreError,
};
use tempfile::TempDir;
use uuid::Uuid;

pub struct Fixture {
    pub journal: Journal,
    pub path: PathBuf,
    _folder: TempDir,
}

pub fn fixture() -> Fixture {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("journal.db");
    Fixture {
        journal: open(&path),
        path,
        _folder: folder,
    }
}

/// Opens the journal with a busy timeout that is longer than any test, as several writers may wait long for a slow disk.
pub fn open(path: &Path) -> Journal {
    let options = JournalOptions::default().busy_timeout(Duration::from_secs(120));
    options.open(path).unwrap()
}

pub fn run(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

pub fn create(journal: &Journal, number: u128) -> RunClaim {
    journal
        .create(run(number), NewRun::new("goal", "/work", Timestamp(1_000)))
        .unwrap()
}

/// Guidance as an input's JSON.
pub fn words(text: &str) -> String {
    format!(r#"{{"run":{{"guided":{{"guidance":"{text}"}}}}}}"#)
}

/// An entry with guidance.
pub fn entry(text: &str) -> NewEntry {
    NewEntry {
        at: Timestamp(2_000),
        scope: Scope::Run,
        body: words(text),
        shared: Vec::new(),
        durability: Durability::Normal,
        consumes: None,
    }
}

/// Appends and waits until it is stored.
pub fn append(journal: &Journal, claim: &RunClaim, text: &str) -> Result<u64, StoreError> {
    append_entry(journal, claim, entry(text))
}

pub fn append_entry(journal: &Journal, claim: &RunClaim, entry: NewEntry) -> Result<u64, StoreError> {
    let (sender, stored) = mpsc::channel();
    journal.append(claim, entry, move |seq| sender.send(seq).unwrap());
    stored.recv().unwrap()
}

/// Marks the run as finished, and waits until this is stored.
pub fn end(journal: &Journal, claim: &RunClaim) -> Result<(), StoreError> {
    end_as(journal, claim, RunEnding::Finished)
}

pub fn end_as(journal: &Journal, claim: &RunClaim, ending: RunEnding) -> Result<(), StoreError> {
    let (sender, stored) = mpsc::channel();
    let status = r#""done""#.to_owned();
    journal.end(claim, Timestamp(9_000), status, ending, move |result| {
        sender.send(result).unwrap();
    });
    stored.recv().unwrap()
}

/// Formats entry 1 with the guidance `first` as `1 first`.
pub fn show(entry: &Entry) -> String {
    match &entry.input {
        Input::Run(RunInput::Guided { guidance }) => format!("{} {guidance}", entry.seq),
        other => panic!("not guidance: {other:?}"),
    }
}

pub fn stored(journal: &Journal, run: RunId) -> Vec<String> {
    journal
        .entries(run, 0, usize::MAX)
        .unwrap()
        .iter()
        .map(show)
        .collect()
}

/// Blocks the writer until the sender is used or dropped, so that all entries appended until then become one batch.
pub fn hold_up(journal: &Journal, claim: &RunClaim) -> mpsc::Sender<()> {
    let (go_on, wait) = mpsc::channel();
    let (began, begun) = mpsc::channel();
    journal.append(claim, entry("held up"), move |_| {
        began.send(()).unwrap();
        let _ = wait.recv();
    });
    begun.recv().unwrap();
    go_on
}
