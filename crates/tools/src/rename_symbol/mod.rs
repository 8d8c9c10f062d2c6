//! The `rename_symbol` tool: every identifier of one name in the sources of a workspace gets another.
//!
//! It goes by name, not by what a name refers to, and never touches strings and comments: what they mention is reported. What a language
//! takes for a name in a string is code: what is interpolated, the names in Rust's format strings, the entries of Python's `__all__`.
//! Nothing is written before every file has been read, changed in memory and parsed again.

mod binding;
mod change;
mod export;
mod format;
mod lines;
mod report;
mod scan;
mod similar;
mod syntax;

use std::collections::BTreeSet;

use dirigent_core::tool::{Access, ToolResult, code};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::change::{PlannedEdit, RenameError};
use self::report::Report;
use self::scan::{Affected, Query, Scan, ScanAborted};
use crate::blocking::{blocking, cancelled};
use crate::syntax::{Language, is_name, plain};
use crate::transaction;
use crate::workspace::Workspace;
use crate::{ToolContext, TypedTool, typed};

const DESCRIPTION: &str = "Finds every use of an identifier in the source files of the workspace (Rust, Python, \
    JavaScript, TypeScript, Go) and renames it. Without `preview: false` it only shows what it would change. It goes \
    by name: all functions, variables, fields, keyword arguments and imports of that name are meant, and no text of a string or \
    comment is touched; `mentions` lists where those name it. It refuses to rename where the new name exists already \
    (`clashes`).";

/// The parameters of `rename_symbol`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The identifier as it is now, alone: `parse_line`, not `mod::parse_line()`.
    from: String,
    /// The identifier as it is to be. Only a preview does without.
    #[serde(default)]
    to: Option<String>,
    /// Files or folders to rename in; all of the workspace by default.
    #[serde(default)]
    paths: Vec<String>,
    /// Whether to show the occurrences and change nothing.
    #[serde(default = "yes")]
    preview: bool,
    /// Whether to rename even where the new name exists already.
    #[serde(default)]
    allow_clash: bool,
}

fn yes() -> bool {
    true
}

/// The tool `rename_symbol`: renames an identifier in all source files, by their syntax (PAOR-2).
///
/// Its output, where a list is at most 200 rows long and `totals` are whole:
///
/// ```json
/// {
///   "from": "old", "to": "new", "renamed": true, "occurrences": 2,
///   "files": [{"path": "src/a.rs", "total": 2, "occurrences": [
///     {"line": 3, "column": 4, "text": "fn old() {", "definition": true},
///     {"line": 9, "column": 5, "text": "old();"}]}],
///   "mentions": [{"path": "src/a.rs", "line": 2, "column": 5, "text": "// old is…", "in": "comment"}],
///   "clashes": [{"path": "src/b.rs", "line": 1, "column": 4, "text": "fn new() {}"}],
///   "modules": [{"path": "a.py", "line": 1, "column": 8, "text": "import old"}],
///   "foreign": [{"path": "b.py", "line": 1, "column": 20, "text": "from library import old"}],
///   "members": [{"path": "c.js", "line": 4, "column": 6, "text": "shop.old()"}],
///   "similar": [],
///   "syntax_errors": ["src/b.rs"],
///   "skipped": [{"path": "src/big.py", "reason": "…"}],
///   "totals": {"files": 1, "definitions": 1, "mentions": 1, "clashes": 1, "modules": 1, "foreign": 1, "members": 1, "syntax_errors": 1, "skipped": 1}
/// }
/// ```
///
/// - Lines and columns count from 1, columns in characters. They are those before the rename. `definition` is there where the
///   identifier names a function, method, type, class, module, constant or macro at its definition.
/// - A name that does not occur is a success with 0 `occurrences`; `similar` then has up to five names that do occur.
/// - `mentions` are whole words in strings (templates, regular expressions and JSX text are strings here) and in comments. In strings
///   are occurrences, too: what is interpolated, the names in the format strings of Rust's well-known macros (`{old:?}`; `{{old}}` is text),
///   and the entries of a Python module's `__all__`.
/// - `modules` are imports of Python that make the name mean a module, a file that a rename does not move: `import old`, and `from a import
///   old` where there is a file or folder of that name. A module's path in an import is left as it is.
/// - `foreign` are places that show the name to be that of a library: where Python or JavaScript import it from what is not in the workspace,
///   and, where no source introduces the name, its uses. Rust and Go have compilers to tell.
/// - `members` are usages that belong to something the syntax does not tell: properties, fields and methods after a dot, Python's keyword
///   arguments, and the keys of objects in JavaScript, the shorthand `{old}` among them. What `module.exports` is given is none.
/// - `clashes` are identifiers of the new name anywhere in the workspace, also outside `paths`.
/// - `syntax_errors` are those files with either name that do not fit their grammar; they are renamed in all the same.
/// - `skipped` are files that could not be read as text. Files that are ignored or hidden are not looked at unless
///   `paths` names them.
///
/// Renaming by name has consequences: a JavaScript shorthand `{old}` becomes `{new}`, and with it the key, as every
/// other use of that key does; a Python keyword argument and an imported name change with their definition, but also
/// where they belong to a library. In Rust `r#old` and `old` are the same name. Lifetimes, labels, private names
/// (`#old`) and the tags of HTML elements are left alone.
///
/// It is not safe to repeat: after a crash half-way the new name is there from the half that was done, and the check
/// for clashes would refuse to do the rest. Whoever repeats it knowingly says `allow_clash` and gets the same end.
///
/// A file that somebody else changes meanwhile is left as it is, and then no file is renamed (PAOR-5).
///
/// What fails has a code: `bad_parameters` for a name that is none or cannot stand there, `access_denied` for an agent that may not change
/// files, `exists` where the new name is there already, `cancelled`, and those of
/// [`FileError::code`](crate::workspace::FileError::code).
pub fn rename_symbol() -> TypedTool {
    typed(
        "rename_symbol",
        DESCRIPTION,
        move |context: ToolContext, parameters: Parameters| {
            blocking(context, move |context| match rename(context, &parameters) {
                Ok(result) => result,
                Err(ScanAborted::Cancelled) => cancelled(),
                Err(ScanAborted::File(fault)) => fault.failure(),
            })
        },
    )
    .access(Access::ReadOnly)
    .example(json!({"from": "parse_line", "to": "read_line", "paths": ["src"], "preview": false}))
}

