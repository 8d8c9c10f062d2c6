//! PAOR-2 and HOST-4 on projects that were not made for these tests: a published crate, a Python package, and projects whose tools are not
//! installed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use dirigent_tests::cli::{Ended, Place, cargo, copy, ended, root};
use serde_json::Value;

/// The source folder of a crate that is a dependency of these tests, in cargo's registry.
fn published(name: &str, version: &str) -> PathBuf {
    // Queries a package that depends on this crate alone: `cargo metadata` of this workspace fails if the dependencies for other platforms
    // were never downloaded.
    let place = Place::new();
    place.write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"reader\"\nedition = \"2024\"\n\n[dependencies]\n{name} = \"{version}\"\n"
        ),
    );
    place.write("src/lib.rs", "");
    let output = ended(
        cargo()
            .args([
                "metadata",
                "--format-version",
                "1",
                "--offline",
                "--manifest-path",
            ])
            .arg(place.work().join("Cargo.toml"))
            // Uses the cargo settings with which the crate was downloaded.
            .current_dir(root()),
    )
    .with_code(0);
    let metadata: Value = serde_json::from_str(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == name).unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().to_owned()
}

/// The lines of the project's files that contain the word, as `path: line`.
fn lines_with(place: &Place, word: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut lines = Vec::new();
    for (path, content) in place.files() {
        for line in String::from_utf8_lossy(&content).lines() {
            if line.split(|c| !is_word(c)).any(|found| found == word) {
                lines.push(format!("{path}: {}", line.trim()));
            }
        }
    }
    lines
}

/// The lines of code that contain the word, without comments.
fn code_with(place: &Place, word: &str) -> Vec<String> {
    let mut lines = lines_with(place, word);
    lines.retain(|line| {
        let (path, text) = line.split_once(": ").unwrap();
        path.ends_with(".rs") && !text.starts_with("//")
    });
    lines
}

/// Runs the goal again, and checks that its old name no longer exists and that nothing is changed.
fn assert_nothing_more_to_do(place: &Place, goal: &str) -> Ended {
    let before = place.files();
    let again = place.run(goal).with_code(1);
    assert!(
        again.stdout.contains("There is no function or other symbol "),
        "{again}"
    );
    assert!(
        again
            .stdout
            .contains("was renamed before, nothing is left to do. Nothing was changed."),
        "{again}"
    );
    assert!(place.files() == before, "the second run changed files: {again}");
    again
}

#[test]
fn paor_2_a_function_of_a_published_crate_is_renamed_in_all_its_modules() {
    let place = Place::new();
    copy(&published("heck", "0.5"), &place.work());
    let mentions_before = lines_with(&place, "lowercase").len() - code_with(&place, "lowercase").len();
    assert_eq!(
        code_with(&place, "lowercase").len(),
        8,
        "{:?}",
        code_with(&place, "lowercase")
    );
    let goal = "Find all usages of function lowercase and rename it to write_lowercase";

    let run = place.run(goal).with_code(0);

    assert_eq!(code_with(&place, "lowercase"), Vec::<String>::new());
    assert_eq!(
        code_with(&place, "write_lowercase"),
        [
            "src/kebab.rs: use crate::{write_lowercase, transform};",
            "src/kebab.rs: transform(self.0.as_ref(), write_lowercase, |f| write!(f, \"-\"), f)",
            "src/lib.rs: fn write_lowercase(s: &str, f: &mut fmt::Formatter) -> fmt::Result {",
            "src/lib.rs: write_lowercase(&s[i..], f)?;",
            "src/lower_camel.rs: use crate::{capitalize, write_lowercase, transform};",
            "src/lower_camel.rs: write_lowercase(s, f)",
            "src/snake.rs: use crate::{write_lowercase, transform};",
            "src/snake.rs: transform(self.0.as_ref(), write_lowercase, |f| write!(f, \"_\"), f)",
        ]
    );
    assert_eq!(lines_with(&place, "lowercase").len(), mentions_before);
    assert!(
        run.stdout
            .contains("Renamed `lowercase` to `write_lowercase`: 8 usages in "),
        "{run}"
    );
    assert!(
        run.stdout.contains(
            "Confirmed by `cargo check --all-targets` and `cargo test`. No usage of `lowercase` is left"
        ),
        "{run}"
    );
    assert!(
        run.stdout
            .contains("Left alone: 9 lines with `lowercase` in a string"),
        "{run}"
    );
    let mut tests = Command::new("cargo");
    place.settle(&mut tests);
    let _ = ended(tests.args(["test", "--offline"]).current_dir(place.work())).with_code(0);
    assert_nothing_more_to_do(&place, goal);
}

