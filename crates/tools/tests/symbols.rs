//! `list_symbols` and `find_definition` on sources of each language.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::folder::{Folder, text};
use dirigent_core::tool::{ToolOutcome, ToolResult};
use dirigent_tools::{find_definition, list_symbols};
use serde_json::json;

/// The lines of the symbols, `line kind container::name | signature`.
fn rows(output: &str) -> Vec<&str> {
    let files = output.split("\n\n").skip(1);
    files.flat_map(|file| file.lines().skip(1)).collect()
}

async fn check(path: &str, source: &str, expected: &[&str]) {
    let folder = Folder::with(&[(path, source.as_bytes())]);
    let listed = text(folder.call(list_symbols(), json!({"path": path})).await);
    assert_eq!(rows(&listed), expected);
    assert!(!listed.contains("Syntax errors"), "{path}");
}

#[tokio::test]
async fn rust_symbols_are_listed() {
    check(
        "a.rs",
        "mod inner {\n    pub const MAX: usize = 3;\n}\n\n#[derive(Debug)]\npub struct Parser<'a> {\n    text: &'a str,\n}\n\nimpl<'a> Parser<'a> {\n    \
         /// Next.\n    pub fn next(\n        &mut self,\n    ) -> Option<char> {\n        fn helper() {}\n        None\n    }\n}\n\ntrait Read {\n    \
         fn read(&self);\n}\n\nenum Kind { A }\ntype Text = String;\nstatic ONE: u8 = 1;\nmacro_rules! twice { () => {} }\nasync fn main() {}\n",
        &[
            "1 module inner | mod inner",
            "2 constant inner::MAX | pub const MAX: usize = 3",
            "6 struct Parser | pub struct Parser<'a>",
            "12 method Parser::next | pub fn next( &mut self, ) -> Option<char>",
            "15 function Parser::next::helper | fn helper()",
            "20 trait Read | trait Read",
            "21 method Read::read | fn read(&self)",
            "24 enum Kind | enum Kind",
            "25 type Text | type Text = String",
            "26 variable ONE | static ONE: u8 = 1",
            "27 macro twice | macro_rules! twice { () => {} }",
            "28 function main | async fn main()",
        ],
    )
    .await;
}

