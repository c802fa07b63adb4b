//! How tables look: figures at the right, no lines but one, a spread as two lines of one cell.

use comfy_table::{CellAlignment, Table, TableComponent, presets::NOTHING};

use super::statistics::Spread;

/// A table without rows; all but the first `labels` columns are figures.
pub fn empty(headers: &[&str], labels: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_header(headers.iter().copied());
    table
        .column_iter_mut()
        .skip(labels)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    if let Some(column) = table.column_mut(0) {
        // The table starts at the left margin, like the text around it.
        column.set_padding((0, 1));
    }
    table
}

/// Adds the rows of one cell: its label stands once, and an empty row parts it from the cell above.
pub fn add(table: &mut Table, label: &str, rows: Vec<Vec<String>>) {
    if !table.is_empty() {
        table.add_row([""]);
    }
    for (number, row) in rows.into_iter().enumerate() {
        let label = if number == 0 { label.to_owned() } else { String::new() };
        table.add_row([label].into_iter().chain(row));
    }
}

/// Median, and below it the range, if it differs.
pub fn spread(values: impl Iterator<Item = f64>, write: fn(f64) -> String) -> String {
    let Some(Spread { median, min, max }) = Spread::of(values) else {
        return "-".to_owned();
    };
    let (median, min, max) = (write(median), write(min), write(max));
    if min == max { median } else { format!("{median}\n{}", range(&min, &max)) }
}

/// `8.9k–9.3k`; the unit of both stands once if it is the same: `12–18 ms`.
fn range(min: &str, max: &str) -> String {
    match (min.split_once(' '), max.split_once(' ')) {
        (Some((min, unit)), Some((_, other))) if unit == other => format!("{min}–{max}"),
        _ => format!("{min}–{max}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure;

    /// A unit that both ends share stands once; what did not vary has no range.
    #[test]
    fn spreads() {
        let check = |values: &[f64], expected| {
            assert_eq!(spread(values.iter().copied(), figure::time), expected)
        };
        check(&[0.012, 0.018, 0.013], "13.0 ms\n12.0–18.0 ms");
        check(&[0.5, 1.5, 1.0], "1.00 s\n500 ms–1.50 s");
        check(&[0.5, 0.5], "500 ms");
        check(&[], "-");
    }
}
