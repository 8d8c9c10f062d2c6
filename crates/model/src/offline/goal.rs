//! What the user wants: the sentence of the goal as one of the families that the offline model handles.
//!
//! Reading is tolerant of wording and strict about meaning: a sentence that fits no family is [`Goal::Beyond`], never
//! guessed at.

use std::sync::LazyLock;

use regex::Regex;

use super::scope::Scope;
use super::words::{Quoting, Word, words};

/// A goal, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// "Find all usages of function X and rename it to Y".
    Rename(Rename),
    /// "Find all usages of X".
    FindUsages {
        /// The name looked for.
        symbol: String,
        /// Where.
        scope: Scope,
    },
    /// "Replace "old" with "new" in docs/".
    Replace {
        /// What is there.
        old: String,
        /// What is wanted.
        new: String,
        /// Where.
        scope: Scope,
    },
    /// "Run the tests".
    Check {
        /// Which command.
        check: Wanted,
        /// What a failing one means for the goal.
        expectation: Expectation,
    },
    /// "How many times does X occur", "list the files in src".
    Count {
        /// What to count or list.
        what: Counted,
        /// Where.
        scope: Scope,
    },
    /// Anything else.
    Beyond,
}

/// A symbol and what it is to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rename {
    /// Its name.
    pub from: String,
    /// Its name to be, as the user wrote it: not always an identifier.
    pub to: String,
    /// Where.
    pub scope: Scope,
}

/// Which command a check runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// This one, as words.
    Command(Vec<String>),
    /// Whatever tests the project has.
    Tests,
    /// Whatever tells that the project compiles.
    Build,
    /// Both.
    Everything,
}

/// What the user expects of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// "Run the tests": to know how it ends.
    Report,
    /// "Make sure that the tests pass": that it succeeds.
    Success,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Lines of text files.
    Lines,
    /// Files, by number.
    Files,
    /// Files, by name.
    FileNames,
    /// Places with this text.
    Text(String),
    /// Places with this word, whole.
    Word(String),
}

impl Goal {
    /// Reads a goal. The families are tried in the order of how specific their wording is.
    pub fn parse(text: &str) -> Goal {
        let words = words(text);
        rename(&words)
            .or_else(|| replace(&words))
            .or_else(|| check(text, &words))
            .or_else(|| count(&words))
            .or_else(|| find_usages(&words))
            .unwrap_or(Goal::Beyond)
    }
}

/// Words around a name that say what it is.
const KIND: &[&str] = &[
    "all",
    "every",
    "each",
    "any",
    "the",
    "a",
    "an",
    "of",
    "to",
    "for",
    "function",
    "functions",
    "fn",
    "method",
    "struct",
    "class",
    "type",
    "enum",
    "trait",
    "interface",
    "module",
    "constant",
    "const",
    "static",
    "variable",
    "field",
    "macro",
    "symbol",
    "identifier",
    "name",
    "called",
    "named",
    "usage",
    "usages",
    "use",
    "uses",
    "occurrence",
    "occurrences",
    "reference",
    "references",
    "caller",
    "callers",
    "call",
    "calls",
    "mention",
    "mentions",
    "place",
    "places",
    "where",
    "it",
    "them",
    "its",
    "everywhere",
    "please",
    "public",
    "private",
    "def",
    "sites",
    "instances",
    "instance",
    "definition",
    "and",
    "then",
];
const FIND: &[&str] = &[
    "find", "search", "locate", "list", "show", "look", "up", "me", "please", "which", "files", "lines",
    "identify", "get", "tell", "report", "see",
];
const TO: &[&str] = &["to", "into", "as", "->", "=>", "→"];

