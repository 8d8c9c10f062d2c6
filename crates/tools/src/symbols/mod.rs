//! The tools `list_symbols` and `find_definition`: list and find definitions in source files, by their syntax.
//!
//! They compare names without resolving what a name refers to. They change nothing. A file that cannot be parsed is reported as such, and
//! its definitions are never guessed.

mod collect;

use std::time::{Duration, Instant};

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, code, display_path};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::collect::{DefinitionNode, Symbol, symbols};
use crate::blocking::{blocking, cancelled};
use crate::syntax::{DefinitionKind, Language, NO_GRAMMAR, ParseError, SkippedFile, parse};
use crate::text::TextFile;
use crate::tool::ToolContext;
use crate::typed::{TypedTool, typed};
use crate::workspace::{EntryKind, FileError, Hidden, Workspace};

/// Maximum number of symbols that one call returns.
const MAX_SYMBOLS: usize = 300;
/// Maximum number of skipped files to list.
const MAX_SKIPPED: usize = 50;
/// The largest file to parse, in bytes; larger ones are usually generated.
const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;
/// The time limit of a call. Files that were not read within the limit are left out.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of similar names to suggest for a name that was not found.
const MAX_SIMILAR: usize = 5;
/// Maximum length of a name that is compared for similarity, in bytes.
const MAX_COMPARED_BYTES: usize = 300;

const LIST: &str = "Lists what source files define (Rust, Python, JS, TS, Go), with line and signature.";
const FIND: &str = "Finds where a function, type, constant, macro or module is defined (Rust, Python, JS, TS, Go), with line and \
    signature. Fields, local variables and imports do not count.";

/// The parameters of `list_symbols`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListParameters {
    path: Option<String>,
    #[serde(default)]
    paths: Vec<String>,
    /// Such as `function`, `struct`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    kinds: Vec<DefinitionKind>,
    /// 1 for the top level only, 2 with its members.
    #[schemars(range(min = 1))]
    depth: Option<usize>,
}

/// The parameters of `find_definition`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindParameters {
    /// `parse_line`, or with its container: `Parser::next`.
    name: String,
    /// Such as `function`, `struct`.
    #[schemars(with = "Option<String>")]
    kind: Option<DefinitionKind>,
    #[serde(default)]
    paths: Vec<String>,
}

/// The tool `list_symbols`. Its output has one line per symbol: the line, the kind, the name after the type or module that encloses it, and
/// the signature.
///
/// ```text
/// 2 symbols
/// Syntax errors: src/b.rs
///
/// src/a.rs
/// 3 struct Parser | pub struct Parser<'a>
/// 12 method Parser::next | pub fn next(&mut self) -> Token
/// ```
///
/// At most 300 symbols are shown; the first line counts all. Names are truncated to 100 characters, and only the 20 innermost containers are
/// named. Notes follow the first line: files with syntax errors, whose symbols are shown as far as they could be parsed; files that were not
/// read (unknown languages, if `path` or `paths` name the file itself; more than 2 MiB; not text); and that the call reached its time limit
/// of 20 s.
///
/// Ignored and hidden files are read only if `path` or `paths` name them. Failures have the codes of [`FileError::code`] and
/// `cancelled`.
pub fn list_symbols() -> TypedTool {
    typed(
        "list_symbols",
        LIST,
        move |context, parameters: ListParameters| {
            blocking(context, move |context| {
                let mut paths = parameters.paths.clone();
                paths.extend(parameters.path.clone());
                let wanted = |symbol: &DefinitionNode<'_, '_>| {
                    (parameters.kinds.is_empty() || parameters.kinds.contains(&symbol.kind))
                        && parameters.depth.is_none_or(|depth| symbol.depth <= depth)
                };
                match SymbolReport::collect(context, &paths, "", wanted) {
                    Ok(report) => ToolResult::success(report.text(&[]).into()).as_list(),
                    Err(error) => error.into_result(),
                }
            })
        },
    )
    .category(ToolCategory::Code)
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
    .example(json!({"path": "src/parser.rs", "kinds": ["function", "method"]}))
}

