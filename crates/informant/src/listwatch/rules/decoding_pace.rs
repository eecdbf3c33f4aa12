//! Decides when slow decoding is reported, and whether the transform is the cause.

use std::time::Duration;

use tokio::time::Instant;

/// How long objects take to decode. They are measured in groups, because reading the clock for each object would cost too much.
#[derive(Debug, Default)]
pub(crate) struct DecodingPace {
    /// The number of objects in the current group.
    pub(crate) objects: usize,
    /// The time that the transform took in the current group. `None` if it is not measured: it is after a group that was slow.
    pub(crate) in_transform: Option<Duration>,
    reported: Option<Instant>,
}

/// What makes decoding slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlowStep {
    Decode,
    Transform,
}

/// A group is slow if it takes this long for each thousand objects, rounded up.
const SLOW: Duration = Duration::from_millis(100);
const REPORT_AGAIN: Duration = Duration::from_secs(60);

impl DecodingPace {
    pub(crate) fn note_transform(&mut self, took: Duration) {
        if let Some(in_transform) = &mut self.in_transform {
            *in_transform += took;
        }
    }

    /// Ends the group of objects. Returns what was slow, if that is to be reported. If there is a transform, that is only known from the second
    /// slow group on.
    pub(crate) fn end_group(&mut self, took: Duration, has_transform: bool, now: Instant) -> Option<SlowStep> {
        let thousands = u32::try_from(std::mem::take(&mut self.objects) / 1000).unwrap_or(u32::MAX).saturating_add(1);
        let is_slow = took >= SLOW.saturating_mul(thousands);
        let in_transform = std::mem::replace(&mut self.in_transform, is_slow.then_some(Duration::ZERO));
        let is_known = !has_transform || in_transform.is_some();
        let may_report = self.reported.is_none_or(|reported| now - reported >= REPORT_AGAIN);
        if !is_slow || !is_known || !may_report {
            return None;
        }
        self.reported = Some(now);
        let is_transform = in_transform.is_some_and(|in_transform| in_transform > took / 2);
        Some(if is_transform { SlowStep::Transform } else { SlowStep::Decode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Groups of so many objects, each with the time that it took and the part of it in the transform, a second apart.
    fn reports(has_transform: bool, groups: &[(usize, u64, u64)]) -> Vec<Option<SlowStep>> {
        let (mut pace, mut now) = (DecodingPace::default(), Instant::now());
        let end_group = |(objects, took, in_transform): &(usize, u64, u64)| {
            (0..*objects).for_each(|_| pace.objects += 1);
            pace.note_transform(milliseconds(*in_transform));
            now += Duration::from_secs(1);
            pace.end_group(milliseconds(*took), has_transform, now)
        };
        groups.iter().map(end_group).collect()
    }

    #[test]
    fn a_group_is_slow_if_it_takes_a_tenth_of_a_second_for_each_thousand_objects_or_less() {
        assert_eq!(reports(false, &[(1, 99, 0)]), [None]);
        assert_eq!(reports(false, &[(999, 100, 0)]), [Some(SlowStep::Decode)]);
        assert_eq!(reports(false, &[(20_000, 2099, 0), (20_000, 2100, 0)]), [None, Some(SlowStep::Decode)]);
    }

    #[test]
    fn the_second_slow_group_shows_whether_the_transform_is_slow() {
        assert_eq!(reports(true, &[(1, 200, 150), (1, 200, 150)]), [None, Some(SlowStep::Transform)]);
        assert_eq!(reports(true, &[(1, 200, 50), (1, 200, 50)]), [None, Some(SlowStep::Decode)]);
        assert_eq!(reports(true, &[(1, 200, 150), (1, 5, 1), (1, 200, 150)]), [None; 3], "not measured any more");
    }

    #[test]
    fn slow_decoding_is_reported_once_a_minute() {
        let reported: Vec<_> = reports(false, &[(1, 200, 0); 125]);
        let seconds: Vec<_> = (0..125).filter(|second| reported[*second].is_some()).collect();
        assert_eq!(seconds, [0, 60, 120]);
    }
}
