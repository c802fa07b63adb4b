//! How figures are written: short, with a unit, three digits at most.

/// A whole number with separators: `98,112`.
pub fn whole(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits are ASCII"))
        .collect();
    groups.join(",")
}

/// A time: `42 us`, `1.25 ms`, `350 ms`, `5.02 s`.
pub fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 999.5e-6 => format!("{} us", with_digits(seconds * 1e6)),
        seconds if seconds < 999.5e-3 => format!("{} ms", with_digits(seconds * 1e3)),
        seconds => format!("{} s", with_digits(seconds)),
    }
}

/// A ratio: `12.3x`.
pub fn ratio(ratio: f64) -> String {
    format!("{}x", with_digits(ratio))
}

/// Three significant digits, and no more than a reader compares at a glance.
fn with_digits(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        number if number < 9.995 => format!("{number:.2}"),
        number if number < 99.95 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every figure has three digits, and rounding up never makes four.
    #[test]
    fn figures_are_short() {
        assert_eq!([0, 999, 98_112, 1_000_000].map(whole), ["0", "999", "98,112", "1,000,000"]);
        let times = [0.0, 42e-6, 0.001_25, 0.35, 0.9996, 5.021, 21.04].map(time);
        assert_eq!(times, ["0 us", "42.0 us", "1.25 ms", "350 ms", "1.00 s", "5.02 s", "21.0 s"]);
        assert_eq!(ratio(12.34), "12.3x");
    }
}
