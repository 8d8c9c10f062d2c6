//! The output of `rename_symbol`: the uses of a name, and what a rename would leave, miss or break.

use std::sync::LazyLock;

use dirigent_core::tool::ModelToolResult;
use regex::Regex;

use super::{MatchedLine, output_text};
use crate::location::SourceLocation;
use crate::scope::Scope;

/// The output of a preview, or of a rename that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RenameOutput {
    /// The number of usages, listed or not.
    pub occurrences: u64,
    /// The number of files with usages, listed or not.
    pub file_count: u64,
    /// Set if there are usages, none of which introduces the name by a definition, a variable or the like.
    pub is_undefined: bool,
    pub files: Vec<FileUsages>,
    /// Occurrences of the name in strings and comments.
    pub mentions: Vec<Mention>,
    /// Python imports that bind the name to a module.
    pub modules: Vec<MatchedLine>,
    /// Lines that show that the name belongs to a library. Their text is empty if the usage is not listed.
    pub foreign: Vec<MatchedLine>,
    /// Usages as a property, a keyword argument or a key, for which it is unknown to which object or type the name belongs. Their text is
    /// empty if the usage is not listed.
    pub members: Vec<MatchedLine>,
    /// Lines where the new name is already in use.
    pub clashes: Vec<MatchedLine>,
    /// Similar names, if the name has no usages or belongs to a library.
    pub similar: Vec<String>,
    /// Files with syntax errors, where usages may be missed.
    pub syntax_errors: Vec<String>,
}

/// The usages in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileUsages {
    pub path: String,
    /// The number of usages, listed or not.
    pub total: u64,
    /// The listed lines with usages.
    pub lines: Vec<UsageLine>,
}

/// A line with usages of a symbol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageLine {
    pub line: u64,
    /// The line's text.
    pub text: String,
    /// The number of usages in the line.
    pub usages: u64,
    /// Whether the line defines the symbol.
    pub definition: bool,
}

/// An occurrence of the name in a string or a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub line: MatchedLine,
    /// The column in characters, from 1.
    pub column: usize,
    pub kind: MentionKind,
}

/// The kind of text in which a name is mentioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MentionKind {
    String,
    Comment,
}

impl From<&ModelToolResult> for RenameOutput {
    /// Parses `3 uses of …`, then paragraphs: the usages in a file, whose first line is its path and their number in parentheses, or a list,
    /// whose first line says what it lists.
    fn from(result: &ModelToolResult) -> Self {
        let mut paragraphs = output_text(result).split("\n\n");
        let first = paragraphs.next().unwrap_or_default();
        let counts = first.split(';').next().unwrap_or_default();
        let mut numbers = counts.split(' ').filter_map(|word| word.parse().ok());
        let mut output = RenameOutput {
            occurrences: numbers.next().unwrap_or_default(),
            file_count: numbers.next().unwrap_or_default(),
            is_undefined: first.contains("; no searched file defines it"),
            ..RenameOutput::default()
        };
        for paragraph in paragraphs {
            output.add(paragraph);
        }
        output
    }
}

impl RenameOutput {
    fn add(&mut self, paragraph: &str) {
        let mut lines = paragraph.lines();
        let heading = lines.next().unwrap_or_default();
        if let Some((path, total)) = file_heading(heading) {
            self.files.push(FileUsages {
                path: path.to_owned(),
                total,
                lines: lines.filter_map(usage_line).collect(),
            });
        } else if heading.contains("` is in use already") {
            self.clashes = lines.filter_map(matched_line).collect();
        } else if heading.starts_with("Uses that seem to belong to a library") {
            self.foreign = lines.flat_map(|line| self.listed(line)).collect();
        } else if heading.starts_with("Imports of a module with this name") {
            self.modules = lines.filter_map(matched_line).collect();
        } else if heading.starts_with("Uses whose object or type the syntax does not show") {
            self.members = lines.flat_map(|line| self.listed(line)).collect();
        } else if heading.starts_with("In comments and strings") {
            self.mentions = lines.filter_map(mention).collect();
        } else if heading.starts_with("Files with syntax errors") {
            self.syntax_errors = lines.map(str::to_owned).collect();
        } else if let Some((_, names)) = heading.split_once("`: ") {
            self.similar = names
                .split(", ")
                .map(|name| name.trim_matches('`').to_owned())
                .collect();
        }
    }

