//! The tools `list_symbols` and `find_definition`: list and find definitions in source files, by their syntax.
//!
//! They compare names without resolving what a name refers to. They change nothing. A file that cannot be parsed is reported as such, and
//! its definitions are never guessed.

mod collect;

use std::time::{Duration, Instant};

use dirigent_core::tool::{Access, Repeat, ToolResult, code};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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

const LIST: &str = "Lists what source files define (Rust, Python, JavaScript, TypeScript, Go): functions, methods, types, constants, modules \
    and so on, each with its line and signature. The quickest way to see the structure of a file or a folder.";
const FIND: &str = "Finds where a name is defined in the source files of the workspace (Rust, Python, JavaScript, TypeScript, Go), by their \
    syntax: each function, method, type, constant, macro or module of exactly that name, with its file, line and signature. Fields, local \
    variables and imports are not definitions here; `search` finds every mention.";

/// The parameters of `list_symbols`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListParameters {
    /// A file or folder.
    path: Option<String>,
    /// Several files or folders. If neither `path` nor `paths` is given: the whole workspace.
    #[serde(default)]
    paths: Vec<String>,
    /// The kinds of symbols to list; default: all.
    #[serde(default)]
    kinds: Vec<DefinitionKind>,
    /// The nesting depth: 1 for the top level of a file only, 2 including the members of top-level symbols, such as methods; default: all.
    #[schemars(range(min = 1))]
    depth: Option<usize>,
}

/// The parameters of `find_definition`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindParameters {
    /// The name alone, such as `parse_line`, or with its container, such as `Parser::next` or `Parser.next`.
    name: String,
    /// The kind of the definition; default: any.
    kind: Option<DefinitionKind>,
    /// The files or folders to search; default: the whole workspace.
    #[serde(default)]
    paths: Vec<String>,
}

/// The tool `list_symbols`. In its output, `container` is the type or module that encloses a symbol:
///
/// ```json
/// {
///   "symbols": [{"kind": "method", "name": "next", "container": "Parser", "path": "src/a.rs", "line": 12, "signature": "pub fn next(&mut self) -> Token"}],
///   "total": 1, "files": 1,
///   "syntax_errors": ["src/b.rs"],
///   "skipped": [{"path": "README.md", "reason": "…"}],
///   "note": "…"
/// }
/// ```
///
/// At most 300 symbols are returned; `total` counts all. Names are truncated to 100 characters, and only the 20 innermost containers are
/// named. `syntax_errors` lists files with syntax errors; their symbols are returned as far as they could be parsed. `skipped` lists files
/// that were not read: unknown languages (if `path` or `paths` name the file itself), more than 2 MiB, not text. `note` is set if the call
/// reached its time limit of 20 s. `syntax_errors`, `skipped` and `note` are omitted if they are empty.
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
                    Ok(report) => ToolResult::success(json!(report)),
                    Err(error) => error.into_result(),
                }
            })
        },
    )
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
    .example(json!({"path": "src/parser.rs", "kinds": ["function", "method"]}))
}

/// The tool `find_definition`. Its output has the same fields as the output of [`list_symbols`]. If the name is not defined, the call
/// succeeds without `symbols`, and `similar` has up to five names that are defined. An empty name fails with the code `bad_parameters`.
pub fn find_definition() -> TypedTool {
    typed(
        "find_definition",
        FIND,
        move |context, parameters: FindParameters| {
            blocking(context, move |context| match find(context, &parameters) {
                Ok(output) => ToolResult::success(output),
                Err(error) => error.into_result(),
            })
        },
    )
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
    .example(json!({"name": "parse_line", "kind": "function"}))
}

fn find(context: &ToolContext, parameters: &FindParameters) -> Result<Value, SymbolError> {
    let name = parameters.name.trim().trim_end_matches("()");
    let qualified = name.rsplit_once("::").or_else(|| name.rsplit_once('.'));
    let (container, name) = qualified.map_or((None, name), |(container, name)| (Some(container), name));
    // Of a container path such as `a::b`, only the last part must appear in the file itself.
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
    let mut output = json!(report);
    if report.total == 0 {
        output["similar"] = json!(similar(context, &parameters.paths, name)?);
    }
    Ok(output)
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
#[derive(Default, Serialize)]
struct SymbolReport {
    symbols: Vec<Symbol>,
    total: usize,
    files: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    syntax_errors: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
