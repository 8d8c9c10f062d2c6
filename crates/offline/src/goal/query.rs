//! Goals that only look: usages, checks, counts and lists.

use super::phrase::Phrase;
use super::{CheckSelection, CountTarget, Expectation, Goal, KIND, USAGES, is_identifier, scope_clause};
use crate::scope::Scope;
use crate::words::Word;

const ALL: &[&str] = &["all", "every", "each", "any", "the"];
const FIND: &[&str] = &[
    "find",
    "find me",
    "find out",
    "search",
    "search for",
    "locate",
    "list",
    "show",
    "show me",
    "look for",
    "look up",
    "identify",
    "get",
    "get me",
    "tell me",
    "report",
    "see",
    "what are",
];
const IS_USED: &[&str] = &["used", "called", "referenced", "mentioned", "defined"];

pub(crate) fn find_usages(mut phrase: Phrase<'_>, mut scope: Scope) -> Option<Goal> {
    let symbol = match subject(&mut phrase) {
        Some(symbol) => symbol,
        None => question_subject(&mut phrase)?,
    };
    phrase.finish_with_scope(&mut scope)?;
    Some(Goal::FindUsages {
        symbol: symbol.text.trim_end_matches("()").to_owned(),
        scope,
    })
}

/// "find all usages of function X", "show me where X is used".
pub(crate) fn subject<'a>(phrase: &mut Phrase<'a>) -> Option<&'a Word> {
    let mut ahead = *phrase;
    if !ahead.eat(FIND) {
        return None;
    }
    ahead.eat_all(ALL);
    let name = if ahead.eat(USAGES) {
        ahead.eat_all(&["all"]);
        ahead.take_name(&[KIND, &["module"]].concat(), &["and", "then"])?
    } else if ahead.eat(&["where", "place where", "places where"]) {
        let name = ahead.take_name(KIND, &["is"])?;
        (ahead.eat(&["is"]) && ahead.eat(IS_USED)).then_some(name)?
    } else {
        question_subject(&mut ahead)?
    };
    *phrase = ahead;
    Some(name)
}

/// "where is X used", "who calls X", "which files use X".
fn question_subject<'a>(phrase: &mut Phrase<'a>) -> Option<&'a Word> {
    if phrase.eat(&["where is", "where are"]) {
        let name = phrase.take_name(KIND, IS_USED)?;
        return phrase.eat(IS_USED).then_some(name);
    }
    let asks = if phrase.eat(&["who", "what"]) {
        phrase.eat(&["calls", "uses", "references", "mentions"])
    } else {
        phrase.eat(&[
            "which files",
            "which lines",
            "which places",
            "files that",
            "lines that",
        ]) && phrase.eat(&["use", "call", "reference", "mention"])
    };
    asks.then(|| phrase.take_name(KIND, &[])).flatten()
}

pub(crate) fn check(mut phrase: Phrase<'_>, scope: &Scope) -> Option<Goal> {
    if !scope.is_everything() {
        return None;
    }
    let (check, expectation) = if phrase.eat(&["run", "execute", "start", "try"]) {
        let check = run(&mut phrase)?;
        (check, expectation(&mut phrase))
    } else if phrase.eat(&["build", "compile"]) {
        the_project(&mut phrase);
        (CheckSelection::Build, expectation(&mut phrase))
    } else if phrase.eat(&["test"]) {
        the_project(&mut phrase);
        (CheckSelection::Tests, expectation(&mut phrase))
    } else {
        let insists = phrase.eat(&[
            "make sure",
            "make sure that",
            "ensure",
            "ensure that",
            "verify",
            "verify that",
            "confirm",
            "confirm that",
            "check that",
            "check whether",
            "check if",
            "see that",
            "see whether",
            "see if",
            "does",
            "do",
            "is",
            "are",
        ]);
        (
            insists.then(|| asserted_checks(&mut phrase)).flatten()?,
            Expectation::Success,
        )
    };
    phrase.is_finished().then_some(Goal::Check { check, expectation })
}

