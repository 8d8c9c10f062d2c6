//! `list_symbols` and `find_definition` on sources of each language.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::folder::{Folder, output};
use dirigent_core::tool::{ToolOutcome, ToolResult};
use dirigent_tools::{find_definition, list_symbols};
use serde_json::{Value, json};

/// `kind container::name line | signature`
fn rows(output: &Value) -> Vec<String> {
    let row = |symbol: &Value| {
        let text = |name: &str| symbol[name].as_str().unwrap_or_default().to_owned();
        let container = symbol["container"]
            .as_str()
            .map_or(String::new(), |name| format!("{name}::"));
        format!(
            "{} {container}{} {} | {}",
            text("kind"),
            text("name"),
            symbol["line"],
            text("signature")
        )
    };
    output["symbols"].as_array().unwrap().iter().map(row).collect()
}

async fn check(path: &str, source: &str, expected: &[&str]) {
    let folder = Folder::with(&[(path, source.as_bytes())]);
    let listed = output(folder.call(list_symbols(), json!({"path": path})).await);
    assert_eq!(rows(&listed), expected);
    assert_eq!(listed.get("syntax_errors"), None, "{path}");
}

#[tokio::test]
async fn rust() {
    check(
        "a.rs",
        "mod inner {\n    pub const MAX: usize = 3;\n}\n\n#[derive(Debug)]\npub struct Parser<'a> {\n    text: &'a str,\n}\n\nimpl<'a> Parser<'a> {\n    \
         /// Next.\n    pub fn next(\n        &mut self,\n    ) -> Option<char> {\n        fn helper() {}\n        None\n    }\n}\n\ntrait Read {\n    \
         fn read(&self);\n}\n\nenum Kind { A }\ntype Text = String;\nstatic ONE: u8 = 1;\nmacro_rules! twice { () => {} }\nasync fn main() {}\n",
        &[
            "module inner 1 | mod inner",
            "constant inner::MAX 2 | pub const MAX: usize = 3",
            "struct Parser 6 | pub struct Parser<'a>",
            "method Parser::next 12 | pub fn next( &mut self, ) -> Option<char>",
            "function Parser::next::helper 15 | fn helper()",
            "trait Read 20 | trait Read",
            "method Read::read 21 | fn read(&self)",
            "enum Kind 24 | enum Kind",
            "type Text 25 | type Text = String",
            "variable ONE 26 | static ONE: u8 = 1",
            "macro twice 27 | macro_rules! twice { () => {} }",
            "function main 28 | async fn main()",
        ],
    )
    .await;
}

#[tokio::test]
async fn python() {
    check(
        "a.py",
        "LIMIT = 3\n\nclass Parser(Base):\n    size = 1\n\n    @property\n    def next(self) -> str:\n        return ''\n\ndef main(a, b=2):\n    x = 1\n",
        &[
            "variable LIMIT 1 | LIMIT = 3",
            "class Parser 3 | class Parser(Base)",
            "method Parser::next 7 | def next(self) -> str",
            "function main 10 | def main(a, b=2)",
        ],
    )
    .await;
}

#[tokio::test]
async fn javascript_and_typescript() {
    check(
        "a.js",
        "export const limit = 3;\nlet count = 0;\nclass Parser extends Base {\n  next(a) { const inner = 1; }\n  later = () => { };\n}\nfunction main() {}\n\
         const add = (a, b) => a + b;\n",
        &[
            "constant limit 1 | limit = 3",
            "variable count 2 | count = 0",
            "class Parser 3 | class Parser extends Base",
            "method Parser::next 4 | next(a)",
            "method Parser::later 5 | later = ()",
            "function main 7 | function main()",
            "function add 8 | add = (a, b)",
        ],
    )
    .await;
    check(
        "a.ts",
        "interface Shape { area(): number; }\ntype Id = string;\nenum Kind { A }\nabstract class Base { abstract go(): void; }\nnamespace Inner { export function f(): void {} }\n",
        &[
            "interface Shape 1 | interface Shape",
            "method Shape::area 1 | area(): number",
            "type Id 2 | type Id = string",
            "enum Kind 3 | enum Kind",
            "class Base 4 | abstract class Base",
            "method Base::go 4 | abstract go(): void",
            "module Inner 5 | namespace Inner",
            "function Inner::f 5 | function f(): void",
        ],
    )
    .await;
    check(
        "a.tsx",
        "export const App = () => <p>hi</p>;\n",
        &["function App 1 | App = ()"],
    )
    .await;
}

