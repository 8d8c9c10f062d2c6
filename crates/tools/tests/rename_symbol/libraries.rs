//! Names that belong to modules, to libraries, or to unknown objects.

use serde_json::json;

use super::{content, report, run, workspace};

#[tokio::test]
async fn a_module_of_the_same_name_is_reported_and_its_imports_are_unchanged() {
    let workspace = workspace(&[
        ("old/__init__.py", "from .old import old\nfrom . import other\n"),
        ("old/old.py", "def old(): pass\n"),
        ("a.py", "import old\nimport x.old as y\nold.old()\n"),
        ("b.py", "from old import old\nold()\n"),
    ]);
    let preview = run(&workspace, json!({"from": "old"})).await;
    let modules = report(&preview)["modules"].as_array().unwrap().iter();
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

/// The places that show that `old` belongs to a library, as `path:line`.
async fn foreign(files: &[(&str, &str)]) -> Vec<String> {
    listed("foreign", files).await
}

/// The places in one list of the preview of a rename of `old`, as `path:line`.
async fn listed(list: &str, files: &[(&str, &str)]) -> Vec<String> {
    let workspace = workspace(files);
    let preview = run(&workspace, json!({"from": "old"})).await;
    let rows = report(&preview)[list].as_array().into_iter().flatten();
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
    ] {
        assert_eq!(foreign(&[(path, text)]).await, Vec::<String>::new(), "{text}");
    }
}

