//! The offline model.
/// x
pub struct OfflineModel;
