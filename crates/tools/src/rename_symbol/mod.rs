//! The `rename_symbol` tool: renames every identifier with a given name in the source files of a workspace.
//!
//! It compares names without resolving what they refer to. It never changes strings or comments, and reports where they mention the name.
//! Exception: text in strings that the language interprets as code is renamed: interpolated expressions, the names in Rust's and Python's format
//! strings, the entries of Python's `__all__`. No file is written until all of them have been read, changed in memory and parsed again.

mod binding;
mod change;
mod export;
mod format;
mod go;
mod lines;
mod python_format;
mod report;
mod rust;
mod scan;
mod similar;
mod syntax;
mod text;

use std::collections::BTreeSet;

use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolResult, code};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::change::{PlannedEdit, RenameError};
use self::report::Report;
use self::scan::{Affected, Candidates, Query, Scan, ScanAborted};
use crate::blocking::{blocking, cancelled};
use crate::syntax::{Language, is_name, plain};
use crate::tool::ToolContext;
use crate::transaction;
use crate::typed::{TypedTool, typed};
use crate::workspace::Workspace;

const DESCRIPTION: &str = "Renames an identifier in source files (Rust, Python, JS, TS, Go); without `preview: false` it only shows \
    what it would change. It matches by name: every function, variable, field, keyword argument or import with this name. Strings and \
    comments stay, but are listed. A new name that already exists is refused.";

const READ_ONLY_DESCRIPTION: &str = "Finds every use of an identifier in source files (Rust, Python, JS, TS, Go). It matches by name: every \
    function, variable, field, keyword argument or import with this name. Strings and comments with the name are listed too, \
    and with `to`, what already has that name.";

/// The parameters of `rename_symbol`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// The name alone: `parse_line`, not `mod::parse_line()`.
    from: String,
    /// The new name. Without it, the uses of `from` are listed.
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default = "yes")]
    preview: bool,
    #[serde(default)]
    allow_clash: bool,
}

fn yes() -> bool {
    true
}

/// The tool `rename_symbol`: renames an identifier in all source files, by their syntax (PAOR-2).
///
/// The output is text. That of a rename has the number of uses, then for each file its path, the number of its uses and the changed lines,
/// and the places that still have the old name. That of a preview, and of a failure, lists the uses and what a rename would leave, miss or
/// break. A preview with a new name begins with `Preview: nothing was changed`:
///
/// ```text
/// 3 uses of `old` in 2 files
///
/// src/a.rs (2)
/// 3 definition: fn old() {
/// 9: old();
///
/// src/c.js (1)
/// 4: shop.old()
///
/// `new` is in use already:
/// src/b.rs:1:4: fn new() {}
///
/// Uses whose object or type the syntax does not show, so some may be other symbols:
/// src/c.js: 4
///
/// In comments and strings, which a rename leaves as they are:
/// src/a.rs:2:5: comment: // old is…
/// ```
///
/// The metadata `report` has the same as data (each list has at most 200 rows; `totals` counts all rows; empty lists and totals of 0 are
/// left out):
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
///   "syntax_errors": ["src/b.rs"],
///   "skipped": [{"path": "src/big.py", "reason": "…"}],
///   "totals": {"files": 1, "definitions": 1, "introductions": 1, "mentions": 1, "clashes": 1, "modules": 1, "foreign": 1, "members": 1, "syntax_errors": 1, "skipped": 1}
/// }
/// ```
///
/// - Lines and columns count from 1, columns in characters. They refer to the files before the rename. `definition` is set if the
///   identifier is the name of a function, method, type, class, module, constant or macro at its definition.
/// - If the name does not occur, the call succeeds with 0 `occurrences`, and `similar` has up to five names that do occur. If it is
///   `foreign`, they are names that a source file introduces.
/// - `mentions` are whole words in comments and strings (templates, regular expressions and JSX text included). Code in strings counts as
///   `occurrences`: interpolated expressions, the names in the format strings of Rust's well-known macros (`{old:?}`; `{{old}}` is text),
///   the names in Python's literals that are formatted with the variables or a keyword argument (`"{old}".format(**locals())`), and the
///   entries of a Python module's `__all__`.
/// - `modules` are Python imports that bind the name to a module, whose file is not renamed: `import old`, and `from a import old` if there
///   is a file or folder called `old`. The path of a module in an import is never changed.
/// - `foreign` are places where the name belongs to a library: imports of Python and JavaScript from outside the workspace, paths into
///   the standard libraries of Rust and Go, and all uses if no searched file introduces the name by a definition, a variable, a
///   parameter, a field or the like (`introductions`). An item in the `impl` of a trait does not introduce its name, because the trait
///   does; a variable of Rust or Go introduces its name only for its own file, and not for `x.old`, `x::old` and `old!`. If only a part
///   of the files has been renamed, the uses in the other files look like uses of a library.
/// - `members` are usages for which the syntax does not show the object, type or function that has the name: properties, fields and
///   methods after a dot, Python's keyword arguments, and the keys of objects in JavaScript, including the shorthand `{old}`. The keys of
///   an object assigned to `module.exports` are not listed.
/// - `clashes` are identifiers with the new name anywhere in the workspace, also outside `paths`.
/// - `syntax_errors` are files that contain the old or the new name and have syntax errors. The old name is replaced in them as well.
/// - `skipped` are files that could not be read as text. Ignored and hidden files are read only if `paths` names them.
///
/// Renaming by name has consequences: a JavaScript shorthand `{old}` becomes `{new}`, which also renames the key, like every other use of that
/// key. A Python keyword argument and an imported name change with their definition, even if they belong to a library. In Rust, `r#old` and
/// `old` are the same name. Lifetimes, labels, private names (`#old`) and the tags of HTML elements are not renamed.
///
/// The tool is not safe to repeat: after a crash half-way, some files already have the new name, and the check for clashes would refuse to
/// rename the rest. A call with `allow_clash` completes the rename.
///
/// If another agent, a command or a person changes one of the files during the call, no file is changed (PAOR-5).
///
/// Failures have the code `bad_parameters` (an invalid name), `access_denied` (the agent may not change files), `exists` (the new name already
/// exists), `cancelled`, or one of [`FileError::code`](crate::workspace::FileError::code).
pub fn rename_symbol() -> TypedTool {
    typed(
        "rename_symbol",
        DESCRIPTION,
        move |context: ToolContext, parameters: Parameters| {
            blocking(context, move |context| match rename(context, &parameters) {
                Ok(result) => result,
                Err(ScanAborted::Cancelled) => cancelled(),
                Err(ScanAborted::File(error)) => error.failure(),
            })
        },
    )
    .category(ToolCategory::Code)
    .access(Access::ReadOnly)
    .changes_where("preview", &["false"])
    .requires_where(("preview", &["false"]), "to", "the new name")
    .repeat(Repeat::SafeWhere {
        parameter: "preview".to_owned(),
        values: vec!["true".to_owned()],
        or_absent: true,
    })
    .example(json!({"from": "parse_line", "to": "read_line", "paths": ["src"], "preview": false}))
    .read_only(
        READ_ONLY_DESCRIPTION,
        &["from", "to", "paths"],
        &[],
        json!({"from": "parse_line", "paths": ["src"]}),
    )
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
        report.similar = scan.similar(Candidates::All)?;
    } else if !report.foreign.is_empty() {
        report.similar = scan.similar(Candidates::Introduced)?;
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
        Some(_) | None => Ok(with_report(ToolResult::success(().into()), &report)),
    }
}

