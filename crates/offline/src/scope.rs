//! The part of a workspace to which a goal or guidance applies.

use std::fmt;

/// A part of the workspace; the whole workspace if empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Files and folders, relative to the workspace; empty for all.
    pub only: Vec<String>,
    /// Files and folders to leave out.
    pub except: Vec<String>,
    /// File extensions (`.md`); empty for any.
    pub endings: Vec<String>,
}

impl Scope {
    /// Returns true if a file, relative to the workspace, is in the scope.
    pub fn contains(&self, path: &str) -> bool {
        (self.only.is_empty() || self.only.iter().any(|folder| is_under(path, folder)))
            && !self.except.iter().any(|folder| is_under(path, folder))
            && (self.endings.is_empty() || self.has_ending(path))
    }

    fn has_ending(&self, path: &str) -> bool {
        self.endings.iter().any(|ending| path.ends_with(ending.as_str()))
    }

    /// Returns the files, folders and globs to search; empty for all files. `except` is ignored, because globs
    /// cannot express it.
    pub fn search_paths(&self) -> Vec<String> {
        if self.endings.is_empty() {
            return self.only.clone();
        }
        let globs = |folder: &str| -> Vec<String> {
            let endings = self.endings.iter();
            endings.map(|ending| format!("{folder}*{ending}")).collect()
        };
        if self.only.is_empty() {
            return globs("");
        }
        let of_place = |place: &String| {
            if self.has_ending(place) {
                vec![place.clone()]
            } else {
                globs(&format!("{place}/**/"))
            }
        };
        self.only.iter().flat_map(of_place).collect()
    }

    /// Restricts the scope by guidance. The paths and file extensions in the guidance replace those of the goal; the exceptions in the
    /// guidance are added to those of the goal.
    pub fn narrow(&mut self, guidance: Scope) {
        if !guidance.only.is_empty() {
            self.only = guidance.only;
        }
        if !guidance.endings.is_empty() {
            self.endings = guidance.endings;
        }
        self.except.extend(guidance.except);
    }

    /// Returns true if the scope is the whole workspace.
    pub fn is_everything(&self) -> bool {
        *self == Scope::default()
    }
}

/// Writes the scope as part of a sentence: `` in `src`, only files ending with `.rs`, not in `src/old` ``. The goal grammar can parse it.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(" and ")
        };
        if !self.only.is_empty() {
            write!(f, " in {}", quoted(&self.only))?;
        }
        if !self.endings.is_empty() {
            write!(f, ", only files ending with {}", quoted(&self.endings))?;
        }
        if !self.except.is_empty() {
            write!(f, ", not in {}", quoted(&self.except))?;
        }
        Ok(())
    }
}

fn is_under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
