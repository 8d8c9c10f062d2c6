//! Plans: parsing, errors and execution (PAOR-4).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "machines/plans.rs"]
mod plans;

use std::sync::Arc;

use dirigent_core::agent_spec::{AgentSpec, AnswerForm, ModelProfile};
use dirigent_core::call::ToolSet;
use dirigent_core::limits::AgentLimits;
use dirigent_core::plan::{
    Plan, PlanError, PlanGraph, PlanRules, PlannedCall, Skipped, SubTask, SubTaskCounts, SubTaskOutcome,
    SubTaskState, Work, plan_schema,
};
use dirigent_core::policy::{Policy, Rule, Ruling};
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use proptest::prelude::*;
use serde_json::{Value, json};

use plans::{graph, numbered, plan, subtask};

fn faults(plan: &Plan) -> Vec<String> {
    let errors = validated(plan.clone()).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

fn validated(plan: Plan) -> Result<Plan, Vec<PlanError>> {
    let agent = |name: &str| AgentSpec {
        name: name.to_owned(),
        description: "An agent.".to_owned(),
        system_prompt: "You are an agent.".to_owned(),
        tools: Vec::new(),
        access: Access::ReadOnly,
        model: None,
        limits: AgentLimits::default(),
        answer: AnswerForm::Text,
        asks: None,
        base_prompt: None,
        deepest_prompt: None,
        profile: ModelProfile::default(),
    };
    let search = ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: "search".to_owned(),
        description: "Searches.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "path": {"type": "string"}},
            "required": ["pattern"],
            "additionalProperties": false
        }),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    };
    let rules = PlanRules {
        agents: &[agent("explore"), agent("edit")],
        only_agent: None,
        tools: &ToolSet::new(vec![search]),
        policy: &Policy {
            rules: vec![Rule {
                ruling: Ruling::Deny,
                calls: "search(path: secrets/*)".parse().unwrap(),
            }],
        },
        workspace: "/shop",
        max_subtasks: 6,
        remaining_agents: 4,
        guidance: Some(2),
    };
    plan.validate(&rules)
}

fn calls(id: &str, calls: &[(&str, Value)]) -> SubTask {
    let calls = calls
        .iter()
        .map(|(tool, parameters)| PlannedCall {
            tool: (*tool).to_owned(),
            parameters: parameters.clone(),
        })
        .collect();
    SubTask {
        work: Work::Calls { calls },
        ..subtask(id, &[])
    }
}

#[test]
fn paor_4_a_valid_plan_has_no_errors() {
    let sound = plan(vec![
        subtask("look", &[]),
        SubTask {
            depends_on: vec!["look".into()],
            ..calls("find", &[("search", json!({"pattern": "a"}))])
        },
    ]);
    assert_eq!(faults(&sound), Vec::<String>::new());
    assert_eq!(faults(&plan(Vec::new())), Vec::<String>::new());
}

#[test]
fn approve_1_a_plan_with_a_call_that_a_rule_denies_is_refused() {
    let search = |path: &str| ("search", json!({"pattern": "key", "path": path}));
    let bad = plan(vec![calls("find", &[search("src/a.rs"), search("secrets/a.rs")])]);
    assert_eq!(
        faults(&bad),
        [
            "sub-task `find`, calls[1]: this run's rules deny `search` with path `secrets/*`: plan another way, without this call"
        ]
    );
}

#[test]
fn paor_8_a_plan_answers_only_guidance_that_was_given() {
    let answering = |numbers: &[u32]| Plan {
        answers_guidance: numbers.to_vec(),
        ..plan(Vec::new())
    };
    assert_eq!(faults(&answering(&[1, 2, 2])), Vec::<String>::new());
    assert_eq!(
        faults(&answering(&[3, 1, 0, 3])),
        [
            "`answers_guidance` contains 0, 3, but the user's guidance is numbered from 1 to 2: list only guidance that this plan answers"
        ]
    );
}

