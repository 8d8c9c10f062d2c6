//! PROMPT-1, PROMPT-2: base system prompts, through the library and on the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use dirigent::system_prompts::{SystemPrompt, SystemPromptError, SystemPrompts};
use dirigent::{ConversationSettings, Dirigent, DirigentError, Goal};
use dirigent_tests::cli::Place;
use dirigent_tests::scripted::{Scripted, says};
use dirigent_tests::stage::{Stage, block_on};
use serde_json::Value;

async fn prompts(place: &Place) -> SystemPrompts {
    let dirigent = Dirigent::builder().journal(place.db()).build().await.unwrap();
    dirigent.system_prompts()
}

fn refused<T: std::fmt::Debug>(result: Result<T, DirigentError>) -> SystemPromptError {
    match result.unwrap_err() {
        DirigentError::SystemPrompt(error) => error,
        other => panic!("{other}"),
    }
}

fn names(prompts: &[SystemPrompt]) -> Vec<(&str, u32)> {
    prompts
        .iter()
        .map(|prompt| (prompt.name.as_str(), prompt.version))
        .collect()
}

#[test]
fn prompt_1_prompts_have_versions_and_a_stale_change_is_a_conflict() {
    let place = Place::new();
    block_on(async {
        let prompts = prompts(&place).await;
        let first = prompts
            .create("support", "\r\n You help.\r\nAlways. ")
            .await
            .unwrap();
        assert_eq!((first.version, first.text.as_str()), (1, "You help.\nAlways."));
        assert_eq!(
            refused(prompts.create("support", "Again").await),
            SystemPromptError::Exists {
                name: "support".to_owned()
            }
        );
        let second = prompts
            .update("support", 1, "You help with bread.")
            .await
            .unwrap();
        assert_eq!(second.version, 2);
        // A user who has read version 1 cannot overwrite a later version of somebody else.
        for version in [1, 3] {
            assert_eq!(
                refused(prompts.update("support", version, "You sell.").await),
                SystemPromptError::Conflict {
                    name: "support".to_owned(),
                    version,
                    latest: 2
                }
            );
        }
        assert_eq!(
            prompts
                .update("support", 2, "You help with bread.")
                .await
                .unwrap(),
            second
        );

        assert_eq!(prompts.get("support", None).await.unwrap(), second);
        assert_eq!(prompts.get("support", Some(1)).await.unwrap(), first);
        assert_eq!(
            refused(prompts.get("support", Some(7)).await),
            SystemPromptError::NoSuchVersion {
                name: "support".to_owned(),
                version: 7,
                latest: 2
            }
        );
        assert_eq!(prompts.versions("support").await.unwrap(), [second, first]);
        assert_eq!(
            names(&prompts.list().await.unwrap()),
            [("default", 1), ("support", 2)]
        );

        prompts.delete("support").await.unwrap();
        let known = vec!["default".to_owned()];
        let gone = SystemPromptError::NoSuchPrompt {
            name: "support".to_owned(),
            known,
        };
        assert_eq!(refused(prompts.delete("support").await), gone);
        assert_eq!(refused(prompts.get("support", None).await), gone);
        assert_eq!(refused(prompts.versions("support").await), gone);
        assert_eq!(refused(prompts.update("support", 2, "You sell.").await), gone);

        // A change to the deleted prompt cannot become one of a new prompt of the same name.
        let again = prompts.create("support", "You answer.").await.unwrap();
        assert!(again.version > 2, "{again:?}");
        assert!(matches!(
            refused(prompts.update("support", 2, "You sell.").await),
            SystemPromptError::Conflict { version: 2, .. }
        ));
        assert_eq!(prompts.versions("support").await.unwrap(), [again]);
    });
}

#[test]
fn prompt_1_only_one_of_several_concurrent_changes_succeeds() {
    let place = Place::new();
    block_on(async {
        let prompts = prompts(&place).await;
        prompts.create("support", "One.").await.unwrap();
        let changes = (0..8).map(|index| {
            let prompts = prompts.clone();
            tokio::spawn(async move { prompts.update("support", 1, &format!("Two, by {index}.")).await })
        });
        let changes: Vec<_> = changes.collect();
        let mut made = Vec::new();
        for change in changes {
            match change.await.unwrap() {
                Ok(prompt) => made.push(prompt),
                Err(error) => assert!(matches!(
                    refused::<()>(Err(error)),
                    SystemPromptError::Conflict {
                        version: 1,
                        latest: 2,
                        ..
                    }
                )),
            }
        }
        assert_eq!(made.len(), 1);
        assert_eq!(prompts.get("support", None).await.unwrap(), made[0]);
    });
}

