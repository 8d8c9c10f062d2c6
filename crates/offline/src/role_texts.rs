//! Fixed phrases with which one role passes information to another. The roles share only plans, findings and reflections.

/// The beginning of a verifier's findings if the change is complete.
pub(crate) const CONFIRMED: &str = "Confirmed: ";

/// The beginning of a verifier's findings if the change is incomplete or could not be verified.
pub(crate) const NOT_CONFIRMED: &str = "Not confirmed: ";

/// The note on what a replacement covers, in its plan and in its verification.
pub(crate) const MATCHED_ANYWHERE: &str =
    "The text is matched anywhere, also within words; ignored and binary files are left out.";

/// The note, in a plan and in its reflection, that several symbols may have the name.
pub(crate) const BY_NAME: &str =
    "It is matched by name: everything with this name is renamed, whatever it belongs to.";

/// The note, in a plan and in its reflection, that no check covers the change.
pub(crate) const NO_CHECKS: &str =
    "There is nothing here to build or test these files with, so only a search confirms the result.";

/// The beginning of a plan that undoes a change. The reason follows.
pub(crate) const UNDO_SUMMARY: &str = "Undo the changes: ";

/// The beginning of a reflection after which the next iteration undoes the change. The reason follows.
pub(crate) const GIVEN_UP: &str = "Given up, so the next iteration undoes the changes. Reason: ";

/// The beginning of a reflection on an iteration in which a call was interrupted.
pub(crate) const INTERRUPTED: &str = "Interrupted: ";

/// The beginning of a reflection on an iteration in which an edit was interrupted.
pub(crate) const INTERRUPTED_CHANGE: &str = "Interrupted: a change";

/// The beginning of a reflection on an iteration in which a check's program was missing. The program follows in backticks.
pub(crate) const NOT_INSTALLED: &str = "Not installed: ";
