//! `init`: chooses a model, tests it and adds it to the user's configuration.

mod local_servers;
mod questions;
mod table;

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use dirigent::config::{PROVIDERS, Sources};
use dirigent::{Config, DirigentError};
use tempfile::NamedTempFile;

use crate::args::InitCommand;
use crate::exit::{Exit, UsageError};
use crate::output::{Output, sanitize};
use table::ModelTable;

pub(crate) async fn init(
    file: Option<PathBuf>,
    command: InitCommand,
    output: &Output,
) -> anyhow::Result<Exit> {
    let path = match file {
        Some(file) => file,
        None => Config::load(&Sources::from_environment())
            .map_err(DirigentError::from)?
            .user_file()
            .ok_or_else(|| {
                UsageError(
                    "there is no folder for your configuration: set HOME, or use --config FILE".to_owned(),
                )
            })?,
    };
    let present = present_text(&path)?;
    let model = match given(&command)? {
        Some(model) => model,
        None if output.is_interactive() => match questions::ask(output).await? {
            Some(model) => model,
            None => return Ok(Exit::Cancelled),
        },
        None => {
            return Err(UsageError(
                "there is no terminal to ask in: name the model with --provider and --name; see dirigent init --help".to_owned(),
            )
            .into());
        }
    };
    let draft = Draft::write(&path, &present, &model)?;
    if !command.no_test {
        output.note("Testing the model …");
        if let Err(problem) = draft.test().await {
            output.error(&sanitize(&format!("the model cannot be used: {problem}")));
            if !output.is_interactive() || !questions::write_anyway(output) {
                output.note("nothing was written; `dirigent init --no-test` writes without a test");
                return Ok(Exit::Configuration);
            }
        }
    }
    draft.keep()?;
    let shown = sanitize(&path.display().to_string());
    output.print(&format!(
        "Wrote {shown}: runs use {} now.\nTry it: dirigent run \"explain this project\"\nSee all settings: dirigent config check",
        sanitize(&model.name)
    ));
    if std::env::var_os("DIRIGENT_MODEL").is_some() {
        output.note("note: DIRIGENT_MODEL is set, and overrides this model");
    }
    Ok(Exit::Success)
}

/// The text of the configuration file, which must have no `[model]` yet; empty if the file does not exist.
fn present_text(path: &Path) -> anyhow::Result<String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => {
            return Err(UsageError(format!(
                "cannot read {}: {error}; check its permissions, and that it is UTF-8",
                path.display()
            ))
            .into());
        }
    };
    let config = Config::load(&Sources::none().file(path)).map_err(DirigentError::from)?;
    if config
        .settings()
        .iter()
        .any(|setting| setting.key.starts_with("model."))
    {
        return Err(UsageError(format!(
            "{} has a [model] already: change it there, or use another file with --config FILE",
            path.display()
        ))
        .into());
    }
    Ok(text)
}

/// The model that the options name; `None` without options.
fn given(command: &InitCommand) -> Result<Option<ModelTable>, UsageError> {
    let Some(provider) = &command.provider else {
        return Ok(None);
    };
    let known = PROVIDERS.iter().find(|known| known.name == provider);
    let Some(known) = known else {
        let names: Vec<&str> = PROVIDERS.iter().map(|known| known.name).collect();
        return Err(UsageError(format!(
            "there is no provider `{provider}`: use one of {}",
            names.join(", ")
        )));
    };
    Ok(Some(ModelTable {
        provider: known.name,
        name: command
            .name
            .clone()
            .unwrap_or_else(|| known.suggested_model.to_owned()),
        base_url: command.base_url.clone(),
        api_key_env: command.key_env.clone(),
        api_key: None,
    }))
}

/// The new configuration, beside the file that it replaces when it is kept. It may contain a key, so only the user can read it.
struct Draft {
    file: NamedTempFile,
    path: PathBuf,
}

impl Draft {
    fn write(path: &Path, present: &str, model: &ModelTable) -> anyhow::Result<Self> {
        let write = || {
            // If the path is a link, its target is replaced, not the link itself.
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let mut file = tempfile::Builder::new().suffix(".toml").tempfile_in(folder)?;
            file.as_file().set_permissions(Permissions::from_mode(0o600))?;
            let gap = if present.is_empty() || present.ends_with("\n\n") {
                ""
            } else {
                "\n"
            };
            let line = if present.is_empty() || present.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            write!(file, "{present}{line}{gap}{model}")?;
            file.as_file().sync_all()?;
            Ok::<_, std::io::Error>(Draft { file, path })
        };
        write().with_context(|| {
            format!(
                "cannot write {}: check the permissions of its folder",
                path.display()
            )
        })
    }

    /// Tests the model as a run would use it.
    async fn test(&self) -> anyhow::Result<()> {
        let sources = Sources::from_environment().file(self.file.path());
        let config = Config::load(&sources).map_err(DirigentError::from)?;
        config
            .probe("default")
            .await
            .map(drop)
            .map_err(|error| anyhow!("{error}"))
    }

    fn keep(self) -> anyhow::Result<()> {
        let path = self.path;
        let kept = self.file.persist(&path).map(drop).map_err(|error| error.error);
        kept.with_context(|| format!("cannot write {}", path.display()))
    }
}
