//! Names that belong to modules, to libraries, or to unknown owners.

use serde_json::json;

use crate::{content, output, run, workspace};

#[tokio::test]
async fn a_module_of_the_same_name_is_reported_and_its_imports_are_unchanged() {
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
async fn paor_2_imports_from_outside_the_workspace_are_reported() {
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
async fn paor_2_a_name_that_no_source_introduces_belongs_to_a_library() {
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
async fn paor_2_members_of_unknown_owners_are_reported() {
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