#[tokio::test]
async fn go() {
    check(
        "a.go",
        "package a\n\nconst Max = 3\n\nvar count int\n\ntype Parser struct {\n\ttext string\n}\n\ntype Reader interface {\n\tRead() error\n}\n\n\
         func (p *Parser) Next(n int) (rune, error) {\n\tvar x int\n\treturn 0, nil\n}\n\nfunc main() {}\n",
        &[
            "constant Max 3 | Max = 3",
            "variable count 5 | count int",
            "struct Parser 7 | Parser struct { text string }",
            "interface Reader 11 | Reader interface { Read() error }",
            "method Reader::Read 12 | Read() error",
            "method Parser::Next 15 | func (p *Parser) Next(n int) (rune, error)",
            "function main 20 | func main()",
        ],
    )
    .await;
}

#[tokio::test]
async fn kinds_and_depth_choose() {
    let folder = Folder::with(&[(
        "a.rs",
        b"struct A;\nimpl A {\n    fn new() -> A { A }\n}\nfn f() {}\n",
    )]);
    let listed = |parameters| folder.call(list_symbols(), parameters);
    let top = output(listed(json!({"depth": 1})).await);
    assert_eq!(rows(&top), ["struct A 1 | struct A", "function f 5 | fn f()"]);
    let methods = output(listed(json!({"paths": ["a.rs"], "kinds": ["method"]})).await);
    assert_eq!(rows(&methods), ["method A::new 3 | fn new() -> A"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    let folder = Folder::with(&[
        ("notes.md", b"# fn f() {}\n"),
        ("broken.rs", b"fn whole() {}\nfn half( {\n"),
        ("big.py", "x = 1\n".repeat(400_000).as_bytes()),
        ("blob.go", b"\0\x01"),
    ]);
    let listed = output(
        folder
            .call(list_symbols(), json!({"paths": ["notes.md", "."]}))
            .await,
    );
    assert_eq!(listed["symbols"][0]["name"], "whole");
    assert_eq!(listed["syntax_errors"], json!(["broken.rs"]));
    let skipped: Vec<&Value> = listed["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["path"])
        .collect();
    assert_eq!(skipped, ["notes.md", "big.py", "blob.go"]);
}

#[tokio::test]
async fn long_lists_are_bounded_and_counted() {
    let source: String = (0..1_000).map(|n| format!("fn f{n}() {{}}\n")).collect();
    let folder = Folder::with(&[("a.rs", source.as_bytes())]);
    let listed = output(folder.call(list_symbols(), json!({})).await);
    assert_eq!(listed["symbols"].as_array().unwrap().len(), 300);
    assert_eq!(listed["total"], 1_000);
}

#[tokio::test]
async fn what_is_deep_in_others_and_long_names_are_cut() {
    let deep = format!("{}fn x() {{}}{}", "mod a{".repeat(4_000), "}".repeat(4_000));
    let long = format!("fn {}() {{}}", "n".repeat(5_000));
    let folder = Folder::with(&[("deep.rs", deep.as_bytes()), ("long.rs", long.as_bytes())]);
    let found = output(folder.call(find_definition(), json!({"name": "a::x"})).await);
    assert_eq!(found["total"], 1);
    assert_eq!(
        found["symbols"][0]["container"],
        "…::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a::a"
    );
    let listed = output(folder.call(list_symbols(), json!({})).await);
    assert_eq!(listed["total"], 4_002);
    let name = "n".repeat(5_000);
    let found = output(folder.call(find_definition(), json!({"name": name})).await);
    assert_eq!(found["symbols"][0]["name"], format!("{}…", "n".repeat(100)));
    let none = output(
        folder
            .call(find_definition(), json!({"name": format!("{name}m")}))
            .await,
    );
    assert_eq!(none["similar"], json!([]));
}

#[tokio::test]
async fn a_definition_is_found_by_its_name_and_what_it_is_in() {
    let folder = Folder::with(&[
        (
            "src/a.rs",
            b"// load\nfn load() {}\nfn main() { load(); }\nstruct S;\nimpl S {\n    fn load(&self) {}\n}\n",
        ),
        ("b.py", b"def load():\n    pass\n"),
        ("c.go", b"package c\n\nfunc Loaded() {}\n"),
    ]);
    let found = async |parameters| {
        let output = output(folder.call(find_definition(), parameters).await);
        let symbols = output["symbols"].as_array().unwrap().clone();
        symbols
            .iter()
            .map(|row| format!("{}:{}", row["path"].as_str().unwrap(), row["line"]))
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
    let none = output(folder.call(find_definition(), json!({"name": "loadd"})).await);
    assert_eq!(
        (&none["symbols"], &none["similar"]),
        (&json!([]), &json!(["load", "Loaded"]))
    );
}

#[tokio::test]
async fn failures_have_codes() {
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
