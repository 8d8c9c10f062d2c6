//! Goals that only look: usages, checks, counts and lists.

use std::sync::LazyLock;

use regex::Regex;

use super::{
    Counted, Expectation, FIND, Goal, KIND, PLACE, Wanted, asks_more, is_identifier, last_name, last_segment,
    name_at,
};
use crate::offline::scope::Scope;
use crate::offline::words::{Quoting, Word};

pub(super) fn find_usages(words: &[Word]) -> Option<Goal> {
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
        Some((place, name)) if !words[at + 1].is_any(PLACE) => (name, at + 2 + place),
        Some(_) | None => (last_name(&words[..at])?, at + 1),
    };
    let rest = words.get(rest..).unwrap_or_default();
    (!asks_more(rest)).then(|| Goal::FindUsages {
        symbol: last_segment(&symbol),
        scope: Scope::parse(rest),
    })
}

pub(super) fn check(text: &str, words: &[Word]) -> Option<Goal> {
    static INSISTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(make sure|ensure|verify|confirm|does|do|is|are|(check|see) (that|whether|if))\b")
            .ok()
    });
    let mentions = |names: &[&str]| words.iter().any(|word| word.is_any(names));
    let insists = INSISTS.as_ref().is_some_and(|pattern| pattern.is_match(text));
    let runs = words
        .first()
        .is_some_and(|word| word.is_any(&["run", "execute", "please", "start", "try"]));
    let names_work = mentions(&["check", "test", "build", "compile"]);
    let other = mentions(&["count", "list", "find", "how", "many", "why", "where"])
        || (mentions(&["make"]) && !mentions(&["sure"]));
    if !(insists || runs || names_work) || other || asks_more(words) {
        return None;
    }
    let expectation = if insists {
        Expectation::Success
    } else {
        Expectation::Report
    };
    let command = words.iter().find(|word| word.quoting == Quoting::Quoted);
    let check = match command
        .filter(|_| mentions(&["run", "execute", "passes", "pass", "succeeds", "command", "works"]))
    {
        Some(command) => Wanted::Command(command_words(&command.text)?),
        None => project_check(words)?,
    };
    Some(Goal::Check { check, expectation })
}

/// Which of the project's checks a sentence names.
fn project_check(words: &[Word]) -> Option<Wanted> {
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
    match (tests, build) {
        (true, true) => Some(Wanted::Everything),
        (true, false) => Some(Wanted::Tests),
        (false, true) => Some(Wanted::Build),
        (false, false) => mentions(&["checks"]).then_some(Wanted::Everything),
    }
}

/// A command line as a program and its arguments. What only a shell understands goes to one.
fn command_words(line: &str) -> Option<Vec<String>> {
    if line.contains(['|', '&', ';', '<', '>', '$', '*', '"', '\'', '\\']) {
        return Some(vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()]);
    }
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

pub(super) fn count(words: &[Word]) -> Option<Goal> {
    match words
        .iter()
        .position(|word| word.is_any(&["count", "many", "number"]))
    {
        Some(at) => number_of(&words[at + 1..]),
        None => file_names(words),
    }
}

/// "list the files in src". Files with something in them are no list of names.
fn file_names(words: &[Word]) -> Option<Goal> {
    let at = words
        .iter()
        .position(|word| word.is_any(&["list", "show", "which", "what"]))?;
    let files = words[at + 1..].iter().position(|word| word.is_any(&["files"]))? + at + 1;
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
    let kinds = &[
        "all", "the", "every", "of", "rust", "python", "markdown", "go", "me",
    ];
    let is_plain_list = words[at + 1..files].iter().all(|word| word.is_any(kinds))
        && !words[at..].iter().any(|word| word.is_any(about));
    (is_plain_list && !asks_more(&words[files..])).then(|| Goal::Count {
        what: Counted::FileNames,
        scope: Scope::parse(&words[at + 1..]),
    })
}

/// "the lines in src", "times does X occur": what follows "count" and "how many".
fn number_of(rest: &[Word]) -> Option<Goal> {
    let filler = &[
        "the", "of", "all", "are", "there", "times", "does", "do", "is", "total", "number", "rust", "python",
        "markdown", "code",
    ];
    let first = rest.iter().position(|word| !word.is_any(filler))?;
    let usages = &[
        "usages",
        "uses",
        "occurrences",
        "references",
        "calls",
        "mentions",
        "places",
    ];
    let (what, after) = match &rest[first] {
        word if word.is_any(&["lines", "line", "loc"]) => (Counted::Lines, first + 1),
        // The kind of file may stand before it: "Rust files".
        word if word.is_any(&["files", "file"]) => (Counted::Files, 0),
        word if word.is_any(usages) => {
            let (place, name) = name_at(&rest[first + 1..], KIND)?;
            (counted(&rest[first + 1 + place], &name), first + 2 + place)
        }
        word if word.is_any(&["todos"]) => (Counted::Word("TODO".to_owned()), first + 1),
        word if word.is_any(&["fixmes"]) => (Counted::Word("FIXME".to_owned()), first + 1),
        word => (counted(word, &word.text), first + 1),
    };
    let rest = rest.get(after..).unwrap_or_default();
    let mut scope = Scope::parse(rest);
    scope.only.retain(|place| {
        !["occur", "occurs", "appear", "appears", "used", "mentioned"].contains(&place.as_str())
    });
    (!asks_more(rest)).then_some(Goal::Count { what, scope })
}

fn counted(word: &Word, name: &str) -> Counted {
    if is_identifier(name) || word.is_plain() {
        Counted::Word(name.to_owned())
    } else {
        Counted::Text(name.to_owned())
    }
}
