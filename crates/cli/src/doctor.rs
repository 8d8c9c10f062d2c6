//! `doctor`: everything that could be wrong, each with what to do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use console::style;
use dirigent::{Confinement, Dirigent, RunFilter, RunState, Sandbox, StoreError};
use serde_json::json;

use crate::args::DoctorCommand;
use crate::config::{self, CheckReport};
use crate::exit::Exit;
use crate::mcp_text::skipped_line;
use crate::open::open_reading;
use crate::output::{Output, sanitize};

/// Free disk space in bytes below which a journal may soon be full.
const LITTLE_SPACE: u64 = 200 << 20;

/// How a finding affects runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// Runs work, but something is worth knowing.
    Note,
    /// Runs fail, or some of their tools do.
    Bad,
}

struct Finding {
    health: Health,
    /// What was examined, such as `journal`.
    subject: String,
    /// What was found.
    text: String,
    /// What the user can do; empty if nothing is to be done.
    remedy: String,
}

pub(crate) async fn doctor(
    db: Option<PathBuf>,
    file: Option<PathBuf>,
    command: &DoctorCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let journal = journal(db.clone()).await;
    let journal_is_bad = journal.iter().any(|finding| finding.health == Health::Bad);
    let mut findings = journal;
    match config::load(file, None) {
        Ok(config) => {
            let report = CheckReport::examine(db, config, command.offline).await?;
            findings.extend(configuration(&report));
        }
        Err(error) => findings.push(bad("configuration", &error.to_string(), "")),
    }
    findings.extend([git(), locale()]);
    let is_bad = findings.iter().any(|finding| finding.health == Health::Bad);
    output.print(&if command.json {
        as_json(&findings)
    } else {
        as_text(&findings)
    });
    Ok(match (journal_is_bad, is_bad) {
        (true, _) => Exit::Journal,
        (false, true) => Exit::Configuration,
        (false, false) => Exit::Success,
    })
}

fn good(subject: &str, text: &str) -> Finding {
    finding(Health::Good, subject, text, "")
}

fn note(subject: &str, text: &str, remedy: &str) -> Finding {
    finding(Health::Note, subject, text, remedy)
}

fn bad(subject: &str, text: &str, remedy: &str) -> Finding {
    finding(Health::Bad, subject, text, remedy)
}

fn finding(health: Health, subject: &str, text: &str, remedy: &str) -> Finding {
    Finding {
        health,
        subject: sanitize(subject),
        text: sanitize(text),
        remedy: sanitize(remedy),
    }
}

/// The journal, the space for it, and the runs that wait for somebody.
async fn journal(db: Option<PathBuf>) -> Vec<Finding> {
    let dirigent = match open_reading(db).await {
        Ok(dirigent) => dirigent,
        Err(error) if matches!(error.store_error(), Some(StoreError::Missing { .. })) => {
            return vec![good("journal", "not there yet; the first run creates it")];
        }
        // The error says what to do.
        Err(error) => return vec![bad("journal", &error.to_string(), "")],
    };
    let path = dirigent.journal_path().to_owned();
    let mut findings = vec![good("journal", &path.display().to_string())];
    findings.extend(space(&path));
    let states = [
        (
            RunState::Interrupted,
            "interrupted",
            "continue one with `dirigent resume RUN`: see `dirigent runs --state interrupted`",
        ),
        (
            RunState::UserRequired,
            "waiting for you",
            "see `dirigent runs --state user_required`",
        ),
    ];
    for (state, text, remedy) in states {
        match count(&dirigent, state).await {
            Ok(0) => {}
            Ok(1) => findings.push(note("runs", &format!("1 run is {text}"), remedy)),
            Ok(number) => findings.push(note("runs", &format!("{number} runs are {text}"), remedy)),
            Err(error) => findings.push(bad("runs", &error.to_string(), "run `dirigent journal check`")),
        }
    }
    findings
}

async fn count(dirigent: &Dirigent, state: RunState) -> anyhow::Result<u64> {
    let page = dirigent.runs(RunFilter::new().state(state).limit(1)).await?;
    Ok(page.total)
}

