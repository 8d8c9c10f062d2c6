//! How a run reacts to other runs that are working in its workspace.

/// How a run that is started or resumed reacts to other active runs of the same journal that are working in
/// its workspace, or in a folder above or below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenShared {
    /// The run begins once the other runs have ended, paused or lost their process. Waiting runs begin one
    /// after the other.
    Wait,
    /// The run begins at once, and all these runs are informed of each other.
    #[default]
    GoOn,
    /// The run does not begin.
    Refuse,
}
