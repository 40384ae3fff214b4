//! Instances on one machine each need a port of their own.

use rhumb_config::{Common, ConfigError};

/// Checks that this number of instances of a stage can listen.
///
/// # Errors
/// They would have to share a port.
pub(super) fn check_ports(stage: &str, common: Common, replicas: u16) -> Result<(), ConfigError> {
    let listen = common.listen;
    if replicas <= 1 || listen.port() == 0 {
        return Ok(());
    }
    Err(ConfigError::Range(vec![format!(
        "configuration key stages.{stage}.listen = {listen}: {replicas} instances here cannot \
         share a port; accepted is port 0, for a free one each"
    )]))
}