/// Checks the parameters.
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
        return Err("`to` is missing: give the new name, or ask for a preview".to_owned());
    }
    Ok(())
}

/// Checks the new name against the languages and identifiers of the affected files. An error has a message and a failure code.
fn check_target(
    parameters: &Parameters,
    affected: &[Affected],
    report: &Report,
) -> Result<(), (String, &'static str)> {
    let Some(to) = &parameters.to else {
        return Ok(());
    };
    let languages: BTreeSet<Language> = affected.iter().map(|file| file.source.language).collect();
    if let Some(reason) = languages
        .into_iter()
        .find_map(|language| language.identifier_error(to))
    {
        let error = format!("{reason}; nothing was changed: choose another name");
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
        "`{to}` exists already ({clashes} found{first}); nothing was changed: choose another name, or set `allow_clash: \
         true` to rename all the same"
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
        Err(RenameError::Cancelled) => return with_report(cancelled(), &report),
        Err(RenameError::Invalid(reason, code)) => {
            return failure(format!("{reason}; nothing was changed"), code, &report);
        }
    };
    let mut to_write: Vec<transaction::FileChange> =
        changes.iter().map(PlannedEdit::to_file_change).collect();
    match transaction::apply_all(workspace, &mut to_write, &context.cancel) {
        Ok(applied) => {
            report.renamed = true;
            // A changed file counts as seen only if the agent had seen it before, because this call shows only single lines.
            let seen = context.seen.as_deref();
            let seen_files = changes.iter().filter_map(|change| change.seen(seen?)).collect();
            ToolResult::success(text::renamed(&report, &changes).into())
                .as_list()
                .with_metadata("report", json!(report))
                .with_seen(seen_files)
                .with_changes(applied)
        }
        Err(aborted) => with_report(aborted.failure(), &report),
    }
}

fn failure(error: String, code: &str, report: &Report) -> ToolResult {
    with_report(ToolResult::failure(error).with_code(code), report)
}

/// Gives the result the report: as text for the model, and as data for operators.
fn with_report(result: ToolResult, report: &Report) -> ToolResult {
    let output = match result.succeeded() {
        true => text::preview(report),
        false => text::listing(report),
    };
    result
        .with_output(output.into())
        .as_list()
        .with_metadata("report", json!(report))
}
