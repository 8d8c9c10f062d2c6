//! What is left of a transaction of somebody who crashed, and may be made up.
//!
//! A rollback journal can name a further file, the super-journal of a transaction on several databases, which SQLite deletes after it
//! has rolled back, also where a statement only looks. The file may be any that the thread can reach. A journal that somebody puts there after this
//! has looked and before SQLite does is not seen: it reaches no further than the database's own folder then.

use std::io::{self, Read, Seek, SeekFrom};

use super::super::error::SqlError;
use crate::workspace::{FileError, Workspace};

/// What a journal begins with, and ends with where it names a super-journal.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Refuses a database whose journal names another file. This tool never makes such a journal, as it never attaches a database.
pub(super) fn check_super_journal(workspace: &Workspace, plain: &str) -> Result<(), SqlError> {
    let mut file = match workspace.open_file(&format!("{plain}-journal")) {
        Ok(file) => file,
        Err(FileError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(SqlError::File(error)),
    };
    match names_super_journal(&mut file) {
        Ok(false) => Ok(()),
        Ok(true) => Err(SqlError::Refused(
            "the database was left in the middle of a transaction, and its journal names another file, which SQLite would delete: the \
             operator must look into it"
                .to_owned(),
        )),
        Err(error) => Err(SqlError::Database(format!(
            "the database's journal cannot be read ({})",
            error.kind()
        ))),
    }
}

/// Whether it ends with a name's length, its checksum and the magic number. One that begins with a zero is none that SQLite rolls back.
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
