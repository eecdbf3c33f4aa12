//! Numbers of JSON as kube-apiserver reads, compares and prints them: as integers of 64 bits, or as floats.

use std::fmt;

use serde_json::Number as Json;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// The largest integer that every smaller one of which a float can hold.
const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;

impl Number {
    pub(super) fn read(json: &Json) -> Self {
        json.as_i64().map_or_else(|| Self::Float(json.as_f64().unwrap_or(f64::NAN)), Self::Int)
    }

    /// Returns true for integers, also in the form `5.0`.
    pub(super) fn is_integer(self) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Float(float) => float.fract() == 0.0 && float.abs() <= LARGEST_EXACT,
        }
    }

    pub(super) fn as_float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// A limit in the type of this number. Integers are compared as integers.
    pub(super) fn limit(self, limit: f64) -> Self {
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "as Go converts it")]
            Self::Int(_) => Self::Int(limit as i64),
            Self::Float(_) => Self::Float(limit),
        }
    }

    /// Returns true if the number is a multiple of `factor`.
    pub(super) fn is_multiple_of(self, factor: f64) -> bool {
        match (self, self.limit(factor)) {
            (Self::Int(int), Self::Int(factor)) => factor > 0 && int % factor == 0,
            (_, _) if factor < 1.0 => Self::Float(1.0 / factor * self.as_float()).is_integer(),
            (_, _) => Self::Float(self.as_float() / factor).is_integer(),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => one.partial_cmp(other),
            (_, _) => self.as_float().partial_cmp(&other.as_float()),
        }
    }
}

/// As `%v` of Go.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Float(float) if *float != 0.0 && !(1e-4..1e21).contains(&float.abs()) => {
                let text = format!("{float:e}");
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
                write!(f, "{digits}e{sign}{exponent:0>2}")
            }
            Self::Float(float) => float.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        let float = |float| Number::Float(float).to_string();

        assert_eq!([float(1.0), float(0.5), float(-0.001)], ["1", "0.5", "-0.001"]);
        assert_eq!([float(1e21), float(1.5e-5), float(1e20)], ["1e+21", "1.5e-05", "100000000000000000000"]);
        assert_eq!(Number::Int(-7).to_string(), "-7");
    }

    #[test]
    fn multiples_of_floats_are_found() {
        assert!(Number::Float(0.3).is_multiple_of(0.1) == Number::Float(1.0 / 0.1 * 0.3).is_integer());
        assert!(Number::Int(10).is_multiple_of(5.0) && !Number::Int(11).is_multiple_of(5.0));
        assert!(Number::Float(2.5).is_multiple_of(0.5));
    }
}
