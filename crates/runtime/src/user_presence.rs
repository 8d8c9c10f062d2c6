//! Whether a run can ask its user.

/// Whether a user can answer a run's questions and decide about its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserPresence {
    /// Questions wait for [`RunHandle::answer`](crate::RunHandle::answer), and calls that need an approval
    /// wait for [`RunHandle::decide`](crate::RunHandle::decide).
    Present,
    /// The run stops at a question, or once only calls that need an approval remain. Before it stops, it
    /// handles all pending messages, including those from other processes. It can be resumed with the answer
    /// (PAOR-9).
    #[default]
    Absent,
}