/// The tool `find_definition`. Its output has the same form as the output of [`list_symbols`]. If the name is
/// not defined, the call succeeds without symbols, and its output suggests up to five similar defined names.
/// An empty name fails with the code `bad_parameters`.
pub fn find_definition() -> TypedTool {
    typed(
        "find_definition",
        FIND,
        move |context, parameters: FindParameters| {
            blocking(context, move |context| match find(context, &parameters) {
                Ok(output) => ToolResult::success(output.into()).as_list(),
                Err(error) => error.into_result(),
            })
        },
    )
    .category(ToolCategory::Code)
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
    .example(json!({"name": "parse_line", "kind": "function"}))
}

fn find(context: &ToolContext, parameters: &FindParameters) -> Result<String, SymbolError> {
    let name = parameters.name.trim().trim_end_matches("()");
    let qualified = name.rsplit_once("::").or_else(|| name.rsplit_once('.'));
    let (container, name) = qualified.map_or((None, name), |(container, name)| (Some(container), name));
    // Only the last part of a container path such as `a::b` must appear in the file itself.
    let container = container.map(|path| path.rsplit([':', '.']).next().unwrap_or(path));
    if name.is_empty() {
        return Err(SymbolError::NoName);
    }
    let wanted = |symbol: &DefinitionNode<'_, '_>| {
        symbol.name == name
            && parameters.kind.is_none_or(|kind| kind == symbol.kind)
            && container.is_none_or(|container| symbol.is_in(container))
    };
    let report = SymbolReport::collect(context, &parameters.paths, name, wanted)?;
    let similar = match report.total {
        0 => similar(context, &parameters.paths, name)?,
        _ => Vec::new(),
    };
    Ok(report.text(&similar))
}

/// Returns the defined names that are most similar to an undefined name, best first.
fn similar(context: &ToolContext, paths: &[String], name: &str) -> Result<Vec<String>, SymbolError> {
    let mut names: Vec<(f64, String)> = Vec::new();
    if name.len() > MAX_COMPARED_BYTES {
        return Ok(Vec::new());
    }
    SymbolReport::collect(context, paths, "", |symbol| {
        if symbol.name.len() <= MAX_COMPARED_BYTES {
            let score = strsim::normalized_levenshtein(symbol.name, name);
            if score > 0.6 && !names.iter().any(|(_, known)| known == symbol.name) {
                names.push((score, symbol.name.to_owned()));
                names.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
                names.truncate(MAX_SIMILAR);
            }
        }
        false
    })?;
    Ok(names.into_iter().map(|(_, name)| name).collect())
}

/// Reason why a call failed.
enum SymbolError {
    Cancelled,
    NoName,
    File(FileError),
}

impl SymbolError {
    fn into_result(self) -> ToolResult {
        match self {
            SymbolError::Cancelled => cancelled(),
            SymbolError::NoName => {
                ToolResult::failure("`name` is empty: give the name to find").with_code(code::BAD_PARAMETERS)
            }
            SymbolError::File(error) => error.failure(),
        }
    }
}

/// The output of both tools.
#[derive(Default)]
struct SymbolReport {
    /// The first symbols, grouped by file.
    symbols: Vec<Symbol>,
    total: usize,
    /// The number of files that were parsed.
    files: usize,
    syntax_errors: Vec<String>,
    skipped: Vec<SkippedFile>,
    note: Option<&'static str>,
}

impl SymbolReport {
    /// Collects the `wanted` symbols of the files that contain the text `name`, or of all files if `name` is empty.
    fn collect(
        context: &ToolContext,
        paths: &[String],
        name: &str,
        mut wanted: impl FnMut(&DefinitionNode<'_, '_>) -> bool,
    ) -> Result<SymbolReport, SymbolError> {
        let workspace = Workspace::from_context(context).map_err(SymbolError::File)?;
        let mut report = SymbolReport::default();
        for path in paths {
            let kind = workspace.kind(path).map_err(SymbolError::File)?;
            if kind != EntryKind::Folder && Language::from_path(path).is_none() {
                report.skip(path, NO_GRAMMAR);
            }
        }
        let end = Instant::now() + TIME_LIMIT;
        for path in workspace.walk(paths, Hidden::Skip).map_err(SymbolError::File)? {
            if context.cancel.is_cancelled() {
                return Err(SymbolError::Cancelled);
            }
            if Instant::now() > end {
                report.note =
                    Some("the time limit was reached before all files were read: give only relevant `paths`");
                break;
            }
            if let Some(language) = Language::from_path(&path) {
                report.read(context, &workspace, language, path, (name, end), &mut wanted)?;
            }
        }
        Ok(report)
    }

