//! The identifiers of each language.

use serde_json::json;

use super::{check, content, places, run, workspace};

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
async fn html_tags_are_not_identifiers() {
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
async fn a_keyword_of_another_language_is_a_valid_new_name() {
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
