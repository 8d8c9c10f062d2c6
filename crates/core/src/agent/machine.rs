//! Stub.
/// x
pub struct Agent;