#[test]
fn paor_4_every_structural_error_of_a_plan_is_named() {
    let bad = plan(vec![
        subtask("read-parser", &["read-parser", "nowhere"]),
        subtask("edit", &["read_parsr", "test"]),
        subtask("test", &["edit"]),
        subtask("edit", &[]),
        SubTask {
            title: " ".to_owned(),
            ..subtask("", &[])
        },
    ]);
    insta::assert_snapshot!(faults(&bad).join("\n"), @"
2 sub-tasks have the id `edit`: give each one a unique id
sub-task `read-parser` depends on itself: remove this dependency
sub-task `read-parser` depends on `nowhere`, which is not in the plan: use the id of a sub-task of this plan, or remove the dependency
sub-task `edit` depends on `read_parsr`, which is not in the plan (did you mean `read-parser`?): use the id of a sub-task of this plan, or remove the dependency
sub-tasks depend on each other in a cycle: `edit` → `test` → `edit`. Remove one of these dependencies
subtasks[4] has an empty `id`: give it a short unique id, such as `step-5`
sub-task `` has an empty `title`: describe the sub-task in a few words
the plan starts 5 sub-agents, but the run may start only 4 more: merge sub-tasks, or use `calls` where tools suffice
");
}

#[test]
fn paor_4_ids_and_titles_must_not_contain_invisible_characters() {
    let bad = plan(vec![
        SubTask {
            title: "Read".to_owned(),
            ..subtask("re\u{202e}ad", &[])
        },
        SubTask {
            title: "Look\u{1b}[2J".to_owned(),
            ..subtask("look", &[])
        },
    ]);
    assert_eq!(
        faults(&bad),
        [
            "the `id` of subtasks[0] contains the invisible character U+202E: remove it",
            "the `title` of subtasks[1] contains the invisible character U+001B: remove it",
        ]
    );
}

#[test]
fn paor_4_every_cycle_is_named_in_order() {
    let bad = numbered(&[vec![2], vec![0], vec![1], vec![4], vec![3, 5], vec![4], vec![0]]);
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).into()).collect::<Vec<_>>();
    assert_eq!(
        PlanGraph::new(Arc::clone(&bad)).unwrap_err(),
        vec![
            PlanError::Cycle {
                members: ids(&["t0", "t2", "t1"]),
                others: Vec::new()
            },
            PlanError::Cycle {
                members: ids(&["t3", "t4"]),
                others: ids(&["t5"])
            },
        ]
    );
    let messages: Vec<String> = PlanGraph::new(bad)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    insta::assert_snapshot!(messages.join("\n"), @"
sub-tasks depend on each other in a cycle: `t0` → `t2` → `t1` → `t0`. Remove one of these dependencies
sub-tasks depend on each other in a cycle: `t3` → `t4` → `t3`. They form further cycles with `t5`. Remove dependencies until no cycle remains
");
}