/// A note if the disk of the journal is almost full.
fn space(path: &Path) -> Option<Finding> {
    let free = rustix::fs::statvfs(path).ok()?;
    let bytes = free.f_bavail.saturating_mul(free.f_frsize);
    (bytes < LITTLE_SPACE).then(|| {
        let text = format!("only {} of disk space are left", indicatif::HumanBytes(bytes));
        note(
            "disk",
            &text,
            "free some space, or delete old runs with `dirigent journal prune --older-than 30d`",
        )
    })
}

fn configuration(report: &CheckReport) -> Vec<Finding> {
    let files: Vec<String> = report
        .config
        .files()
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut findings = vec![match files.as_slice() {
        [] => good("configuration", "no file; the defaults apply"),
        files => good("configuration", &files.join(", ")),
    }];
    findings.extend(report.results.iter().map(|(model, result)| {
        let subject = format!("model {model}");
        let is_offline = report
            .config
            .model(model)
            .is_ok_and(|model| model.provider.is_none());
        match result {
            Ok(_) if is_offline => note(
                &subject,
                "the offline model, which understands a small set of goals",
                "choose another with `dirigent init`",
            ),
            Ok(success) => good(&subject, success),
            Err(problem) => bad(&subject, problem, "see `dirigent config check`"),
        }
    }));
    findings.push(commands(report));
    findings.extend(report.connections.iter().map(|(connection, result)| {
        let subject = format!("database {}", connection.name);
        match result {
            Ok(success) => good(&subject, success),
            Err(problem) => bad(&subject, problem, "see [connections] in docs/tools.md"),
        }
    }));
    if let Some(file) = &report.services.untrusted {
        let text = format!(
            "{} is not trusted: {}",
            file.path.display(),
            file.services.join(", ")
        );
        findings.push(note(
            "MCP services",
            &text,
            "look at them and allow them with `dirigent mcp trust`",
        ));
    }
    findings.extend(
        report
            .services
            .skipped
            .iter()
            .map(|skipped| bad("MCP services", &skipped_line(skipped), "see `dirigent mcp list`")),
    );
    findings.extend(
        report
            .problems
            .iter()
            .map(|problem| bad("configuration", problem, "")),
    );
    findings.extend(report.notes.iter().map(|text| note("configuration", text, "")));
    findings
}

/// Whether commands of agents can be confined.
fn commands(report: &CheckReport) -> Finding {
    match report.config.sandbox().confinement {
        Confinement::Off => note(
            "commands",
            "not confined: they can do whatever you can",
            "remove `commands = \"unconfined\"` from [sandbox]",
        ),
        Confinement::Required => match Sandbox::check() {
            Ok(()) => good("commands", "confined to the folder of the run"),
            Err(why) => bad(
                "commands",
                &format!("cannot be confined here: {why}"),
                "see \"Commands\" in docs/tools.md",
            ),
        },
    }
}

fn git() -> Finding {
    let mut command = Command::new("git");
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => good("git", String::from_utf8_lossy(&output.stdout).trim()),
        _ => note(
            "git",
            "not found, so there are no worktrees and agents cannot look at history",
            "install git",
        ),
    }
}

/// Whether the terminal shows more than ASCII.
fn locale() -> Finding {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    match locale {
        Some(locale) if locale.to_ascii_lowercase().replace('-', "").contains("utf8") => {
            good("terminal", &locale)
        }
        Some(locale) => note(
            "terminal",
            &format!("the locale {locale} is not UTF-8, so signs may look wrong"),
            "set LANG to a locale such as C.UTF-8",
        ),
        None => note(
            "terminal",
            "no locale is set, so signs may look wrong",
            "set LANG to a locale such as C.UTF-8",
        ),
    }
}

fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.health {
            Health::Good => style("✓").green(),
            Health::Note => style("!").yellow(),
            Health::Bad => style("✗").red(),
        };
        let _ = writeln!(text, "{mark} {}: {}", finding.subject, finding.text);
        if !finding.remedy.is_empty() {
            let _ = writeln!(text, "    {}", finding.remedy);
        }
    }
    text
}

fn as_json(findings: &[Finding]) -> String {
    let findings = findings.iter().map(|finding| {
        let health = match finding.health {
            Health::Good => "good",
            Health::Note => "note",
            Health::Bad => "bad",
        };
        json!({"health": health, "subject": finding.subject, "text": finding.text, "remedy": finding.remedy})
    });
    json!({"findings": findings.collect::<Vec<_>>()}).to_string()
}
