#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{
    CheckSelection, CountTarget, Expectation, Goal, NewProject, ProjectLanguage, Rename, guidance_scope,
    parse,
};
use crate::scope::Scope;
use crate::words::words;

fn only(places: &[&str]) -> Scope {
    Scope {
        only: places.iter().map(|&place| place.to_owned()).collect(),
        ..Scope::default()
    }
}

fn ending(endings: &[&str]) -> Scope {
    Scope {
        endings: endings.iter().map(|&ending| ending.to_owned()).collect(),
        ..Scope::default()
    }
}

fn rename(from: &str, to: &str, scope: Scope) -> Goal {
    Goal::Rename(Rename {
        from: from.to_owned(),
        to: to.to_owned(),
        scope,
    })
}

fn find(symbol: &str, scope: Scope) -> Goal {
    Goal::FindUsages {
        symbol: symbol.to_owned(),
        scope,
    }
}

fn replace(old: &str, new: &str, scope: Scope) -> Goal {
    Goal::Replace {
        old: old.to_owned(),
        new: new.to_owned(),
        scope,
    }
}

fn run(check: CheckSelection) -> Goal {
    Goal::Check {
        check,
        expectation: Expectation::Report,
    }
}

fn ensure(check: CheckSelection) -> Goal {
    Goal::Check {
        check,
        expectation: Expectation::Success,
    }
}

fn command(words: &[&str]) -> CheckSelection {
    CheckSelection::Command(words.iter().map(|&word| word.to_owned()).collect())
}

fn count(target: CountTarget, scope: Scope) -> Goal {
    Goal::Count { target, scope }
}

fn check(cases: Vec<(&str, Goal)>) {
    for (sentence, goal) in cases {
        assert_eq!(parse(sentence), goal, "{sentence}");
    }
}

#[test]
fn renames_are_understood() {
    let everywhere = Scope::default;
    check(vec![
        (
            "Find all usages of function X and rename to Y",
            rename("X", "Y", everywhere()),
        ),
        (
            "Find all usages of function `old_name` and rename it to `new_name`.",
            rename("old_name", "new_name", everywhere()),
        ),
        (
            "find every use of the method \"a\", then rename them to 'b'",
            rename("a", "b", everywhere()),
        ),
        (
            "Find all usages of function X in src and rename to Y",
            rename("X", "Y", only(&["src"])),
        ),
        ("rename foo to bar", rename("foo", "bar", everywhere())),
        (
            "Please rename the struct Ledger to AccountBook!",
            rename("Ledger", "AccountBook", everywhere()),
        ),
        (
            "Can you rename foo() to bar()",
            rename("foo", "bar", everywhere()),
        ),
        (
            "rename all occurrences of foo to bar in src/",
            rename("foo", "bar", only(&["src"])),
        ),
        (
            "Rename foo to bar in src/utils and tests/",
            rename("foo", "bar", only(&["src/utils", "tests"])),
        ),
        (
            "Rename foo in src/lib.rs to bar",
            rename("foo", "bar", only(&["src/lib.rs"])),
        ),
        (
            "Rename Ledger to AccountBook in src",
            rename("Ledger", "AccountBook", only(&["src"])),
        ),
        (
            "change the name of foo to bar",
            rename("foo", "bar", everywhere()),
        ),
        (
            "rename foo to bar in the project",
            rename("foo", "bar", everywhere()),
        ),
        ("rename foo to 2bar", rename("foo", "2bar", everywhere())),
        ("rename foo to bar-baz", rename("foo", "bar-baz", everywhere())),
    ]);
}