#[test]
fn paor_5_every_error_in_the_work_of_a_plan_is_named() {
    let agent = |agent: &str, task: &str| Work::Agent {
        agent: agent.to_owned(),
        task: task.to_owned(),
    };
    let bad = plan(vec![
        SubTask {
            work: agent("Explorer", ""),
            ..subtask("a", &[])
        },
        SubTask {
            work: agent("lawyer", "Sue."),
            ..subtask("b", &[])
        },
        calls("c", &[]),
        calls(
            "d",
            &[
                ("serch", json!({})),
                ("search", json!({"patern": 1})),
                ("search", json!({"pattern": "x"})),
            ],
        ),
        subtask("e", &[]),
        subtask("f", &[]),
        subtask("g", &[]),
    ]);
    insta::assert_snapshot!(faults(&bad).join("\n"), @"
sub-task `a` is assigned to the agent `Explorer`, which does not exist (did you mean `explore`?): the available agents are `explore` and `edit`
sub-task `a` has an empty `task`: write everything that the agent needs to know
sub-task `b` is assigned to the agent `lawyer`, which does not exist: the available agents are `explore` and `edit`
sub-task `c` has an empty list of `calls`: add at least one call, or set `agent` and `task` instead
sub-task `d`, calls[0]: there is no tool `serch` (did you mean `search`?): the tools are `search`
sub-task `d`, calls[1]: the parameters of `search` are wrong: `parameters.patern` is unknown: did you mean `pattern`?; `parameters.pattern` is missing
the plan has 7 sub-tasks, but the maximum is 6: merge some, or plan only the next part of the work
the plan starts 5 sub-agents, but the run may start only 4 more: merge sub-tasks, or use `calls` where tools suffice
");
}

#[test]
fn paor_4_a_call_of_a_tool_of_agents_is_refused_as_that() {
    let bad = plan(vec![calls(
        "a",
        &[("ask_user", json!({})), ("submit_plan", json!({}))],
    )]);
    let faults = faults(&bad);
    for (fault, tool) in faults.iter().zip(["ask_user", "submit_plan"]) {
        assert!(fault.contains(&format!("`calls` cannot use `{tool}`")), "{fault}");
    }
    assert_eq!(faults.len(), 2);
}

#[test]
fn paor_4_a_plan_is_read_from_parameters() {
    let parameters = json!({
        "summary": "Rename it.",
        "answers_guidance": [1],
        "subtasks": [
            {"id": "find", "title": "Find it", "calls": [{"tool": "search", "parameters": {"pattern": "x"}}], "agent": null},
            {"id": "edit", "title": "Edit it", "depends_on": ["find"], "agent": "edit", "task": "Rename.", "calls": []}
        ]
    });
    let edit = Work::Agent {
        agent: "edit".to_owned(),
        task: "Rename.".to_owned(),
    };
    let expected = Plan {
        summary: "Rename it.".to_owned(),
        answers_guidance: vec![1],
        subtasks: vec![
            SubTask {
                title: "Find it".to_owned(),
                ..calls("find", &[("search", json!({"pattern": "x"}))])
            },
            SubTask {
                title: "Edit it".to_owned(),
                work: edit,
                ..subtask("edit", &["find"])
            },
        ],
    };
    assert_eq!(Plan::from_parameters(&parameters), Ok(expected.clone()));
    // The journaled plan parses to the same value.
    assert_eq!(
        Plan::from_parameters(&serde_json::to_value(&expected).unwrap()),
        Ok(expected)
    );
}

#[test]
fn paor_4_a_sub_task_has_either_an_agent_or_calls() {
    let bad = json!({
        "summary": "s",
        "subtasks": [
            {"id": "a", "title": "A", "agent": "x", "task": "y", "calls": [{"tool": "t", "parameters": {}}]},
            {"id": "b", "title": "B"},
            {"id": "c", "title": "C", "agent": "x"},
            {"id": "d", "title": "D", "task": "y", "calls": []}
        ]
    });
    insta::assert_snapshot!(Plan::from_parameters(&bad).unwrap_err().replace("; ", ";\n"), @"
`subtasks[0]` has `calls` as well as `agent` or `task`: keep either `calls`, or `agent` and `task`;
`subtasks[1]` has no work: set `agent` and `task`, or set `calls`;
`subtasks[2]` has an `agent` but no `task`: describe the task of the agent;
`subtasks[3]` has a `task` but no `agent`: add the agent for the task
");
}

#[test]
fn call_6_an_optional_null_in_a_call_of_a_plan_counts_as_left_out() {
    let planned = plan(vec![calls(
        "find",
        &[("search", json!({"pattern": "x", "path": null}))],
    )]);
    let expected = plan(vec![calls("find", &[("search", json!({"pattern": "x"}))])]);
    assert_eq!(validated(planned), Ok(expected));
}

#[test]
fn the_schema_of_a_plan_accepts_every_plan_that_is_parsed() {
    let schema = ToolSet::new(vec![ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: "submit_plan".to_owned(),
        description: "Submits the plan.".to_owned(),
        parameters: plan_schema(),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    }]);
    let submit = |parameters: Value| dirigent_core::message::ToolCall {
        id: String::new(),
        tool: "submit_plan".to_owned(),
        parameters,
        terminate: true,
    };
    let allowed = ["submit_plan".to_owned()];
    let good = plan(vec![subtask("a", &[]), calls("b", &[("search", json!({}))])]);
    assert_eq!(
        schema.check(
            &submit(serde_json::to_value(&good).unwrap()),
            &allowed,
            Access::ReadOnly
        ),
        Ok(serde_json::to_value(&good).unwrap())
    );
    let bad = json!({"summary": "s", "subtasks": [{"id": "a", "title": "A", "dependsOn": []}]});
    insta::assert_snapshot!(schema.check(&submit(bad), &allowed, Access::ReadOnly).unwrap_err(), @"the parameters of `submit_plan` are wrong: `parameters.subtasks[0].dependsOn` is unknown: did you mean `depends_on`?");
}

#[test]
fn paor_4_ready_sub_tasks_start_in_plan_order_and_others_after_their_dependencies() {
    let mut graph = graph(&[("last", &["a", "b"]), ("a", &[]), ("b", &["a", "a"]), ("c", &[])]);
    assert_eq!(graph.next_ready(), Some(1));
    assert_eq!(graph.next_ready(), Some(3));
    assert_eq!(graph.next_ready(), None);
    assert_eq!(graph.running(), 2);
    assert_eq!(graph.finish(1, SubTaskOutcome::Succeeded), []);
    assert_eq!(graph.state(2), SubTaskState::Ready);
    assert_eq!(graph.state(0), SubTaskState::Waiting);
    assert_eq!(graph.next_ready(), Some(2));
    assert_eq!(graph.finish(2, SubTaskOutcome::Succeeded), []);
    assert_eq!(graph.next_ready(), Some(0));
    assert_eq!(graph.finish(0, SubTaskOutcome::Succeeded), []);
    assert!(!graph.is_done());
    assert_eq!(graph.finish(3, SubTaskOutcome::Succeeded), []);
    assert!(graph.is_done());
    assert_eq!(
        graph.counts(),
        SubTaskCounts {
            succeeded: 4,
            ..SubTaskCounts::default()
        }
    );
}

#[test]
fn paor_4_dependents_of_a_failure_are_skipped_once_with_their_cause() {
    let mut graph = graph(&[
        ("a", &[]),
        ("b", &[]),
        ("ab", &["a", "b"]),
        ("after", &["ab"]),
        ("b2", &["b"]),
        ("c", &[]),
    ]);
    while graph.next_ready().is_some() {}
    assert_eq!(
        graph.finish(0, SubTaskOutcome::Failed),
        [Skipped { index: 2, because: 0 }, Skipped { index: 3, because: 0 }]
    );
    assert_eq!(
        graph.finish(1, SubTaskOutcome::Failed),
        [Skipped { index: 4, because: 1 }]
    );
    assert_eq!(graph.state(2), SubTaskState::Skipped);
    assert_eq!(graph.finish(5, SubTaskOutcome::Succeeded), []);
    assert!(graph.is_done());
    let counts = graph.counts();
    assert_eq!(
        (counts.failed, counts.skipped, counts.succeeded, counts.total()),
        (2, 3, 1, 6)
    );
}

#[test]
fn paor_4_a_sub_task_that_may_fail_counts_as_done_unless_it_was_stopped() {
    let may_fail = || SubTask {
        may_fail: true,
        ..subtask("a", &[])
    };
    let both = || plan(vec![may_fail(), subtask("b", &[]), subtask("ab", &["a", "b"])]);
    let mut graph = PlanGraph::new(both().into()).unwrap();
    while graph.next_ready().is_some() {}
    assert_eq!(graph.finish(0, SubTaskOutcome::Failed), []);
    assert_eq!(
        (graph.state(0), graph.state(2)),
        (SubTaskState::Failed, SubTaskState::Waiting)
    );
    assert_eq!(graph.finish(1, SubTaskOutcome::Succeeded), []);
    assert_eq!(graph.next_ready(), Some(2));

    let mut graph = PlanGraph::new(both().into()).unwrap();
    graph.next_ready();
    assert_eq!(
        graph.finish(0, SubTaskOutcome::Stopped),
        [Skipped { index: 2, because: 0 }]
    );
}

#[test]
fn finishing_a_sub_task_that_is_not_running_changes_nothing() {
    let mut graph = graph(&[("a", &[]), ("b", &["a"])]);
    let before = graph.clone();
    for index in [0, 1, 2] {
        assert_eq!(graph.finish(index, SubTaskOutcome::Failed), []);
    }
    assert_eq!(graph, before);
    graph.next_ready();
    assert_ne!(graph, before);
}

#[test]
fn an_empty_plan_is_done_at_once() {
    let mut graph = graph(&[]);
    assert!(graph.is_done());
    assert_eq!(graph.next_ready(), None);
}

#[test]
fn dependencies_are_listed_as_given_and_dependents_in_plan_order() {
    let graph = graph(&[("a", &[]), ("b", &[]), ("c", &["b", "a", "b"]), ("d", &["a"])]);
    assert_eq!(graph.dependencies(2).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(graph.dependents(0).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_hundred_thousand_sub_tasks_are_executed() {
    const MANY: usize = 100_000;
    let chain: Vec<Vec<usize>> = (0..MANY)
        .map(|index| index.checked_sub(1).into_iter().collect())
        .collect();
    let mut fan: Vec<Vec<usize>> = (0..MANY)
        .map(|index| if index == 0 { vec![] } else { vec![0] })
        .collect();
    fan.push((0..MANY).collect());
    for dependencies in [chain, fan] {
        let plan = numbered(&dependencies);
        let mut graph = PlanGraph::new(Arc::clone(&plan)).unwrap();
        while let Some(index) = graph.next_ready() {
            graph.finish(index, SubTaskOutcome::Succeeded);
        }
        assert_eq!(graph.counts().succeeded, dependencies.len());
        let mut failing = PlanGraph::new(plan).unwrap();
        failing.next_ready();
        assert_eq!(
            failing.finish(0, SubTaskOutcome::Failed).len(),
            dependencies.len() - 1
        );
    }
    let ring: Vec<Vec<usize>> = (0..MANY).map(|index| vec![(index + 1) % MANY]).collect();
    match PlanGraph::new(numbered(&ring)).unwrap_err().as_slice() {
        [fault @ PlanError::Cycle { members, others }] => {
            assert_eq!((members.len(), others.len()), (MANY, 0));
            assert!(fault.to_string().len() < 1000);
        }
        other => panic!("{} faults", other.len()),
    }
    let dangling: Vec<Vec<usize>> = (0..MANY).map(|index| vec![index + MANY]).collect();
    assert_eq!(PlanGraph::new(numbered(&dangling)).unwrap_err().len(), MANY);
}

#[test]
fn a_state_is_one_word_in_text_and_json() {
    assert_eq!(SubTaskState::Skipped.to_string(), "skipped");
    assert_eq!(serde_json::to_value(SubTaskState::Running).unwrap(), "running");
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

/// Any dependencies.
fn any_graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
    proptest::collection::vec(
        proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
        1..12,
    )
    .prop_map(|picks| {
        let len = picks.len();
        picks
            .iter()
            .map(|picks| picks.iter().map(|pick| pick.index(len)).collect())
            .collect()
    })
}

/// Repeatedly removes the sub-tasks whose dependencies are all removed; a cycle remains.
fn has_cycle(dependencies: &[Vec<usize>]) -> bool {
    let mut left: Vec<usize> = (0..dependencies.len()).collect();
    loop {
        let stuck: Vec<usize> = left
            .iter()
            .copied()
            .filter(|index| {
                dependencies[*index]
                    .iter()
                    .any(|dependency| left.contains(dependency))
            })
            .collect();
        if stuck.len() == left.len() {
            return !left.is_empty();
        }
        left = stuck;
    }
}

proptest! {
    #[test]
    fn paor_4_every_sub_task_ends_once_and_starts_after_its_dependencies(
        dependencies in acyclic(), choices in proptest::collection::vec((any::<prop::sample::Index>(), 0..10u8), 100)
    ) {
        let mut graph = PlanGraph::new(numbered(&dependencies)).unwrap();
        let mut ended = vec![0; dependencies.len()];
        let mut succeeded = vec![false; dependencies.len()];
        let mut running: Vec<usize> = Vec::new();
        let mut choices = choices.into_iter();
        while !graph.is_done() {
            while let Some(index) = graph.next_ready() {
                prop_assert!(dependencies[index].iter().all(|dependency| succeeded[*dependency]));
                running.push(index);
            }
            prop_assert_eq!(graph.running(), running.len());
            let (choice, luck) = choices.next().unwrap();
            let index = running.swap_remove(choice.index(running.len()));
            let success = if luck > 0 { SubTaskOutcome::Succeeded } else { SubTaskOutcome::Failed };
            succeeded[index] = success == SubTaskOutcome::Succeeded;
            ended[index] += 1;
            for skipped in graph.finish(index, success) {
                prop_assert_eq!(skipped.because, index);
                prop_assert!(dependencies[skipped.index].iter().any(|dependency| !succeeded[*dependency]));
                ended[skipped.index] += 1;
            }
            prop_assert_eq!(graph.counts().total(), dependencies.len());
        }
        prop_assert!(ended.iter().all(|times| *times == 1));
    }

    #[test]
    fn paor_4_a_plan_is_refused_if_and_only_if_it_has_a_cycle(dependencies in any_graph()) {
        match PlanGraph::new(numbered(&dependencies)) {
            Ok(_) => prop_assert!(!has_cycle(&dependencies)),
            Err(faults) => {
                prop_assert!(has_cycle(&dependencies));
                for fault in faults {
                    match fault {
                        PlanError::Cycle { members, .. } => {
                            let number = |id: &dirigent_core::id::SubTaskId| id.0[1..].parse::<usize>().unwrap();
                            for (member, next) in members.iter().zip(members.iter().cycle().skip(1)) {
                                prop_assert!(dependencies[number(member)].contains(&number(next)));
                            }
                        }
                        PlanError::SelfDependency { .. } => {}
                        other => prop_assert!(false, "{}", other),
                    }
                }
            }
        }
    }
}
