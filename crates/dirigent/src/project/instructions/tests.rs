#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::symlink;

use super::*;

/// A repository with these files, whose workspace is `app`. Next to the repository is a file that must never be read.
struct Project(tempfile::TempDir);

impl Project {
    fn with(files: &[(&str, &str)]) -> Self {
        let project = Project(tempfile::tempdir().unwrap());
        project.write("secret.md", "the secret");
        std::fs::create_dir_all(project.path("repo/.git")).unwrap();
        std::fs::create_dir_all(project.path("repo/app")).unwrap();
        for (path, text) in files {
            project.write(&format!("repo/{path}"), text);
        }
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn instructions(&self) -> Instructions {
        let read = read_instructions(&self.path("repo/app"));
        let all = format!("{read:?}");
        assert!(!all.contains("the secret") && !all.contains("root:x:"), "{all}");
        let size: usize = read.files.iter().map(|file| file.text.len()).sum();
        assert!(size < MAX_BYTES + 1_000, "{size} bytes");
        read
    }

    /// The files as `PATH: TEXT`, and the notes.
    fn texts_and_notes(&self) -> (Vec<String>, Vec<String>) {
        let read = self.instructions();
        let file = |file: InstructionFile| format!("{}: {}", file.path, file.text.trim_end());
        (read.files.into_iter().map(file).collect(), read.notes)
    }
}

fn files(project: &Project) -> Vec<String> {
    let (files, notes) = project.texts_and_notes();
    assert_eq!(notes, [] as [&str; 0]);
    files
}

#[test]
fn lead_4_instructions_of_all_folders_up_to_the_root_are_read_nearest_last() {
    let project = Project::with(&[
        ("AGENTS.md", "outer"),
        ("CLAUDE.md", "not read"),
        ("app/CLAUDE.md", "inner"),
        ("app/src/AGENTS.md", "below"),
    ]);
    project.write("AGENTS.md", "above the repository");
    assert_eq!(files(&project), ["../AGENTS.md: outer", "CLAUDE.md: inner"]);

    // Without a repository, only the workspace is searched.
    std::fs::remove_dir(project.path("repo/.git")).unwrap();
    assert_eq!(files(&project), ["CLAUDE.md: inner"]);
    assert_eq!(files(&Project::with(&[])), [] as [&str; 0]);
}

#[test]
fn lead_4_imports_are_read_once_after_the_file_that_names_them() {
    let project = Project::with(&[
        (
            "app/CLAUDE.md",
            "Read @docs/a.md and @README.md, not @nobody or `@docs/c.md`.",
        ),
        ("app/docs/a.md", "a, with @b.md"),
        ("app/docs/b.md", "b, back to @a.md and @../CLAUDE.md and @b.md"),
        ("app/docs/c.md", "c"),
        ("app/README.md", "readme"),
    ]);
    assert_eq!(
        files(&project),
        [
            "CLAUDE.md: Read @docs/a.md and @README.md, not @nobody or `@docs/c.md`.",
            "docs/a.md: a, with @b.md",
            "docs/b.md: b, back to @a.md and @../CLAUDE.md and @b.md",
            "README.md: readme",
        ]
    );
}

#[test]
fn lead_4_the_depth_and_number_of_imports_are_limited() {
    let project = Project::with(&[("app/AGENTS.md", "@1.md")]);
    for level in 1..10 {
        project.write(&format!("repo/app/{level}.md"), &format!("@{}.md", level + 1));
    }
    assert_eq!(files(&project).len(), 1 + MAX_DEPTH);

    let many: String = (0..500).map(|number| format!("@{number}.txt\n")).collect();
    project.write("repo/app/AGENTS.md", &many);
    for number in 0..500 {
        project.write(&format!("repo/app/{number}.txt"), "x");
    }
    assert_eq!(files(&project).len(), 1 + MAX_IMPORTS);
}

#[test]
fn lead_4_nothing_outside_of_the_repository_is_read() {
    let secret = "@../../secret.md @/etc/passwd @~/.ssh/id_rsa @docs @link.md @folder/secret.md @absolute.md";
    let project = Project::with(&[("app/AGENTS.md", secret), ("app/docs/x.md", "")]);
    symlink("../../secret.md", project.path("repo/app/link.md")).unwrap();
    symlink("../..", project.path("repo/app/folder")).unwrap();
    symlink("/etc/passwd", project.path("repo/app/absolute.md")).unwrap();
    let (files, notes) = project.texts_and_notes();
    assert_eq!(files, [format!("AGENTS.md: {secret}")]);
    let outside = [
        "../../secret.md",
        "/etc/passwd",
        "link.md",
        "folder/secret.md",
        "absolute.md",
    ];
    assert_eq!(
        notes,
        outside.map(|path| format!("{path} is not read: it is outside of the project"))
    );

    // The instructions file is a link that leads out of the project, so the other file is used.
    project.write("repo/app/CLAUDE.md", "mine");
    std::fs::remove_file(project.path("repo/app/AGENTS.md")).unwrap();
    symlink("../../secret.md", project.path("repo/app/AGENTS.md")).unwrap();
    let (files, notes) = project.texts_and_notes();
    assert_eq!(files, ["CLAUDE.md: mine"]);
    assert_eq!(notes, ["AGENTS.md is not read: it is outside of the project"]);

    // A link inside of the project is followed.
    std::fs::remove_file(project.path("repo/app/AGENTS.md")).unwrap();
    symlink("CLAUDE.md", project.path("repo/app/AGENTS.md")).unwrap();
    assert_eq!(project.texts_and_notes().0, ["AGENTS.md: mine"]);
}

#[test]
fn lead_4_imports_read_no_hidden_files_and_none_above_the_importing_file() {
    let imports = "@../.env @../.git/config @../README.md @.env @docs/.key @keys.md @docs/up.md";
    let place = Project::with(&[
        ("AGENTS.md", "outer, with @README.md"),
        ("README.md", "readme"),
        (".env", "the secret"),
        (".git/config", "the secret"),
        ("app/AGENTS.md", imports),
        ("app/.env", "the secret"),
        ("app/docs/.key", "the secret"),
        ("app/docs/up.md", "up to @../../.env"),
    ]);
    symlink(".env", place.path("repo/app/keys.md")).unwrap();
    let (files, notes) = place.texts_and_notes();
    assert_eq!(
        files,
        [
            "../AGENTS.md: outer, with @README.md".to_owned(),
            "../README.md: readme".to_owned(),
            format!("AGENTS.md: {imports}"),
            "docs/up.md: up to @../../.env".to_owned(),
        ]
    );
    let above = "is not read: it is outside the folder of the instructions file that imports it";
    assert_eq!(
        notes,
        [
            format!("../.env {above}"),
            format!("../.git/config {above}"),
            format!("../README.md {above}"),
            ".env is not read: it is hidden".to_owned(),
            "docs/.key is not read: it is hidden".to_owned(),
            "keys.md is not read: it is hidden".to_owned(),
            format!("../.env {above}"),
        ]
    );

    // The instructions themselves are a link to a hidden file.
    std::fs::remove_file(place.path("repo/app/AGENTS.md")).unwrap();
    symlink("../.env", place.path("repo/app/AGENTS.md")).unwrap();
    let (_, notes) = place.texts_and_notes();
    assert_eq!(notes, ["AGENTS.md is not read: it is hidden"]);
}

#[test]
fn lead_4_only_regular_text_files_are_read_and_nothing_blocks() {
    let project = Project::with(&[("app/CLAUDE.md", "mine, with @data.bin and @loop.md")]);
    let pipe = project.path("repo/app/AGENTS.md");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    std::fs::create_dir(project.path("repo/AGENTS.md")).unwrap();
    project.write("repo/app/data.bin", "a\0b");
    symlink("loop.md", project.path("repo/app/loop.md")).unwrap();
    let (files, notes) = project.texts_and_notes();
    assert_eq!(files, ["CLAUDE.md: mine, with @data.bin and @loop.md"]);
    assert_eq!(notes[0], "AGENTS.md is not read: it is a named pipe");
    assert_eq!(notes[1], "data.bin is not read: it is not text");

    std::fs::remove_file(&pipe).unwrap();
    symlink("/dev/zero", &pipe).unwrap();
    assert_eq!(project.texts_and_notes().0.len(), 1);
}

#[test]
fn lead_4_control_characters_and_hidden_text_are_removed() {
    let project = Project::with(&[]);
    let bytes = b"\xef\xbb\xbfUse\x1b[31m tabs\x07.\r\n\tAnd \xff\xe2\x80\xae reversed\xf3\xa0\x81\x81 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb";
    std::fs::write(project.path("repo/app/AGENTS.md"), bytes).unwrap();
    assert_eq!(
        files(&project),
        ["AGENTS.md: Use[31m tabs.\n\tAnd \u{fffd} reversed \u{1f469}\u{200d}\u{1f4bb}"]
    );
}

#[test]
fn lead_4_the_nearest_files_are_whole_and_outer_ones_are_cut_at_a_line() {
    let lines = |word: &str, count: usize| format!("{word}\n").repeat(count);
    let project = Project::with(&[
        ("app/AGENTS.md", &lines("inner inner inner", 1_000)),
        (
            "AGENTS.md",
            &format!("@more.md\n{}", lines("outer outer outer", 1_000)),
        ),
        ("more.md", "never"),
    ]);
    let Instructions { files, notes } = project.instructions();
    let [outer, inner] = files.as_slice() else {
        panic!("{files:?}")
    };
    assert_eq!(inner.text, lines("inner inner inner", 1_000));
    assert!(
        outer.text.ends_with(
            "outer outer outer\n[cut here: project instructions are limited to 32 KiB in total]\n"
        )
    );
    assert_eq!(
        notes,
        ["../AGENTS.md is cut: project instructions are limited to 32 KiB in total"]
    );

    // 10 MB, in one line.
    project.write("repo/app/AGENTS.md", &"ä".repeat(5_000_000));
    let Instructions { files, notes } = project.instructions();
    assert_eq!(
        files[1].text.len(),
        MAX_BYTES + "\n[cut here: project instructions are limited to 32 KiB in total]\n".len()
    );
    assert_eq!(
        files[0].text,
        "[cut here: project instructions are limited to 32 KiB in total]\n"
    );
    assert_eq!(notes.len(), 2);
}
