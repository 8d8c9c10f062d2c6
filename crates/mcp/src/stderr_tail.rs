//! The end of a program's standard error, in bounded memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::text::clean;

/// Maximum number of bytes that are stored.
const MAX_BYTES: usize = 8 * 1024;
/// Maximum number of lines that are shown.
const MAX_LINES: usize = 20;

/// The last bytes of a stream that is read to its end. Clones share the same bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct StderrTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    /// The values of variables, which may be secrets and are hidden in the lines.
    hidden: Arc<[String]>,
}

/// The placeholder for a hidden value.
const HIDDEN: &str = "(hidden)";
/// Minimum length of a hidden value, in bytes. A shorter value is not treated as a secret.
const MIN_HIDDEN: usize = 6;

impl StderrTail {
    /// Creates a tail whose lines do not show these values.
    pub(crate) fn hiding(values: Vec<String>) -> Self {
        let mut hidden: Vec<String> = values
            .into_iter()
            .filter(|value| value.len() >= MIN_HIDDEN)
            .collect();
        // A value that contains another one is replaced as a whole.
        hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
        StderrTail {
            hidden: hidden.into(),
            ..StderrTail::default()
        }
    }

    /// Reads until the stream ends, because a program blocks if nobody reads its output. A read error counts as the end.
    pub(crate) async fn read(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 4 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut chunk).await {
            self.push(chunk.get(..length).unwrap_or_default());
        }
    }

    fn push(&self, chunk: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(chunk);
        let excess = bytes.len().saturating_sub(MAX_BYTES);
        bytes.drain(..excess);
    }

    /// Returns the last lines as clean text, without the incomplete line at the beginning.
    pub(crate) fn lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = {
            let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.iter().copied().collect()
        };
        let text = String::from_utf8_lossy(&bytes);
        let whole = match text.split_once('\n') {
            Some((_, rest)) if bytes.len() == MAX_BYTES => rest,
            Some(_) | None => &text,
        };
        let lines: Vec<String> = whole
            .lines()
            .map(|line| {
                let hide = |line: String, value: &String| line.replace(value.as_str(), HIDDEN);
                clean(&self.hidden.iter().fold(line.to_owned(), hide))
            })
            .filter(|line| !line.trim().is_empty())
            .collect();
        let skipped = lines.len().saturating_sub(MAX_LINES);
        lines.into_iter().skip(skipped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn mcp_6_only_the_end_of_a_flood_is_kept() {
        let tail = StderrTail::default();
        let flood: String = (0..100_000).map(|number| format!("line {number}\n")).collect();
        tail.clone().read(flood.as_bytes()).await;
        let lines = tail.lines();
        assert_eq!(lines.len(), MAX_LINES);
        assert_eq!(lines.last().map(String::as_str), Some("line 99999"));
    }

    #[tokio::test]
    async fn mcp_1_values_of_variables_are_hidden() {
        let tail = StderrTail::hiding(vec![
            "hunter".to_owned(),
            "hunter2-and-more".to_owned(),
            "on".to_owned(),
        ]);
        tail.clone()
            .read(&b"login with hunter2-and-more failed, not on hunter"[..])
            .await;
        assert_eq!(tail.lines(), ["login with (hidden) failed, not on (hidden)"]);
    }

    #[tokio::test]
    async fn mcp_6_bytes_that_are_not_text_are_replaced() {
        let tail = StderrTail::default();
        tail.clone().read(&b"a\xff\x1b[1m\n\n"[..]).await;
        assert_eq!(tail.lines(), ["a\u{fffd}[1m"]);
    }
}