    /// Formats the output. `similar` are names to suggest if nothing was found.
    fn text(&self, similar: &[String]) -> String {
        let files = if self.files == 1 { "file" } else { "files" };
        let mut text = match self.total {
            0 => format!("No symbols; {} {files} read", self.files),
            1 => "1 symbol".to_owned(),
            total => format!("{total} symbols"),
        };
        if self.total > self.symbols.len() {
            let shown = self.symbols.len();
            text.push_str(&format!(
                "; only the first {shown} are shown: narrow `paths` or `kinds`"
            ));
        }
        let mut note = |name: &str, values: &[String]| {
            if !values.is_empty() {
                text.push_str(&format!("\n{name}: {}", values.join(", ")));
            }
        };
        note("Similar names", similar);
        let syntax_errors: Vec<String> = self.syntax_errors.iter().map(|path| display_path(path)).collect();
        note("Syntax errors", &syntax_errors);
        let skipped = self.skipped.iter();
        let skipped: Vec<String> = skipped
            .map(|file| format!("{} ({})", display_path(&file.path), file.reason))
            .collect();
        note("Not read", &skipped);
        if let Some(note) = self.note {
            text.push_str(&format!("\nNote: {note}"));
        }
        let mut path = None;
        for symbol in &self.symbols {
            if path != Some(&symbol.path) {
                text.push_str(&format!("\n\n{}", display_path(&symbol.path)));
                path = Some(&symbol.path);
            }
            text.push_str(&format!("\n{symbol}"));
        }
        text
    }

    fn read(
        &mut self,
        context: &ToolContext,
        workspace: &Workspace,
        language: Language,
        path: String,
        (name, end): (&str, Instant),
        wanted: &mut impl FnMut(&DefinitionNode<'_, '_>) -> bool,
    ) -> Result<(), SymbolError> {
        let read = || {
            let bytes = workspace.read(&path)?;
            match bytes.len() > MAX_FILE_BYTES {
                true => Ok(None),
                false => TextFile::decode(&path, &bytes).map(Some),
            }
        };
        let file = match read() {
            Ok(Some(file)) if file.text.contains(name) => file,
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {
                self.skip(&path, "it is larger than 2 MiB");
                return Ok(());
            }
            Err(error) => {
                self.skip(&path, &error.to_string());
                return Ok(());
            }
        };
        let stop = || context.cancel.is_cancelled() || Instant::now() > end;
        let tree = match parse(language, &file.text, stop) {
            Ok(tree) => tree,
            Err(ParseError::Cancelled) if context.cancel.is_cancelled() => {
                return Err(SymbolError::Cancelled);
            }
            Err(ParseError::Cancelled) => {
                self.skip(&path, "it was not parsed within the time limit");
                return Ok(());
            }
            Err(ParseError::Grammar(reason)) => {
                self.skip(&path, &reason);
                return Ok(());
            }
        };
        self.files += 1;
        if tree.root_node().has_error() && self.syntax_errors.len() < MAX_SKIPPED {
            self.syntax_errors.push(path.clone());
        }
        let whole = symbols(&tree, language, &file.text, stop, |found| {
            if wanted(found) {
                self.total += 1;
                if self.symbols.len() < MAX_SYMBOLS {
                    self.symbols.push(found.symbol(&path));
                }
            }
        });
        if context.cancel.is_cancelled() {
            return Err(SymbolError::Cancelled);
        }
        if !whole {
            self.skip(&path, "it was only partly read within the time limit");
        }
        Ok(())
    }

    fn skip(&mut self, path: &str, reason: &str) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(SkippedFile {
                path: path.to_owned(),
                reason: reason.to_owned(),
            });
        }
    }
}
