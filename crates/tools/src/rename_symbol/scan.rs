//! Looking through the source files of a workspace for a name.
//!
//! It changes nothing, and leaves out no file without saying so. A file that does not hold the letters of a name at all
//! is not parsed.

use std::collections::BTreeMap;
use std::ops::Range;

use tokio_util::sync::CancellationToken;

use super::binding::is_in_workspace;
use super::lines::Lines;
use super::report::Report;
use super::similar::SimilarWords;
use super::syntax::{Binding, Owner, Part, Role, State, Syntax};
use crate::syntax::{Language, ParseError};
use crate::text::TextFile;
use crate::workspace::{FileError, Hidden, Kind, Workspace};

/// How many names are shown that are like one that was not found.
const MAX_SIMILAR: usize = 5;

/// What to look for.
pub(super) struct Query<'a> {
    /// The name, without the mark of a raw identifier.
    pub(super) from: &'a str,
    /// The name that must not be there yet, likewise.
    pub(super) to: Option<&'a str>,
    /// Where to look for `from`; everywhere where it is empty.
    pub(super) paths: &'a [String],
}

/// A source file that was read.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) language: Language,
    pub(super) bytes: Vec<u8>,
    pub(super) file: TextFile,
}

/// A file that holds the name as an identifier.
pub(super) struct Affected {
    pub(super) source: Source,
    pub(super) names: NameOccurrences,
}

/// What was found in a file.
pub(super) struct NameOccurrences {
    /// Where the identifiers are, in order.
    pub(super) ranges: Vec<Range<usize>>,
    /// Whether one of them introduces the name.
    pub(super) introduced: Introduced,
    /// How many identifiers have the new name already.
    pub(super) clashes: usize,
    pub(super) state: State,
}

/// Whether a file introduces a name, or only uses it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Introduced {
    Here,
    Elsewhere,
}

impl Affected {
    fn introduces(&self) -> bool {
        self.names.introduced == Introduced::Here
    }
}

/// Why a scan did not get to its end.
pub(super) enum ScanAborted {
    /// Nobody waits for it any more.
    Cancelled,
    /// A path that was asked for cannot be walked.
    File(FileError),
}

/// What a file is read for.
#[derive(Clone, Copy)]
enum Purpose {
    /// It is among the files to be renamed in.
    Rename,
    /// It may hold the new name.
    Clash,
}

/// Whether a module of Python has the name that is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModuleFile {
    Present,
    Absent,
}

/// What the paths of all sources tell of an import.
struct ImportContext<'a> {
    module: ModuleFile,
    paths: &'a [&'a str],
}

/// A pass over the workspace.
pub(super) struct Scan<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) cancel: &'a CancellationToken,
    pub(super) query: Query<'a>,
}