    /// Parses `src/a.rs: 4, 9`. The texts of these lines are those of the listed usages.
    fn listed(&self, line: &str) -> Vec<MatchedLine> {
        let (path, numbers) = line.rsplit_once(": ").unwrap_or_default();
        let usages = self.files.iter().filter(|file| file.path == path);
        let usages: Vec<&UsageLine> = usages.flat_map(|file| &file.lines).collect();
        let matched = |line: u64| MatchedLine {
            path: path.to_owned(),
            line,
            text: usages
                .iter()
                .find(|usage| usage.line == line)
                .map_or_else(String::new, |usage| usage.text.clone()),
        };
        numbers
            .split(", ")
            .filter_map(|number| number.parse().ok())
            .map(matched)
            .collect()
    }

    /// Removes everything outside the scope: usages, mentions, members, and places where the name belongs to a library.
    pub fn within(mut self, scope: &Scope) -> RenameOutput {
        let before = self.files.len();
        self.files.retain(|file| scope.contains(&file.path));
        self.mentions.retain(|mention| scope.contains(&mention.line.path));
        self.members.retain(|member| scope.contains(&member.path));
        self.foreign.retain(|foreign| scope.contains(&foreign.path));
        if self.files.len() != before {
            self.occurrences = self.files.iter().map(|file| file.total).sum();
            self.file_count = self.files.len() as u64;
        }
        self
    }

    /// Returns the listed files.
    pub fn paths(&self) -> Vec<String> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// Returns the listed lines with usages.
    pub fn usages(&self) -> impl Iterator<Item = (SourceLocation, &UsageLine)> {
        self.files.iter().flat_map(|file| {
            let lines = file.lines.iter();
            lines.map(|usage| (SourceLocation::new(&file.path, usage.line), usage))
        })
    }
}

impl FileUsages {
    /// Returns true if all usages in the file are listed.
    pub fn is_complete(&self) -> bool {
        self.total <= self.lines.iter().map(|line| line.usages).sum()
    }
}

/// Parses `src/a.rs (2)`.
fn file_heading(line: &str) -> Option<(&str, u64)> {
    let (path, total) = line.strip_suffix(')')?.rsplit_once(" (")?;
    Some((path, total.parse().ok()?))
}

/// Parses `9: old()`, `3 definition: fn old() {` or `9 (2): old(old)`.
fn usage_line(line: &str) -> Option<UsageLine> {
    let (notes, text) = line.split_once(':')?;
    let mut notes = notes.split(' ');
    let mut usage = UsageLine {
        line: notes.next()?.parse().ok()?,
        text: text.strip_prefix(' ').unwrap_or(text).to_owned(),
        usages: 1,
        definition: false,
    };
    for note in notes {
        match note.trim_matches(['(', ')']).parse() {
            Ok(usages) => usage.usages = usages,
            Err(_) => usage.definition |= note == "definition",
        }
    }
    Some(usage)
}

/// Parses `src/a.rs:2:5: text` into the path, the line, the column and the text.
fn row(line: &str) -> Option<(MatchedLine, usize)> {
    static ROW: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?s)^(.+?):(\d+):(\d+): ?(.*)$").ok());
    let found = ROW.as_ref()?.captures(line)?;
    let matched = MatchedLine {
        path: found[1].to_owned(),
        line: found[2].parse().ok()?,
        text: found[4].to_owned(),
    };
    Some((matched, found[3].parse().ok()?))
}

fn matched_line(line: &str) -> Option<MatchedLine> {
    row(line).map(|(matched, _)| matched)
}

