//! `rename_symbol` through the public [`Tool`] trait, on real files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;

use dirigent_core::tool::{Access, Repeat, StateChange, ToolOutcome, ToolResult};
use dirigent_tools::{Tool, ToolContext, rename_symbol};
use folder::context;
use serde_json::{Value, json};
use tempfile::TempDir;

fn workspace(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

fn content(workspace: &TempDir, path: &str) -> String {
    std::fs::read_to_string(workspace.path().join(path)).unwrap()
}

async fn run(workspace: &TempDir, parameters: Value) -> ToolResult {
    rename_symbol().call(context(workspace.path()), parameters).await
}

fn output(result: &ToolResult) -> &Value {
    match &result.outcome {
        ToolOutcome::Success { output } | ToolOutcome::Failure { output, .. } => output,
    }
}

fn error(result: &ToolResult) -> &str {
    match &result.outcome {
        ToolOutcome::Success { output } => panic!("it succeeded: {output}"),
        ToolOutcome::Failure { error, .. } => error,
    }
}

/// `old` becomes `new` in a file of its own; returns the output. The file fits its grammar before and after.
async fn check(name: &str, before: &str, after: &str) -> Value {
    let workspace = workspace(&[(name, before)]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "new_name", "preview": false}),
    )
    .await;
    assert!(result.succeeded(), "{name}: {result:?}");
    assert_eq!(content(&workspace, name), after, "{name}");
    let output = output(&result).clone();
    assert_eq!(output["renamed"], true);
    assert_eq!(output["syntax_errors"], json!([]), "{name}");
    assert!(
        matches!(&result.changes[..], [StateChange::FileEdited { path, diff: Some(_), .. }] if path == name)
    );
    output
}

/// The places of a list as `line:column`.
fn places(rows: &Value) -> Vec<String> {
    let place = |row: &Value| format!("{}:{}", row["line"], row["column"]);
    rows.as_array().unwrap().iter().map(place).collect()
}

#[test]
fn a_call_that_was_interrupted_is_not_made_again() {
    assert_eq!(rename_symbol().spec().repeat, Repeat::Unsafe);
}

