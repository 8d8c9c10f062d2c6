//! The plan while it is carried out.
/// x
pub struct PlanGraph;
/// x
pub enum SubTaskState {}
