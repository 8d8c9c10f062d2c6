//! The changes of a statement, derived from the database's state before and after it.

use std::collections::BTreeSet;

use dirigent_core::tool::StateChange;

/// Names of a database's tables.
pub(super) type Tables = BTreeSet<String>;

/// Returns the created and dropped tables. On a server, they include those that another client created or dropped during the statement.
pub(super) fn table_changes(connection: &str, before: &Tables, after: &Tables) -> Vec<StateChange> {
    let created = after.difference(before).map(|table| StateChange::TableCreated {
        connection: connection.to_owned(),
        table: table.clone(),
    });
    let dropped = before.difference(after).map(|table| StateChange::TableDropped {
        connection: connection.to_owned(),
        table: table.clone(),
    });
    created.chain(dropped).collect()
}

/// Returns the change to report for `rows` changed rows of a table. `None` if `rows` is 0.
pub(super) fn row_changes(connection: &str, table: Option<String>, rows: u64) -> Option<StateChange> {
    (rows > 0).then(|| StateChange::RowsChanged {
        connection: connection.to_owned(),
        table,
        rows,
    })
}
