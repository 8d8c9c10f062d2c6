//! Kinds of files, identified by their extension.

use crate::words::Word;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    Go,
    /// Documentation, which no build reads.
    Prose,
    /// Data and settings.
    Data,
}

/// For each language or format: its name in goals, its kind, and its file extensions, the usual extension first.
const KINDS: &[(&str, FileKind, &[&str])] = &[
    ("rust", FileKind::Rust, &["rs"]),
    ("python", FileKind::Python, &["py", "pyi", "pyw"]),
    ("javascript", FileKind::JavaScript, &["js", "jsx", "mjs", "cjs"]),
    ("typescript", FileKind::TypeScript, &["ts", "tsx", "mts", "cts"]),
    ("go", FileKind::Go, &["go"]),
    ("markdown", FileKind::Prose, &["md"]),
    ("text", FileKind::Prose, &["txt"]),
    ("restructuredtext", FileKind::Prose, &["rst"]),
    ("asciidoc", FileKind::Prose, &["adoc"]),
    ("toml", FileKind::Data, &["toml"]),
    ("json", FileKind::Data, &["json"]),
    ("yaml", FileKind::Data, &["yaml", "yml"]),
];

impl FileKind {
    /// Returns the kind of a file; `None` if its extension is not known.
    pub fn from_path(path: &str) -> Option<FileKind> {
        let (_, extension) = path.rsplit_once('.')?;
        let known = KINDS
            .iter()
            .find(|(_, _, extensions)| extensions.contains(&extension));
        known.map(|(_, kind, _)| *kind)
    }

    /// Returns true if `rename_symbol` can parse files of this kind.
    pub fn has_grammar(self) -> bool {
        match self {
            FileKind::Rust
            | FileKind::Python
            | FileKind::JavaScript
            | FileKind::TypeScript
            | FileKind::Go => true,
            FileKind::Prose | FileKind::Data => false,
        }
    }

    /// Returns true if a compiler reports every undefined name.
    pub fn is_compiled(self) -> bool {
        match self {
            FileKind::Rust | FileKind::Go => true,
            FileKind::Python
            | FileKind::JavaScript
            | FileKind::TypeScript
            | FileKind::Prose
            | FileKind::Data => false,
        }
    }
}

/// Returns the file extension for the name of a kind of file: `.md` for "markdown".
pub(crate) fn ending_of_kind(word: &Word) -> Option<String> {
    let (_, _, extensions) = KINDS.iter().find(|(name, _, _)| word.is_any(&[name]))?;
    extensions.first().map(|extension| format!(".{extension}"))
}

/// Returns true if the text ends with an extension of a known kind.
pub(crate) fn has_known_extension(text: &str) -> bool {
    FileKind::from_path(text).is_some()
}