#[tokio::test]
async fn paor_2_rust_identifiers_are_renamed_and_nothing_else() {
    let output = check(
        "a.rs",
        r##"/// Calls `old`.
pub fn old<'old>(old: &'old str) -> u32 { 'old: loop { break 'old; } }
struct S { old: u32, older: u32 }
mod m { pub use super::old as other; }
macro_rules! twice { ($old:expr) => { $old + old(r#"x"#) }; }
fn main() {
    let old = 1; // old and bold
    let s = S { old, older: r#old };
    assert_eq!(s.old, old("old \nold"), "{old}");
    let S { old, .. } = s;
    old::<u8>();
}
"##,
        r##"/// Calls `old`.
pub fn new_name<'old>(new_name: &'old str) -> u32 { 'old: loop { break 'old; } }
struct S { new_name: u32, older: u32 }
mod m { pub use super::new_name as other; }
macro_rules! twice { ($old:expr) => { $old + new_name(r#"x"#) }; }
fn main() {
    let new_name = 1; // old and bold
    let s = S { new_name, older: new_name };
    assert_eq!(s.new_name, new_name("old \nold"), "{new_name}");
    let S { new_name, .. } = s;
    new_name::<u8>();
}
"##,
    )
    .await;
    assert_eq!(output["occurrences"], 13);
    assert_eq!(output["totals"]["definitions"], 1);
    assert_eq!(
        output["files"][0]["occurrences"][0],
        json!({
            "line": 2, "column": 8, "definition": true,
            "text": "pub fn old<'old>(old: &'old str) -> u32 { 'old: loop { break 'old; } }"
        })
    );
    assert_eq!(output["files"][0]["occurrences"][1].get("definition"), None);
    assert_eq!(places(&output["mentions"]), ["1:12", "7:21", "9:28", "9:34"]);
    assert_eq!(
        output["mentions"][1],
        json!({"path": "a.rs", "line": 7, "column": 21, "text": "let old = 1; // old and bold", "in": "comment"})
    );
    assert_eq!(output["mentions"][2]["in"], "string");
}

#[tokio::test]
async fn paor_2_python_identifiers_are_renamed_and_nothing_else() {
    let output = check(
        "pkg/a.py",
        r#""""Uses old."""
from tools import old as alias, other
import old.sub

class old:
    @old
    async def old(self, old=1, *, older=2):
        return f"{old!r} old {self.old:>3}" + r'old' + "\told"  # old

match = old(old=old)
match["old"] = lambda old: old
"#,
        r#""""Uses old."""
from tools import new_name as alias, other
import old.sub

class new_name:
    @new_name
    async def new_name(self, new_name=1, *, older=2):
        return f"{new_name!r} old {self.new_name:>3}" + r'old' + "\told"  # old

match = new_name(new_name=new_name)
match["old"] = lambda new_name: new_name
"#,
    )
    .await;
    assert_eq!(output["occurrences"], 12);
    assert_eq!(output["totals"]["definitions"], 2);
    assert_eq!(places(&output["modules"]), ["3:8"]);
    assert_eq!(
        places(&output["mentions"]),
        ["1:9", "8:26", "8:49", "8:59", "8:67", "11:8"]
    );
}

#[tokio::test]
async fn paor_2_javascript_identifiers_are_renamed_and_nothing_else() {
    for name in ["a.js", "a.jsx", "a.mjs", "a.cjs"] {
        let output = check(
            name,
            r#"import { old, other as old$ } from "./old";
export const old = () => <old.Part old={old}>old <b>{`old ${old}`}</b></old.Part>;
class A extends old { #old = 1; old() { return this.#old + this.old; } static old = 2 }
const o = { old, "old": 1, old: old?.old }, { old: x = old } = o;
old: for (;;) { break old; }
/old/.test(o["old"]); // old
"#,
            r#"import { new_name, other as old$ } from "./old";
export const new_name = () => <new_name.Part new_name={new_name}>old <b>{`old ${new_name}`}</b></new_name.Part>;
class A extends new_name { #old = 1; new_name() { return this.#old + this.new_name; } static new_name = 2 }
const o = { new_name, "old": 1, new_name: new_name?.new_name }, { new_name: x = new_name } = o;
old: for (;;) { break old; }
/old/.test(o["old"]); // old
"#,
        )
        .await;
        assert_eq!(output["occurrences"], 17);
        assert_eq!(output["totals"]["definitions"], 2);
        assert_eq!(
            places(&output["mentions"]),
            ["1:39", "2:46", "2:55", "4:19", "6:2", "6:15", "6:26"]
        );
    }
}

#[tokio::test]
async fn paor_2_typescript_identifiers_are_renamed_and_nothing_else() {
    for name in ["a.ts", "a.tsx", "a.mts", "a.cts"] {
        let output = check(
            name,
            r#"interface old<T> { old?: T; run(old: number): old<T> }
type Other = old<string> & { kind: "old" };
enum Kind { old = "old" }
namespace n { export abstract class old { private old: Other.old; abstract old(): void } }
export default function old(this: old<1>, { old }: { old: any }) { return old as unknown as n.old; } // old
"#,
            r#"interface new_name<T> { new_name?: T; run(new_name: number): new_name<T> }
type Other = new_name<string> & { kind: "old" };
enum Kind { new_name = "old" }
namespace n { export abstract class new_name { private new_name: Other.new_name; abstract new_name(): void } }
export default function new_name(this: new_name<1>, { new_name }: { new_name: any }) { return new_name as unknown as n.new_name; } // old
"#,
        )
        .await;
        assert_eq!(output["occurrences"], 16);
        assert_eq!(output["totals"]["definitions"], 4);
        assert_eq!(places(&output["mentions"]), ["2:37", "3:20", "5:105"]);
    }
}

#[tokio::test]
async fn paor_2_go_identifiers_are_renamed_and_nothing_else() {
    let output = check(
        "a.go",
        "package old

import old \"example.com/old\"

// old does it.
type old struct{ old, older int }

func (o *old) old(old int) (err error) {
old:
\tfor {
\t\tbreak old
\t}
\treturn old.Old(`old`, \"old\", old{old: 1}.old, 'o')
}
",
        "package new_name

import new_name \"example.com/old\"

// old does it.
type new_name struct{ new_name, older int }

func (o *new_name) new_name(new_name int) (err error) {
old:
\tfor {
\t\tbreak old
\t}
\treturn new_name.Old(`old`, \"old\", new_name{new_name: 1}.new_name, 'o')
}
",
    )
    .await;
    assert_eq!(output["occurrences"], 11);
    assert_eq!(output["totals"]["definitions"], 2);
    assert_eq!(places(&output["mentions"]), ["3:25", "5:4", "13:18", "13:25"]);
}

#[tokio::test]
async fn paor_2_entries_of_a_python_modules_all_are_usages() {
    for name in ["a.py", "a.pyi"] {
        let output = check(
            name,
            r#"__all__ = ["old", 'other', "older"]
__all__ = ("other", "old")
__all__: list[str] = ["old"]
__all__ = sorted(["old"] + other.__all__)
__all__ += ["old"]
__all__.extend(["old"])
__all__.append("old")
if True:
    __all__ += ("old",)
from .a import old as old

def old(): ...
"#,
            r#"__all__ = ["new_name", 'other', "older"]
__all__ = ("other", "new_name")
__all__: list[str] = ["new_name"]
__all__ = sorted(["new_name"] + other.__all__)
__all__ += ["new_name"]
__all__.extend(["new_name"])
__all__.append("new_name")
if True:
    __all__ += ("new_name",)
from .a import new_name as new_name

def new_name(): ...
"#,
        )
        .await;
        assert_eq!(output["occurrences"], 11);
        assert_eq!(output["totals"]["mentions"], 0);
    }
}

#[tokio::test]
async fn strings_that_only_look_like_entries_of_all_are_text() {
    let text = r#"names = ["old"]
__all__ = [name for name in names if name != "old"]
__all__ = [pick("old"), b"old", "an old", "a" "old", {"old": 1}]
names.extend(["old"])
def local():
    __all__ = ["old"]
class Kind:
    __all__ = ["old"]
"#;
    let output = check("a.py", &format!("{text}old()\n"), &format!("{text}new_name()\n")).await;
    assert_eq!(output["occurrences"], 1);
    assert_eq!(output["totals"]["mentions"], 10);
}

#[tokio::test]
async fn paor_2_names_in_rusts_format_strings_are_usages() {
    let output = check(
        "a.rs",
        r##"fn f() -> Result<()> {
    println!("{old} {old:?} {old:>width$} {x:>old$} {{old}} old \n{}", "{old}");
    let text = vec![format!(r#"{old}"#), std::format!("a" , "{old}")];
    write!(out, "{old}")?;
    assert!(a < b && f::<A>(), "{old}");
    assert_eq!(f("{old}"), "{old}", "{old}");
    tracing::info!(target: "{old}", field = "{old}", "{old}", "{old}");
    log::log!(Level::Info, "{old}");
    bail!("{old}");
    other!("{old}"); concat!("{old}"); b!(b"{old}"); println!(b"{old}");
    assert_eq!(f::<A, B>(), "{old}");
}
macro_rules! m { () => { panic!("{old}") } }
#[error("bad {old}")]
struct S { old: u8 }
#[doc("{old}")]
mod m {}
"##,
        r##"fn f() -> Result<()> {
    println!("{new_name} {new_name:?} {new_name:>width$} {x:>new_name$} {{old}} old \n{}", "{old}");
    let text = vec![format!(r#"{new_name}"#), std::format!("a" , "{old}")];
    write!(out, "{new_name}")?;
    assert!(a < b && f::<A>(), "{new_name}");
    assert_eq!(f("{old}"), "{old}", "{new_name}");
    tracing::info!(target: "{old}", field = "{old}", "{new_name}", "{old}");
    log::log!(Level::Info, "{new_name}");
    bail!("{new_name}");
    other!("{old}"); concat!("{old}"); b!(b"{old}"); println!(b"{old}");
    assert_eq!(f::<A, B>(), "{old}");
}
macro_rules! m { () => { panic!("{new_name}") } }
#[error("bad {new_name}")]
struct S { new_name: u8 }
#[doc("{old}")]
mod m {}
"##,
    )
    .await;
    assert_eq!(output["occurrences"], 14);
}

#[tokio::test]
async fn what_is_interpolated_is_code_and_the_text_around_it_is_not() {
    let python = "f\"old {old(x)} {{old}} {old:{old}}\" + 'old'\n";
    let renamed = "f\"old {new_name(x)} {{old}} {new_name:{new_name}}\" + 'old'\n";
    let _ = check("a.py", python, renamed).await;
    let script = "`old ${old(`${old} old`)} \\${old}` + 'old ${old}';\n";
    let renamed = "`old ${new_name(`${new_name} old`)} \\${old}` + 'old ${old}';\n";
    let _ = check("a.ts", script, renamed).await;
}

#[tokio::test]
async fn a_module_of_that_name_is_told_and_its_imports_stay_as_they_are() {
    let workspace = workspace(&[
        ("old/__init__.py", "from .old import old\nfrom . import other\n"),
        ("old/old.py", "def old(): pass\n"),
        ("a.py", "import old\nimport x.old as y\nold.old()\n"),
        ("b.py", "from old import old\nold()\n"),
    ]);
    let preview = run(&workspace, json!({"from": "old"})).await;
    let modules = output(&preview)["modules"].as_array().unwrap().iter();
    let modules: Vec<String> = modules
        .map(|row| {
            format!(
                "{}:{}",
                row["path"].as_str().unwrap(),
                row["text"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        modules,
        [
            "a.py:import old",
            "b.py:from old import old",
            "old/__init__.py:from .old import old"
        ]
    );

    let result = run(
        &workspace,
        json!({"from": "old", "to": "new_name", "preview": false}),
    )
    .await;
    assert!(result.succeeded());
    assert_eq!(
        content(&workspace, "b.py"),
        "from old import new_name\nnew_name()\n"
    );
    assert_eq!(
        content(&workspace, "old/__init__.py"),
        "from .old import new_name\nfrom . import other\n"
    );
}

/// The places that show `old` to be that of a library, as `path:line`.
async fn foreign(files: &[(&str, &str)]) -> Vec<String> {
    listed("foreign", files).await
}

/// The places in a list of the preview of a rename of `old`, as `path:line`.
async fn listed(list: &str, files: &[(&str, &str)]) -> Vec<String> {
    let workspace = workspace(files);
    let preview = run(&workspace, json!({"from": "old"})).await;
    let rows = output(&preview)[list].as_array().unwrap().iter();
    rows.map(|row| format!("{}:{}", row["path"].as_str().unwrap(), row["line"]))
        .collect()
}

#[tokio::test]
async fn paor_2_what_is_imported_from_outside_of_the_workspace_is_told() {
    let found = foreign(&[
        (
            "shop/a.py",
            "from library.b import old\nfrom .b import old\nfrom shop.b import old\n",
        ),
        ("shop/b.py", "def old(): pass\n"),
        (
            "c.js",
            "import { x, old } from \"library\";\nimport { old as y } from \"./d\";\n",
        ),
        (
            "d.js",
            "export { old } from '@scope/library';\nexport function old() {}\n",
        ),
        (
            "e.js",
            "const { old } = require(\"library\"), { old: z } = require(\"./d\");\n",
        ),
        ("f.ts", "import { old } from \"@here/shop\";\n"),
        (
            "g.js",
            "const old = require(\"library\").old, x = require(\"./d\").old;\n",
        ),
    ])
    .await;
    assert_eq!(found, ["c.js:1", "d.js:1", "e.js:1", "g.js:1", "shop/a.py:1"]);
}

#[tokio::test]
async fn paor_2_a_name_that_no_source_introduces_is_that_of_a_library() {
    for (path, text) in [
        ("a.py", "old(1)\n"),
        ("a.py", "x.old()\nf(old=1)\n"),
        ("a.js", "x.old(); old();\n"),
        ("a.ts", "let x: old = y;\n"),
    ] {
        assert_eq!(foreign(&[(path, text)]).await[0], format!("{path}:1"), "{text}");
    }
    for (path, text) in [
        ("a.py", "def f(old): return old\n"),
        ("a.py", "self.old = 1\n"),
        ("a.py", "for x, old in y: pass\n"),
        ("a.py", "with x as old: pass\n"),
        ("a.pyi", "class A:\n    old: int\n"),
        ("a.py", "import x as old\n"),
        ("a.js", "exports.old = 1;\n"),
        ("a.js", "const old = 1;\n"),
        ("a.js", "f({ old: 1 });\n"),
        ("a.js", "import old from \"library\";\n"),
        ("a.jsx", "const f = (old) => old;\n"),
        ("a.ts", "function f(old: number, x?: y) {}\n"),
        ("a.ts", "interface A { old: number }\nenum B { x }\n"),
        ("a.ts", "enum B { old }\n"),
        ("a.ts", "class A { private old = 1 }\n"),
        ("a.rs", "fn f() { old() }\n"),
        ("a.go", "package a\n\nfunc f() { old() }\n"),
    ] {
        assert_eq!(foreign(&[(path, text)]).await, Vec::<String>::new(), "{text}");
    }
}

#[tokio::test]
async fn paor_2_what_belongs_to_something_else_is_told() {
    for (path, line) in [
        ("a.py", "x.old()"),
        ("a.py", "self.old = 1"),
        ("a.py", "\"{old}\".format(old=1)"),
        ("a.js", "x.old();"),
        ("a.js", "x.old = 1;"),
        ("a.js", "f({ old });"),
        ("a.js", "f({ old: 1 });"),
        ("a.js", "const { old } = x;"),
        ("a.ts", "interface A { old: number }"),
        ("a.rs", "fn f() { x.old }"),
    ] {
        assert_eq!(
            listed("members", &[(path, line)]).await,
            [format!("{path}:1")],
            "{line}"
        );
    }
    for (path, line) in [
        ("a.py", "old(x=old)"),
        ("a.py", "class A:\n    def old(self): pass"),
        ("a.py", "def f(old=1): return old.x"),
        ("a.js", "function old() { return old.x; }"),
        ("a.js", "class A { old() {} }"),
        ("a.js", "module.exports = { old };"),
        ("a.js", "module.exports.old = 1; exports.old = 2;"),
        ("a.js", "const { old } = require(\"./b\");"),
        ("a.rs", "fn old() { old() }"),
    ] {
        assert_eq!(
            listed("members", &[(path, line)]).await,
            Vec::<String>::new(),
            "{line}"
        );
    }
}

#[tokio::test]
async fn html_tags_are_not_names() {
    let before = "const b = 1, c = <b>{b}</b>, d = <b.x/>;\n";
    let workspace = workspace(&[("a.jsx", before)]);
    let result = run(&workspace, json!({"from": "b", "to": "bold", "preview": false})).await;
    assert!(result.succeeded());
    assert_eq!(
        content(&workspace, "a.jsx"),
        "const bold = 1, c = <b>{bold}</b>, d = <bold.x/>;\n"
    );
}

#[tokio::test]
async fn a_preview_changes_nothing_and_is_the_default() {
    let workspace = workspace(&[
        ("a.rs", "fn old() {}\n"),
        ("b.py", "old()\n"),
        ("notes.md", "old\n"),
    ]);
    let result = run(&workspace, json!({"from": "old"})).await;

    assert!(result.succeeded());
    assert_eq!(result.changes, []);
    assert_eq!(
        output(&result),
        &json!({
            "from": "old", "to": null, "renamed": false, "occurrences": 2,
            "files": [
                {"path": "a.rs", "total": 1, "occurrences": [
                    {"line": 1, "column": 4, "text": "fn old() {}", "definition": true}]},
                {"path": "b.py", "total": 1, "occurrences": [{"line": 1, "column": 1, "text": "old()"}]}
            ],
            "mentions": [], "clashes": [], "modules": [], "foreign": [], "members": [], "similar": [], "syntax_errors": [], "skipped": [],
            "totals": {"files": 2, "definitions": 1, "mentions": 0, "clashes": 0, "modules": 0, "foreign": 0, "members": 0, "syntax_errors": 0, "skipped": 0}
        })
    );
    assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
}

#[tokio::test]
async fn paths_limit_the_rename_but_not_the_search_for_clashes() {
    let workspace = workspace(&[
        ("src/a.rs", "fn old() {}\n"),
        ("src/deep/b.rs", "fn f() { old() }\n"),
        ("tests/c.rs", "fn f() { old() }\n"),
        ("tests/d.rs", "fn taken() {}\n"),
    ]);
    let paths = json!(["src"]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "taken", "paths": paths, "preview": false}),
    )
    .await;
    assert_eq!(output(&result)["clashes"][0]["path"], "tests/d.rs");
    assert!(!result.succeeded());

    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "paths": paths, "preview": false}),
    )
    .await;
    assert!(result.succeeded());
    assert_eq!(output(&result)["occurrences"], 2);
    assert_eq!(content(&workspace, "src/deep/b.rs"), "fn f() { fresh() }\n");
    assert_eq!(content(&workspace, "tests/c.rs"), "fn f() { old() }\n");
}

#[tokio::test]
async fn a_clash_is_refused_and_no_byte_changes() {
    let files = [
        ("a.rs", "fn old() {}\n"),
        ("b.go", "package b\n\nvar taken = 1\n"),
    ];
    let workspace = workspace(&files);
    let parameters = json!({"from": "old", "to": "taken", "preview": false});
    let result = run(&workspace, parameters).await;

    assert_eq!(
        error(&result),
        "`taken` exists already (1 found, first in `b.go` line 3); nothing was changed: choose another name, or say \
         `allow_clash: true` if that is meant"
    );
    assert_eq!(
        output(&result)["clashes"],
        json!([{"path": "b.go", "line": 3, "column": 5, "text": "var taken = 1"}])
    );
    assert_eq!(output(&result)["renamed"], false);
    assert_eq!(result.changes, []);
    for (path, before) in files {
        assert_eq!(content(&workspace, path), before);
    }
}

#[tokio::test]
async fn a_clash_in_a_preview_is_shown_and_one_that_is_meant_is_renamed_over() {
    let workspace = workspace(&[("a.rs", "fn old() { taken() }\n")]);
    let preview = run(&workspace, json!({"from": "old", "to": "taken"})).await;
    assert!(preview.succeeded());
    assert_eq!(output(&preview)["totals"]["clashes"], 1);

    let meant = json!({"from": "old", "to": "taken", "preview": false, "allow_clash": true});
    assert!(run(&workspace, meant).await.succeeded());
    assert_eq!(content(&workspace, "a.rs"), "fn taken() { taken() }\n");
}

#[tokio::test]
async fn a_name_that_is_nowhere_is_a_success_with_similar_names() {
    let workspace = workspace(&[
        (
            "a.rs",
            "fn parse_line() {}\nfn parse_lines() {}\nfn unlike() {}\n",
        ),
        ("b.js", "parseLine(); // parse_lane is not parse_lune\n"),
    ]);
    for parameters in [
        json!({"from": "parse_lane"}),
        json!({"from": "parse_lane", "to": "x", "preview": false}),
    ] {
        let result = run(&workspace, parameters).await;
        assert!(result.succeeded());
        assert_eq!(output(&result)["occurrences"], 0);
        assert_eq!(output(&result)["renamed"], false);
        assert_eq!(
            output(&result)["similar"],
            json!(["parseLine", "parse_line", "parse_lines"])
        );
        assert_eq!(places(&output(&result)["mentions"]), ["1:17"]);
    }
}

#[tokio::test]
async fn what_cannot_be_a_name_is_refused_with_the_reason() {
    let files = [
        ("a.rs", "fn old() {}\n"),
        ("b.py", "def thing(): pass\n"),
        ("c.js", "function item() {}\n"),
        ("d.go", "package d\n\nfunc act() {}\n"),
    ];
    let workspace = workspace(&files);
    for (from, to, expected) in [
        (
            "old",
            "match",
            "`match` is a keyword of Rust; nothing was changed: choose another name",
        ),
        (
            "old",
            "r#self",
            "`r#self` is not a raw identifier of Rust; nothing was changed: choose another name",
        ),
        (
            "old",
            "a$b",
            "`a$b` is not an identifier of Rust; nothing was changed: choose another name",
        ),
        (
            "thing",
            "lambda",
            "`lambda` is a keyword of Python; nothing was changed: choose another name",
        ),
        (
            "thing",
            "r#x",
            "`r#x` is not an identifier of Python; nothing was changed: choose another name",
        ),
        (
            "item",
            "class",
            "`class` is a keyword of JavaScript; nothing was changed: choose another name",
        ),
        (
            "act",
            "func",
            "`func` is a keyword of Go; nothing was changed: choose another name",
        ),
        (
            "old",
            "a b",
            "`to` is `a b`, which is not an identifier: give the name alone",
        ),
        (
            "old",
            "1st",
            "`to` is `1st`, which is not an identifier: give the name alone",
        ),
        (
            "old",
            "",
            "`to` is ``, which is not an identifier: give the name alone",
        ),
        ("old", "old", "`from` and `to` are both `old`"),
        (
            "m::old()",
            "x",
            "`from` is `m::old()`, which is not an identifier: give the name alone, such as `parse_line`",
        ),
    ] {
        let result = run(&workspace, json!({"from": from, "to": to, "preview": false})).await;
        assert_eq!(error(&result), expected);
    }
    for (path, before) in files {
        assert_eq!(content(&workspace, path), before);
    }
}

#[tokio::test]
async fn a_word_that_only_another_language_reserves_is_a_name() {
    let workspace = workspace(&[("a.py", "old = 1\n"), ("b.rs", "fn f() {}\n")]);
    let result = run(&workspace, json!({"from": "old", "to": "func", "preview": false})).await;
    assert!(result.succeeded());
    assert_eq!(content(&workspace, "a.py"), "func = 1\n");
}

#[tokio::test]
async fn a_raw_identifier_is_the_same_name_and_may_be_the_new_one() {
    let workspace = workspace(&[("a.rs", "fn r#type() { r#type() }\n")]);
    let there = json!({"from": "type", "to": "kind", "preview": false});
    assert!(run(&workspace, there).await.succeeded());
    assert_eq!(content(&workspace, "a.rs"), "fn kind() { kind() }\n");

    let back = json!({"from": "kind", "to": "r#type", "preview": false});
    assert!(run(&workspace, back).await.succeeded());
    assert_eq!(content(&workspace, "a.rs"), "fn r#type() { r#type() }\n");
}

#[tokio::test]
async fn line_endings_and_encodings_are_kept() {
    let workspace = TempDir::new().unwrap();
    let at = |name: &str| workspace.path().join(name);
    let utf16 = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xFEFF).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    std::fs::write(at("crlf.rs"), "fn old() {}\r\n\r\nfn f() { old() }\r\n// end").unwrap();
    std::fs::write(at("mark.py"), "\u{feff}old = 1\n").unwrap();
    std::fs::write(at("utf16.ts"), utf16("let old = 'é';\r\n")).unwrap();
    std::fs::write(at("latin.js"), b"let old = '\xe9';\n").unwrap();

    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "preview": false}),
    )
    .await;

    assert_eq!(output(&result)["occurrences"], 5);
    let bytes = |name: &str| std::fs::read(at(name)).unwrap();
    assert_eq!(
        bytes("crlf.rs"),
        b"fn fresh() {}\r\n\r\nfn f() { fresh() }\r\n// end"
    );
    assert_eq!(bytes("mark.py"), "\u{feff}fresh = 1\n".as_bytes());
    assert_eq!(bytes("utf16.ts"), utf16("let fresh = 'é';\r\n"));
    assert_eq!(bytes("latin.js"), b"let fresh = '\xe9';\n");
}

#[tokio::test]
async fn columns_count_characters_and_lines_are_shown_whole_or_near_the_name() {
    let long = format!("{}old();{}\n", "ä(); ".repeat(100), " b();".repeat(100));
    let workspace = workspace(&[("a.js", "/* é */ old(); \r\n"), ("b.js", &long)]);
    let result = run(&workspace, json!({"from": "old"})).await;

    let files = &output(&result)["files"];
    assert_eq!(
        files[0]["occurrences"],
        json!([{"line": 1, "column": 9, "text": "/* é */ old();"}])
    );
    assert_eq!(files[1]["occurrences"][0]["column"], 501);
    assert_eq!(
        files[1]["occurrences"][0]["text"],
        format!("…{}old();{} b()…", "ä(); ".repeat(16), " b();".repeat(22))
    );
}

#[tokio::test]
async fn a_file_with_a_syntax_error_is_renamed_in_and_named() {
    let workspace = workspace(&[
        ("a.rs", "fn old( {}\nfn f() { old() }\n"),
        ("b.rs", "fn old() {}\n"),
    ]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "preview": false}),
    )
    .await;
    assert!(result.succeeded());
    assert_eq!(output(&result)["syntax_errors"], json!(["a.rs"]));
    assert_eq!(content(&workspace, "a.rs"), "fn fresh( {}\nfn f() { fresh() }\n");
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_the_rest_is_renamed() {
    let workspace = workspace(&[
        ("a.rs", "fn old() {}\n"),
        ("b.rs", "old\0"),
        ("notes.txt", "old\n"),
    ]);
    std::fs::File::create(workspace.path().join("c.py"))
        .unwrap()
        .set_len(16 * 1024 * 1024 + 1)
        .unwrap();
    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "paths": [".", "notes.txt"], "preview": false}),
    )
    .await;

    assert!(result.succeeded());
    assert_eq!(content(&workspace, "a.rs"), "fn fresh() {}\n");
    let skipped = output(&result)["skipped"].as_array().unwrap();
    let paths: Vec<_> = skipped.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["notes.txt", "b.rs", "c.py"]);
    assert_eq!(
        skipped[0]["reason"],
        "it is not source of a language with a grammar here"
    );
    assert!(
        skipped[1]["reason"]
            .as_str()
            .unwrap()
            .starts_with("`b.rs` is binary")
    );
    assert!(
        skipped[2]["reason"]
            .as_str()
            .unwrap()
            .starts_with("`c.py` has more than 16777216 bytes")
    );
}

