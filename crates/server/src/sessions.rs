//! The sessions of browsers: a browser exchanges the token in its link for a random secret in a cookie.
//!
//! Only digests of the secrets are kept, in a file next to the token if there is one, so that a restart ends no session. A session ends after 30 days, and
//! all sessions end when the token changes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dirigent::digest::sha256_hex;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::files::written_beside;
use crate::token::{Token, TokenError, random_hex};

/// How long a session lasts.
pub(crate) const SESSION_TIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The maximum number of sessions. A new session beyond it ends the oldest one.
const MAX_SESSIONS: usize = 100;

/// The sessions of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct Sessions {
    file: Option<Arc<PathBuf>>,
    stored: Arc<Mutex<Stored>>,
}

/// The content of the file of sessions.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    /// The digest of the token with which the sessions began.
    token: String,
    /// The oldest session first.
    sessions: Vec<Session>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Session {
    /// The digest of the secret.
    secret: String,
    /// When the session ends, in seconds since 1970-01-01 UTC.
    ends: u64,
}

impl Sessions {
    /// Reads the sessions from their file, or begins without any. Blocks.
    pub(crate) fn load(file: Option<PathBuf>, token: &Token) -> Self {
        let fingerprint = sha256_hex(token.expose().as_bytes());
        let read = file.as_deref().and_then(read).unwrap_or_default();
        let stored = match read.token == fingerprint {
            true => read,
            false => Stored {
                token: fingerprint,
                sessions: Vec::new(),
            },
        };
        Sessions {
            file: file.map(Arc::new),
            stored: Arc::new(Mutex::new(stored)),
        }
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session, and returns its secret. Blocks.
    ///
    /// # Errors
    /// The system provides no random numbers. If the file cannot be written, the session ends with the server.
    pub(crate) fn begin(&self) -> Result<String, TokenError> {
        let secret = random_hex()?;
        let mut stored = self.stored();
        let now = seconds_now();
        stored.sessions.retain(|session| session.ends > now);
        let surplus = (stored.sessions.len() + 1).saturating_sub(MAX_SESSIONS);
        stored.sessions.drain(..surplus);
        stored.sessions.push(Session {
            secret: sha256_hex(secret.as_bytes()),
            ends: now + SESSION_TIME.as_secs(),
        });
        if let Some(file) = &self.file
            && let Err(error) = write(file, &stored)
        {
            tracing::warn!(
                "sessions end with the server, because {} cannot be written: {error}",
                file.display()
            );
        }
        Ok(secret)
    }

    /// Returns true if a session has this secret. Takes the same time wherever it differs from one.
    pub(crate) fn has(&self, secret: &str) -> bool {
        let (sent, now) = (sha256_hex(secret.as_bytes()), seconds_now());
        self.stored()
            .sessions
            .iter()
            .any(|session| session.ends > now && bool::from(session.secret.as_bytes().ct_eq(sent.as_bytes())))
    }
}

fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map(|time| time.as_secs()).unwrap_or_default()
}

fn read(file: &Path) -> Option<Stored> {
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}

fn write(file: &Path, stored: &Stored) -> io::Result<()> {
    let new = written_beside(file, &serde_json::to_vec(stored)?)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn host_5_sessions_outlast_a_restart_until_the_token_changes_or_their_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let (token_file, file) = (folder.path().join("token"), folder.path().join("sessions"));
        let token = Token::load_or_create(&token_file).unwrap().token;
        let sessions = Sessions::load(Some(file.clone()), &token);
        let secret = sessions.begin().unwrap();
        assert!(sessions.has(&secret));
        assert!(!sessions.has(&secret[1..]) && !sessions.has(""));
        assert!(!std::fs::read_to_string(&file).unwrap().contains(&secret));
        assert!(Sessions::load(Some(file.clone()), &token).has(&secret));

        sessions.stored().sessions[0].ends = seconds_now();
        assert!(!sessions.has(&secret));

        std::fs::remove_file(&token_file).unwrap();
        let other = Token::load_or_create(&token_file).unwrap().token;
        assert!(!Sessions::load(Some(file), &other).has(&secret));
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let folder = tempfile::tempdir().unwrap();
        let token = Token::load_or_create(&folder.path().join("token")).unwrap().token;
        let sessions = Sessions::load(None, &token);
        let secrets: Vec<String> = (0..=MAX_SESSIONS).map(|_| sessions.begin().unwrap()).collect();
        assert!(!sessions.has(&secrets[0]));
        assert!(secrets[1..].iter().all(|secret| sessions.has(secret)));
    }
}
