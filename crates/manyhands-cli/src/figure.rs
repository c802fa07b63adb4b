//! How figures are written: short, with a unit, three digits at most.

use std::time::Duration;

/// A rate or a count: `648`, `9.12k`, `101k`, `3.45M`.
pub fn count(number: f64) -> String {
    match number {
        number if number < 9.995 => with_digits(number),
        number if number < 999.5 => format!("{number:.0}"),
        number if number < 999_500.0 => format!("{}k", with_digits(number / 1e3)),
        number => format!("{}M", with_digits(number / 1e6)),
    }
}

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

/// The same of a duration.
pub fn duration(duration: Duration) -> String {
    time(duration.as_secs_f64())
}

/// Memory: `4.50 MB`; less than a tenth of it: `4.12 kB`.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 99_950.0 => format!("{} kB", with_digits(bytes / 1e3)),
        bytes => format!("{} MB", with_digits(bytes / 1e6)),
    }
}

/// Memory more or less than other: `+4.50 MB`.
pub fn difference(difference: f64) -> String {
    let sign = if difference < 0.0 { "-" } else { "+" };
    format!("{sign}{}", bytes(difference.abs()))
}

/// A share: `0.12%`.
pub fn percent(share: f64) -> String {
    format!("{}%", with_digits(share * 100.0))
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
        let written =
            [0.0, 0.5, 9.996, 648.4, 999.7, 9_123.0, 99_999.0, 101_000.0, 3_450_000.0].map(count);
        assert_eq!(written, ["0", "0.50", "10", "648", "1.00k", "9.12k", "100k", "101k", "3.45M"]);
        assert_eq!([0, 999, 98_112, 1_000_000].map(whole), ["0", "999", "98,112", "1,000,000"]);
        let times = [0.0, 42e-6, 0.001_25, 0.35, 0.9996, 5.021, 21.04].map(time);
        assert_eq!(times, ["0 us", "42.0 us", "1.25 ms", "350 ms", "1.00 s", "5.02 s", "21.0 s"]);
        assert_eq!([4_120.0, 99_960.0, 4_500_000.0].map(bytes), ["4.12 kB", "0.10 MB", "4.50 MB"]);
        assert_eq!([4.5e6, -4.5e6].map(difference), ["+4.50 MB", "-4.50 MB"]);
        assert_eq!([0.0, 0.0012, 0.25].map(percent), ["0%", "0.12%", "25.0%"]);
        assert_eq!(ratio(12.34), "12.3x");
    }
}
