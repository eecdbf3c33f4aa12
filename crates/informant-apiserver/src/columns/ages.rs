//! Ages in the format of `kubectl`: `45s`, `3m20s`, `5d`.

use jiff::Timestamp;
use serde_json::Value;

use super::UNKNOWN;

/// The time since `time`; `<unknown>` if it is not a time.
pub(super) fn age_of(time: &str, now: Timestamp) -> Value {
    time.parse().map_or_else(|_| UNKNOWN.into(), |then| time_since(then, now).into())
}

pub(super) fn time_since(then: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(then).as_secs())
}

/// A duration in the format of `kubectl`: the longer, the coarser.
fn duration(seconds: i64) -> String {
    // Allows for a small difference between clocks.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: &str, small: i64, rest: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{rest}"),
    };
    match (seconds, minutes, hours, days) {
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, ..) => two(minutes, "m", seconds % 60, "s"),
        (_, ..180, ..) => format!("{minutes}m"),
        (_, _, ..8, _) => two(hours, "h", minutes % 60, "m"),
        (_, _, ..48, _) => format!("{hours}h"),
        (_, _, _, ..8) => two(days, "d", hours % 24, "h"),
        (_, _, _, ..730) => format!("{days}d"),
        (_, _, _, ..2920) => two(days / 365, "y", days % 365, "d"),
        (_, _, _, _) => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_said_as_kubectl_does() {
        let (minute, hour, day) = (60, 3600, 86400);
        let times = [0, 119, 120, 125, 599, 10 * minute, 3 * hour - 1, 3 * hour, 11_000, 8 * hour];
        assert_eq!(times.map(duration), ["0s", "119s", "2m", "2m5s", "9m59s", "10m", "179m", "3h", "3h3m", "8h"]);
        let times = [2 * day - 1, 2 * day, 180_000, 8 * day, 730 * day, 64_000_000, 2920 * day + 1];
        assert_eq!(times.map(duration), ["47h", "2d", "2d2h", "8d", "2y", "2y10d", "8y"]);
        assert_eq!([-1, -2].map(duration), ["0s", "<invalid>"]);
    }
}
