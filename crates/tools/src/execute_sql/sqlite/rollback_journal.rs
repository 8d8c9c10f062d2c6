//! Checks the rollback journal of a database. The journal may be left over from an interrupted transaction, or forged by an attacker.
//!
//! A rollback journal can name another file, the super-journal of a transaction on several databases. SQLite deletes this file after
//! rolling back, even for a read-only statement, and it can be any file that the thread can reach. This check misses a journal that is
//! placed between the check and SQLite's own reading; such a journal can affect only the database's own folder.

use std::io::{self, Read, Seek, SeekFrom};

use super::super::error::SqlError;
use crate::workspace::{FileError, Workspace};

/// First bytes of a journal, and also its last bytes if it names a super-journal.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Refuses a database whose journal names another file. This tool never creates such a journal, because it never attaches a database.
pub(super) fn check_super_journal(workspace: &Workspace, plain: &str) -> Result<(), SqlError> {
    let mut file = match workspace.open_file(&format!("{plain}-journal")) {
        Ok(file) => file,
        Err(FileError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(SqlError::File(error)),
    };
    match names_super_journal(&mut file) {
        Ok(false) => Ok(()),
        Ok(true) => Err(SqlError::Refused(
            "the database has an unfinished transaction, and its journal names another file, which SQLite would delete: the operator \
             must check this"
                .to_owned(),
        )),
        Err(error) => Err(SqlError::Database(format!(
            "the database's journal cannot be read ({})",
            error.kind()
        ))),
    }
}

/// Returns true if the journal ends with the length of a name, its checksum and the magic number. SQLite does not roll back a journal that
/// begins with a zero byte.
fn names_super_journal(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    let length = file.seek(SeekFrom::End(0))?;
    if length < 16 {
        return Ok(false);
    }
    let mut first = [0];
    file.rewind()?;
    file.read_exact(&mut first)?;
    let mut end = [0; 16];
    file.seek(SeekFrom::End(-16))?;
    file.read_exact(&mut end)?;
    Ok(first != [0] && end[8..] == MAGIC && end[..4] != [0; 4])
}