#[tokio::test]
async fn paor_2_members_of_unknown_objects_are_reported() {
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

/// The lines that show that `old` belongs to a library, in a file with these lines.
async fn foreign_in(path: &str, lines: &[&str]) -> Vec<String> {
    let mut found = foreign(&[(path, &lines.join("\n"))]).await;
    found.dedup();
    found
}

#[tokio::test]
async fn paor_2_a_librarys_name_in_rust_is_reported() {
    for line in [
        "fn f() { x.old(); }",
        "fn f() { x.a().old::<u32>()?; }",
        "fn f() { x.iter().map(T::old); }",
        "fn f() { a::old(1); }",
        "fn f() { <T as A>::old(); }",
        "fn f() { T::old }",
        "fn f() { old(1); }",
        "fn f() { old!(1); }",
        "fn f() { a::old![1]; }",
        "fn f() -> old {}",
        "fn f<T: old>(x: &dyn old) {}",
        "fn f(x: impl Iterator<old = u32>) {}",
        "fn f() { let x = A { old: 1 }; }",
        "fn f() { let A { old: x } = y; }",
        "fn f() { let A { old } = y; }",
        "fn f() { let A::old(x) = y else {}; }",
        "fn f() { if x == A::old {} }",
        "#[old] fn f() {}",
        "#[derive(Clone, old)] struct A;",
        "#[serde(old)] struct A;",
        "fn f() { println!(\"{}\", x.old()); }",
        "fn f() { vec![a::old(), T::old]; }",
        "fn f() { assert_eq!(old(1), 2); }",
        "fn f() { println!(\"{old}\"); }",
        "impl fmt::Display for A { fn old(&self) {} }",
        "impl A for B { const old: u32 = 1; }",
        "impl A for B { type old = u32; }",
        "impl<T> old for T {}",
        "extern \"C\" { fn old(); }",
        "use old;",
        "extern crate old;",
        "use old::a;",
        "use a::old;",
        "use a::{b, old};",
        "use a::old as b;",
        "macro_rules! a { ($x:expr) => { $x.old() }; }",
        "macro_rules! a { ($x:ident) => { b::old!($x) }; }",
        "make! { fn a() { x.old() } }",
        // a variable has no qualifier
        "fn f(old: u32) { x.old(); }",
        "fn f() { let old = x.old(); }",
        "fn f() { let old = old![1]; }",
        "fn f() { g(|old| T::old(old)) }",
    ] {
        assert_eq!(foreign_in("a.rs", &[line]).await, ["a.rs:1"], "{line}");
    }
    for line in [
        "use std::old;",
        "use std::{io, a::{b, old}};",
        "use core::a::old as b;",
        "fn f() { std::a::old(); }",
        "fn f() -> alloc::a::old<u32> {}",
    ] {
        assert_eq!(
            foreign_in("a.rs", &["fn old() {}", line]).await,
            ["a.rs:2"],
            "{line}"
        );
    }
}

#[tokio::test]
async fn paor_2_names_that_rust_sources_introduce_do_not_belong_to_a_library() {
    for lines in [
        &["fn old() {}", "fn f() { old(); a::old(); x.map(old); }"][..],
        &["impl A { fn old(&self) {} }", "fn f() { x.old(); A::old(&x); }"],
        &[
            "impl<T: Copy> A<T> { pub const fn old() {} }",
            "fn f() { A::<u32>::old() }",
        ],
        &[
            "trait A { fn old(&self); }",
            "impl A for B { fn old(&self) {} }",
            "fn f() { x.old(); }",
        ],
        &["trait A { fn old(&self) {} }", "fn f() { B.old(); }"],
        &[
            "trait A { const old: u32; type old; }",
            "impl A for B { const old: u32 = 1; type old = u8; }",
        ],
        &[
            "struct A { old: u32 }",
            "fn f(a: A) { a.old; A { old: 1 }; let A { old } = a; }",
        ],
        &["struct old(u32);", "fn f(x: old) { old(1); }"],
        &["enum old { B }", "use crate::a::old;", "fn f() { old::B }"],
        &["enum A { old, old2(u32) }", "fn f() { A::old }"],
        &["union old { a: u32 }", "fn f() -> old {}"],
        &["type old = u32;", "fn f(x: old) {}"],
        &["const old: u32 = 1;", "fn f() { a::old }"],
        &["static mut old: u32 = 1;", "fn f() { a::old }"],
        &["trait old {}", "impl old for A {}", "fn f(x: &dyn old) {}"],
        &["mod old;", "use crate::old::a;"],
        &["mod a { mod old { pub fn b() {} } }", "fn f() { a::old::b() }"],
        &[
            "macro_rules! old { () => {}; }",
            "fn f() { old!(); crate::old!() }",
        ],
        &["#[cfg(test)] mod tests {", "fn old() {}", "fn f() { old(); } }"],
        &["use a::b as old;", "fn f() { old(); old::c(); }"],
        &["extern crate a as old;", "fn f() { old::c(); }"],
        &["fn f<old: Copy>(x: old) -> old {}"],
        &["struct A<const old: usize>([u8; old]);"],
        &["fn f(old: u32) -> u32 { old.a(); g(old) }"],
        &["fn f() { let old = 1; println!(\"{old}\", a = old + 1); }"],
        &["fn f() { let (a, mut old) = x; if let Some(old) = y { g(old) } }"],
        &["fn f() { let [a, &old, ..] = x; for old in y {} }"],
        &["fn f() { match x { old if old > 1 => g(old), A(ref old) | B { a: old } => old } }"],
        &["fn f() { match x { old @ 1..=2 => old } while let Some(old) = y {} }"],
        &["fn f() { x.map(|old| old + 1); x.map(|a, old: u32| old) }"],
        &["fn f() { macro_call!(|old| old + 1); assert!(x.map(|a, old| old)) }"],
        // a name that a macro defines
        &["make!(old);", "fn f() { a::old() }"],
        &["make! { pub fn old(); }", "fn f() { x.old() }"],
        &["make! { a, old { b: u32 } }", "fn f() { x.old() }"],
        &["make! { struct A { old: u32 } }", "fn f() { x.old() }"],
        &["thread_local! { static old: u32 = 1; }", "fn f() { old.with(g) }"],
        &["macro_rules! a { () => { fn old() {} }; }", "fn f() { b::old() }"],
        &["fn f() { quote! { impl A { fn old(&self) {} } }; x.old() }"],
        &["fn f() { format!(\"{old}\", old = 1); }"],
        &[
            "#[proc_macro_derive(old)] pub fn a() {}",
            "#[derive(old)] struct A;",
        ],
        // a syntax error
        &["fn old( { ", "fn f() { x.old() }"],
    ] {
        assert_eq!(foreign_in("a.rs", lines).await, Vec::<String>::new(), "{lines:?}");
    }
}

#[tokio::test]
async fn paor_2_a_librarys_name_in_go_is_reported() {
    for line in [
        "func f() { fmt.old(1) }",
        "func f() { x.old() }",
        "func f() { x.a().b.old = 1 }",
        "func f() { old(x) }",
        "func f() { a := old{} }",
        "func f() { a := b{old: 1} }",
        "func f(x a.old) {}",
        "func f(x *old) []old {}",
        "func f() { y := old.A() }",
        "type A struct { old }",
        "type A struct { b.old }",
        "type A interface { b.old }",
        "func f() { switch x.(type) { case a.old: } }",
        "var x = a.old",
        // a variable has no qualifier
        "func f(old int) { x.old() }",
        "func f() { old := x.old() }",
        "func f() { var old a.old }",
        "func f() { for i, old := range x { y.old(old) } }",
    ] {
        assert_eq!(
            foreign_in("a.go", &["package a", line]).await,
            ["a.go:2"],
            "{line}"
        );
    }
    for import in [
        "import \"fmt\"",
        "import fmt \"net/http\"",
        "import ( \"os\"; \"a/fmt\"; fmt \"io\" )",
    ] {
        let method = "func (x A) old() { fmt.old() }";
        let typed = "type b struct { old fmt.old }";
        for line in [method, typed] {
            let found = foreign_in("a.go", &["package a", import, line]).await;
            let is_local = import.contains("a/fmt");
            assert_eq!(found.is_empty(), is_local, "{import} {line}");
        }
    }
}

#[tokio::test]
async fn paor_2_names_that_go_sources_introduce_do_not_belong_to_a_library() {
    for lines in [
        &["func old() {}", "func f() { old(); a.old() }"][..],
        &["func old[T any](x T) {}", "func f() { old[int](1) }"],
        &["func (x *A) old() {}", "func f() { x.old() }"],
        &[
            "type A struct { a, old int }",
            "func f() { x.old = 1; y := A{old: 2} }",
        ],
        &["type A struct { old }", "type old struct {}"],
        &["type A interface { old() }", "func f(x A) { x.old() }"],
        &["type old = int", "func f(x old, y a.old) {}"],
        &["type ( a int; old struct{} )", "func f() { x := &old{} }"],
        &["const old = 1", "func f() { x := a.old }"],
        &["const ( a = iota; old )", "func f() { x := a.old }"],
        &["var a, old = 1, 2", "func f() { x := a.old }"],
        &["import old \"a/b\"", "func f() { old.C() }"],
        &[
            "import \"example.org/b\"",
            "func old() {}",
            "func f() { b.old() }",
        ],
        &["func f(a int, old ...int) { g(old...) }"],
        &["func f() (old error) { return old }"],
        &["func f[old any](x old) {}"],
        &["func (old A) f() { old.a() }"],
        &["func f() { a, old := 1, 2; old = 3 }"],
        &["func f() { var old int; old++ }"],
        &["func f() { const old = 1; type b int }"],
        &["func f() { for _, old := range x { g(old) } }"],
        &["func f() { switch old := x.(type) { default: g(old) } }"],
        &["func f() { select { case old, ok := <-c: g(old, ok) } }"],
        &["func f() { g(func(old int) int { return old }) }"],
    ] {
        let file: Vec<&str> = [&["package a"], lines].concat();
        assert_eq!(foreign_in("a.go", &file).await, Vec::<String>::new(), "{lines:?}");
    }
    assert_eq!(foreign_in("a.go", &["package old"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn paor_2_a_definition_in_another_file_introduces_a_name_but_a_variable_does_not() {
    let used = ("b.rs", "fn f() { old(1) }\n");
    assert_eq!(
        foreign(&[used, ("src/a.rs", "pub fn old() {}\n")]).await,
        Vec::<String>::new()
    );
    assert_eq!(
        foreign(&[used, ("src/a.rs", "fn f(old: u32) {}\n")]).await,
        ["b.rs:1"]
    );
}

#[tokio::test]
async fn paor_2_names_similar_to_a_librarys_name_are_suggested_only_from_the_sources() {
    let workspace = workspace(&[(
        "a.rs",
        "fn uwrap(unwrapp: u32) { x.unwrap(); y.unwrap_(); }\nfn unwrap_it() { uwrap(1) }\n",
    )]);
    let preview = run(&workspace, json!({"from": "unwrap"})).await;
    assert_eq!(
        report(&preview)["similar"],
        json!(["unwrapp", "uwrap", "unwrap_it"])
    );
    assert_eq!(report(&preview)["totals"].get("introductions"), None);
}
