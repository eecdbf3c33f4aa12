//! Formats of strings: what kube-apiserver accepts for `format: date-time` and the like.
//!
//! - **In:** the name of a format, and a string.
//! - **Out:** whether the string has the format. Unknown formats are ignored.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use jiff::civil::Date;

use crate::{objects::validate::is_dns_label, schema::structural::pattern::Pattern};

/// The check of a format of strings, if kube-apiserver knows it. It ignores dashes in the name.
pub(super) fn check_of(format: &str) -> Option<fn(&str) -> bool> {
    Some(match &*format.replace('-', "") {
        "bsonobjectid" => |text| text.len() == 24 && is_hex(text),
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && address(text).is_some(),
        "ipv6" => |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some('3')),
        "uuid4" => |text| is_uuid(text, Some('4')),
        "uuid5" => |text| is_uuid(text, Some('5')),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && SSN.matches(text),
        "hexcolor" => |text| HEX_COLOUR.matches(text),
        "rgbcolor" => |text| RGB_COLOUR.matches(text),
        "byte" => |text| BASE64.matches(text),
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| text.len() <= 63 && is_dns_label(text),
        "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_dns_label),
        _ => return None,
    })
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Pattern> = LazyLock::new(|| Pattern::from($text.to_owned()));
    };
}

pattern!(SSN, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$");
pattern!(HEX_COLOUR, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(RGB_COLOUR, format!(r"^rgb\(\s*{RGB_PART}\s*,\s*{RGB_PART}\s*,\s*{RGB_PART}\s*\)$"));
pattern!(BASE64, "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$");
pattern!(DURATION, r"^[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$");
pattern!(TIME, r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(z|[+-]\d{2}:\d{2})$");
pattern!(
    CARD,
    r"^(4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11})$"
);
pattern!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}](-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?|([a-zA-Z0-9\p{S}\p{L}]([-a-zA-Z0-9\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?\.)+[a-zA-Z\p{L}]{2,63})$"
);

const RGB_PART: &str = r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])";

fn is_hex(text: &str) -> bool {
    text.bytes().all(|letter| letter.is_ascii_hexdigit())
}

fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    let rest = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        Some(_) | None if text.starts_with('/') => text,
        Some(_) | None => return false,
    };
    let host = rest.strip_prefix("//").map_or("", |rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let mut escapes = text.split('%').skip(1);
    !text.contains(|letter: char| letter.is_ascii_control())
        && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '}', '|'])
        && escapes.all(|after| after.get(..2).is_some_and(is_hex))
}

fn is_email(text: &str) -> bool {
    let named = text.strip_suffix('>').and_then(|text| text.rsplit_once('<'));
    let address = named.map_or(text, |(_, address)| address);
    let is_word =
        |word: &str| !word.is_empty() && !word.contains([' ', '<', '>', '(', ')', ',', ';', ':', '\\', '"', '@']);
    let is_dotted = |words: &str| words.split('.').all(is_word);
    address.rsplit_once('@').is_some_and(|(name, domain)| is_dotted(name) && is_dotted(domain))
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.matches(text)
}

/// Reads an address. The numbers of an IPv4 address may begin with zeros.
fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().map(IpAddr::V6).ok();
    }
    let number = |part: &str| {
        if part.is_empty() {
            None
        } else {
            part.trim_start_matches('0').parse().ok().or((part.bytes().all(|digit| digit == b'0')).then_some(0))
        }
    };
    let parts: Option<Vec<u8>> = text.split('.').map(number).collect();
    let parts: [u8; 4] = parts?.try_into().ok()?;
    Some(Ipv4Addr::from(parts).into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address_text, length)) = text.split_once('/') else { return false };
    let is_number = !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit());
    let most = match address(address_text) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    is_number && length.parse::<u8>().is_ok_and(|length| length <= most)
}

/// Returns true for 6, 8 or 20 bytes in hexadecimal digits: each behind `:` or `-`, or two and two behind `.`.
fn is_mac(text: &str) -> bool {
    let of = |separator: char, digits: usize, lengths: [usize; 3]| {
        let parts: Vec<_> = text.split(separator).collect();
        lengths.contains(&parts.len()) && parts.iter().all(|part| part.len() == digits && is_hex(part))
    };
    of(':', 2, [6, 8, 20]) || of('-', 2, [6, 8, 20]) || of('.', 4, [3, 4, 10])
}

/// Returns true for a uuid, of this version if one is given. Each of its dashes can be left out.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for length in [8, 4, 4, 4, 12] {
        match rest.split_at_checked(length) {
            Some((part, after)) if is_hex(part) => rest = after.strip_prefix('-').unwrap_or(after),
            Some(_) | None => return false,
        }
    }
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    let digit = |place: usize| digits[place..].chars().next();
    let has_variant = version == Some('3') || digit(16).is_some_and(|variant| "89abAB".contains(variant));
    rest.is_empty() && !text.ends_with('-') && version.is_none_or(|version| digit(12) == Some(version) && has_variant)
}

