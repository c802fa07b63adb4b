//! The SQL functions that SQLite itself brings: whether another connection answers the same.
//!
//! The list is that of the SQLite that is compiled in (<https://sqlite.org/pragma.html#pragma_function_list>). To ask SQLite for it
//! would cost a process more than its first write, and the answer would contain what the application has added. If SQLite is compiled
//! with other functions, the test below fails. A leader that lacks a function, such as `sqrt()`, leaves the request to its owner.

/// What kind of built-in function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltIn {
    /// Every connection has it, and answers alike.
    Shared,
    /// It answers about the session.
    OfSession,
    /// `load_extension()`, which changes the connection.
    Extensions,
}

/// What is known of a function, by its name in lower case; `None` for a function of the application.
pub(crate) fn of(function: &str) -> Option<BuiltIn> {
    match function {
        "changes" | "total_changes" | "last_insert_rowid" => Some(BuiltIn::OfSession),
        "load_extension" => Some(BuiltIn::Extensions),
        _ => SHARED.binary_search(&function).ok().map(|_| BuiltIn::Shared),
    }
}

/// True for a function, by its name in lower case, that looks at the clock or draws a random number.
pub(crate) fn varies(function: &str) -> bool {
    const VARYING: [&str; 12] = [
        "current_date",
        "current_time",
        "current_timestamp",
        "date",
        "datetime",
        "julianday",
        "random",
        "randomblob",
        "strftime",
        "time",
        "timediff",
        "unixepoch",
    ];
    VARYING.contains(&function)
}

/// In order.
#[rustfmt::skip]
const SHARED: [&str; 152] = [
    "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "bm25",
    "ceil", "ceiling", "char", "coalesce", "concat", "concat_ws", "cos", "cosh", "count",
    "cume_dist", "current_date", "current_time", "current_timestamp", "date", "datetime", "degrees",
    "dense_rank", "exp", "first_value", "floor", "format", "fts3_tokenizer", "fts5",
    "fts5_get_locale", "fts5_insttoken", "fts5_locale", "fts5_source_id", "glob", "group_concat",
    "hex", "highlight", "if", "ifnull", "iif", "instr", "json", "json_array", "json_array_insert",
    "json_array_length", "json_error_position", "json_extract", "json_group_array",
    "json_group_object", "json_insert", "json_object", "json_patch", "json_pretty", "json_quote",
    "json_remove", "json_replace", "json_set", "json_type", "json_valid", "jsonb", "jsonb_array",
    "jsonb_array_insert", "jsonb_extract", "jsonb_group_array", "jsonb_group_object",
    "jsonb_insert", "jsonb_object", "jsonb_patch", "jsonb_remove", "jsonb_replace", "jsonb_set",
    "julianday", "lag", "last_value", "lead", "length", "like", "likelihood", "likely", "ln", "log",
    "log10", "log2", "lower", "ltrim", "match", "matchinfo", "max", "min", "mod", "nth_value",
    "ntile", "nullif", "octet_length", "offsets", "optimize", "percent_rank", "pi", "pow", "power",
    "printf", "quote", "radians", "random", "randomblob", "rank", "replace", "round", "row_number",
    "rtreecheck", "rtreedepth", "rtreenode", "rtrim", "sign", "sin", "sinh", "snippet", "soundex",
    "sqlite_compileoption_get", "sqlite_compileoption_used", "sqlite_log", "sqlite_source_id",
    "sqlite_version", "sqrt", "strftime", "string_agg", "substr", "substring", "subtype", "sum",
    "tan", "tanh", "time", "timediff", "total", "trim", "trunc", "typeof", "unhex", "unicode",
    "unistr", "unistr_quote", "unixepoch", "unlikely", "upper", "zeroblob",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use manyhands_sqlite::{Step, ValueRef};

    use super::*;

    /// Another version of SQLite has other functions: this test says which ones to add or to remove.
    #[test]
    fn the_list_is_that_of_sqlite() {
        assert!(SHARED.is_sorted());
        let connection = crate::statement::in_memory();
        let mut list = connection
            .prepare_one("SELECT DISTINCT lower(name) FROM pragma_function_list")
            .expect("compiles");
        let mut found = BTreeSet::new();
        while list.step().expect("steps") == Step::Row {
            let ValueRef::Text(name) = list.column(0) else { panic!("a name is text") };
            found.insert(String::from_utf8_lossy(name).into_owned());
        }
        let ours: BTreeSet<String> = SHARED
            .into_iter()
            .chain(["changes", "total_changes", "last_insert_rowid", "load_extension"])
            .map(str::to_owned)
            .collect();
        assert_eq!(found, ours);
    }
}
