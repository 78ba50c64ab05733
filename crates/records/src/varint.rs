//! Kafka's variable-length integers: zig-zag, seven bits a byte, least significant first.
//!
//! Lengths, deltas and counts within a record use them. Reading them is most of the work for a
//! batch of small records, so the forms of one and two bytes are checked first.

/// Maximum length of a 32-bit integer.
pub const VARINT_LEN_MAX: usize = 5;
/// Maximum length of a 64-bit integer.
pub const VARLONG_LEN_MAX: usize = 10;

#[inline(always)]
pub const fn zigzag32(value: i32) -> u32 {
    (value.cast_unsigned() << 1) ^ (value >> 31).cast_unsigned()
}

#[inline(always)]
pub const fn zigzag64(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

#[inline(always)]
pub const fn unzigzag32(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[inline(always)]
pub const fn unzigzag64(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Returns the encoded length of `value`: ceil(bits / 7), with a multiplication instead of a
/// division.
#[inline(always)]
pub const fn varint_len(value: i32) -> usize {
    let bits = 32 - (zigzag32(value) | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}

/// Returns the encoded length of `value`.
#[inline(always)]
pub const fn varlong_len(value: i64) -> usize {
    let bits = 64 - (zigzag64(value) | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}

/// Writes `value` at the start of `out`, which must have room. Returns the length.
#[inline(always)]
pub fn write_varint(out: &mut [u8], value: i32) -> usize {
    write_unsigned(out, u64::from(zigzag32(value)))
}

/// Writes `value` at the start of `out`, which must have room. Returns the length.
#[inline(always)]
pub fn write_varlong(out: &mut [u8], value: i64) -> usize {
    write_unsigned(out, zigzag64(value))
}

#[inline(always)]
fn write_unsigned(out: &mut [u8], mut rest: u64) -> usize {
    if rest < 0x80 {
        out[0] = rest as u8;
        return 1;
    }
    if rest < 0x4000 {
        out[..2].copy_from_slice(&[rest as u8 | 0x80, (rest >> 7) as u8]);
        return 2;
    }
    let mut at = 0;
    while rest >= 0x80 {
        out[at] = rest as u8 | 0x80;
        rest >>= 7;
        at += 1;
    }
    out[at] = rest as u8;
    at + 1
}

/// Reads at `*at` and advances it. Returns `None` if the integer is cut off or longer than five
/// bytes. Bits beyond the 32nd are dropped, as in the Java client.
#[inline(always)]
pub fn read_varint(bytes: &[u8], at: &mut usize) -> Option<i32> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(unzigzag32(u32::from(first)));
    }
    let second = *bytes.get(*at + 1)?;
    if second < 0x80 {
        *at += 2;
        return Some(unzigzag32(u32::from(first & 0x7f) | u32::from(second) << 7));
    }
    read_long_form::<VARINT_LEN_MAX>(bytes, at).map(|value| unzigzag32(value as u32))
}

/// Reads at `*at` and advances it. Returns `None` if the integer is cut off or longer than ten
/// bytes.
#[inline(always)]
pub fn read_varlong(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(unzigzag64(u64::from(first)));
    }
    let second = *bytes.get(*at + 1)?;
    if second < 0x80 {
        *at += 2;
        return Some(unzigzag64(u64::from(first & 0x7f) | u64::from(second) << 7));
    }
    read_long_form::<VARLONG_LEN_MAX>(bytes, at).map(unzigzag64)
}

fn read_long_form<const LEN_MAX: usize>(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for index in 0..LEN_MAX {
        let byte = *bytes.get(*at + index)?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *at += index + 1;
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: i64) {
        let mut room = [0xaa; VARLONG_LEN_MAX];
        let len = write_varlong(&mut room, value);
        assert_eq!(len, varlong_len(value), "{value}");
        let mut at = 0;
        assert_eq!(
            (read_varlong(&room[..len], &mut at), at),
            (Some(value), len)
        );
        let mut cut = 0;
        assert_eq!(
            (read_varlong(&room[..len - 1], &mut cut), cut),
            (None, 0),
            "cut off"
        );
        if let Ok(value) = i32::try_from(value) {
            assert_eq!(write_varint(&mut room, value), varint_len(value));
            assert_eq!(varint_len(value), len, "one form for both");
            let mut at = 0;
            assert_eq!((read_varint(&room[..len], &mut at), at), (Some(value), len));
            let mut cut = 0;
            assert_eq!(
                (read_varint(&room[..len - 1], &mut cut), cut),
                (None, 0),
                "cut off"
            );
        }
    }

    #[test]
    fn values_around_every_change_of_length_survive() {
        for shift in 0..64 {
            for near in -2..=2 {
                let value = (1_i64 << shift).wrapping_add(near);
                round_trip(value);
                round_trip(value.wrapping_neg());
            }
        }
        for value in [
            i64::MIN,
            i64::MAX,
            i64::from(i32::MIN),
            i64::from(i32::MAX),
            0,
        ] {
            round_trip(value);
        }
    }

    #[test]
    fn the_bytes_are_kafka_s() {
        // From Kafka's ByteUtilsTest.
        let cases: [(i32, &[u8]); 8] = [
            (0, &[0x00]),
            (-1, &[0x01]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (8191, &[0xfe, 0x7f]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ];
        for (value, bytes) in cases {
            let mut room = [0; VARINT_LEN_MAX];
            let len = write_varint(&mut room, value);
            assert_eq!(&room[..len], bytes);
        }
    }

    #[test]
    fn what_is_longer_than_any_integer_is_refused() {
        let endless = [0x80; 12];
        assert_eq!(read_varint(&endless, &mut 0), None);
        assert_eq!(read_varlong(&endless, &mut 0), None);
        let mut ten = [0x80; 11];
        ten[9] = 1;
        assert_eq!(read_varint(&ten, &mut 0), None);
        assert_eq!(read_varlong(&ten, &mut 0), Some(unzigzag64(1 << 63)));
        // Longer than necessary: no writer does this, and every reader accepts it.
        assert_eq!(read_varint(&[0x82, 0x80, 0x00], &mut 0), Some(1));
    }
}
