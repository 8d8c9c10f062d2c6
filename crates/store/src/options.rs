//! The options for opening a journal.

use std::time::Duration;

/// Options for opening a journal.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    pub(crate) busy_timeout: Duration,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) missing: Missing,
    pub(crate) access: JournalAccess,
}

/// The purpose for which the journal is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalAccess {
    ReadOnly,
    ReadWrite,
}

/// Whether opening a journal that does not exist creates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            busy_timeout: Duration::from_secs(5),
            max_bytes: None,
            missing: Missing::Create,
            access: JournalAccess::ReadWrite,
        }
    }
}

impl JournalOptions {
    /// Sets how long to wait for another process's write before failing with [`StoreError::Locked`](crate::StoreError::Locked). The default
    /// is 5 s.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Limits the size of the journal file in bytes, rounded down to whole pages of 4 KiB. The write-ahead log takes additional space,
    /// usually a few MiB. Writes beyond the limit fail with [`StoreError::Full`](crate::StoreError::Full). Unlimited by default.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Makes opening fail with [`StoreError::Missing`](crate::StoreError::Missing) if the journal does not exist, instead of creating it.
    /// So a mistyped path does not create an empty journal.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.missing = Missing::Refuse;
        self
    }

    /// Opens the journal for reading only. It may be on a read-only disk. The journal itself is never
    /// changed, but SQLite may create its `-wal` and `-shm` files. A missing journal is an error. Every
    /// operation that writes fails with [`StoreError::ReadOnly`](crate::StoreError::ReadOnly).
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.missing = Missing::Refuse;
        self.access = JournalAccess::ReadOnly;
        self
    }
}