#[test]
fn prompt_1_the_default_prompt_exists_can_be_changed_and_cannot_be_deleted() {
    let place = Place::new();
    block_on(async {
        let prompts = prompts(&place).await;
        let shipped = prompts.get("default", None).await.unwrap();
        assert_eq!(shipped, SystemPrompt::shipped("default", None).unwrap());
        assert_eq!((shipped.version, shipped.at), (1, None));
        assert_eq!(
            refused(prompts.delete("default").await),
            SystemPromptError::Default
        );
        assert!(matches!(
            refused(prompts.create("default", "Mine").await),
            SystemPromptError::Exists { .. }
        ));
        let mine = prompts.update("default", 1, "Mine.").await.unwrap();
        assert_eq!(
            refused(prompts.delete("default").await),
            SystemPromptError::Default
        );
        assert_eq!(
            prompts.versions("default").await.unwrap(),
            [mine.clone(), shipped.clone()]
        );
        assert_eq!(prompts.get("default", Some(1)).await.unwrap(), shipped);
        assert_eq!(prompts.list().await.unwrap(), [mine]);
    });
}

#[test]
fn prompt_1_invalid_names_and_texts_are_refused() {
    let place = Place::new();
    block_on(async {
        let prompts = prompts(&place).await;
        for name in ["", "Support", "9lives", "a b", "a/b", "größe", &"a".repeat(65)] {
            let error = refused(prompts.create(name, "You help.").await);
            assert_eq!(
                error,
                SystemPromptError::Name {
                    name: name.to_owned()
                }
            );
        }
        assert_eq!(
            refused(prompts.create("a", " \n").await),
            SystemPromptError::Empty
        );
        assert_eq!(
            refused(prompts.create("a", &"x".repeat(40_000)).await),
            SystemPromptError::TooLong { bytes: 40_000 }
        );
        assert_eq!(
            refused(prompts.create("a", "one\n\u{1b}[2Jtwo").await),
            SystemPromptError::ControlCharacter {
                character: '\u{1b}',
                line: 2
            }
        );
        assert_eq!(names(&prompts.list().await.unwrap()), [("default", 1)]);
    });
}

#[tokio::test]
async fn prompt_2_a_turns_model_gets_the_latest_version_and_a_run_keeps_its_own() {
    let stage = Stage::new();
    let model = Scripted::new().lead([says("One."), says("Two."), says("Three.")]);
    let dirigent = stage.builder(model.clone()).build().await.unwrap();
    let prompts = dirigent.system_prompts();
    prompts.create("bakery", "You work for a bakery.").await.unwrap();
    let settings = ConversationSettings {
        system_prompt: Some("bakery".to_owned()),
        ..ConversationSettings::default()
    };
    let conversation = dirigent
        .create_conversation(stage.workspace(), settings.clone())
        .await
        .unwrap();
    let first = conversation.start_turn(Goal::new("Hello")).await.unwrap();
    first.outcome().await.unwrap();
    prompts
        .update("bakery", 1, "You work for a big bakery.")
        .await
        .unwrap();
    conversation
        .start_turn(Goal::new("Hello?"))
        .await
        .unwrap()
        .outcome()
        .await
        .unwrap();
    // Outside of conversations, the lead has the default prompt.
    let goal = Goal::new("Hello!").workspace(stage.workspace());
    dirigent.start(goal).await.unwrap().outcome().await.unwrap();

    let asked = model.lead_asked();
    let system = |index: usize| asked[index].messages[0].content().to_owned();
    assert!(
        system(0).starts_with("You work for a bakery.\n\nYou lead"),
        "{}",
        system(0)
    );
    assert!(
        system(1).starts_with("You work for a big bakery.\n\nYou lead"),
        "{}",
        system(1)
    );
    let default = SystemPrompt::shipped("default", None).unwrap().text;
    assert!(system(2).starts_with(&default), "{}", system(2));

    // A replay uses the recorded prompt, not the current one.
    let recording = dirigent.recording(first.id()).await.unwrap();
    let replayed = dirigent
        .replay(&recording, Goal::from_recording(&recording))
        .await
        .unwrap();
    assert_eq!(replayed.outcome().await.unwrap().summary, "One.");

    prompts.delete("bakery").await.unwrap();
    let refused = refused(conversation.start_turn(Goal::new("Bye")).await.map(drop));
    assert!(matches!(refused, SystemPromptError::NoSuchPrompt { name, .. } if name == "bakery"));
    let settings = ConversationSettings {
        system_prompt: None,
        ..settings
    };
    conversation.set_settings(settings).await.unwrap();
}

