//! The schema of a database: its tables and views with their columns, keys and indexes, in the form of DDL.
//!
//! A query of the database's catalog returns two columns: an entry, such as `TABLE orders`, and one of its
//! items, such as `id integer NOT NULL`; an entry that is complete in itself has no items. The items of an
//! entry are in consecutive rows.

use super::connection::{Connection, Database};
use super::error::ReadOnlyReason;
use super::rows::Rows;
use super::statement::Statement;

/// Maximum number of columns, keys and indexes that are read.
const MAX_ITEMS: usize = 5000;

/// Maximum size of the schema that a model is shown, in bytes.
const MAX_BYTES: usize = 32 * 1024;

const SQLITE: &str = "SELECT sql, NULL FROM sqlite_schema WHERE sql IS NOT NULL AND type IN ('table', 'view', 'index') \
    AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY tbl_name, type = 'index', name";

const POSTGRES: &str = "WITH relation AS (\
      SELECT c.oid, CASE n.nspname WHEN 'public' THEN '' ELSE quote_ident(n.nspname) || '.' END || quote_ident(c.relname) AS name, \
        CASE c.relkind WHEN 'v' THEN 'VIEW ' WHEN 'm' THEN 'MATERIALIZED VIEW ' WHEN 'f' THEN 'FOREIGN TABLE ' ELSE 'TABLE ' END AS kind \
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
      WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT c.relispartition \
        AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'\
    ) SELECT entry, item FROM (\
      SELECT name, 1 AS part, a.attnum::text AS place, a.attnum AS ordinal, kind || name AS entry, \
        quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END \
        || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') AS item \
      FROM relation r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped \
        LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
      UNION ALL SELECT name, 2, k.contype::text || k.conname::text, 0, kind || name, pg_get_constraintdef(k.oid) \
      FROM relation r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid AND k.contype IN ('p', 'u', 'f', 'c', 'x') \
      UNION ALL SELECT name, 3, pg_get_indexdef(i.indexrelid), 0, pg_get_indexdef(i.indexrelid), NULL \
      FROM relation r JOIN pg_catalog.pg_index i ON i.indrelid = r.oid \
      WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = i.indexrelid)\
    ) AS parts ORDER BY name, part, ordinal, place";

// MySQL and MariaDB limit the length of GROUP_CONCAT, so it joins only the columns of one key.
const MYSQL: &str = "SELECT entry, item FROM (\
      SELECT c.table_schema AS place, c.table_name AS name, 1 AS part, c.ordinal_position AS ordinal, \
        CONCAT(IF(t.table_type LIKE '%VIEW', 'VIEW ', 'TABLE '), \
          IF(c.table_schema = DATABASE(), c.table_name, CONCAT(c.table_schema, '.', c.table_name))) AS entry, \
        CONCAT(c.column_name, ' ', c.column_type, IF(c.is_nullable = 'NO', ' NOT NULL', ''), \
          IF(c.column_default IS NULL OR c.column_default = 'NULL', '', CONCAT(' DEFAULT ', c.column_default)), \
          IF(c.extra = '', '', CONCAT(' ', c.extra))) AS item \
      FROM information_schema.columns c JOIN information_schema.tables t \
        ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
      UNION ALL SELECT table_schema, table_name, 2, 0, \
        CONCAT('TABLE ', IF(table_schema = DATABASE(), table_name, CONCAT(table_schema, '.', table_name))), \
        CONCAT(IF(index_name = 'PRIMARY', 'PRIMARY KEY', CONCAT(IF(non_unique = 0, 'UNIQUE ', ''), 'INDEX ', index_name)), \
          ' (', GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', '), ')') \
      FROM information_schema.statistics GROUP BY table_schema, table_name, index_name, non_unique \
      UNION ALL SELECT table_schema, table_name, 3, 0, \
        CONCAT('TABLE ', IF(table_schema = DATABASE(), table_name, CONCAT(table_schema, '.', table_name))), \
        CONCAT('FOREIGN KEY (', GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ', '), ') REFERENCES ', \
          referenced_table_name, ' (', GROUP_CONCAT(referenced_column_name ORDER BY ordinal_position SEPARATOR ', '), ')') \
      FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL \
      GROUP BY table_schema, table_name, constraint_name, referenced_table_name\
    ) AS parts WHERE place NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') \
    ORDER BY place, name, part, ordinal, item";

/// Returns the statement that reads the schema.
pub(super) fn statement(connection: &Connection, name: &str) -> Statement {
    let sql = match connection.database {
        Database::Sqlite { .. } => SQLITE,
        Database::Postgres { .. } => POSTGRES,
        Database::Mysql { .. } => MYSQL,
    };
    Statement {
        connection: name.to_owned(),
        sql: sql.to_owned(),
        parameters: Vec::new(),
        read_only: Some(ReadOnlyReason::Agent),
        max_rows: MAX_ITEMS,
        timeout: connection.timeout,
    }
}

/// Renders the rows of the statement: `TABLE orders (id integer NOT NULL, …)`, one entry per line, below a note if not everything is shown.
pub(super) fn output(connection: &Connection, rows: Rows) -> String {
    let (rows, is_complete) = rows.into_rows();
    let mut entries: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &rows {
        let (entry, item) = (row[0].as_str().unwrap_or_default(), row[1].as_str());
        match (entries.last_mut(), item) {
            (Some((last, items)), Some(item)) if *last == entry => items.push(item),
            (_, item) => entries.push((entry, item.into_iter().collect())),
        }
    }
    let (mut schema, mut shown) = (String::new(), 0);
    for (entry, items) in &entries {
        let line = if items.is_empty() {
            format!("{entry}\n")
        } else {
            format!("{entry} ({})\n", items.join(", "))
        };
        if schema.len() + line.len() > MAX_BYTES {
            break;
        }
        schema.push_str(&line);
        shown += 1;
    }
    if entries.is_empty() {
        return "No tables".to_owned();
    }
    let more = entries.len() - shown;
    if more > 0 || !is_complete {
        let catalog = match connection.database {
            Database::Sqlite { .. } => "sqlite_schema",
            Database::Postgres { .. } | Database::Mysql { .. } => "information_schema.columns",
        };
        let least = if is_complete { "" } else { "at least " };
        let note = format!(
            "Note: {least}{more} more tables, views and indexes are left out: query {catalog} for them"
        );
        schema.insert_str(0, &format!("{note}\n"));
    }
    schema
}