#[tokio::test]
async fn ignored_and_hidden_files_are_left_alone_unless_named() {
    let workspace = workspace(&[
        (".gitignore", "target/\n"),
        ("target/a.rs", "fn old() {}\n"),
        (".hidden/b.py", "old()\n"),
        ("c.rs", "fn old() {}\n"),
    ]);
    let all = run(&workspace, json!({"from": "old"})).await;
    assert_eq!(output(&all)["occurrences"], 1);
    let named = run(
        &workspace,
        json!({"from": "old", "paths": ["target", ".hidden/b.py"]}),
    )
    .await;
    assert_eq!(output(&named)["occurrences"], 2);
}

#[tokio::test]
async fn long_lists_are_cut_and_counted() {
    let workspace = workspace(&[
        ("a.py", &"old()\n".repeat(150)),
        ("b.py", &"old() # old\n".repeat(250)),
        ("c.py", "old()\n"),
    ]);
    let result = run(&workspace, json!({"from": "old"})).await;

    let output = output(&result);
    assert_eq!(output["occurrences"], 401);
    let listed: Vec<_> = output["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            (
                file["total"].as_u64().unwrap(),
                file["occurrences"].as_array().unwrap().len(),
            )
        })
        .collect();
    assert_eq!(listed, [(150, 150), (250, 50), (1, 0)]);
    assert_eq!(output["mentions"].as_array().unwrap().len(), 200);
    assert_eq!(output["totals"]["mentions"], 250);
}