#[test]
fn prompt_1_the_configuration_names_prompts_of_agents() {
    let place = Place::new();
    place.write(
        "dirigent.toml",
        "[base_prompts]\nlead = \"boss\"\nexplore = \"terse\"\n",
    );
    let given = ["--config", "work/dirigent.toml"];
    for (name, text) in [("boss", "You are thorough."), ("terse", "You use few words.")] {
        let _ = place.dirigent(["prompts", "add", name, text]).with_code(0);
    }
    let ended = place.dirigent(
        given
            .into_iter()
            .chain(["run", "count the files", "--workspace", "work"]),
    );
    let _ = ended.with_code(0);
    let recording = block_on(async {
        let dirigent = Dirigent::builder().journal(place.db()).build().await.unwrap();
        let run = dirigent.find("last").await.unwrap();
        dirigent.recording(run).await.unwrap()
    });
    let setup = &recording.spec().setup;
    for (agent, beginning) in [
        (&setup.lead, "You are thorough.\n\nYou lead"),
        (
            setup.agent("explore").unwrap(),
            "You use few words.\n\nYou explore",
        ),
        (setup.agent("verify").unwrap(), "You "),
    ] {
        assert!(
            agent.system_prompt.starts_with(beginning),
            "{}",
            agent.system_prompt
        );
    }

    let enhanced = ["prompts", "show", "--enhanced", "--agent", "explore"];
    let shown = place
        .dirigent(given.into_iter().chain(enhanced))
        .with_code(0)
        .stdout;
    assert!(shown.starts_with("You use few words.\n\nYou explore"), "{shown}");

    place.write("dirigent.toml", "[base_prompts]\nlead = \"bos\"\n");
    let ended = place.dirigent(
        given
            .into_iter()
            .chain(["run", "count the files", "--workspace", "work"]),
    );
    let unknown = ended.with_code(2).stderr;
    assert!(
        unknown.contains(
            "`[base_prompts]` in your configuration assigns the system prompt `bos`, which does not exist, to `lead`; available system prompts: default, boss, terse"
        ),
        "{unknown}"
    );
    let check = given.into_iter().chain(["config", "check", "--offline"]);
    let checked = place.dirigent(check).with_code(7).stdout;
    assert!(
        checked.contains("assigns the system prompt `bos`, which does not exist, to `lead`"),
        "{checked}"
    );
    place.write("dirigent.toml", "[base_prompts]\nexplorer = \"boss\"\n");
    let wrong = place
        .dirigent(given.into_iter().chain(["config", "check"]))
        .with_code(7)
        .stderr;
    assert!(wrong.contains("did you mean `base_prompts.explore`?"), "{wrong}");
}