fn rename(words: &[Word]) -> Option<Goal> {
    let (verb, to) = match words.iter().position(|word| word.is_any(&["rename", "renaming"])) {
        Some(verb) => (
            verb,
            words[verb + 1..].iter().position(|word| word.is_any(TO))? + verb + 1,
        ),
        // "change the name of X to Y"
        None => {
            let verb = words.iter().position(|word| word.is_any(&["change"]))?;
            words[verb..].iter().find(|word| word.is_any(&["name"]))?;
            (
                verb,
                words[verb..].iter().position(|word| word.is_any(TO))? + verb,
            )
        }
    };
    // "rename X to Y" names it after the verb, "find all usages of X and rename them to Y" before it.
    let from = first_name(&words[verb + 1..to], KIND).or_else(|| last_name(&words[..verb]))?;
    let target = words[to + 1..]
        .iter()
        .position(|word| !word.is_any(&["the", "be", "name", "new", "called"]))?
        + to
        + 1;
    let mut scope = Scope::parse(&words[target + 1..]);
    // "in src/utils, rename X to Y"
    let before = Scope::parse(
        words
            .get(..verb)
            .filter(|before| !names_a_subject(before))
            .unwrap_or_default(),
    );
    let between = words[verb + 1..to]
        .iter()
        .position(|word| word.is_any(&["in", "inside", "under", "within"]));
    scope.narrow(before);
    if let Some(between) = between {
        scope.narrow(Scope::parse(&words[verb + 1 + between..to]));
    }
    let to = words.get(target)?;
    Some(Goal::Rename(Rename {
        from: last_segment(&from),
        to: unqualified(&to.text, &from),
        scope,
    }))
}

fn names_a_subject(words: &[Word]) -> bool {
    words
        .iter()
        .any(|word| word.is_any(&["of", "usages", "uses", "occurrences", "references"]))
}

fn find_usages(words: &[Word]) -> Option<Goal> {
    let noun = &[
        "usage",
        "usages",
        "uses",
        "use",
        "used",
        "references",
        "referenced",
        "occurrences",
        "callers",
        "called",
        "calls",
        "mentions",
        "mentioned",
        "defined",
    ];
    let first = words.iter().position(|word| word.is_plain())?;
    let asks = words[first].is_any(FIND) || words.iter().any(|word| word.is_any(&["where", "who", "which"]));
    let at = words.iter().position(|word| word.is_any(noun))?;
    if !asks {
        return None;
    }
    // "usages of X in src", or "where is X used in src"
    let (symbol, rest) = match name_at(&words[at + 1..], KIND) {
        Some((place, name)) if !words[at + 1].is_any(&["in", "inside", "under", "within"]) => {
            (name, at + 2 + place)
        }
        Some(_) | None => (last_name(&words[..at])?, at + 1),
    };
    let scope = Scope::parse(words.get(rest..).unwrap_or_default());
    Some(Goal::FindUsages {
        symbol: last_segment(&symbol),
        scope,
    })
}

fn replace(words: &[Word]) -> Option<Goal> {
    let verb = words
        .iter()
        .position(|word| word.is_any(&["replace", "substitute", "change"]))?;
    let with = words[verb..]
        .iter()
        .position(|word| word.is_any(&["with", "by", "to"]))?
        + verb;
    let is_name = |word: &&Word| !word.is_plain();
    let old = words[verb + 1..with].iter().find(is_name).or_else(|| {
        // Without quotes only a single word is beyond doubt.
        let named: Vec<_> = words[verb + 1..with]
            .iter()
            .filter(|word| !word.is_any(TEXT_KIND))
            .collect();
        if let [only] = named.as_slice() {
            Some(*only)
        } else {
            None
        }
    })?;
    let new = words[with + 1..]
        .iter()
        .position(|word| !word.is_any(&["the", "text", "word", "string"]))?
        + with
        + 1;
    let mut scope = Scope::parse(&words[new + 1..]);
    let between = words[verb + 1..with]
        .iter()
        .position(|word| word.is_any(&["in", "inside", "under", "within"]));
    if let Some(between) = between {
        scope.narrow(Scope::parse(&words[verb + 1 + between..with]));
    }
    Some(Goal::Replace {
        old: old.text.clone(),
        new: words.get(new)?.text.clone(),
        scope,
    })
}