fn digits_of_book(text: &str) -> Vec<u32> {
    let kept = text.chars().filter(|letter| !letter.is_whitespace() && *letter != '-');
    kept.map(|letter| if letter == 'X' { 10 } else { letter.to_digit(10).unwrap_or(99) }).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of_book(text);
    let sum: u32 = (1..).zip(&digits).map(|(factor, digit)| factor * digit).sum();
    digits.len() == 10 && digits[..9].iter().all(|digit| *digit < 10) && digits[9] <= 10 && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of_book(text);
    let sum: u32 = digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, factor)| digit * factor).sum();
    digits.len() == 13 && digits.iter().all(|digit| *digit < 10) && sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |digit: u32| if digit < 5 { digit * 2 } else { digit * 2 - 9 };
    let values = digits.chars().rev().filter_map(|digit| digit.to_digit(10)).enumerate();
    let sum: u32 = values.map(|(place, digit)| if place % 2 == 1 { doubled(digit) } else { digit }).sum();
    CARD.matches(&digits) && sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let has_shape = text.len() == 10
        && text.bytes().enumerate().all(
            |(place, letter)| {
                if [4, 7].contains(&place) { letter == b'-' } else { letter.is_ascii_digit() }
            },
        );
    has_shape && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower.split_once('t').is_some_and(|(date, time)| is_date(date) && TIME.matches(time))
}

/// Returns true for a duration of Go (`1h30m`), and for any text with a number and a unit such as `3 weeks`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let is_unit = |word: &str| {
        let has = |unit: &&[&str]| unit.contains(&word) || unit.last().is_some_and(|last| word.starts_with(last));
        UNITS.iter().any(has)
    };
    let lower = text.to_lowercase();
    let after_digit = |(place, digit): (usize, char)| digit.is_ascii_digit().then(|| lower[place + 1..].trim_start());
    let mut words = lower.char_indices().filter_map(after_digit);
    let word = |rest: &str| rest.chars().take_while(|letter| letter.is_alphabetic()).collect::<String>();
    DURATION.matches(text) || words.any(|rest| is_unit(&word(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_what_kube_apiserver_accepts() {
        let good = [
            ("date-time", "2026-01-02T03:04:05Z"),
            ("date-time", "2026-01-02t03:04:05.123+01:00"),
            ("date", "2024-02-29"),
            ("duration", "1h30m"),
            ("duration", "3 weeks"),
            ("ipv4", "10.00.0.1"),
            ("ipv6", "::1"),
            ("cidr", "10.0.0.0/8"),
            ("cidr", "fd00::/64"),
            ("mac", "01:23:45:67:89:ab"),
            ("uuid", "6ba7b8109dad11d180b400c04fd430c8"),
            ("uuid4", "16fd2706-8baf-433b-82eb-8c7fada847da"),
            ("byte", "YWJj"),
            ("uri", "https://example.com/a?b=c"),
            ("uri", "/path"),
            ("email", "Ann <ann@example.com>"),
            ("hostname", "a-b.example.com"),
            ("isbn10", "0321751043"),
            ("isbn13", "978-0321751041"),
            ("creditcard", "4111 1111 1111 1111"),
            ("ssn", "111-11-1111"),
            ("hexcolor", "#FFFFFF"),
            ("rgbcolor", "rgb(0, 100, 255)"),
            ("bsonobjectid", "5f6d0f4b2f8fb814b56fa181"),
            ("password", "any"),
            ("k8s-short-name", "a-b"),
        ];
        for (format, text) in good {
            assert!(check_of(format).unwrap()(text), "{format}: {text}");
        }
    }

    #[test]
    fn formats_refuse_what_kube_apiserver_refuses() {
        let bad = [
            ("date-time", "2026-01-02"),
            ("date-time", "2026-01-02T25:04:05Z"),
            ("date", "2023-02-29"),
            ("duration", "soon"),
            ("ipv4", "::1"),
            ("ipv4", "1.2.3.256"),
            ("ipv6", "1.2.3.4"),
            ("cidr", "10.0.0.0"),
            ("cidr", "10.0.0.0/33"),
            ("mac", "01:23"),
            ("uuid", "6ba7b810"),
            ("uuid4", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("byte", "no base64!"),
            ("byte", ""),
            ("uri", "no uri"),
            ("email", "ann"),
            ("hostname", "-a-"),
            ("isbn10", "0321751044"),
            ("creditcard", "4111 1111 1111 1112"),
            ("hexcolor", "#12"),
            ("k8s-short-name", "A"),
        ];
        for (format, text) in bad {
            assert!(!check_of(format).unwrap()(text), "{format}: {text}");
        }
        assert!(check_of("colour").is_none());
    }
}