/// Parses `src/a.rs:2:5: comment: // text`.
fn mention(line: &str) -> Option<Mention> {
    let (matched, column) = row(line)?;
    let (kind, text) = matched.text.split_once(':')?;
    Some(Mention {
        kind: match kind {
            "comment" => MentionKind::Comment,
            _ => MentionKind::String,
        },
        column,
        line: MatchedLine {
            text: text.strip_prefix(' ').unwrap_or(text).to_owned(),
            ..matched
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RenameOutput {
        RenameOutput::from(&ModelToolResult::from_text(text))
    }

    fn line(path: &str, line: u64, text: &str) -> MatchedLine {
        MatchedLine {
            path: path.to_owned(),
            line,
            text: text.to_owned(),
        }
    }

    #[test]
    fn usages_are_parsed_with_their_files() {
        let found = parse(
            "5 uses of `old` in 3 files; no searched file defines it; only the first 4 are listed\n\nsrc/a: 1.rs (3)\n3 definition (2): fn old(): \
             old {\n9: \n\nb (2) (1)\n4: old: 7: x (2)\n\nc.py (1)\n",
        );
        let usage = |line, text: &str, usages, definition| UsageLine {
            line,
            text: text.to_owned(),
            usages,
            definition,
        };
        let file = |path: &str, total, lines| FileUsages {
            path: path.to_owned(),
            total,
            lines,
        };
        assert_eq!(
            found,
            RenameOutput {
                occurrences: 5,
                file_count: 3,
                is_undefined: true,
                files: vec![
                    file(
                        "src/a: 1.rs",
                        3,
                        vec![usage(3, "fn old(): old {", 2, true), usage(9, "", 1, false)]
                    ),
                    file("b (2)", 1, vec![usage(4, "old: 7: x (2)", 1, false)]),
                    file("c.py", 1, vec![]),
                ],
                ..RenameOutput::default()
            }
        );
        let complete: Vec<bool> = found.files.iter().map(FileUsages::is_complete).collect();
        assert_eq!(complete, [true, true, false]);
        let preview = "Preview: nothing was changed. Renaming to `new` would change 1 use of `old` in 1 file\n\na.rs (1)\n3: old\n";
        assert_eq!((parse(preview).occurrences, parse(preview).files.len()), (1, 1));
    }

    #[test]
    fn lists_beside_the_usages_are_parsed() {
        let found = parse(
            "2 uses of `old` in 1 file\n\na: 3.py (2)\n1: from x import old\n4: y.old\n\n`new` is in use already (the first 1 of 9):\n\
             b:2:c:1:4: new:3:4: 5\n\nUses that seem to belong to a library, which a rename would break:\na: 3.py: 1, 700\n\n\
             Imports of a module with this name, whose file keeps its name:\nd.py:1:8: import old\n\n\
             Uses whose object or type the syntax does not show, so some may be other symbols:\na: 3.py: 4\n\n\
             In comments and strings, which a rename leaves as they are:\ne.py:2:5: comment: # a: old\ne.py:3:1: string: \n\n\
             Names similar to `old`: `older`, `r#old`\n\nFiles with syntax errors, where uses may be missed:\nf g.py\n\n\
             Files that were not read:\nIn comments and strings: too big\n",
        );
        let mention = |matched, column, kind| Mention {
            line: matched,
            column,
            kind,
        };
        assert_eq!(found.clashes, [line("b:2:c", 1, "new:3:4: 5")]);
        assert_eq!(
            found.foreign,
            [line("a: 3.py", 1, "from x import old"), line("a: 3.py", 700, "")]
        );
        assert_eq!(found.modules, [line("d.py", 1, "import old")]);
        assert_eq!(found.members, [line("a: 3.py", 4, "y.old")]);
        assert_eq!(
            found.mentions,
            [
                mention(line("e.py", 2, "# a: old"), 5, MentionKind::Comment),
                mention(line("e.py", 3, ""), 1, MentionKind::String)
            ]
        );
        assert_eq!(found.similar, ["older", "r#old"]);
        assert_eq!(found.syntax_errors, ["f g.py"]);
    }

    #[test]
    fn a_name_without_usages_and_a_failed_search_have_none() {
        assert_eq!(parse("No uses of `old`\n"), RenameOutput::default());
        assert_eq!(parse("Error (cancelled): cancelled"), RenameOutput::default());
    }
}