fn rename(context: &ToolContext, parameters: &Parameters) -> Result<ToolResult, ScanAborted> {
    if let Err(error) = check(parameters) {
        return Ok(ToolResult::failure(error).with_code(code::BAD_PARAMETERS));
    }
    if !parameters.preview && context.access < Access::ReadWrite {
        let error = "this agent may not change files: `preview: false` is refused, nothing was changed";
        return Ok(ToolResult::failure(error).with_code(code::ACCESS_DENIED));
    }
    let workspace = Workspace::from_context(context).map_err(ScanAborted::File)?;
    let scan = Scan {
        workspace: &workspace,
        cancel: &context.cancel,
        query: Query {
            from: plain(&parameters.from),
            to: parameters.to.as_deref().map(plain),
            paths: &parameters.paths,
        },
    };
    let mut report = Report {
        from: parameters.from.clone(),
        to: parameters.to.clone(),
        ..Report::default()
    };
    let affected = scan.run(&mut report)?;
    if affected.is_empty() {
        report.similar = scan.similar()?;
    }
    if let Err((error, code)) = check_target(parameters, &affected, &report) {
        return Ok(failure(error, code, &report));
    }
    match &parameters.to {
        Some(to) if !parameters.preview && !affected.is_empty() => Ok(write(
            context,
            &workspace,
            affected,
            (&parameters.from, to),
            report,
        )),
        Some(_) | None => Ok(ToolResult::success(value(&report))),
    }
}

/// What is wrong with the call itself.
fn check(parameters: &Parameters) -> Result<(), String> {
    let Parameters { from, to, .. } = parameters;
    if !is_name(from) {
        return Err(format!(
            "`from` is `{from}`, which is not an identifier: give the name alone, such as `parse_line`"
        ));
    }
    if let Some(to) = to {
        if !is_name(to) {
            return Err(format!(
                "`to` is `{to}`, which is not an identifier: give the name alone"
            ));
        }
        if plain(from) == plain(to) {
            return Err(format!("`from` and `to` are both `{}`", plain(from)));
        }
    }
    if !parameters.preview && to.is_none() {
        return Err("`to` is missing: without it there is only a preview".to_owned());
    }
    Ok(())
}

/// What is wrong with the new name, now that it is known what it would stand beside.
fn check_target(
    parameters: &Parameters,
    affected: &[Affected],
    report: &Report,
) -> Result<(), (String, &'static str)> {
    let Some(to) = &parameters.to else {
        return Ok(());
    };
    let languages: BTreeSet<Language> = affected.iter().map(|file| file.source.language).collect();
    if let Some(fault) = languages
        .into_iter()
        .find_map(|language| language.identifier_error(to))
    {
        let error = format!("{fault}; nothing was changed: choose another name");
        return Err((error, code::BAD_PARAMETERS));
    }
    let clashes = report.totals.clashes;
    if parameters.preview || parameters.allow_clash || affected.is_empty() || clashes == 0 {
        return Ok(());
    }
    let first = report.clashes.first().map_or_else(String::new, |clash| {
        format!(", first in `{}` line {}", clash.path, clash.location.line)
    });
    let error = format!(
        "`{to}` exists already ({clashes} found{first}); nothing was changed: choose another name, or say `allow_clash: \
         true` if that is meant"
    );
    Err((error, code::EXISTS))
}

fn write(
    context: &ToolContext,
    workspace: &Workspace,
    affected: Vec<Affected>,
    (from, to): (&str, &str),
    mut report: Report,
) -> ToolResult {
    let planned: Result<Vec<_>, _> = affected
        .into_iter()
        .map(|file| change::plan(file, from, to, &context.cancel))
        .collect();
    let changes = match planned {
        Ok(changes) => changes,
        Err(RenameError::Cancelled) => return cancelled().with_output(value(&report)),
        Err(RenameError::Invalid(why, code)) => {
            return failure(format!("{why}; nothing was changed"), code, &report);
        }
    };
    let mut to_write: Vec<transaction::FileChange> =
        changes.iter().map(PlannedEdit::to_file_change).collect();
    match transaction::apply_all(workspace, &mut to_write, &context.cancel) {
        Ok(applied) => {
            report.renamed = true;
            // Its caller knows a file afterwards only if it knew it before: it saw lines of it at most.
            let seen = context.seen.as_deref();
            let known = changes.iter().filter_map(|change| change.seen(seen?)).collect();
            ToolResult::success(value(&report))
                .with_seen(known)
                .with_changes(applied)
        }
        Err(aborted) => aborted.failure().with_output(value(&report)),
    }
}

fn failure(error: String, code: &str, report: &Report) -> ToolResult {
    ToolResult::failure(error)
        .with_code(code)
        .with_output(value(report))
}

fn value(report: &Report) -> Value {
    json!(report)
}
