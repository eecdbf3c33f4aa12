//! zstd, with the JSON of a base as the dictionary.
//!
//! - **In:** bytes, and the bytes of the base.
//! - **Out:** one zstd frame; the bytes again.
//! - **Knows nothing of:** JSON.
//!
//! A context takes several hundred kilobytes, so contexts are shared by all threads.

use parking_lot::Mutex;
use zstd_safe::{CCtx, DCtx, compress_bound, find_frame_compressed_size};

/// zstd's fastest ordinary level. The base matters more than the level.
const LEVEL: i32 = 1;

/// A buffer that has grown beyond this is not kept.
const LARGEST_BUFFER: usize = 1 << 20;

/// Contexts that are not in use.
struct Pool<T>(Mutex<Vec<T>>);

/// The largest number of contexts that are kept. More threads than these that pack at once make contexts of their own.
const KEPT: usize = 4;

static COMPRESSORS: Pool<(CCtx<'static>, Vec<u8>)> = Pool(Mutex::new(Vec::new()));
static DECOMPRESSORS: Pool<DCtx<'static>> = Pool(Mutex::new(Vec::new()));

impl<T> Pool<T> {
    fn with<R>(&self, make: impl FnOnce() -> Option<T>, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        let pooled = self.0.lock().pop();
        let mut context = pooled.or_else(make)?;
        let result = act(&mut context);
        let mut pool = self.0.lock();
        if pool.len() < KEPT {
            pool.push(context);
        }
        Some(result)
    }
}

/// Returns a frame, and `rest` behind it; `None` if zstd fails.
pub(super) fn compress(bytes: &[u8], base: &[u8], rest: &[u8]) -> Option<Box<[u8]>> {
    let make = || Some((CCtx::try_create()?, Vec::new()));
    let compress = |(context, buffer): &mut (CCtx<'_>, Vec<u8>)| {
        buffer.clear();
        buffer.reserve(compress_bound(bytes.len()));
        context.compress_using_dict(buffer, bytes, base, LEVEL).ok()?;
        buffer.extend_from_slice(rest);
        let packed = buffer.as_slice().into();
        buffer.clear();
        buffer.shrink_to(LARGEST_BUFFER);
        Some(packed)
    };
    COMPRESSORS.with(make, compress).flatten()
}

/// Returns the bytes that were compressed into a frame; `None` if zstd fails, or if they are not exactly this many.
pub(super) fn decompress(frame: &[u8], base: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    let decompress = |context: &mut DCtx<'_>| context.decompress_using_dict(&mut bytes, frame, base).ok();
    DECOMPRESSORS.with(DCtx::try_create, decompress)??;
    (bytes.len() == length).then_some(bytes)
}

/// Returns the length of the frame at the start of these bytes.
pub(super) fn frame_length(bytes: &[u8]) -> Option<usize> {
    find_frame_compressed_size(bytes).ok()
}