const TEXT_KIND: &[&str] = &[
    "all",
    "every",
    "each",
    "the",
    "of",
    "text",
    "word",
    "string",
    "phrase",
    "occurrence",
    "occurrences",
    "instances",
    "everywhere",
    "any",
];

fn check(text: &str, words: &[Word]) -> Option<Goal> {
    static INSISTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(make sure|ensure|verify|confirm|check (that|whether|if)|does|do|is|are|see (that|whether|if))\b").ok()
    });
    let insists = INSISTS.as_ref().is_some_and(|pattern| pattern.is_match(text));
    let runs = words
        .first()
        .is_some_and(|word| word.is_any(&["run", "execute", "please", "start", "try"]));
    let checks = words
        .iter()
        .any(|word| word.is_any(&["check", "test", "build", "compile"]));
    if !insists && !runs && !checks {
        return None;
    }
    let expectation = if insists {
        Expectation::Success
    } else {
        Expectation::Report
    };
    let command = words
        .iter()
        .find(|word| word.quoting == Quoting::Quoted)
        .filter(|_| runs || insists);
    if let Some(command) = command.filter(|_| {
        words
            .iter()
            .any(|word| word.is_any(&["run", "execute", "passes", "pass", "succeeds", "command", "works"]))
    }) {
        let command: Vec<_> = super::words::words(&command.text)
            .into_iter()
            .map(|word| word.text)
            .collect();
        return (!command.is_empty()).then_some(Goal::Check {
            check: Wanted::Command(command),
            expectation,
        });
    }
    let mentions = |names: &[&str]| words.iter().any(|word| word.is_any(names));
    let tests = mentions(&["tests", "test", "testsuite", "suite"]);
    let build = mentions(&[
        "compiles",
        "compile",
        "builds",
        "build",
        "compiling",
        "building",
        "compilation",
    ]);
    let check = match (tests, build) {
        (true, true) => Wanted::Everything,
        (true, false) => Wanted::Tests,
        (false, true) => Wanted::Build,
        (false, false) if mentions(&["checks"]) => Wanted::Everything,
        (false, false) => return None,
    };
    // "write a test", "fix the failing tests", "add tests" ask for more than a run.
    let more = &[
        "write",
        "add",
        "fix",
        "create",
        "implement",
        "make",
        "improve",
        "refactor",
        "delete",
        "remove",
        "update",
        "count",
        "list",
        "find",
        "how",
        "many",
        "explain",
        "why",
        "where",
        "document",
        "generate",
    ];
    let sure = words.iter().any(|word| word.is_any(&["sure"]));
    let asks_more = words
        .iter()
        .any(|word| word.is_any(more) && !(sure && word.is_any(&["make"])));
    (!asks_more).then_some(Goal::Check { check, expectation })
}

