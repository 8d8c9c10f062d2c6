//! Which files a goal or a piece of guidance is about: "only in src/utils", "except tests/", "in *.md".

use super::words::Word;

/// A part of the workspace. Empty, it is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Files and folders, relative to the workspace; none for all.
    pub only: Vec<String>,
    /// Files and folders to leave alone.
    pub except: Vec<String>,
    /// What file names end with (`.md`); none for any.
    pub endings: Vec<String>,
}

const PREPOSITIONS: &[&str] = &[
    "in", "inside", "under", "within", "below", "at", "from", "to", "of", "on",
];
const EXCEPT: &[&str] = &["except", "excluding", "without", "not", "outside", "besides"];
const ALONE: &[&str] = &["leave", "don't", "ignore", "avoid", "exclude"];
const FILLER: &[&str] = &[
    "the",
    "this",
    "that",
    "my",
    "our",
    "all",
    "every",
    "any",
    "each",
    "folder",
    "folders",
    "directory",
    "directories",
    "file",
    "files",
    "just",
    "for",
    "whole",
    "entire",
    "path",
    "paths",
    "named",
    "called",
    "touch",
    "change",
    "edit",
    "but",
];
/// Words for the whole workspace, which restrict nothing.
const EVERYWHERE: &[&str] = &[
    "project",
    "workspace",
    "repository",
    "repo",
    "codebase",
    "code",
    "crate",
    "package",
    "tree",
    "everywhere",
    "it",
    "them",
    "source",
    "sources",
    "strings",
    "comments",
    "order",
    "place",
    "general",
    "particular",
    "total",
    "here",
];
/// Kinds of files by name, and what their names end with.
pub(crate) const KINDS: &[(&str, &str)] = &[
    ("markdown", ".md"),
    ("rust", ".rs"),
    ("python", ".py"),
    ("go", ".go"),
    ("javascript", ".js"),
    ("typescript", ".ts"),
    ("text", ".txt"),
    ("toml", ".toml"),
    ("json", ".json"),
    ("yaml", ".yaml"),
];

impl Scope {
    /// What the words restrict. Words that name no place are skipped.
    pub fn parse(words: &[Word]) -> Scope {
        let mut scope = Scope::default();
        let mut side = ScopeList::None;
        // After a place only "and" leads to another one.
        let mut listing = Listing::Open;
        for word in words {
            if word.is_any(&[
                "then", "please", "run", "check", "make", "verify", "so", "using", "while", "instead",
            ]) {
                break;
            }
            if word.is_any(&["and", "or"]) {
                listing = Listing::Open;
                continue;
            }
            if word.is_any(EXCEPT) || word.is_any(ALONE) {
                (side, listing) = (ScopeList::Except, Listing::Open);
            } else if word.is_any(&["ending", "extension", "suffix", "end", "ends"]) {
                (side, listing) = (ScopeList::Ending, Listing::Open);
            } else if word.is_any(&["with", "is", "are", "alone"]) || word.is_any(FILLER) {
                // Neither a place nor the end of one.
            } else if word.is_any(&["only", "in", "inside", "under", "within", "below"]) {
                listing = Listing::Open;
                side = match side {
                    ScopeList::None | ScopeList::Only => ScopeList::Only,
                    ScopeList::Except | ScopeList::Ending => side,
                };
            } else if word.is_any(PREPOSITIONS) || word.is_any(EVERYWHERE) {
                if word.is_any(EVERYWHERE) {
                    side = ScopeList::None;
                }
            } else if listing == Listing::Open {
                side = scope.add(word, side);
                listing = Listing::Closed;
            }
        }
        scope
    }

    /// Adds what the word names; says where the next word would go.
    fn add(&mut self, word: &Word, side: ScopeList) -> ScopeList {
        let text = word.text.trim_start_matches("./").trim_end_matches('/');
        let lower = text.to_lowercase();
        let kind = KINDS.iter().find(|(name, _)| *name == lower && word.is_plain());
        let ending = kind
            .map(|(_, ending)| (*ending).to_owned())
            .or_else(|| ending_of(text, side));
        match (side, ending) {
            (ScopeList::Only | ScopeList::Ending, Some(ending)) => self.endings.push(ending),
            (ScopeList::None, Some(ending)) if text.starts_with("*.") || kind.is_some() => {
                self.endings.push(ending)
            }
            (ScopeList::Only, None) if !text.is_empty() && text != "." => self.only.push(text.to_owned()),
            (ScopeList::Except, _) if !text.is_empty() => self.except.push(text.to_owned()),
            (ScopeList::None | ScopeList::Only | ScopeList::Except | ScopeList::Ending, _) => {
                return ScopeList::None;
            }
        }
        side
    }

    /// Whether a file, relative to the workspace, belongs to it.
    pub fn contains(&self, path: &str) -> bool {
        (self.only.is_empty() || self.only.iter().any(|folder| is_under(path, folder)))
            && !self.except.iter().any(|folder| is_under(path, folder))
            && (self.endings.is_empty() || self.endings.iter().any(|ending| path.ends_with(ending.as_str())))
    }

    /// The folders, files and globs to search; none for all files. Exceptions can't be said this way.
    pub fn search_paths(&self) -> Vec<String> {
        if self.endings.is_empty() {
            return self.only.clone();
        }
        let globs = |folder: &str| {
            self.endings
                .iter()
                .map(|ending| format!("{folder}*{ending}"))
                .collect::<Vec<_>>()
        };
        if self.only.is_empty() {
            return globs("");
        }
        let in_place = |place: &String| {
            let is_file = self.endings.iter().any(|ending| place.ends_with(ending.as_str()));
            if is_file {
                vec![place.clone()]
            } else {
                globs(&format!("{place}/**/"))
            }
        };
        self.only.iter().flat_map(in_place).collect()
    }

    /// The narrower of the two: what `other` says is added.
    pub fn narrow(&mut self, other: Scope) {
        if !other.only.is_empty() {
            self.only = other.only;
        }
        if !other.endings.is_empty() {
            self.endings = other.endings;
        }
        self.except.extend(other.except);
    }

    /// Whether it is the whole workspace.
    pub fn is_everything(&self) -> bool {
        *self == Scope::default()
    }
}

/// For sentences: in `src`, only files ending with `.rs`, not in `src/old`; for all files nothing. Names are quoted, so that it can be
/// read again.
impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = |names: &[String]| {
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(" and ")
        };
        if !self.only.is_empty() {
            write!(f, " in {}", quoted(&self.only))?;
        }
        if !self.endings.is_empty() {
            write!(f, ", only files ending with {}", quoted(&self.endings))?;
        }
        if !self.except.is_empty() {
            write!(f, ", not in {}", quoted(&self.except))?;
        }
        Ok(())
    }
}

/// Whether the next word can be a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listing {
    Open,
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScopeList {
    None,
    Only,
    Except,
    Ending,
}

/// `.md` of `*.md`, and of `.md` or `md` where an ending is named.
fn ending_of(text: &str, side: ScopeList) -> Option<String> {
    let ending = text.strip_prefix('*').filter(|rest| rest.starts_with('.'));
    let ending = ending.or_else(|| {
        (text.starts_with('.') && !text.contains('/') && side == ScopeList::Ending).then_some(text)
    });
    match (ending, side) {
        (Some(ending), _) => Some(ending.to_owned()),
        (None, ScopeList::Ending) => Some(format!(".{text}")),
        (None, ScopeList::None | ScopeList::Only | ScopeList::Except) => None,
    }
}

fn is_under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