/// What "run" is followed by.
fn run(phrase: &mut Phrase<'_>) -> Option<CheckSelection> {
    phrase.eat(&["the command", "command"]);
    if let Some(command) = phrase.take_quoted() {
        return Some(CheckSelection::Command(command_words(&command.text)?));
    }
    let selection = join_checks(project_check(phrase)?, |phrase| project_check(phrase), phrase);
    phrase.eat(&[
        "of the project",
        "of this project",
        "in the project",
        "in this project",
        "here",
    ]);
    Some(selection)
}

/// "all the tests", "the build".
fn project_check(phrase: &mut Phrase<'_>) -> Option<CheckSelection> {
    let mut ahead = *phrase;
    ahead.eat_all(&["all", "of", "the", "my", "our", "its", "a", "project's"]);
    let selection = if ahead.eat(&["tests", "test", "test suite", "testsuite", "test suites"]) {
        CheckSelection::Tests
    } else if ahead.eat(&["build", "compilation"]) {
        CheckSelection::Build
    } else if ahead.eat(&["checks"]) {
        CheckSelection::Everything
    } else {
        return None;
    };
    *phrase = ahead;
    Some(selection)
}

/// The first of several checks, and those that "and" adds.
fn join_checks<'a>(
    first: CheckSelection,
    next: impl Fn(&mut Phrase<'a>) -> Option<CheckSelection>,
    phrase: &mut Phrase<'a>,
) -> CheckSelection {
    let mut selection = first;
    loop {
        let mut ahead = *phrase;
        if !ahead.eat(&["and"]) {
            return selection;
        }
        match next(&mut ahead) {
            // A command of the user's own is run alone.
            None | Some(CheckSelection::Command(_)) => return selection,
            Some(_) if matches!(selection, CheckSelection::Command(_)) => return selection,
            Some(more) if more == selection => {}
            Some(_) => selection = CheckSelection::Everything,
        }
        *phrase = ahead;
    }
}

/// What is said to hold: "the tests pass", "it compiles", "`make` succeeds".
fn asserted_checks(phrase: &mut Phrase<'_>) -> Option<CheckSelection> {
    Some(join_checks(asserted_check(phrase)?, asserted_check, phrase))
}

fn asserted_check(phrase: &mut Phrase<'_>) -> Option<CheckSelection> {
    const PASSES: &[&str] = &[
        "pass",
        "passes",
        "succeed",
        "succeeds",
        "work",
        "works",
        "passing",
        "green",
        "run",
        "runs",
        "are green",
    ];
    let still = &["still", "all", "does", "do"];
    let mut ahead = *phrase;
    let selection = if let Some(command) = ahead.take_quoted() {
        ahead.eat_all(still);
        ahead
            .eat(PASSES)
            .then(|| command_words(&command.text))
            .flatten()
            .map(CheckSelection::Command)?
    } else if let Some(check) = project_check(&mut ahead) {
        ahead.eat_all(still);
        ahead.eat(PASSES).then_some(check)?
    } else {
        ahead.eat_all(still);
        the_project(&mut ahead);
        ahead.eat_all(still);
        if ahead.eat(&["pass", "passes"]) {
            project_check(&mut ahead).filter(|check| *check == CheckSelection::Tests)?
        } else {
            ahead
                .eat(&["compiles", "compile", "builds", "build"])
                .then_some(CheckSelection::Build)?
        }
    };
    *phrase = ahead;
    Some(selection)
}

fn the_project(phrase: &mut Phrase<'_>) {
    phrase.eat_all(&["the", "this", "my", "our", "whole"]);
    phrase.eat(&[
        "project",
        "code",
        "crate",
        "workspace",
        "package",
        "repository",
        "repo",
        "program",
        "it",
        "everything",
    ]);
}

/// Consumes that the user wants to hear of it, and says what a failure means.
fn expectation(phrase: &mut Phrase<'_>) -> Expectation {
    let mut ahead = *phrase;
    ahead.eat_all(&["and", "then"]);
    if ahead.eat(&[
        "make sure",
        "make sure that",
        "ensure",
        "verify that",
        "check that",
    ]) && ahead.eat(&[
        "they pass",
        "they all pass",
        "all pass",
        "it passes",
        "it succeeds",
        "it works",
    ]) {
        *phrase = ahead;
        return Expectation::Success;
    }
    if ahead.eat(&[
        "report",
        "tell me",
        "show me",
        "show",
        "say",
        "see",
        "report back",
    ]) {
        ahead.eat(&[
            "how it ends",
            "how they end",
            "the result",
            "the results",
            "the output",
            "what it says",
            "what happens",
            "whether they pass",
            "if they pass",
            "whether it passes",
            "if it passes",
            "whether it works",
            "if it works",
            "what fails",
            "which fail",
        ]);
        if ahead.is_finished() {
            *phrase = ahead;
        }
    }
    Expectation::Report
}