#[tokio::test]
async fn without_read_write_access_there_is_a_preview_alone() {
    let workspace = workspace(&[("a.rs", "fn old() {}\n")]);
    for access in [Access::ReadOnly, Access::Execute] {
        let context = ToolContext {
            access,
            ..context(workspace.path())
        };
        let rename = json!({"from": "old", "to": "fresh", "preview": false});
        let result = rename_symbol().call(context.clone(), rename).await;
        assert_eq!(
            error(&result),
            "this agent may not change files: `preview: false` is refused, nothing was changed"
        );
        assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
        let preview = json!({"from": "old", "to": "fresh"});
        assert!(rename_symbol().call(context, preview).await.succeeded());
    }
}

#[tokio::test]
async fn a_rename_without_a_new_name_is_refused() {
    let workspace = workspace(&[("a.rs", "fn old() {}\n")]);
    let result = run(&workspace, json!({"from": "old", "preview": false})).await;
    assert_eq!(
        error(&result),
        "`to` is missing: without it there is only a preview"
    );
}

#[tokio::test]
async fn a_path_that_is_not_there_or_outside_is_refused() {
    let workspace = workspace(&[("src/lib.rs", "fn old() {}\n")]);
    for (path, expected) in [
        ("lib.rs", "`lib.rs` does not exist; did you mean `src/lib.rs`?"),
        (
            "../x",
            "`../x` leads out of the workspace: give a path below its root, such as `src/main.rs`",
        ),
    ] {
        let result = run(&workspace, json!({"from": "old", "paths": [path]})).await;
        assert_eq!(error(&result), expected);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_leaves_all_files_as_they_were() {
    // What is in `.git` can be read when it is named, and is protected from being written.
    let workspace = workspace(&[("a.rs", "fn old() {}\n"), ("sub/.git/b.rs", "fn old() {}\n")]);
    let result = run(
        &workspace,
        json!({"from": "old", "to": "fresh", "paths": ["a.rs", "sub/.git/b.rs"], "preview": false}),
    )
    .await;

    assert!(
        error(&result).ends_with("; nothing was changed"),
        "{}",
        error(&result)
    );
    assert_eq!(result.changes, []);
    assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
    assert_eq!(content(&workspace, "sub/.git/b.rs"), "fn old() {}\n");
}

#[tokio::test]
async fn host_8_a_cancelled_rename_changes_nothing() {
    let workspace = workspace(&[("a.rs", "fn old() {}\n")]);
    let context = context(workspace.path());
    context.cancel.cancel();
    let rename = json!({"from": "old", "to": "fresh", "preview": false});
    let result = rename_symbol().call(context, rename).await;
    assert_eq!(error(&result), "cancelled before anything was changed");
    assert_eq!(content(&workspace, "a.rs"), "fn old() {}\n");
}
