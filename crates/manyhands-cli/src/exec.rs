//! `manyhands exec`: run SQL on a file through Manyhands, and print rows as the sqlite3 shell does.

use std::{
    borrow::Cow,
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use manyhands::{Database, Value, params};
use serde_json::{Map, Value as Json};

/// What `manyhands exec` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database file.
    file: PathBuf,
    /// SQL statements, one per argument.
    #[arg(required = true)]
    sql: Vec<String>,
    /// Print each row as a JSON object instead.
    #[arg(long, conflicts_with = "separator")]
    json: bool,
    /// What stands between the values of a row.
    #[arg(long, default_value = "|")]
    separator: String,
    /// Each argument is a script of several statements; rows are not printed.
    #[arg(long)]
    script: bool,
}

/// Runs the statements in turn; the first error ends the run.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = arguments.file.display();
    let database = Database::open(&arguments.file).with_context(|| format!("open {file}"))?;
    let mut connection = database.connect().with_context(|| format!("connect to {file}"))?;
    let mut output = BufWriter::new(io::stdout().lock());
    for sql in &arguments.sql {
        if arguments.script {
            connection.execute_script(sql)?;
            continue;
        }
        // Any statement may return rows: a SELECT, or a write with a RETURNING clause.
        for row in connection.execute(sql, params![])?.rows {
            if arguments.json {
                writeln!(output, "{}", object(row.columns(), row.values()))?;
            } else {
                output.write_all(&line(row.values(), &arguments.separator))?;
            }
        }
        // A later statement may fail: what came before is shown first.
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One row, its line end included.
fn line(values: &[Value], separator: &str) -> Vec<u8> {
    let texts: Vec<_> = values.iter().map(text).collect();
    let mut line = texts.join(separator.as_bytes());
    line.push(b'\n');
    line
}

/// As the sqlite3 shell shows it: nothing for NULL, bytes as they are.
fn text(value: &Value) -> Cow<'_, [u8]> {
    match value {
        Value::Null => Cow::default(),
        Value::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
        Value::Real(number) => Cow::Owned(real(*number).into_bytes()),
        Value::Text(text) => Cow::Borrowed(text.as_bytes()),
        Value::Blob(bytes) => Cow::Borrowed(bytes),
    }
}

/// `1.0`, not `1`: a real number stays one when it is read back.
fn real(number: f64) -> String {
    match number {
        number if number == f64::INFINITY => "Inf".to_owned(),
        number if number == f64::NEG_INFINITY => "-Inf".to_owned(),
        number => format!("{number:?}"),
    }
}

/// Bytes as hexadecimal digits; infinite numbers, which JSON has not, as text.
fn object<Name: AsRef<str>>(names: &[Name], values: &[Value]) -> Json {
    let pairs =
        names.iter().zip(values).map(|(name, value)| (name.as_ref().to_owned(), json(value)));
    Json::Object(pairs.collect::<Map<_, _>>())
}

fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => Json::from(*number),
        Value::Real(number) if number.is_finite() => Json::from(*number),
        Value::Real(number) => Json::from(real(*number)),
        Value::Text(text) => Json::from(String::from_utf8_lossy(text.as_bytes())),
        Value::Blob(bytes) => {
            Json::from(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: Value, expected_text: &str, expected_json: &str) {
        assert_eq!(text(&value), expected_text.as_bytes());
        assert_eq!(json(&value).to_string(), expected_json);
    }

    /// Scripts that parse the sqlite3 shell's output read ours.
    #[test]
    fn values_as_text_and_as_json() {
        check(Value::Null, "", "null");
        check(Value::from("a|b"), "a|b", "\"a|b\"");
        check(Value::Integer(-7), "-7", "-7");
        check(Value::Real(1.0), "1.0", "1.0");
        check(Value::Real(f64::INFINITY), "Inf", "\"Inf\"");
        check(Value::Blob(b"\x00ab".to_vec()), "\0ab", "\"006162\"");
        assert_eq!(line(&[Value::Integer(1), Value::Null, Value::Integer(2)], "|"), b"1||2\n");
    }

    /// Columns keep their order and names.
    #[test]
    fn a_row_as_an_object() {
        let object = object(&["b", "a"], &[Value::Integer(1), Value::Null]);
        assert_eq!(object.to_string(), r#"{"b":1,"a":null}"#);
    }
}
