//! The files that a goal mentions as `@path`, and that [`Goal::include_files`] includes.
//!
//! An `@` has many other meanings (`me@example.com`, `@types/node`, `@property`), so only a word that names a text file of the workspace is
//! a mention. Every other word stays as it is. If it nevertheless looks like a path, a note says why it is not included.

use std::path::Path;

use dirigent_core::spec::GoalFile;
use dirigent_tools::text::TextFile;
use dirigent_tools::workspace::{FileError, Workspace};

use crate::blocking::blocking;
use crate::{DirigentError, Goal};

/// Maximum size of all included files together, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Maximum number of words that are looked up. Each lookup of a missing file searches the workspace for similar names.
const MAX_MENTIONS: usize = 50;

/// Maximum length of a mentioned path, in bytes.
const MAX_PATH: usize = 1024;

impl Goal {
    /// Includes the workspace's text files that the text mentions as `@path` or `@"path with spaces"`. The lead reads them with the goal.
    /// The text itself does not change. A mention begins at the start of a word, and the file must exist; any other `@` has no meaning.
    /// The files are limited to 64 KiB in total; if a file does not fit, only its first lines are included. A run in its own worktree
    /// gets the files as they are in the workspace, with uncommitted changes.
    ///
    /// Without this call, a goal includes no files. So a program decides whether the text may cause files to be read, for example if it
    /// comes from somebody else. The agents of the run can read the same files.
    ///
    /// Also returns notes for the user about words that look like mentions, but name no file that can be included.
    ///
    /// # Errors
    /// Only if the async runtime is shutting down. A workspace that cannot be opened is reported by
    /// [`Dirigent::start`](crate::Dirigent::start).
    ///
    /// ```
    /// use dirigent::Goal;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), dirigent::DirigentError> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # std::fs::write(folder.path().join("notes.txt"), "one\ntwo\n").unwrap();
    /// let goal = Goal::new("Explain @notes.txt, please").workspace(folder.path());
    /// let (goal, notes) = goal.include_files().await?;
    /// assert!(notes.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn include_files(mut self) -> Result<(Goal, Vec<String>), DirigentError> {
        let (text, workspace) = (self.text.clone(), self.workspace.clone());
        let included = blocking(move || Ok::<_, DirigentError>(read_mentions(&text, &workspace)));
        let Included { files, notes } = included.await?;
        self.files = files;
        Ok((self, notes))
    }
}

/// The files that the goal's text mentions, and notes for the user.
#[derive(Debug, Default, PartialEq, Eq)]
struct Included {
    files: Vec<GoalFile>,
    notes: Vec<String>,
}

/// Reads the files that the text mentions. Includes nothing if the workspace cannot be opened.
fn read_mentions(text: &str, workspace: &Path) -> Included {
    let mut included = Included::default();
    let mentions = mentions(text);
    if mentions.is_empty() {
        return included;
    }
    let opened = workspace.canonicalize().ok();
    let Some(workspace) = opened.and_then(|folder| Workspace::open(&folder).ok()) else {
        return included;
    };
    let mut room = MAX_BYTES;
    for mention in mentions.into_iter().take(MAX_MENTIONS) {
        match read_first(&workspace, &mention.candidates) {
            Ok(file) if included.files.iter().any(|other| other.path == file.path) => {}
            Ok(file) => match shorten(file, room) {
                Some(file) => {
                    room -= file.content.len();
                    included.files.push(file);
                }
                None => included.notes.push(format!(
                    "`@{}` is not included: the files of a goal are limited to {} KiB in total; the agents can still read it",
                    mention.shown(),
                    MAX_BYTES / 1024
                )),
            },
            Err(error) if mention.looks_like_path() => {
                included
                    .notes
                    .push(format!("`@{}` is not included: {error}", mention.shown()));
            }
            Err(_) => {}
        }
    }
    included
}

/// A word that may mention a file.
#[derive(Debug, PartialEq, Eq)]
struct Mention {
    /// The paths that the word may refer to: the whole word, and the word without trailing punctuation.
    candidates: Vec<String>,
}

impl Mention {
    /// Returns the most plausible path.
    fn shown(&self) -> &str {
        self.candidates.last().map_or("", String::as_str)
    }

    /// Returns true if the path has a `/` or an extension.
    fn looks_like_path(&self) -> bool {
        let path = self.shown();
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        path.contains('/')
            || (1..=8).contains(&extension.len()) && extension.chars().all(|c| c.is_ascii_alphanumeric())
    }
}

/// Finds the words that begin with `@`, in order.
fn mentions(text: &str) -> Vec<Mention> {
    let starts = text.match_indices('@').filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "([{\"'<>,;:".contains(c))
    });
    starts
        .filter_map(|(at, _)| {
            Some(Mention {
                candidates: candidates(&text[at + 1..])?,
            })
        })
        .collect()
}

