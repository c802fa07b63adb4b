//! Settings in the environment by which an application would open this database without Manyhands: those of the doctor's own, and of the
//! programs that have the file open.

use std::path::Path;

use super::finding::Finding;

const CHECK: &str = "settings";
/// Variables in which frameworks look for a database: Django (dj-database-url, django-environ), SQLAlchemy (Flask, Alembic), Rails, Prisma.
const VARIABLES: [&str; 4] =
    ["DATABASE_URL", "SQLALCHEMY_DATABASE_URI", "SQLALCHEMY_DATABASE_URL", "ALEMBIC_DATABASE_URL"];
/// Schemes that are stock SQLite's.
const STOCK: [&str; 6] =
    ["sqlite://", "sqlite3:", "sqlite+pysqlite:", "sqlite+aiosqlite:", "file:", "sqlite:"];

/// Looks at this process's environment: the doctor is run where the application is.
pub fn check(path: &Path) -> Vec<Finding> {
    let set = VARIABLES.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
    let findings: Vec<_> = set.filter_map(|(name, value)| judge(path, name, &value)).collect();
    if findings.is_empty() {
        return vec![Finding::ok(CHECK, "no variable of the environment leads past Manyhands")];
    }
    findings
}

/// A variable that leads to this database, and past Manyhands.
fn judge(path: &Path, name: &'static str, value: &str) -> Option<Finding> {
    let is_stock = STOCK.iter().any(|scheme| value.starts_with(scheme));
    let named = path.file_name()?.to_str()?;
    let place = value.split(['?', '#']).next().unwrap_or_default();
    if !is_stock || !place.ends_with(named) {
        return None;
    }
    Some(Finding::warning(
        CHECK,
        format!("{name} is {place}: stock SQLite's"),
        "SQLAlchemy: sqlite+manyhands:/// or sqlite+aiomanyhands:///. Django: the engine manyhands.django. Any other program: manyhands run -- COMMAND",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_urls_lead_past_manyhands() {
        let check = |value: &str, expected| {
            let found = judge(Path::new("/data/app.db"), "DATABASE_URL", value);
            assert_eq!(found.is_some(), expected, "{value}");
        };
        check("sqlite:////data/app.db", true);
        check("sqlite+aiosqlite:////data/app.db?timeout=5", true);
        check("sqlite+manyhands:////data/app.db", false);
        check("sqlite:////data/other.db", false);
        check("postgres://server/app.db", false);
    }
}
