//! Arguments of the `journal` commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dirigent::Millis;

#[derive(Subcommand)]
pub(crate) enum JournalCommand {
    /// Check the journal for damage, and list all damage found
    #[command(after_long_help = CHECK_HELP)]
    Check(CheckJournalCommand),
    /// Copy the journal to a new file, even while runs are active
    #[command(after_long_help = BACKUP_HELP)]
    Backup(BackupCommand),
    /// Write a run to a file, to import it into another journal
    #[command(after_long_help = EXPORT_HELP)]
    Export(ExportCommand),
    /// Add an exported run to the journal
    #[command(after_long_help = IMPORT_HELP)]
    Import(ImportCommand),
    /// Delete old runs, and make the journal smaller
    #[command(after_long_help = PRUNE_HELP)]
    Prune(PruneCommand),
}

const CHECK_HELP: &str = "\
Reads the whole journal and changes nothing; runs may be active. Checks the database, the entries of each run against their checksums,
and the recorded contents of files against their digests. The exit code is 1 if there is damage.

Damage in one run does not affect other runs. To continue a damaged run, fork it from an entry before the damage:
  dirigent fork 01234567 --at 41";

const BACKUP_HELP: &str = "\
Always use this command to copy a journal: a plain copy of the file lacks the latest entries. An existing file is never overwritten.

To restore a backup, end all runs, remove the journal and everything beside it whose name begins with the journal's, and put the
backup in its place:
  dirigent journal backup ~/backups/journal-2026-11-23.db
  dirigent --db ~/backups/journal-2026-11-23.db runs         # a backup is a journal";

const EXPORT_HELP: &str = "\
The file contains the run's entries and the recorded contents of the files that it changed, in plain text, as lines of JSON. The run stays
in the journal. A damaged run is not exported.

Examples:
  dirigent journal export last run.jsonl
  dirigent journal export last | gzip > run.jsonl.gz";

const IMPORT_HELP: &str = "\
The imported run can be shown, forked, resumed and undone as on the machine where it ran, if its folder is at the same path. A run that is
already in the journal is refused. If the file is damaged, nothing is imported.

Examples:
  dirigent journal import run.jsonl
  dirigent --db review.db journal import run.jsonl           # creates review.db if it does not exist";

const PRUNE_HELP: &str = "\
Deletes runs that ended before the given time, with their entries, messages and recorded file contents: they can no longer be shown, forked
or undone. Runs that are active or were interrupted are not deleted, nor are runs that can be resumed, unless --paused is given. Forks of a
deleted run are complete without it.

The journal's file shrinks only if no process owns a run; otherwise, the space is used for new entries.

Examples:
  dirigent journal prune --older-than 30d --dry-run
  dirigent journal prune --older-than 30d
  dirigent journal prune --older-than 12h --paused";

#[derive(Args)]
pub(crate) struct CheckJournalCommand {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct BackupCommand {
    /// The file to create
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ExportCommand {
    /// The run: `last`, an id, or at least four hex digits from the start or end of the id
    pub(crate) run: String,
    /// The file to create [default: standard output]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ImportCommand {
    /// A file that `journal export` has written
    pub(crate) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PruneCommand {
    /// Delete runs that ended more than TIME ago, such as 30d or 12h
    #[arg(long, value_name = "TIME", value_parser = dirigent::parse_duration)]
    pub(crate) older_than: Millis,
    /// Also delete runs that can be resumed: those that are waiting for you, or ended at a limit
    #[arg(long)]
    pub(crate) paused: bool,
    /// Only list the runs
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
