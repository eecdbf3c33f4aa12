//! [`ResourceVersion`], the server's version of an object or of a list.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize, Serializer};
use triomphe::Arc;

/// A resource version: opaque text, except that decimal numbers can be compared.
///
/// Kubernetes 1.35 and later guarantee that the versions of one resource are growing decimal numbers. Versions with the same text are equal.
/// [`compare`](Self::compare) finds the newer of two, and returns `None` for a source whose versions are not numbers.
///
/// ```
/// use std::cmp::Ordering;
/// use informant::ResourceVersion;
///
/// let old = ResourceVersion::new("99");
/// let new = ResourceVersion::new("100000000000000000000000000000");
/// assert_eq!(old.compare(&new), Some(Ordering::Less));
/// assert_eq!(old.compare(&ResourceVersion::new("v7")), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "String")]
pub struct ResourceVersion(VersionText);

/// A text in sixteen bytes: versions are rarely longer than ten digits.
#[derive(Clone, PartialEq, Eq, Hash)]
enum VersionText {
    /// The bytes behind the text are zero.
    Short { length: u8, bytes: [u8; SHORT] },
    /// A thin pointer, unlike `Arc<str>`.
    Long(Arc<String>),
}

const SHORT: usize = 14;

impl ResourceVersion {
    /// Makes a version from the text that the server sent. An empty text means that there is no version.
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if text.len() > SHORT {
            return Self(VersionText::Long(Arc::new(text.to_owned())));
        }
        let mut bytes = [0; SHORT];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self(VersionText::Short { length: text.len() as u8, bytes })
    }

    /// The `metadata.resourceVersion` of an object that a server returned; empty if it has none.
    ///
    /// ```
    /// use informant::ResourceVersion;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let mut pod = Pod::default();
    /// pod.metadata.resource_version = Some("15".into());
    /// assert_eq!(ResourceVersion::of(&pod).as_str(), "15");
    /// ```
    pub fn of(object: &impl kube::Resource) -> Self {
        Self::new(object.meta().resource_version.as_deref().unwrap_or_default())
    }

    /// The text that the server sent.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            VersionText::Short { length, bytes } => {
                // The bytes were copied from a text.
                std::str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default()
            }
            VersionText::Long(text) => text,
        }
    }

    /// Whether there is no version.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// Compares two versions: the greater one is newer. `None` if one of them is not a decimal number without leading zeros; numbers may
    /// have any length.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let are_numbers = self.is_decimal() && other.is_decimal();
        // Without leading zeros the longer number is the larger one.
        let (one, other) = (self.as_str(), other.as_str());
        are_numbers.then(|| (one.len(), one).cmp(&(other.len(), other)))
    }

    /// The number before this one; `None` for zero and for a version that is not a decimal number.
    pub(crate) fn predecessor(&self) -> Option<Self> {
        if !self.is_decimal() || self.as_str() == "0" {
            return None;
        }
        // Works for numbers of any length: the zeros at the end become nines, and the digit before them is decremented.
        let mut digits = self.as_str().as_bytes().to_vec();
        let last = digits.iter().rposition(|digit| *digit != b'0')?;
        digits[last] -= 1;
        digits[last + 1..].fill(b'9');
        let digits = String::from_utf8(digits).ok()?;
        let digits = digits.strip_prefix('0').filter(|rest| !rest.is_empty()).unwrap_or(&digits);
        Some(Self::new(digits))
    }

    fn is_decimal(&self) -> bool {
        match self.as_str().as_bytes() {
            [] => false,
            [b'0', _, ..] => false,
            digits => digits.iter().all(u8::is_ascii_digit),
        }
    }
}

impl Default for ResourceVersion {
    fn default() -> Self {
        Self::new("")
    }
}

/// Writes the version as text.
impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// The decimal text of a number.
impl From<u64> for ResourceVersion {
    fn from(number: u64) -> Self {
        Self::new(number.to_string())
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(left: &str, right: &str) -> Option<Ordering> {
        ResourceVersion::new(left).compare(&ResourceVersion::new(right))
    }

    #[test]
    fn a_version_takes_sixteen_bytes_and_keeps_a_text_of_any_length() {
        assert_eq!(size_of::<ResourceVersion>(), 16);
        for length in [0, 1, SHORT, SHORT + 1, 100] {
            let text = "7".repeat(length);
            let version = ResourceVersion::new(&text);
            assert_eq!((version.as_str(), &version), (&*text, &ResourceVersion::new(&text)));
            assert_eq!(
                serde_json::from_str::<ResourceVersion>(&serde_json::to_string(&version).unwrap()).unwrap(),
                version
            );
        }
    }

    #[test]
    fn decimals_of_any_length_compare_as_numbers() {
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("10", "10"), Some(Ordering::Equal));
        assert_eq!(compare("0", "1"), Some(Ordering::Less));
        assert_eq!(compare("18446744073709551616", "18446744073709551615"), Some(Ordering::Greater));
        assert_eq!(compare(&"9".repeat(400), &format!("1{}", "0".repeat(400))), Some(Ordering::Less));
    }

    #[test]
    fn the_predecessor_of_a_decimal_is_the_number_before_it() {
        let before = |text: &str| ResourceVersion::new(text).predecessor().map(|version| version.as_str().to_owned());
        let table = [("1", "0"), ("10", "9"), ("11", "10"), ("100", "99"), ("2000", "1999"), ("10203", "10202")];
        for (version, expected) in table {
            assert_eq!(before(version).as_deref(), Some(expected), "{version}");
        }
        let huge = format!("1{}", "0".repeat(40));
        assert_eq!(before(&huge), Some("9".repeat(40)));
        assert!(["0", "", "v7", "007"].into_iter().all(|odd| before(odd).is_none()));
    }

    #[test]
    fn what_is_not_a_decimal_has_no_order() {
        for odd in ["", "007", "v7", "1.5", "-1", "1 ", "१"] {
            assert_eq!(compare(odd, "1"), None, "{odd:?}");
            assert_eq!(compare("1", odd), None, "{odd:?}");
        }
    }
}