#[tokio::test]
async fn python_symbols_are_listed() {
    check(
        "a.py",
        "LIMIT = 3\n\nclass Parser(Base):\n    size = 1\n\n    @property\n    def next(self) -> str:\n        return ''\n\ndef main(a, b=2):\n    x = 1\n",
        &[
            "1 variable LIMIT | LIMIT = 3",
            "3 class Parser | class Parser(Base)",
            "7 method Parser::next | def next(self) -> str",
            "10 function main | def main(a, b=2)",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_python_signature_ends_before_a_comment() {
    check(
        "c.py",
        "class Cart:  # holds \"1\" and \"1.5\"\n    def add(self, price):  # accepts \"1\"\n        pass\n\ndef h(a):\n    # only a comment first\n    return a\n",
        &[
            "1 class Cart | class Cart",
            "2 method Cart::add | def add(self, price)",
            "5 function h | def h(a)",
        ],
    )
    .await;
}

#[tokio::test]
async fn javascript_and_typescript_symbols_are_listed() {
    check(
        "a.js",
        "export const limit = 3;\nlet count = 0;\nclass Parser extends Base {\n  next(a) { const inner = 1; }\n  later = () => { };\n}\nfunction main() {}\n\
         const add = (a, b) => a + b;\n",
        &[
            "1 constant limit | limit = 3",
            "2 variable count | count = 0",
            "3 class Parser | class Parser extends Base",
            "4 method Parser::next | next(a)",
            "5 method Parser::later | later = ()",
            "7 function main | function main()",
            "8 function add | add = (a, b)",
        ],
    )
    .await;
    check(
        "a.ts",
        "interface Shape { area(): number; }\ntype Id = string;\nenum Kind { A }\nabstract class Base { abstract go(): void; }\nnamespace Inner { export function f(): void {} }\n",
        &[
            "1 interface Shape | interface Shape",
            "1 method Shape::area | area(): number",
            "2 type Id | type Id = string",
            "3 enum Kind | enum Kind",
            "4 class Base | abstract class Base",
            "4 method Base::go | abstract go(): void",
            "5 module Inner | namespace Inner",
            "5 function Inner::f | function f(): void",
        ],
    )
    .await;
    check(
        "a.tsx",
        "export const App = () => <p>hi</p>;\n",
        &["1 function App | App = ()"],
    )
    .await;
}

#[tokio::test]
async fn go_symbols_are_listed() {
    check(
        "a.go",
        "package a\n\nconst Max = 3\n\nvar count int\n\ntype Parser struct {\n\ttext string\n}\n\ntype Reader interface {\n\tRead() error\n}\n\n\
         func (p *Parser) Next(n int) (rune, error) {\n\tvar x int\n\treturn 0, nil\n}\n\nfunc main() {}\n",
        &[
            "3 constant Max | Max = 3",
            "5 variable count | count int",
            "7 struct Parser | Parser struct { text string }",
            "11 interface Reader | Reader interface { Read() error }",
            "12 method Reader::Read | Read() error",
            "15 method Parser::Next | func (p *Parser) Next(n int) (rune, error)",
            "20 function main | func main()",
        ],
    )
    .await;
}

#[tokio::test]
async fn symbols_are_filtered_by_kind_and_depth() {
    let folder = Folder::with(&[(
        "a.rs",
        b"struct A;\nimpl A {\n    fn new() -> A { A }\n}\nfn f() {}\n",
    )]);
    let listed = |parameters| folder.call(list_symbols(), parameters);
    let top = text(listed(json!({"depth": 1})).await);
    assert_eq!(rows(&top), ["1 struct A | struct A", "5 function f | fn f()"]);
    let methods = text(listed(json!({"paths": ["a.rs"], "kinds": ["method"]})).await);
    assert_eq!(rows(&methods), ["3 method A::new | fn new() -> A"]);
}

#[tokio::test]
async fn unreadable_files_are_listed_with_reasons() {
    let folder = Folder::with(&[
        ("notes.md", b"# fn f() {}\n"),
        ("broken.rs", b"fn whole() {}\nfn half( {\n"),
        ("big.py", "x = 1\n".repeat(400_000).as_bytes()),
        ("blob.go", b"\0\x01"),
    ]);
    let listed = text(
        folder
            .call(list_symbols(), json!({"paths": ["notes.md", "."]}))
            .await,
    );
    assert_eq!(rows(&listed)[0], "1 function whole | fn whole()");
    let notes: Vec<&str> = listed.lines().collect();
    assert_eq!(notes[1], "Syntax errors: broken.rs");
    let skipped = "Not read: notes.md (it is not source code of a supported language), big.py (it is larger than 2 MiB), blob.go (";
    assert!(notes[2].starts_with(skipped), "{listed}");
}

#[tokio::test]
async fn long_lists_are_bounded_and_counted() {
    let source: String = (0..1_000).map(|n| format!("fn f{n}() {{}}\n")).collect();
    let folder = Folder::with(&[("a.rs", source.as_bytes())]);
    let listed = text(folder.call(list_symbols(), json!({})).await);
    assert_eq!(rows(&listed).len(), 300);
    assert!(
        listed.starts_with("1000 symbols; only the first 300 are shown: narrow `paths` or `kinds`\n"),
        "{listed:.200}"
    );
}

#[tokio::test]
async fn container_paths_and_long_names_are_truncated() {
    let deep = format!("{}fn x() {{}}{}", "mod a{".repeat(4_000), "}".repeat(4_000));
    let long = format!("fn {}() {{}}", "n".repeat(5_000));
    let folder = Folder::with(&[("deep.rs", deep.as_bytes()), ("long.rs", long.as_bytes())]);
    let found = text(folder.call(find_definition(), json!({"name": "a::x"})).await);
    assert_eq!(
        found,
        "1 symbol\n\ndeep.rs\n1 function …::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::x | fn x()"
    );
    let listed = text(folder.call(list_symbols(), json!({})).await);
    assert!(listed.starts_with("4002 symbols; "), "{listed:.200}");
    let name = "n".repeat(5_000);
    let found = text(folder.call(find_definition(), json!({"name": name})).await);
    let cut = format!("1 function {}… | fn n", "n".repeat(100));
    assert!(rows(&found)[0].starts_with(&cut), "{found}");
    let none = text(
        folder
            .call(find_definition(), json!({"name": format!("{name}m")}))
            .await,
    );
    assert!(!none.contains("Similar names"), "{none}");
}

#[tokio::test]
async fn a_definition_is_found_by_its_name_and_container() {
    let folder = Folder::with(&[
        (
            "src/a.rs",
            b"// load\nfn load() {}\nfn main() { load(); }\nstruct S;\nimpl S {\n    fn load(&self) {}\n}\n",
        ),
        ("b.py", b"def load():\n    pass\n"),
        ("c.go", b"package c\n\nfunc Loaded() {}\n"),
    ]);
    let found = async |parameters| {
        let found = text(folder.call(find_definition(), parameters).await);
        let files = found.split("\n\n").skip(1);
        files
            .flat_map(|file| {
                let (path, symbols) = file.split_once('\n').unwrap();
                let lines = symbols.lines().map(|symbol| symbol.split_once(' ').unwrap().0);
                lines.map(|line| format!("{path}:{line}")).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found(json!({"name": "load"})).await,
        ["b.py:1", "src/a.rs:2", "src/a.rs:6"]
    );
    assert_eq!(
        found(json!({"name": "load", "kind": "method"})).await,
        ["src/a.rs:6"]
    );
    assert_eq!(found(json!({"name": "S::load"})).await, ["src/a.rs:6"]);
    assert_eq!(
        found(json!({"name": "load", "paths": ["src"]})).await,
        ["src/a.rs:2", "src/a.rs:6"]
    );
    let none = text(folder.call(find_definition(), json!({"name": "loadd"})).await);
    assert_eq!(none, "No symbols; 0 files read\nSimilar names: load, Loaded");
}

#[tokio::test]
async fn symbol_tools_report_failures_with_codes() {
    let folder = Folder::with(&[]);
    let code = |result: ToolResult| match result.outcome {
        ToolOutcome::Failure { code, .. } => code,
        ToolOutcome::Success { output } => panic!("it succeeded: {output}"),
    };
    assert_eq!(
        code(folder.call(list_symbols(), json!({"path": "../x"})).await),
        "outside_workspace"
    );
    assert_eq!(
        code(folder.call(list_symbols(), json!({"path": "no.rs"})).await),
        "not_found"
    );
    assert_eq!(
        code(folder.call(find_definition(), json!({"name": " "})).await),
        "bad_parameters"
    );
}