#[tokio::test]
async fn prompt_2_the_enhanced_prompt_shown_is_the_prompt_that_a_model_receives() {
    let stage = Stage::new();
    let place = Place::new();
    let model = Scripted::new().lead([says("Hello.")]);
    let builder = stage.builder(model.clone());
    let dirigent = builder.clone().build().await.unwrap();
    let base = dirigent
        .system_prompts()
        .create("bakery", "You work for a bakery.")
        .await
        .unwrap();
    let goal = Goal::new("Hello")
        .workspace(stage.workspace())
        .system_prompt("bakery");
    dirigent.start(goal).await.unwrap().outcome().await.unwrap();
    let options = dirigent::PromptOptions {
        base_prompts: BTreeMap::from([("lead".to_owned(), base.into())]),
        ..dirigent::PromptOptions::default()
    };
    let shown = builder
        .prompts(Some(stage.workspace().as_ref()), options)
        .await
        .unwrap();
    assert_eq!(shown[0].system, model.lead_asked()[0].messages[0].content());
    // The command prints it unchanged.
    let _ = place
        .dirigent(["prompts", "add", "bakery", "You work for a bakery."])
        .with_code(0);
    let shown = [
        "prompts",
        "show",
        "bakery",
        "--enhanced",
        "--form",
        "native",
        "--json",
    ];
    let shown: Value = place.dirigent(shown).with_code(0).json_lines().remove(0);
    let system = shown["system"].as_str().unwrap();
    assert!(
        system.starts_with("You work for a bakery.\n\nYou lead a run."),
        "{system}"
    );
    assert!(
        system.contains("<AGENT_FLOW>") && system.contains("Mermaid"),
        "{system}"
    );
}

#[test]
fn prompt_1_prompts_are_written_listed_and_deleted_on_the_command_line() {
    let place = Place::new();
    // Without a journal only the default prompt exists, and listing does not create a journal.
    let list = ["prompts", "list"];
    assert!(
        place.dirigent(list).with_code(0).stdout.starts_with("default "),
        "default"
    );
    place.write("support.md", "You help.\n");
    let from_file = ["prompts", "add", "support", "--file", "work/support.md"];
    let _ = place.dirigent(from_file).with_code(0);
    assert_eq!(
        place.dirigent(["prompts", "show", "support"]).with_code(0).stdout,
        "You help.\n"
    );

    let mut editing = place.command(["prompts", "edit", "support"]);
    let editing = editing
        .env_remove("VISUAL")
        .env("EDITOR", "echo 'You help a lot.' >>");
    let edited = dirigent_tests::cli::ended(editing).with_code(0);
    assert!(
        edited.stderr.contains("`support` is at version 2 now"),
        "{edited}"
    );
    let stale = ["prompts", "edit", "support", "Nothing", "--version", "1"];
    let stale = place.dirigent(stale).with_code(2);
    assert!(stale.stderr.contains("the prompt now has version 2"), "{stale}");
    let versions = ["prompts", "show", "support", "--versions", "--json"];
    let versions = place.dirigent(versions).with_code(0).json_lines();
    assert_eq!(versions[0]["text"], "You help.\nYou help a lot.");
    assert_eq!((&versions[1]["version"], versions.len()), (&1.into(), 2));

    let missing = place.dirigent(["prompts", "show", "explore"]).with_code(2).stderr;
    assert!(
        missing.contains("there is no system prompt `explore`; available system prompts: default, support"),
        "{missing}"
    );
    assert!(missing.contains("next: dirigent prompts list"), "{missing}");
    let mut nothing = place.command(["prompts", "add", "empty"]);
    let nothing = nothing.env_remove("VISUAL").env_remove("EDITOR");
    let nothing = dirigent_tests::cli::ended(nothing).with_code(2).stderr;
    assert!(nothing.contains("use --file, or set EDITOR"), "{nothing}");
    let unreadable = ["prompts", "add", "empty", "--file", "work/missing.md"];
    let unreadable = place.dirigent(unreadable).with_code(2).stderr;
    assert!(
        unreadable.contains("cannot read the prompt from work/missing.md"),
        "{unreadable}"
    );
    let kept = place
        .dirigent(["prompts", "delete", "default"])
        .with_code(2)
        .stderr;
    assert!(kept.contains("can't be deleted"), "{kept}");
    let chat = ["chat", "remember that I like bread", "--system-prompt", "support"];
    let _ = place.dirigent(chat).with_code(0);
    let deleted = place
        .dirigent(["prompts", "delete", "support"])
        .with_code(0)
        .stderr;
    assert!(
        deleted.contains("1 conversation uses it and cannot continue without another prompt"),
        "{deleted}"
    );
    let unknown = [
        "chat",
        "hello",
        "--system-prompt",
        "support",
        "--workspace",
        "work",
    ];
    let unknown = place.dirigent(unknown).with_code(2).stderr;
    assert!(
        unknown.contains("there is no system prompt `support`"),
        "{unknown}"
    );
}
