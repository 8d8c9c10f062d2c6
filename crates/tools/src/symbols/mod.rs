//! The tools `list_symbols` and `find_definition`: what source files define, by their syntax.
//!
//! They go by names, not by what a name refers to, and read only: a file that cannot be parsed is named, never guessed at.

mod collect;

use std::time::{Duration, Instant};

use dirigent_core::tool::{Access, Repeat, ToolResult, code};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::collect::{DefinitionNode, Symbol, symbols};
use crate::blocking::{blocking, cancelled};
use crate::syntax::{DefinitionKind, Language, ParseError, parse};
use crate::text::TextFile;
use crate::workspace::{FileError, Hidden, Kind, Workspace};
use crate::{ToolContext, TypedTool, typed};

/// The most symbols that one call returns.
const MAX_SYMBOLS: usize = 300;
/// The most files that are named as skipped.
const MAX_SKIPPED: usize = 50;
/// Larger files are skipped: they are made by programs.
const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;
/// After this no further file is looked at.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// How many names are suggested for one that was not found.
const MAX_SIMILAR: usize = 5;
/// Longer names are not compared with it, in bytes.
const MAX_COMPARED_BYTES: usize = 300;

const LIST: &str = "Lists what source files define (Rust, Python, JavaScript, TypeScript, Go): functions, methods, types, constants, modules \
    and so on, each with its line and signature. The quickest way to see how a file or a folder is built.";
const FIND: &str = "Finds where a name is defined in the source files of the workspace (Rust, Python, JavaScript, TypeScript, Go), by their \
    syntax: each function, method, type, constant, macro or module of exactly that name, with its file, line and signature. Fields, local \
    variables and imports are not definitions here; `search` finds every mention.";

/// The parameters of `list_symbols`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListParameters {
    /// A file or folder.
    path: Option<String>,
    /// Several of them; all of the workspace if neither is given.
    #[serde(default)]
    paths: Vec<String>,
    /// Only symbols of these kinds; all by default.
    #[serde(default)]
    kinds: Vec<DefinitionKind>,
    /// How deep to go: 1 for what stands at the top of a file alone, 2 with what is in that, such as methods; default all.
    #[schemars(range(min = 1))]
    depth: Option<usize>,
}

/// The parameters of `find_definition`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindParameters {
    /// The name alone, such as `parse_line`, or with what it is in, such as `Parser::next` or `Parser.next`.
    name: String,
    /// Only what is of this kind.
    kind: Option<DefinitionKind>,
    /// Files or folders to look in; all of the workspace by default.
    #[serde(default)]
    paths: Vec<String>,
}

/// The tool `list_symbols`. Its output, where `container` is what a symbol is in:
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
/// At most 300 symbols are returned; `total` counts all. Names are cut after 100 characters, and of what a symbol is in, the 20 innermost
/// are named. `syntax_errors` are files that do not fit their grammar: what could be read of
/// them is there. `skipped` are files that were not read: unknown languages, where `path` or `paths` names them, more than 2 MiB, no text.
/// `note` says where the time of 20 seconds was not enough. The last three are there only where there is something in them.
///
/// Ignored and hidden files are looked at only where they are named. The codes of its failures are those of files (`not_found`,
/// `outside_workspace`, …) and `cancelled`.
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
                    Err(stop) => stop.into_result(),
                }
            })
        },
    )
    .access(Access::ReadOnly)
    .repeat(Repeat::Safe)
    .example(json!({"path": "src/parser.rs", "kinds": ["function", "method"]}))
}

/// The tool `find_definition`. Its output is that of [`list_symbols`]; where nothing of that name is defined it is a success with no
/// `symbols`, and `similar` has up to five names that are.
pub fn find_definition() -> TypedTool {
    typed(
        "find_definition",
        FIND,
        move |context, parameters: FindParameters| {
            blocking(context, move |context| match find(context, &parameters) {
                Ok(output) => ToolResult::success(output),
                Err(stop) => stop.into_result(),
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
    // `a::b::C` is in `C` as far as a file knows.
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

/// The names most like one that is not defined, best first.
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

/// Why a report was not made.
enum SymbolError {
    Cancelled,
    NoName,
    File(FileError),
}

impl SymbolError {
    fn into_result(self) -> ToolResult {
        match self {
            SymbolError::Cancelled => cancelled(),
            SymbolError::NoName => ToolResult::failure("`name` is empty: give the name that is defined")
                .with_code(code::BAD_PARAMETERS),
            SymbolError::File(fault) => fault.failure(),
        }
    }
}

/// What was found.
#[derive(Default, Serialize)]
struct SymbolReport {
    symbols: Vec<Symbol>,
    total: usize,
    files: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    syntax_errors: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Serialize)]
struct Skipped {
    path: String,
    reason: String,
}

impl SymbolReport {
    /// Looks through the files, those alone that hold the letters of `name`.
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
            if kind != Kind::Folder && Language::from_path(path).is_none() {
                report.skip(path, "it is not source of a language with a grammar here");
            }
        }
        let end = Instant::now() + TIME_LIMIT;
        for path in workspace.walk(paths, Hidden::Skip).map_err(SymbolError::File)? {
            if context.cancel.is_cancelled() {
                return Err(SymbolError::Cancelled);
            }
            if Instant::now() > end {
                report.note =
                    Some("the time was not enough for all files: name the folders that matter in `paths`");
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
                self.skip(&path, "it has more than 2 MiB");
                return Ok(());
            }
            Err(fault) => {
                self.skip(&path, &fault.to_string());
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
                self.skip(&path, "the time was not enough to parse it");
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
            self.skip(&path, "the time was not enough for all of it");
        }
        Ok(())
    }

    fn skip(&mut self, path: &str, reason: &str) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(Skipped {
                path: path.to_owned(),
                reason: reason.to_owned(),
            });
        }
    }
}