fn count(words: &[Word]) -> Option<Goal> {
    let at = words
        .iter()
        .position(|word| word.is_any(&["count", "many", "number"]));
    let listing = words
        .iter()
        .position(|word| word.is_any(&["list", "show", "which", "what"]));
    let Some(at) = at else {
        let at = listing?;
        let files = words[at + 1..].iter().position(|word| word.is_any(&["files"]))? + at + 1;
        // "list the files with TODO" asks for their content.
        let about = &[
            "with",
            "containing",
            "contain",
            "use",
            "using",
            "call",
            "usages",
            "of",
            "mention",
            "where",
        ];
        let asks_content = words[at..].iter().any(|word| word.is_any(about));
        let only_filler = words[at + 1..files].iter().all(|word| {
            word.is_any(&[
                "all", "the", "every", "of", "rust", "python", "markdown", "go", "me",
            ])
        });
        return (only_filler && !asks_content).then(|| Goal::Count {
            what: Counted::FileNames,
            scope: Scope::parse(&words[at + 1..]),
        });
    };
    let rest = &words[at + 1..];
    let skip = rest.iter().position(|word| {
        !word.is_any(&[
            "the", "of", "all", "are", "there", "times", "does", "do", "is", "total", "number", "rust",
            "python", "markdown", "code",
        ])
    })?;
    let (what, after) = match &rest[skip] {
        word if word.is_any(&["lines", "line", "loc"]) => (Counted::Lines, skip + 1),
        word if word.is_any(&["files", "file"]) => (Counted::Files, 0),
        word if word.is_any(&[
            "usages",
            "uses",
            "occurrences",
            "references",
            "calls",
            "mentions",
            "places",
        ]) =>
        {
            let (place, name) = name_at(&rest[skip + 1..], KIND)?;
            (counted(&rest[skip + 1 + place], &name), skip + 2 + place)
        }
        word => {
            let todos = ["todos", "fixmes"].contains(&word.text.to_lowercase().as_str());
            let name = if todos {
                word.text[..word.text.len() - 1].to_uppercase()
            } else {
                word.text.clone()
            };
            (counted(word, &name), skip + 1)
        }
    };
    let scope = Scope::parse(rest.get(after..).unwrap_or_default());
    let scope = Scope {
        only: scope
            .only
            .into_iter()
            .filter(|place| !OCCUR.contains(&place.as_str()))
            .collect(),
        ..scope
    };
    Some(Goal::Count { what, scope })
}

const OCCUR: &[&str] = &["occur", "occurs", "appear", "appears", "used", "mentioned"];

fn counted(word: &Word, name: &str) -> Counted {
    if is_identifier(name) || word.is_plain() {
        Counted::Word(name.to_owned())
    } else {
        Counted::Text(name.to_owned())
    }
}

/// The first word that is no filler, and where it is.
fn name_at(words: &[Word], filler: &[&str]) -> Option<(usize, String)> {
    // Of "function `X`" and "`X` function" it is the quoted one.
    words
        .iter()
        .enumerate()
        .find(|(_, word)| !word.is_any(filler))
        .map(|(at, word)| (at, word.text.clone()))
}

fn first_name(words: &[Word], filler: &[&str]) -> Option<String> {
    let until = words
        .iter()
        .position(|word| word.is_any(&["in", "inside", "under", "within"]))
        .unwrap_or(words.len());
    name_at(&words[..until], filler).map(|(_, name)| name)
}

/// The last word that can be a name: what stands before a verb is its subject.
fn last_name(words: &[Word]) -> Option<String> {
    let words = match words
        .iter()
        .position(|word| word.is_any(&["in", "inside", "under", "within"]))
    {
        Some(place) if place > 0 => &words[..place],
        Some(_) | None => words,
    };
    let is_name = |word: &&Word| {
        !word.is_any(KIND) && !word.is_any(FIND) && !word.is_any(&["is", "are", "be", "do", "does"])
    };
    words.iter().rev().find(is_name).map(|word| word.text.clone())
}

/// `parse` of `ledger::parse`, `Ledger.parse` and `ledger->parse`.
fn last_segment(name: &str) -> String {
    let name = name.trim_end_matches("()");
    let last = name.rsplit([':', '.', '>', '#']).next().unwrap_or(name);
    if is_identifier(last) {
        last.to_owned()
    } else {
        name.to_owned()
    }
}

/// The target without the path that the old name had too.
fn unqualified(target: &str, from: &str) -> String {
    let target = target.trim_end_matches("()");
    let path = from
        .trim_end_matches("()")
        .strip_suffix(last_segment(from).as_str())
        .unwrap_or_default();
    target.strip_prefix(path).unwrap_or(target).to_owned()
}

/// Whether it can name something in a program.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_' || first == '$')
        && chars.all(|next| next.is_alphanumeric() || next == '_' || next == '$')
}
