//! Finds the bytes that are special in JSON strings: quotes, backslashes and control characters.
//!
//! - **In:** bytes, and the position from which to search.
//! - **Out:** the position of the next special byte.
//! - **Knows nothing of:** where strings begin and end.
//!
//! Most strings are short and of different lengths, so a loop that ends with the string costs a mispredicted branch for each. The search
//! therefore tests 512 bytes at once, keeps a bit for each, and looks at 64 bits to find the end of a string.

/// The bytes of a block: one for each bit of a word.
const BLOCK: usize = 64;
/// The number of blocks that are tested at once.
const BLOCKS: usize = 8;

/// The special bytes among those after a position.
pub(super) struct SpecialBytes {
    /// The position of the byte of the first bit.
    start: usize,
    /// A bit for each byte, which is set if the byte is special or behind the end.
    bits: [u64; BLOCKS],
}

impl SpecialBytes {
    /// Begins a search; no byte is tested yet.
    pub(super) fn new() -> Self {
        // So far on that nothing counts as tested.
        Self { start: usize::MAX / 2, bits: [0; BLOCKS] }
    }

    /// Returns the position of the first special byte from `from` on; the number of bytes or more if there is none.
    #[inline]
    pub(super) fn next(&mut self, bytes: &[u8], from: usize) -> usize {
        match self.next_within_block(from) {
            Some(at) => at,
            None => self.search(bytes, from),
        }
    }

    /// Returns the position of the first special byte among the next 64; `None` if there is none, or if not all of them were tested.
    #[inline]
    pub(super) fn next_within_block(&self, from: usize) -> Option<usize> {
        let offset = self.offset_of(from)?;
        let (block, shift) = (offset / BLOCK, offset % BLOCK);
        // The second shift is by 64 bits in total if the first is by none.
        let bits = (self.bits[block] >> shift) | (self.bits[block + 1] << 1 << (BLOCK - 1 - shift));
        (bits != 0).then(|| from + bits.trailing_zeros() as usize)
    }

    /// Returns how far a position is behind the first tested byte; `None` if not all of the next 64 bytes were tested.
    #[inline]
    fn offset_of(&self, from: usize) -> Option<usize> {
        Some(from.wrapping_sub(self.start)).filter(|offset| *offset < BLOCK * (BLOCKS - 1))
    }

    #[inline(never)]
    fn search(&mut self, bytes: &[u8], mut from: usize) -> usize {
        loop {
            if self.offset_of(from).is_none() {
                self.test(bytes, from);
            }
            match self.next_within_block(from) {
                Some(at) => return at,
                None => from += BLOCK,
            }
        }
    }

    /// Tests the bytes from `start` on.
    fn test(&mut self, bytes: &[u8], start: usize) {
        self.start = start;
        let (blocks, rest) = bytes.get(start..).unwrap_or_default().as_chunks::<BLOCK>();
        self.bits = [u64::MAX; BLOCKS];
        for (bits, block) in self.bits.iter_mut().zip(blocks) {
            *bits = special_bits(block);
        }
        if let Some(bits) = self.bits.get_mut(blocks.len()) {
            // Zeros are control characters.
            let mut last = [0; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            *bits = special_bits(&last);
        }
    }
}

/// Returns a bit for each byte, which is set if the byte is special.
#[inline]
fn special_bits(block: &[u8; BLOCK]) -> u64 {
    // The compiler makes vector instructions of this loop.
    let mut flags = [0; BLOCK];
    for (flag, &byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\');
    }
    let (words, _) = flags.as_chunks();
    let bits = words.iter().zip((0..).step_by(8)).map(|(flags, shift)| gather(u64::from_le_bytes(*flags)) << shift);
    bits.fold(0, |all, some| all | some)
}

/// Returns the lowest bit of each byte of a word, which has no other bits, side by side.
#[inline]
fn gather(word: u64) -> u64 {
    // Moves bit 8 * i to 56 + i, for each i.
    word.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_special(byte: u8) -> bool {
        matches!(byte, b'"' | b'\\' | 0..=0x1f)
    }

    #[test]
    fn the_next_special_byte_is_found_from_every_position() {
        let mut random = fastrand::Rng::with_seed(7);
        for length in (0..200).chain([511, 512, 513, 600, 1500]) {
            for often in [2, 30, 1000] {
                let plain = |random: &mut fastrand::Rng| random.u8(b'a'..=b'z') | random.u8(0..2) << 7;
                let any = |random: &mut fastrand::Rng| match random.u32(0..often) {
                    0 => random.u8(..),
                    _ => plain(random),
                };
                let bytes: Vec<u8> = std::iter::repeat_with(|| any(&mut random)).take(length).collect();
                for step in [1, 7, 130] {
                    let mut special = SpecialBytes::new();
                    for from in (0..length + 2).step_by(step) {
                        let rest = bytes.get(from..).unwrap_or_default();
                        let expected = rest.iter().position(|byte| is_special(*byte)).map_or(length, |at| from + at);
                        assert_eq!(special.next(&bytes, from).min(length), expected.min(length), "{from} of {bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_byte_is_special_or_not_at_every_place_of_a_block() {
        for byte in 0..=u8::MAX {
            for place in 0..BLOCK {
                let mut block = [b'x'; BLOCK];
                block[place] = byte;
                assert_eq!(special_bits(&block), u64::from(is_special(byte)) << place, "{byte} at {place}");
            }
        }
    }
}