#[test]
fn the_examples_of_the_documentation_are_understood() {
    let page = include_str!("../../../../docs/offline-model.md");
    let table = page.split("| --- | --- |\n").nth(1).expect("a table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(2));
    let examples: Vec<&str> = cells.flat_map(|cell| cell.split('·')).map(str::trim).collect();
    assert!(examples.len() > 20, "{examples:?}");
    for example in examples {
        assert_ne!(parse(example), Goal::Unsupported, "{example}");
    }
}

#[test]
fn a_rename_can_exclude_places() {
    let scope = Scope {
        except: vec!["tests".to_owned()],
        ..Scope::default()
    };
    check(vec![
        (
            "rename foo to bar except in tests/",
            rename("foo", "bar", scope.clone()),
        ),
        (
            "rename foo to bar, but not in `tests`",
            rename("foo", "bar", scope),
        ),
    ]);
}

#[test]
fn questions_about_usages_are_parsed() {
    check(vec![
        ("Find all usages of X", find("X", Scope::default())),
        (
            "Find all usages of `parse_amount` in src",
            find("parse_amount", only(&["src"])),
        ),
        ("where is `X` used?", find("X", Scope::default())),
        ("Where is Entry used in tests?", find("Entry", only(&["tests"]))),
        (
            "list all references to struct X in tests",
            find("X", only(&["tests"])),
        ),
        ("Find every caller of `load`", find("load", Scope::default())),
        ("Who calls report?", find("report", Scope::default())),
    ]);
}

#[test]
fn replacements_are_understood() {
    check(vec![
        (
            "Replace \"old text\" with \"new text\" in docs/",
            replace("old text", "new text", only(&["docs"])),
        ),
        (
            "replace 'colour' with 'color' in *.md",
            replace("colour", "color", ending(&[".md"])),
        ),
        (
            "Replace colour with color in all markdown files",
            replace("colour", "color", ending(&[".md"])),
        ),
        (
            "replace \"it's\" with \"it is\" in docs and README.md",
            replace("it's", "it is", only(&["docs", "README.md"])),
        ),
        (
            "replace every `x` with `y` in *.md in docs",
            replace(
                "x",
                "y",
                Scope {
                    only: vec!["docs".to_owned()],
                    ..ending(&[".md"])
                },
            ),
        ),
    ]);
}

#[test]
fn checks_are_parsed_with_their_expected_outcome() {
    check(vec![
        ("run the tests", run(CheckSelection::Tests)),
        ("Please run all tests", run(CheckSelection::Tests)),
        ("run the build", run(CheckSelection::Build)),
        ("run `cargo clippy`", run(command(&["cargo", "clippy"]))),
        (
            "run `make test | tail`",
            run(command(&["sh", "-c", "make test | tail"])),
        ),
        (
            "run `echo a\necho b`",
            run(command(&["sh", "-c", "echo a\necho b"])),
        ),
        ("Does it compile?", ensure(CheckSelection::Build)),
        ("check that the project compiles", ensure(CheckSelection::Build)),
        ("Make sure the tests pass", ensure(CheckSelection::Tests)),
        ("do the tests pass?", ensure(CheckSelection::Tests)),
        (
            "make sure that `cargo fmt --check` passes",
            ensure(command(&["cargo", "fmt", "--check"])),
        ),
    ]);
}

#[test]
fn counts_and_lists_are_understood() {
    let word = |word: &str| CountTarget::Word(word.to_owned());
    check(vec![
        (
            "count the lines in src",
            count(CountTarget::Lines, only(&["src"])),
        ),
        (
            "How many lines of Rust code are there?",
            count(CountTarget::Lines, ending(&[".rs"])),
        ),
        ("Count the lines with TODO", count(word("TODO"), Scope::default())),
        (
            "count the lines with \"two words\"",
            count(CountTarget::Text("two words".to_owned()), Scope::default()),
        ),
        ("count the files", count(CountTarget::Files, Scope::default())),
        (
            "how many files are in tests?",
            count(CountTarget::Files, only(&["tests"])),
        ),
        (
            "How many times does TODO occur?",
            count(word("TODO"), Scope::default()),
        ),
        ("count the usages of `X` in src", count(word("X"), only(&["src"]))),
        (
            "list the files in src ending in .rs",
            count(
                CountTarget::FileNames,
                Scope {
                    only: vec!["src".to_owned()],
                    ..ending(&[".rs"])
                },
            ),
        ),
    ]);
}

#[test]
fn paor_8_places_named_in_guidance_limit_the_scope() {
    let except = |place: &str| Scope {
        except: vec![place.to_owned()],
        ..Scope::default()
    };
    for (guidance, scope) in [
        ("search only in src/utils", Some(only(&["src/utils"]))),
        ("call it `read_text`, only in src", Some(only(&["src"]))),
        ("please don't touch tests/", Some(except("tests"))),
        ("leave the tests alone", Some(except("tests"))),
        ("not in `old`", Some(except("old"))),
        ("don't look in tests", None),
        ("never in docs", None),
        ("be quick", None),
        ("only in comments", None),
    ] {
        assert_eq!(guidance_scope(&words(guidance)), scope, "{guidance}");
    }
}

#[test]
fn goals_outside_the_supported_families_are_declined() {
    for sentence in [
        "",
        "write me a poem",
        "Add a function that parses dates",
        "fix the failing tests",
        "write tests for the parser",
        "explain how the parser works",
        "refactor src/lib.rs",
        "rename",
        "rename to",
        "delete all files",
        "replace the parser with a better one",
        "Improve the build time",
        "why do the tests fail?",
        "run `cargo clippy` and fix the warnings",
        "find all usages of X and delete them",
        "rename foo to bar and add a test",
        "replace `a` with `b` and commit",
        "count the TODOs and fix them",
    ] {
        assert_eq!(parse(sentence), Goal::Unsupported, "{sentence}");
    }
}

#[test]
fn a_goal_with_a_word_that_is_not_understood_is_declined() {
    for sentence in [
        // A negation or a question.
        "Do not rename Ledger to Book",
        "Don't rename Ledger to Book",
        "Never replace self with this",
        "Do not run `touch EVIL`",
        "Don't run the tests",
        "Should I rename Ledger to Book?",
        "How would I rename Ledger to Book?",
        "what happens if I rename Ledger to Book",
        "preview: rename Ledger to Book",
        "dry run: rename Ledger to Book",
        "Undo the rename of Ledger to Book",
        "run the tests and don't rename Ledger to Book",
        // More than one wish.
        "Rename Ledger to Book, and rename total to sum_all",
        "Rename Ledger to Book and total to sum_all",
        "replace colour with color and grün with blau",
        "rename Ledger to Book; run `touch EVIL`",
        "rename Ledger to Book and make sure `touch EVIL` passes",
        "Count the lines in README.md and list the files",
        "Rename classes Ledger and T to Book and U",
        "run the tests and `touch EVIL`",
        "replace `a` with `b` in docs and commit",
        // Restrictions that no tool supports.
        "rename Ledger to Book only in comments",
        "rename Ledger to Book in strings and comments",
        "rename Ledger to Book except in comments",
        "run the tests but only in src/foo.py",
        "run the tests in src/foo.py",
        "Rename Ledger to Book without running the tests",
        "Rename Ledger to Book but don't change the tests",
        "Find all usages of Ledger but do not rename it to Book",
        "rename the folder p to q",
        "Rename Ledger.add to Ledger.append",
        "Rename Ledger::add to append",
        "rename `Ledger.add` to append",
        "rename add to append except Ledger.add",
        "replace a with b in docs and *.md",
        // Things that no tool counts.
        "how many words are in README.md",
        "count words",
        "count the words in README.md",
        "how many folders are there",
        "how many functions are there in src",
    ] {
        assert_eq!(parse(sentence), Goal::Unsupported, "{sentence}");
    }
}

#[test]
fn projects_are_created_by_name_and_language() {
    let created = |name: &str, language| {
        Goal::CreateProject(NewProject {
            name: name.to_owned(),
            language,
        })
    };
    for (text, expected) in [
        (
            "Create a minimal rust project `my-app`",
            created("my-app", ProjectLanguage::Rust),
        ),
        (
            "create a new Python project called tool_2.",
            created("tool_2", ProjectLanguage::Python),
        ),
        ("Create a Rust project", Goal::Unsupported),
        ("Create a minimal Go project x", Goal::Unsupported),
        ("Create a Rust project My-App", Goal::Unsupported),
        ("Create a Rust project ../up", Goal::Unsupported),
        ("Create a Rust project app with a parser", Goal::Unsupported),
        ("Don't create a Rust project app", Goal::Unsupported),
    ] {
        assert_eq!(parse(text), expected, "{text}");
    }
}
