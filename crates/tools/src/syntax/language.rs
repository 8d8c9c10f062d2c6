//! The supported languages: their file extensions, and the rules for their identifiers.

use std::fmt;

/// A language with a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    Tsx,
    Go,
}

/// The prefix of Rust's raw identifiers, such as `r#type`.
const RAW: &str = "r#";

impl Language {
    /// Returns the language of a file by its extension; `None` for other files.
    pub(crate) fn from_path(path: &str) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        Some(match extension {
            "rs" => Language::Rust,
            "py" | "pyi" | "pyw" => Language::Python,
            "js" | "jsx" | "mjs" | "cjs" => Language::JavaScript,
            "ts" | "mts" | "cts" => Language::TypeScript,
            "tsx" => Language::Tsx,
            "go" => Language::Go,
            _ => return None,
        })
    }

    pub(crate) fn grammar(self) -> tree_sitter::Language {
        match self {
            Language::Rust => tree_sitter_rust::LANGUAGE,
            Language::Python => tree_sitter_python::LANGUAGE,
            Language::JavaScript => tree_sitter_javascript::LANGUAGE,
            Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
            Language::Go => tree_sitter_go::LANGUAGE,
        }
        .into()
    }

    /// Returns the reason why `name` cannot be an identifier of this language; `None` if it can.
    pub(crate) fn identifier_error(self, name: &str) -> Option<String> {
        if let (Language::Rust, Some(raw)) = (self, name.strip_prefix(RAW)) {
            let never = ["crate", "self", "super", "Self", "_"];
            return (never.contains(&raw) || !self.is_word(raw))
                .then(|| format!("`{name}` is not a raw identifier of Rust"));
        }
        if !self.is_word(name) {
            return Some(format!("`{name}` is not an identifier of {self}"));
        }
        self.keywords()
            .contains(&name)
            .then(|| format!("`{name}` is a keyword of {self}"))
    }

    fn is_word(self, name: &str) -> bool {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_numeric())
            && name.chars().all(|character| self.is_word_character(character))
    }

    /// Returns true if the character can be part of an identifier.
    pub(crate) fn is_word_character(self, character: char) -> bool {
        let dollar = match self {
            Language::JavaScript | Language::TypeScript | Language::Tsx => character == '$',
            Language::Rust | Language::Python | Language::Go => false,
        };
        dollar || character == '_' || character.is_alphanumeric()
    }

    /// Returns the name of an identifier without the prefix `r#`: `r#type` and `type` are the same name in Rust.
    pub(crate) fn name_of(self, identifier: &str) -> &str {
        match self {
            Language::Rust => plain(identifier),
            Language::Python | Language::JavaScript | Language::TypeScript | Language::Tsx | Language::Go => {
                identifier
            }
        }
    }

    fn keywords(self) -> &'static [&'static str] {
        match self {
            Language::Rust => RUST,
            Language::Python => PYTHON,
            Language::JavaScript | Language::TypeScript | Language::Tsx => JAVASCRIPT,
            Language::Go => GO,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::Rust => "Rust",
            Language::Python => "Python",
            Language::JavaScript => "JavaScript",
            Language::TypeScript | Language::Tsx => "TypeScript",
            Language::Go => "Go",
        })
    }
}

/// Returns the name without the prefix `r#`.
pub(crate) fn plain(name: &str) -> &str {
    name.strip_prefix(RAW).unwrap_or(name)
}

/// Returns true if the characters form an identifier in any of the languages.
pub(crate) fn is_name(name: &str) -> bool {
    Language::JavaScript.is_word(plain(name))
}

/// The keywords of all editions, including reserved keywords.
const RUST: &[&str] = &[
    "_", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
    "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

const PYTHON: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// The keywords in modules, where strict mode always applies. TypeScript forbids no additional words as names
/// of values.
const JAVASCRIPT: &[&str] = &[
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

const GO: &[&str] = &[
    "_",
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];