#[test]
fn paor_2_a_function_of_a_python_package_is_renamed_and_checked_by_its_own_tests() {
    let place = Place::new();
    place.write("shop/__init__.py", "from shop.price import parse_price\n");
    place.write(
        "shop/price.py",
        "def parse_price(text):\n    \"\"\"parse_price reads '1.50' as cents.\"\"\"\n    whole, _, cents = text.partition('.')\n    \
         return int(whole) * 100 + int(cents or 0)\n",
    );
    place.write(
        "shop/cart.py",
        "from . import price\n\n\ndef total(lines):\n    # what parse_price refuses is an error here too\n    \
         return sum(price.parse_price(line) for line in lines)\n",
    );
    place.write(
        "tests/test_shop.py",
        "import unittest\n\nfrom shop import cart, parse_price\n\n\nclass Prices(unittest.TestCase):\n    \
         def test_a_price(self):\n        self.assertEqual(parse_price('1.50'), 150)\n\n    \
         def test_a_total(self):\n        self.assertEqual(cart.total(['1.50', '2.25']), 375)\n",
    );
    place.write("tests/__init__.py", "");
    place.write("README.md", "`parse_price` reads prices.\n");
    let goal = "rename the function parse_price to read_price";

    let run = place.run(goal).with_code(0);

    assert_eq!(
        lines_with(&place, "read_price"),
        [
            "shop/__init__.py: from shop.price import read_price",
            "shop/cart.py: return sum(price.read_price(line) for line in lines)",
            "shop/price.py: def read_price(text):",
            "tests/test_shop.py: from shop import cart, read_price",
            "tests/test_shop.py: self.assertEqual(read_price('1.50'), 150)",
        ]
    );
    assert_eq!(
        lines_with(&place, "parse_price"),
        [
            "README.md: `parse_price` reads prices.",
            "shop/cart.py: # what parse_price refuses is an error here too",
            "shop/price.py: \"\"\"parse_price reads '1.50' as cents.\"\"\"",
        ]
    );
    assert!(
        run.stdout
            .contains("Confirmed by `python3 -B -m unittest discover -s tests -t .` (2 tests passed)."),
        "{run}"
    );
    assert!(
        run.stdout
            .contains("Left alone: 3 lines with `parse_price` in a string"),
        "{run}"
    );
    assert_nothing_more_to_do(&place, goal);
}

/// Runs the goal with a `PATH` without programs.
fn run_without_programs(place: &Place, goal: &str) -> Ended {
    let nowhere = place.folder().join("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    ended(
        place
            .command(["run", goal, "--workspace", "work"])
            .env("PATH", nowhere),
    )
}

#[test]
fn paor_2_a_go_project_is_renamed_without_go_and_the_summary_says_so() {
    let place = Place::new();
    place.write("go.mod", "module example.org/shop\n\ngo 1.21\n");
    place.write(
        "price.go",
        "package shop\n\n// parsePrice reads cents.\nfunc parsePrice(text string) int { return len(text) }\n",
    );
    place.write(
        "cart.go",
        "package shop\n\nfunc total(line string) int { return parsePrice(line) }\n",
    );

    let run = run_without_programs(&place, "rename the function parsePrice to readPrice").with_code(0);

    assert_eq!(
        lines_with(&place, "readPrice"),
        [
            "cart.go: func total(line string) int { return readPrice(line) }",
            "price.go: func readPrice(text string) int { return len(text) }",
        ]
    );
    assert_eq!(
        lines_with(&place, "parsePrice"),
        ["price.go: // parsePrice reads cents."]
    );
    assert!(
        run.stdout.contains(
            "There is nothing here to build or test these files with, so only a search confirms the result. (`go` is not installed.)"
        ),
        "{run}"
    );
}

#[test]
fn paor_2_a_javascript_project_without_tests_is_renamed_and_the_summary_says_so() {
    let place = Place::new();
    place.write("package.json", "{ \"name\": \"shop\", \"type\": \"module\" }\n");
    place.write(
        "src/price.js",
        "export function parsePrice(text) { return Number(text); }\n",
    );
    place.write(
        "src/cart.js",
        "import { parsePrice } from \"./price.js\";\nexport const total = (lines) => lines.map(parsePrice);\n",
    );

    let run = run_without_programs(&place, "rename the function parsePrice to readPrice").with_code(0);

    assert_eq!(
        lines_with(&place, "readPrice"),
        [
            "src/cart.js: import { readPrice } from \"./price.js\";",
            "src/cart.js: export const total = (lines) => lines.map(readPrice);",
            "src/price.js: export function readPrice(text) { return Number(text); }",
        ]
    );
    assert_eq!(lines_with(&place, "parsePrice"), Vec::<String>::new());
    assert!(
        run.stdout
            .contains("There is nothing here to build or test these files with, so only a search confirms the result. No usage of"),
        "{run}"
    );
}
