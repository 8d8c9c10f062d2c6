//! The files of new projects, and the commands that test them.

use super::goal::{NewProject, ProjectLanguage};

/// Returns the language as it is written in a sentence.
pub(crate) fn language_name(project: &NewProject) -> &'static str {
    match project.language {
        ProjectLanguage::Rust => "Rust",
        ProjectLanguage::Python => "Python",
    }
}

/// Returns the command that runs the project's test in its folder.
pub(crate) fn test_command(project: &NewProject) -> Vec<String> {
    let words: &[&str] = match project.language {
        ProjectLanguage::Rust => &["cargo", "test"],
        ProjectLanguage::Python => &["python3", "-B", "-m", "unittest", "discover"],
    };
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Returns the paths and contents of the project's files.
pub(crate) fn files(project: &NewProject) -> Vec<(String, String)> {
    let name = &project.name;
    let module = name.replace('-', "_");
    let files: Vec<(String, &str)> = match project.language {
        ProjectLanguage::Rust => vec![
            ("Cargo.toml".to_owned(), CARGO_TOML),
            ("src/main.rs".to_owned(), MAIN_RS),
            (".gitignore".to_owned(), "/target\n"),
        ],
        ProjectLanguage::Python => vec![
            ("pyproject.toml".to_owned(), PYPROJECT_TOML),
            (format!("{module}.py"), MODULE_PY),
            (format!("test_{module}.py"), TEST_PY),
            (".gitignore".to_owned(), "__pycache__/\n"),
        ],
    };
    let filled = |content: &str| content.replace("NAME", name).replace("MODULE", &module);
    files
        .into_iter()
        .map(|(path, content)| (format!("{name}/{path}"), filled(content)))
        .collect()
}

const CARGO_TOML: &str = "\
[package]
name = \"NAME\"
version = \"0.1.0\"
edition = \"2024\"

# Keeps the project apart from a workspace around it.
[workspace]
";

const MAIN_RS: &str = "\
fn main() {
    println!(\"{}\", greeting(\"world\"));
}

fn greeting(name: &str) -> String {
    format!(\"Hello, {name}!\")
}

#[cfg(test)]
mod tests {
    use super::greeting;

    #[test]
    fn a_greeting_has_the_name() {
        assert_eq!(greeting(\"you\"), \"Hello, you!\");
    }
}
";

const PYPROJECT_TOML: &str = "\
[project]
name = \"NAME\"
version = \"0.1.0\"
requires-python = \">=3.9\"
";

const MODULE_PY: &str = "\
def greeting(name):
    return f\"Hello, {name}!\"


if __name__ == \"__main__\":
    print(greeting(\"world\"))
";

const TEST_PY: &str = "\
import unittest

from MODULE import greeting


class GreetingTest(unittest.TestCase):
    def test_a_greeting_has_the_name(self):
        self.assertEqual(greeting(\"you\"), \"Hello, you!\")
";
