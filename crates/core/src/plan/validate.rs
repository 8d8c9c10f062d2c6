//! What can be wrong with a plan.
/// x
pub enum PlanFault {}