/// Returns the paths that the text after an `@` may begin with; `None` if the text does not begin with a path.
fn candidates(rest: &str) -> Option<Vec<String>> {
    if let Some(quoted) = rest.strip_prefix('"') {
        let (path, _) = quoted.split_once('"')?;
        return fits(path).then(|| vec![path.to_owned()]);
    }
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let plain = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`']);
    // A line number, as in `src/main.rs:12`.
    let (file, line) = plain.split_once([':', '#']).unwrap_or((plain, ""));
    let is_line = line.starts_with(|c: char| c.is_ascii_digit() || c == 'L');
    let mut paths = vec![word.to_owned(), plain.to_owned()];
    if is_line {
        paths.push(file.to_owned());
    }
    paths.dedup();
    paths.retain(|path| fits(path));
    (!paths.is_empty()).then_some(paths)
}

fn fits(path: &str) -> bool {
    !path.is_empty() && path.len() <= MAX_PATH && !path.chars().any(char::is_control)
}

/// Reads the first of these paths that is a text file.
fn read_first(workspace: &Workspace, paths: &[String]) -> Result<GoalFile, FileError> {
    let mut last = None;
    for path in paths {
        match read(workspace, path) {
            Err(FileError::NotFound { path, nearest }) => last = Some(FileError::NotFound { path, nearest }),
            read => return read,
        }
    }
    Err(last.unwrap_or(FileError::NotFound {
        path: String::new(),
        nearest: Vec::new(),
    }))
}

fn read(workspace: &Workspace, path: &str) -> Result<GoalFile, FileError> {
    let bytes = workspace.read(path)?;
    let text = TextFile::decode(path, &bytes)?.text.replace("\r\n", "\n");
    Ok(GoalFile {
        path: workspace.canonical(path)?,
        content: text.strip_suffix('\n').unwrap_or(&text).to_owned(),
        omitted_lines: 0,
    })
}

/// Shortens the file to the first lines that fit; `None` if not even the first line fits.
fn shorten(file: GoalFile, room: usize) -> Option<GoalFile> {
    if file.content.len() <= room {
        return Some(file);
    }
    let end = file.content[..file.content.floor_char_boundary(room + 1)].rfind('\n')?;
    let (content, omitted) = file.content.split_at(end);
    Some(GoalFile {
        omitted_lines: omitted.lines().skip(1).count(),
        content: content.to_owned(),
        path: file.path,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn found(text: &str) -> Vec<String> {
        mentions(text)
            .iter()
            .map(|mention| mention.shown().to_owned())
            .collect()
    }

    #[test]
    fn a_mention_starts_at_the_beginning_of_a_word() {
        let cases: [(&str, &[&str]); 9] = [
            ("explain @src/main.rs", &["src/main.rs"]),
            ("@a.rs and (@b.rs), then \"@c.rs\".", &["a.rs", "b.rs", "c.rs"]),
            ("why does @a.rs:12 fail? and @a.rs#L3-L5?", &["a.rs", "a.rs"]),
            ("read @\"my notes.txt\" now", &["my notes.txt"]),
            ("write to me@example.com", &[]),
            ("`@a.rs` is code", &[]),
            ("an @ alone, an @@b.rs", &["@b.rs"]),
            ("an @\"open quote", &[]),
            ("@property and @types/node", &["property", "types/node"]),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn included_files_are_cut_to_fit_and_notes_suggest_similar_paths() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &[u8]| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        write("src/main.rs", b"fn main() {}\r\n");
        write("end.", b"odd name");
        write("binary", b"a\0b");
        write("big.txt", "0123456789abcde\n".repeat(5000).as_bytes());
        let included = |text: &str| read_mentions(text, folder.path());
        let file = |path: &str, content: &str| GoalFile {
            path: path.to_owned(),
            content: content.to_owned(),
            omitted_lines: 0,
        };
        let plain = included("compare @src/main.rs with @./src/main.rs, @end. and @property of @types/node");
        assert_eq!(
            plain.files,
            [file("src/main.rs", "fn main() {}"), file("end.", "odd name")]
        );
        assert_eq!(
            plain.notes,
            ["`@types/node` is not included: `types/node` does not exist"]
        );
        let notes = [
            (
                "@src/mian.rs",
                "`@src/mian.rs` is not included: `src/mian.rs` does not exist; did you mean `src/main.rs`?",
            ),
            (
                "@src/",
                "`@src/` is not included: `src/` is a folder: give the path of a file",
            ),
        ];
        for (text, note) in notes {
            assert_eq!(included(text).notes, [note], "{text}");
        }
        for text in ["@../secret.txt", "@/etc/passwd"] {
            let outside = included(text);
            assert!(
                outside.files.is_empty() && outside.notes[0].contains("leads out of the workspace"),
                "{outside:?}"
            );
        }
        assert_eq!(included("@binary @nothing"), Included::default());
        let both = included("@src/main.rs @big.txt @end.");
        assert_eq!(both.files[1].omitted_lines, 5000 - (65536 - 12 + 1) / 16);
        assert!(both.files[1].content.ends_with("\n0123456789abcde"));
        assert!(both.files.iter().map(|file| file.content.len()).sum::<usize>() <= 65536);
    }
}
