//! Drawings of a plan's graph.

use std::sync::Arc;

use dirigent::render;
use dirigent_core::plan::{PlanGraph, SubTask, SubTaskOutcome};
use proptest::prelude::*;

use crate::plans::{graph, numbered, plan, subtask};

/// A plan that is partly executed: `a` succeeded, `b` failed, `c` runs.
fn half_done() -> PlanGraph {
    let mut graph = graph(&[
        ("read/a.rs", &[]),
        ("b", &[]),
        ("c", &["read/a.rs"]),
        ("d", &["c", "read/a.rs"]),
        ("e", &["b", "d"]),
        ("f", &["read/a.rs"]),
    ]);
    graph.next_ready();
    graph.next_ready();
    graph.finish(0, SubTaskOutcome::Succeeded);
    graph.next_ready();
    graph.finish(1, SubTaskOutcome::Failed);
    graph
}

#[test]
fn paor_4_drawings_mark_sub_tasks_that_may_fail() {
    let baseline = SubTask {
        may_fail: true,
        ..subtask("baseline", &[])
    };
    let mut graph = PlanGraph::new(Arc::new(plan(vec![baseline, subtask("edit", &["baseline"])]))).unwrap();
    graph.next_ready();
    graph.finish(0, SubTaskOutcome::Failed);
    insta::assert_snapshot!(render::tree(&graph), @r"
✗ Do baseline [baseline] failed (may fail)
  ○ Do edit [edit] ready
");
    assert!(render::mermaid(&graph).contains("[\"Do baseline<br/>baseline<br/>may fail\"]:::failed"));
    assert!(render::dot(&graph).contains("label=\"Do baseline\\nbaseline\\nmay fail\""));
}

#[test]
fn a_plan_is_drawn_with_its_states() {
    insta::assert_snapshot!(render::mermaid(&half_done()), @r#"
flowchart TD
    s0["Do read/a.rs<br/>read/a.rs"]:::succeeded
    s1["Do b<br/>b"]:::failed
    s2["Do c<br/>c"]:::running
    s3["Do d<br/>d"]:::waiting
    s4["Do e<br/>e"]:::skipped
    s5["Do f<br/>f"]:::ready
    s0 --> s2
    s2 --> s3
    s0 --> s3
    s1 --> s4
    s3 --> s4
    s0 --> s5
    classDef waiting fill:#eeeeee,stroke:#888888,color:#000000
    classDef ready fill:#fff3c4,stroke:#b7880b,color:#000000
    classDef running fill:#cfe2ff,stroke:#0b5ed7,color:#000000
    classDef succeeded fill:#d1e7dd,stroke:#146c43,color:#000000
    classDef failed fill:#f8d7da,stroke:#b02a37,color:#000000
    classDef skipped fill:#e2d9f3,stroke:#59359a,color:#000000
"#);
    insta::assert_snapshot!(render::dot(&half_done()), @r##"
digraph plan {
    node [shape=box, style=filled];
    s0 [label="Do read/a.rs\nread/a.rs", class="succeeded", fillcolor="#d1e7dd", color="#146c43"];
    s1 [label="Do b\nb", class="failed", fillcolor="#f8d7da", color="#b02a37"];
    s2 [label="Do c\nc", class="running", fillcolor="#cfe2ff", color="#0b5ed7"];
    s3 [label="Do d\nd", class="waiting", fillcolor="#eeeeee", color="#888888"];
    s4 [label="Do e\ne", class="skipped", fillcolor="#e2d9f3", color="#59359a"];
    s5 [label="Do f\nf", class="ready", fillcolor="#fff3c4", color="#b7880b"];
    s0 -> s2;
    s2 -> s3;
    s0 -> s3;
    s1 -> s4;
    s3 -> s4;
    s0 -> s5;
}
"##);
    insta::assert_snapshot!(render::tree(&half_done()), @"
✓ Do read/a.rs [read/a.rs] succeeded
  ▶ Do c [c] running
    · Do d [d] waiting (also after read/a.rs)
  ○ Do f [f] ready
✗ Do b [b] failed
  ↷ Do e [e] skipped (also after d)
");
}

#[test]
fn markup_in_a_title_is_escaped_in_a_drawing() {
    let nasty = [
        "end",
        "\"]:::failed; click s0 \"javascript:alert(1)\"",
        "a\n%%{init: {}}%%\n`**md**`",
        "<b onclick=x>&amp;</b> #35; \\N \\",
        "1. list",
        "\u{1b}[31mred\u{202e}\0 Ünï-cödé_x 😀",
    ];
    let subtasks = nasty.iter().enumerate().map(|(index, text)| SubTask {
        title: (*text).to_owned(),
        ..subtask(&format!("{index}\"{text}"), &[])
    });
    let graph = PlanGraph::new(Arc::new(plan(subtasks.collect()))).unwrap();
    insta::assert_snapshot!(render::mermaid(&graph).lines().take(7).collect::<Vec<_>>().join("\n"), @r##"
flowchart TD
    s0["end<br/>0#34;end"]:::ready
    s1["#34;#93;#58;#58;#58;failed#59; click s0 #34;javascript#58;alert#40;1#41;#34;<br/>1#34;#34;#93;#58;#58;#58;failed#59; click s0 #34;javascript#58;alert#40;1#41;#34;"]:::ready
    s2["a #37;#37;#123;init#58; #123;#125;#125;#37;#37; #96;#42;#42;md#42;#42;#96;<br/>2#34;a #37;#37;#123;init#58; #123;#125;#125;#37;#37; #96;#42;#42;md#42;#42;#96;"]:::ready
    s3["#60;b onclick#61;x#62;#38;amp#59;#60;#47;b#62; #35;35#59; #92;N #92;<br/>3#34;#60;b onclick#61;x#62;#38;amp#59;#60;#47;b#62; #35;35#59; #92;N #92;"]:::ready
    s4["1#46; list<br/>4#34;1#46; list"]:::ready
    s5["#91;31mred Ünï-cödé_x #128512;<br/>5#34;#91;31mred Ünï-cödé_x #128512;"]:::ready
"##);
    insta::assert_snapshot!(render::dot(&graph), @r##"
digraph plan {
    node [shape=box, style=filled];
    s0 [label="end\n0\"end", class="ready", fillcolor="#fff3c4", color="#b7880b"];
    s1 [label="\"]:::failed; click s0 \"javascript:alert(1)\"\n1\"\"]:::failed; click s0 \"javascript:alert(1)\"", class="ready", fillcolor="#fff3c4", color="#b7880b"];
    s2 [label="a %%{init: {}}%% `**md**`\n2\"a %%{init: {}}%% `**md**`", class="ready", fillcolor="#fff3c4", color="#b7880b"];
    s3 [label="<b onclick=x>&amp;amp;</b> #35; \\N \\\n3\"<b onclick=x>&amp;amp;</b> #35; \\N \\", class="ready", fillcolor="#fff3c4", color="#b7880b"];
    s4 [label="1. list\n4\"1. list", class="ready", fillcolor="#fff3c4", color="#b7880b"];
    s5 [label="[31mred Ünï-cödé_x 😀\n5\"[31mred Ünï-cödé_x 😀", class="ready", fillcolor="#fff3c4", color="#b7880b"];
}
"##);
    insta::assert_snapshot!(render::tree(&graph), @r#"
○ end [0"end] ready
○ "]:::failed; click s0 "javascript:alert(1)" [1""]:::failed; click s0 "javascript:alert(1)"] ready
○ a %%{init: {}}%% `**md**` [2"a %%{init: {}}%% `**md**`] ready
○ <b onclick=x>&amp;</b> #35; \N \ [3"<b onclick=x>&amp;</b> #35; \N \] ready
○ 1. list [4"1. list] ready
○ [31mred Ünï-cödé_x 😀 [5"[31mred Ünï-cödé_x 😀] ready
"#);
}

#[test]
fn the_indentation_of_a_long_chain_in_the_plan_tree_is_limited() {
    let chain: Vec<Vec<usize>> = (0..40usize)
        .map(|index| index.checked_sub(1).into_iter().collect())
        .collect();
    let tree = render::tree(&PlanGraph::new(numbered(&chain)).unwrap());
    let line = tree.lines().last().unwrap();
    assert_eq!(
        line,
        format!("{}· Do t39 [t39] waiting (after t38)", " ".repeat(64))
    );
}

#[test]
fn drawings_of_many_sub_tasks_take_linear_time() {
    const MANY: usize = 100_000;
    let chain: Vec<Vec<usize>> = (0..MANY)
        .map(|index| index.checked_sub(1).into_iter().collect())
        .collect();
    let mut fan: Vec<Vec<usize>> = (0..MANY)
        .map(|index| if index == 0 { vec![] } else { vec![0] })
        .collect();
    fan.push((0..MANY).collect());
    for dependencies in [chain, fan] {
        let graph = PlanGraph::new(numbered(&dependencies)).unwrap();
        for drawing in [render::mermaid(&graph), render::dot(&graph), render::tree(&graph)] {
            assert!(drawing.lines().count() >= dependencies.len());
        }
    }
}

/// Dependencies on smaller numbers only: no cycle is possible.
fn acyclic() -> impl Strategy<Value = Vec<Vec<usize>>> {
    proptest::collection::vec(
        proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        1..40,
    )
    .prop_map(|picks| {
        picks
            .iter()
            .enumerate()
            .map(|(index, picks)| match index {
                0 => Vec::new(),
                _ => picks.iter().map(|pick| pick.index(index)).collect(),
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn a_drawing_has_one_line_for_each_sub_task_whatever_its_title(dependencies in acyclic(), title in any::<String>()) {
        let mut plan = numbered(&dependencies).as_ref().clone();
        for subtask in &mut plan.subtasks {
            subtask.title.clone_from(&title);
        }
        let graph = PlanGraph::new(Arc::new(plan)).unwrap();
        prop_assert_eq!(render::tree(&graph).lines().count(), dependencies.len());
        let edges: usize = (0..dependencies.len()).map(|index| graph.dependencies(index).count()).sum();
        prop_assert_eq!(render::mermaid(&graph).lines().count(), 1 + dependencies.len() + edges + 6);
        prop_assert_eq!(render::dot(&graph).lines().count(), 3 + dependencies.len() + edges);
    }
}
