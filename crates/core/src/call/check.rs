//! x
/// x
pub enum CallFault {}
/// x
pub struct ToolSet;