/// A command line as a program and its arguments. What only a shell understands goes to one.
fn command_words(line: &str) -> Option<Vec<String>> {
    if line.contains(['\n', '|', '&', ';', '<', '>', '$', '*', '"', '\'', '\\']) {
        return Some(vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()]);
    }
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

pub(crate) fn count(mut phrase: Phrase<'_>, mut scope: Scope) -> Option<Goal> {
    let mut ahead = phrase;
    ahead.eat(&["tell me", "show me", "find out", "report"]);
    let target = if ahead.eat(&["count", "how many", "what is the number of", "the number of"]) {
        phrase = ahead;
        number_of(&mut phrase, &mut scope)?
    } else if phrase.eat(&["list", "show", "show me", "which", "what", "what are"]) {
        phrase.eat_all(&["all", "the", "of", "me", "every"]);
        files(&mut phrase, &mut scope)?;
        CountTarget::FileNames
    } else {
        return None;
    };
    phrase.eat(&[
        "are there",
        "is there",
        "are",
        "do we have",
        "do i have",
        "does it have",
        "exist",
        "there are",
    ]);
    phrase.finish_with_scope(&mut scope)?;
    Some(Goal::Count { target, scope })
}

/// "files", "Python files".
fn files(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<()> {
    if let Some(ending) = phrase.peek().and_then(scope_clause::kind) {
        phrase.take();
        scope.endings.push(ending);
    }
    phrase.eat(&["files", "file"]).then_some(())
}

/// "the lines in src", "times does X occur": what follows "count" and "how many".
fn number_of(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<CountTarget> {
    if phrase.eat(&[
        "times does",
        "times do",
        "times is",
        "how many times does",
        "how many times is",
    ]) {
        let ends = ["occur", "appear", "used", "mentioned", "called"];
        let name = phrase.take_name(KIND, &ends)?;
        return phrase.eat(&ends).then(|| count_target(name));
    }
    phrase.eat_all(&["all", "the", "total", "number of", "of"]);
    if phrase.eat(USAGES) {
        return phrase.take_name(KIND, &["are", "in"]).map(count_target);
    }
    if phrase.eat(&["todos"]) {
        return Some(CountTarget::Word("TODO".to_owned()));
    }
    if phrase.eat(&["fixmes"]) {
        return Some(CountTarget::Word("FIXME".to_owned()));
    }
    if let Some(text) = phrase.take_quoted() {
        return Some(count_target(text));
    }
    let mut ahead = *phrase;
    if ahead.eat(&["lines", "line", "loc"]) {
        *phrase = ahead;
        return lines(phrase, scope);
    }
    let mut ahead = *phrase;
    files(&mut ahead, scope)?;
    *phrase = ahead;
    Some(CountTarget::Files)
}

/// "lines of Rust code", "lines with TODO".
fn lines(phrase: &mut Phrase<'_>, scope: &mut Scope) -> Option<CountTarget> {
    if phrase.eat(&["with", "containing", "that contain"]) {
        return phrase
            .take_name(&["the", "text", "word"], &["are"])
            .map(count_target);
    }
    if phrase.eat(&["of"]) {
        phrase.eat_all(&["all", "the"]);
        if let Some(ending) = phrase.peek().and_then(scope_clause::kind) {
            phrase.take();
            scope.endings.push(ending);
        }
        phrase.eat(&["code", "files"]).then_some(())?;
    }
    Some(CountTarget::Lines)
}

fn count_target(word: &Word) -> CountTarget {
    let name = word.text.clone();
    if is_identifier(&name) || word.is_plain() {
        CountTarget::Word(name)
    } else {
        CountTarget::Text(name)
    }
}
