//! Scanning the source files of a workspace for a name.
//!
//! The scan changes nothing, and reports every file that it skips. It parses only files whose text contains the name.

use std::collections::BTreeMap;
use std::ops::Range;

use tokio_util::sync::CancellationToken;

use super::binding::{Qualifier, is_in_workspace};
use super::lines::Lines;
use super::report::Report;
use super::similar::SimilarWords;
use super::syntax::{Binding, Part, Role, State, Syntax};
use crate::syntax::{Language, NO_GRAMMAR, ParseError};
use crate::text::TextFile;
use crate::workspace::{EntryKind, FileError, Hidden, Workspace};

/// Maximum number of similar names to suggest for a name that was not found.
const MAX_SIMILAR: usize = 5;

/// The names to find.
pub(super) struct Query<'a> {
    /// The old name, without `r#`.
    pub(super) from: &'a str,
    /// The new name, without `r#`. Identifiers that already have this name are clashes. `None` for a preview without a new name.
    pub(super) to: Option<&'a str>,
    /// The files and folders to search for `from`; the whole workspace if empty.
    pub(super) paths: &'a [String],
}

/// The content of a source file.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) language: Language,
    pub(super) bytes: Vec<u8>,
    pub(super) file: TextFile,
}

/// A file that contains the old name as an identifier.
pub(super) struct Affected {
    pub(super) source: Source,
    pub(super) names: NameOccurrences,
}

/// The occurrences of the old and the new name in a file.
pub(super) struct NameOccurrences {
    /// The identifiers with the old name, in order.
    pub(super) found: Vec<Found>,
    /// The number of identifiers that already have the new name.
    pub(super) clashes: usize,
    pub(super) state: State,
}

/// An identifier with the old name.
pub(super) struct Found {
    pub(super) range: Range<usize>,
    role: Role,
    qualifier: Qualifier,
}

impl Affected {
    /// Returns true if the file introduces the old name in such a way that other files can use it.
    fn introduces(&self) -> bool {
        self.names.found.iter().any(|found| match found.role {
            Role::Definition | Role::Bound => true,
            Role::Declared | Role::Imported(_) | Role::Local | Role::Use => false,
        })
    }

    /// Returns the identifiers that cannot refer to a local variable of the file.
    fn without_variable(&self) -> impl Iterator<Item = &Found> {
        let has_variable = self.names.found.iter().any(|found| found.role == Role::Local);
        let found = self.names.found.iter();
        found.filter(move |found| {
            !has_variable || found.qualifier != Qualifier::Scope || found.role == Role::Declared
        })
    }
}

/// Why a scan was aborted.
pub(super) enum ScanAborted {
    Cancelled,
    /// A requested path cannot be walked.
    File(FileError),
}

/// The purpose of reading a file.
#[derive(Clone, Copy)]
enum Purpose {
    /// The file is scanned for the old and the new name.
    Rename,
    /// The file is scanned only for clashes with the new name, because the file is outside the requested paths.
    Clash,
}

/// The identifiers to suggest for a name.
#[derive(Clone, Copy)]
pub(super) enum Candidates {
    All,
    /// The names that a source file introduces.
    Introduced,
}

/// Whether the workspace has a Python module with the old name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModuleFile {
    Present,
    Absent,
}

/// The information needed to classify imports, taken from the paths of all source files.
struct ImportContext<'a> {
    module: ModuleFile,
    paths: &'a [&'a str],
}

/// A search of the workspace for the names in a [`Query`].
pub(super) struct Scan<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) cancel: &'a CancellationToken,
    pub(super) query: Query<'a>,
}

