//! What must be known of a table before ids for its rows can be chosen.

use manyhands_sqlite::{self as sqlite, Connection, Statement, Step, ValueRef};
use sqlite3_parser::ast::{Cmd, Stmt, TriggerEvent, TriggerTime};
use sqlite3_parser::lexer::sql::Parser;
use sqlite3_parser::{Bump, FallibleIterator};

/// A table of the schema `main` whose new rows can be given ids: it has rowids, and is neither a view
/// nor a virtual table nor SQLite's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// As in the schema.
    pub(crate) name: String,
    /// In their order.
    pub(crate) columns: Vec<Column>,
    /// The INTEGER PRIMARY KEY, which is another name of the rowid.
    pub(crate) id_column: Option<String>,
    /// A constraint may leave a row out (`ON CONFLICT IGNORE`).
    pub(crate) ignores_conflicts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Computed, and never inserted.
    pub(crate) generated: bool,
}

impl Table {
    /// The columns that an INSERT without a column list gives.
    pub(super) fn insertable(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().filter(|column| !column.generated).map(|column| &column.name)
    }

    /// Whether SQLite takes `name` for the rowid.
    pub(super) fn is_rowid(&self, name: &str) -> bool {
        match &self.id_column {
            Some(id) if id.eq_ignore_ascii_case(name) => true,
            _ => is_alias(name) && !self.has_column(name),
        }
    }

    /// How SQL can name the rowid; `None` when columns have taken all its names.
    pub(super) fn rowid_name(&self) -> Option<String> {
        let alias = || ALIASES.into_iter().find(|alias| !self.has_column(alias));
        self.id_column.as_deref().map(quote).or_else(|| alias().map(str::to_string))
    }

    fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name))
    }
}

/// How SQL can name the rowid of a table of the schema `main`, if it has rowids; `None` when columns have taken all its
/// names.
///
/// # Errors
/// As SQLite fails to read the schema.
pub(crate) fn rowid_alias(
    connection: &Connection,
    table: &str,
) -> Result<Option<&'static str>, sqlite::Error> {
    let mut list = connection.prepare_one(&format!("PRAGMA main.table_xinfo({})", quote(table)))?;
    let mut free = ALIASES.to_vec();
    while list.step()? == Step::Row {
        let column = text(&mut list, 1);
        free.retain(|alias| !alias.eq_ignore_ascii_case(&column));
    }
    Ok(free.first().copied())
}

/// SQLite's names of the rowid, each until a column takes it (<https://sqlite.org/rowidtable.html>).
const ALIASES: [&str; 3] = ["rowid", "oid", "_rowid_"];

fn is_alias(name: &str) -> bool {
    ALIASES.iter().any(|alias| alias.eq_ignore_ascii_case(name))
}

/// A name as SQL that means it in any place.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The table that an INSERT into `schema.name` means on this connection, if it is a [`Table`].
///
/// # Errors
/// As SQLite fails to read the schema.
pub(crate) fn table_of(
    connection: &Connection,
    schema: Option<&str>,
    name: &str,
) -> Result<Option<Table>, sqlite::Error> {
    let elsewhere = schema.is_some_and(|schema| !schema.eq_ignore_ascii_case("main"));
    let own = name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"));
    if elsewhere || own {
        return Ok(None);
    }
    let Some(name) = find(connection, schema.is_none(), name)? else { return Ok(None) };
    // Not the functions pragma_table_xinfo() and so on: each would be made first, as a virtual table.
    let mut list = connection.prepare_one(&format!("PRAGMA main.table_xinfo({})", quote(&name)))?;
    let (mut columns, mut id_column) = (Vec::new(), None);
    while list.step()? == Step::Row {
        let column = Column { name: text(&mut list, 1), generated: number(&mut list, 6) != 0 };
        if number(&mut list, 5) != 0 {
            id_column = Some(column.name.clone());
        }
        columns.push(column);
    }
    if id_column.is_some() && has_key_index(connection, &name)? {
        id_column = None;
    }
    let made_by = format!(
        "SELECT 1 FROM main.sqlite_schema WHERE name = '{}' AND sql LIKE '%ignore%'",
        name.replace('\'', "''")
    );
    let ignores_conflicts = connection.prepare_one(&made_by)?.step()? == Step::Row;
    Ok(Some(Table { name, columns, id_column, ignores_conflicts }))
}

/// The name in the schema `main` of the ordinary table with rowids that `name` means. A table or view
/// of the temp schema comes first when no schema is named.
fn find(
    connection: &Connection,
    unqualified: bool,
    name: &str,
) -> Result<Option<String>, sqlite::Error> {
    let mut list = connection.prepare_one(&format!("PRAGMA table_list({})", quote(name)))?;
    let mut found = None;
    while list.step()? == Step::Row {
        let schema = text(&mut list, 0);
        if schema == "temp" && unqualified {
            return Ok(None);
        }
        let has_rowids = text(&mut list, 2) == "table" && number(&mut list, 4) == 0;
        if schema == "main" && has_rowids {
            found = Some(text(&mut list, 1));
        }
    }
    Ok(found)
}

/// Whether the primary key has an index. Then it is no name of the rowid: it has two columns, another type, or
/// is the `INTEGER PRIMARY KEY DESC` that is none (<https://sqlite.org/lang_createtable.html#rowid>).
fn has_key_index(connection: &Connection, table: &str) -> Result<bool, sqlite::Error> {
    let mut list = connection.prepare_one(&format!("PRAGMA main.index_list({})", quote(table)))?;
    while list.step()? == Step::Row {
        if text(&mut list, 3) == "pk" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a trigger of this table runs before an INSERT, as far as can be told: it sees −1 for the id that
/// SQLite will choose, and SQLite would evaluate an expression for the id twice.
pub(crate) fn runs_before_insert(connection: &Connection, table: &str) -> bool {
    has_before_insert_trigger(connection, table).unwrap_or(true)
}

fn has_before_insert_trigger(connection: &Connection, table: &str) -> Result<bool, sqlite::Error> {
    let mut list = connection.prepare_one(
        "SELECT sql FROM main.sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = lower(?1)
         UNION ALL
         SELECT sql FROM temp.sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = lower(?1)",
    )?;
    list.bind(1, ValueRef::Text(table.as_bytes()))?;
    while list.step()? == Step::Row {
        if may_be_before_insert(&text(&mut list, 0)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the trigger of this text runs before an INSERT; true also when the text is not understood.
fn may_be_before_insert(sql: &str) -> bool {
    let arena = Bump::new();
    match Parser::new(&arena, sql.as_bytes()).next() {
        Ok(Some(Cmd::Stmt(Stmt::CreateTrigger { time, event, .. }))) => {
            event == TriggerEvent::Insert && time != Some(TriggerTime::After)
        }
        _ => true,
    }
}

fn text(statement: &mut Statement, column: usize) -> String {
    match statement.column(column) {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

fn number(statement: &mut Statement, column: usize) -> i64 {
    match statement.column(column) {
        ValueRef::Integer(number) => number,
        _ => 0,
    }
}