impl Scan<'_> {
    /// Finds the names, and adds what there is to say to the report.
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
                && !names.ranges.is_empty()
            {
                affected.push(Affected { source, names });
            }
        }
        if report.foreign.is_empty() && !affected.iter().any(Affected::introduces) {
            for Affected { source, names } in &affected {
                let lines = Lines::new(&source.file.text);
                for name in &names.ranges {
                    report.add_foreign(&source.path, || lines.location(name.start));
                }
            }
        }
        Ok(affected)
    }

    /// The identifiers most like the name that was not found, best first.
    pub(super) fn similar(&self) -> Result<Vec<String>, ScanAborted> {
        let mut words = SimilarWords::new(self.query.from);
        // What cannot be read was reported by the first pass.
        let mut ignored = Report::default();
        for path in self.walk(self.query.paths)? {
            if let Some(source) = self.read(path, &mut ignored)? {
                words.add(source.language, &source.path, &source.file.text);
            }
        }
        self.check_cancelled()?;
        let mut similar = Vec::new();
        for (word, paths) in words.best_first() {
            if similar.len() < MAX_SIMILAR && self.is_identifier(&word, paths)? {
                similar.push(word);
            }
        }
        Ok(similar)
    }

    /// Whether a word of these files is more than prose in one of them.
    fn is_identifier(&self, word: &str, paths: Vec<String>) -> Result<bool, ScanAborted> {
        let mut ignored = Report::default();
        for path in paths {
            let Some(source) = self.read(path, &mut ignored)? else {
                continue;
            };
            let mut found = false;
            if let Some(syntax) = self.parse(&source, &mut ignored)? {
                syntax.visit(|_, text, part| match part {
                    Part::Identifier(..) => found |= source.language.name_of(text) == word,
                    Part::Module(_) | Part::Prose(_) => {}
                });
            }
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The source files, each with what it is read for, in the order of their paths.
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

    /// Ends early when nobody waits any more: who uses it up asks whether it is still wanted.
    fn walk(&self, under: &[String]) -> Result<impl Iterator<Item = String>, ScanAborted> {
        let files = self
            .workspace
            .walk(under, Hidden::Skip)
            .map_err(ScanAborted::File)?;
        Ok(files
            .take_while(|_| !self.cancel.is_cancelled())
            .filter(|path| Language::from_path(path).is_some()))
    }

    /// Files that were asked for by name, and would otherwise be missing without a word.
    fn report_paths_without_grammar(&self, report: &mut Report) -> Result<(), ScanAborted> {
        for path in self.query.paths {
            let kind = self.workspace.kind(path).map_err(ScanAborted::File)?;
            if kind != Kind::Folder && Language::from_path(path).is_none() {
                report.add_skipped(path, "it is not source of a language with a grammar here");
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
            Err(fault) => {
                report.add_skipped(&path, fault);
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
        let mut found: Vec<(Range<usize>, Role)> = Vec::new();
        let mut clashes = 0;
        syntax.visit(|range, text, part| match (part, purpose) {
            (Part::Identifier(role, owner), _) => {
                let name = language.name_of(text);
                if Some(name) == self.query.to {
                    clashes += 1;
                    report.add_clash(path, || lines.location(range.start));
                } else if matches!(purpose, Purpose::Rename) && name == self.query.from {
                    if let Role::Imported(from) = role {
                        let place = || lines.location(range.start);
                        if !is_in_workspace(*language, from.text(&source.file.text), around.paths) {
                            report.add_foreign(path, place);
                        } else if (*language, around.module) == (Language::Python, ModuleFile::Present) {
                            report.add_module(path, place);
                        }
                    }
                    match owner {
                        Owner::Unknown => report.add_member(path, || lines.location(range.start)),
                        Owner::Scope => {}
                    }
                    found.push((range, role));
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
            let places = found
                .iter()
                .map(|(range, role)| (*role, || lines.location(range.start)));
            report.add_file(path, places);
        }
        match syntax.state() {
            State::Clean => {}
            State::Broken => report.add_syntax_error(path),
        }
        let introduces = |(_, role): &(Range<usize>, Role)| match role {
            Role::Definition | Role::Bound => true,
            Role::Imported(_) | Role::Use => false,
        };
        let introduced = match found.iter().any(introduces) {
            true => Introduced::Here,
            false => Introduced::Elsewhere,
        };
        Ok(Some(NameOccurrences {
            introduced,
            ranges: found.into_iter().map(|(range, _)| range).collect(),
            clashes,
            state: syntax.state(),
        }))
    }
}

/// Whether a file is what Python imports as the module `name`.
fn is_module(path: &str, name: &str) -> bool {
    let is_python = Language::from_path(path) == Some(Language::Python);
    let mut parts = path.rsplit('/');
    let file = parts.next().and_then(|file| file.rsplit_once('.'));
    let stem = file.map(|(stem, _)| stem);
    is_python && (stem == Some(name) || (stem == Some("__init__") && parts.next() == Some(name)))
}

/// Where `name` stands in `text` as a word of its own.
fn mentions<'a>(language: Language, text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(name).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).and_then(|before| before.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|after| after.chars().next());
        let joins = |neighbour: Option<char>| neighbour.is_some_and(|it| language.continues_word(it));
        !joins(before) && !joins(after)
    })
}