impl Scan<'_> {
    /// Finds the old and the new name, and adds their occurrences to the report. Returns the files that contain the old name.
    pub(super) fn run(&self, report: &mut Report) -> Result<Vec<Affected>, ScanAborted> {
        let mut affected = Vec::new();
        self.report_paths_without_grammar(report)?;
        let sources = self.sources()?;
        let paths: Vec<&str> = sources.keys().map(String::as_str).collect();
        let around = ImportContext {
            module: match paths.iter().any(|path| is_module(path, self.query.from)) {
                true => ModuleFile::Present,
                false => ModuleFile::Absent,
            },
            paths: &paths,
        };
        for (path, purpose) in &sources {
            let (path, purpose) = (path.clone(), *purpose);
            let Some(source) = self.read(path, report)? else {
                continue;
            };
            if !self.may_contain(&source.file.text, purpose) {
                continue;
            }
            if let Some(names) = self.scan_file(&source, purpose, &around, report)?
                && !names.found.is_empty()
            {
                affected.push(Affected { source, names });
            }
        }
        if report.foreign.is_empty() && !affected.iter().any(Affected::introduces) {
            for file in &affected {
                let lines = Lines::new(&file.source.file.text);
                for name in file.without_variable() {
                    report.add_foreign(&file.source.path, || lines.location(name.range.start));
                }
            }
        }
        Ok(affected)
    }

    /// Returns the identifiers most similar to the old name, best first: all of them, or only those that the sources introduce.
    pub(super) fn similar(&self, candidates: Candidates) -> Result<Vec<String>, ScanAborted> {
        let mut words = SimilarWords::new(self.query.from);
        // `run` has already reported the skipped files, so this report is discarded.
        let mut ignored = Report::default();
        for path in self.walk(self.query.paths)? {
            if let Some(source) = self.read(path, &mut ignored)? {
                words.add(source.language, &source.path, &source.file.text);
            }
        }
        self.check_cancelled()?;
        let mut similar = Vec::new();
        for (word, paths) in words.best_first() {
            let is_other = word != self.query.from;
            if is_other && similar.len() < MAX_SIMILAR && self.is_candidate(&word, paths, candidates)? {
                similar.push(word);
            }
        }
        Ok(similar)
    }

    /// Returns true if one of these files has an identifier with this word as its name that is among the `candidates`.
    fn is_candidate(
        &self,
        word: &str,
        paths: Vec<String>,
        candidates: Candidates,
    ) -> Result<bool, ScanAborted> {
        let mut ignored = Report::default();
        for path in paths {
            let Some(source) = self.read(path, &mut ignored)? else {
                continue;
            };
            let mut found = false;
            if let Some(syntax) = self.parse(&source, &mut ignored)? {
                syntax.visit(|_, text, part| match part {
                    Part::Identifier(role, _) => {
                        let is_one = match candidates {
                            Candidates::All => true,
                            Candidates::Introduced => role.introduces(),
                        };
                        found |= is_one && source.language.name_of(text) == word;
                    }
                    Part::Module(_) | Part::Prose(_) => {}
                });
            }
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the source files to read, each with the purpose of reading it, ordered by path.
    fn sources(&self) -> Result<BTreeMap<String, Purpose>, ScanAborted> {
        let mut sources = BTreeMap::new();
        for path in self.walk(self.query.paths)? {
            sources.insert(path, Purpose::Rename);
        }
        if self.query.to.is_some() && !self.query.paths.is_empty() {
            for path in self.walk(&[])? {
                sources.entry(path).or_insert(Purpose::Clash);
            }
        }
        self.check_cancelled()?;
        Ok(sources)
    }

    fn check_cancelled(&self) -> Result<(), ScanAborted> {
        match self.cancel.is_cancelled() {
            true => Err(ScanAborted::Cancelled),
            false => Ok(()),
        }
    }

    /// Walks the source files. Ends early if the call is cancelled, so the caller must call `check_cancelled` afterwards.
    fn walk(&self, under: &[String]) -> Result<impl Iterator<Item = String>, ScanAborted> {
        let files = self
            .workspace
            .walk(under, Hidden::Skip)
            .map_err(ScanAborted::File)?;
        Ok(files
            .take_while(|_| !self.cancel.is_cancelled())
            .filter(|path| Language::from_path(path).is_some()))
    }

    /// Reports requested files of unknown languages, which the walk would silently leave out.
    fn report_paths_without_grammar(&self, report: &mut Report) -> Result<(), ScanAborted> {
        for path in self.query.paths {
            let kind = self.workspace.kind(path).map_err(ScanAborted::File)?;
            if kind != EntryKind::Folder && Language::from_path(path).is_none() {
                report.add_skipped(path, NO_GRAMMAR);
            }
        }
        Ok(())
    }

    fn read(&self, path: String, report: &mut Report) -> Result<Option<Source>, ScanAborted> {
        self.check_cancelled()?;
        let Some(language) = Language::from_path(&path) else {
            return Ok(None);
        };
        let read = || {
            let bytes = self.workspace.read(&path)?;
            let file = TextFile::decode(&path, &bytes)?;
            Ok::<_, FileError>((bytes, file))
        };
        match read() {
            Ok((bytes, file)) => Ok(Some(Source {
                path,
                language,
                bytes,
                file,
            })),
            Err(error) => {
                report.add_skipped(&path, error);
                Ok(None)
            }
        }
    }

    fn may_contain(&self, text: &str, purpose: Purpose) -> bool {
        let renames = match purpose {
            Purpose::Rename => text.contains(self.query.from),
            Purpose::Clash => false,
        };
        renames || self.query.to.is_some_and(|to| text.contains(to))
    }

    fn parse<'s>(&self, source: &'s Source, report: &mut Report) -> Result<Option<Syntax<'s>>, ScanAborted> {
        match Syntax::parse(source.language, &source.file.text, self.cancel) {
            Ok(syntax) => Ok(Some(syntax)),
            Err(ParseError::Cancelled) => Err(ScanAborted::Cancelled),
            Err(ParseError::Grammar(reason)) => {
                report.add_skipped(&source.path, reason);
                Ok(None)
            }
        }
    }

    fn scan_file(
        &self,
        source: &Source,
        purpose: Purpose,
        around: &ImportContext<'_>,
        report: &mut Report,
    ) -> Result<Option<NameOccurrences>, ScanAborted> {
        let Some(syntax) = self.parse(source, report)? else {
            return Ok(None);
        };
        let Source { path, language, .. } = source;
        let lines = Lines::new(&source.file.text);
        let mut found: Vec<Found> = Vec::new();
        let mut clashes = 0;
        syntax.visit(|range, text, part| match (part, purpose) {
            (Part::Identifier(role, qualifier), _) => {
                let name = language.name_of(text);
                if Some(name) == self.query.to {
                    clashes += 1;
                    report.add_clash(path, || lines.location(range.start));
                } else if matches!(purpose, Purpose::Rename) && name == self.query.from {
                    if let Role::Imported(from) = role {
                        let location = || lines.location(range.start);
                        if !is_in_workspace(*language, from.text(&source.file.text), around.paths) {
                            report.add_foreign(path, location);
                        } else if (*language, around.module) == (Language::Python, ModuleFile::Present) {
                            report.add_module(path, location);
                        }
                    }
                    match qualifier {
                        Qualifier::Unknown => report.add_member(path, || lines.location(range.start)),
                        Qualifier::Item | Qualifier::Scope => {}
                    }
                    found.push(Found {
                        range,
                        role,
                        qualifier,
                    });
                }
            }
            (Part::Module(Binding::Bound), Purpose::Rename) if text == self.query.from => {
                report.add_module(path, || lines.location(range.start));
            }
            (Part::Module(_), _) => {}
            (Part::Prose(prose), Purpose::Rename) => {
                for at in mentions(*language, text, self.query.from) {
                    report.add_mention(path, prose, || lines.location(range.start + at));
                }
            }
            (Part::Prose(_), Purpose::Clash) => {}
        });
        if !found.is_empty() {
            let locations = found
                .iter()
                .map(|found| (found.role, || lines.location(found.range.start)));
            report.add_file(path, locations);
        }
        match syntax.state() {
            State::Clean => {}
            State::Broken => report.add_syntax_error(path),
        }
        Ok(Some(NameOccurrences {
            found,
            clashes,
            state: syntax.state(),
        }))
    }
}

/// Returns true if the file is a Python module called `name`: `name.py` or `name/__init__.py`, for example.
fn is_module(path: &str, name: &str) -> bool {
    let is_python = Language::from_path(path) == Some(Language::Python);
    let mut parts = path.rsplit('/');
    let file = parts.next().and_then(|file| file.rsplit_once('.'));
    let stem = file.map(|(stem, _)| stem);
    is_python && (stem == Some(name) || (stem == Some("__init__") && parts.next() == Some(name)))
}

/// Returns the byte offsets at which `name` occurs in `text` as a whole word.
fn mentions<'a>(language: Language, text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(name).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).and_then(|before| before.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|after| after.chars().next());
        let joins = |neighbour: Option<char>| neighbour.is_some_and(|it| language.is_word_character(it));
        !joins(before) && !joins(after)
    })
}
