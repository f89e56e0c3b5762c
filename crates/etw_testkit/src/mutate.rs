//! Deterministic damage to inputs.

/// Pseudorandom number generator (splitmix64); equal seeds give equal numbers.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// Creates a generator with a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// Returns the next number, from the whole range of `u64`.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { (self.draw() % limit as u64) as usize }
    }
}

/// Values that break careless arithmetic, used to replace fields of the input.
const EDGES: [u64; 8] = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, u64::MAX];

/// Calls `body` with `input` itself, then with `count` damaged versions of it: cut short, bits flipped, fields
/// replaced by values that break careless arithmetic, parts duplicated, moved or removed.
pub fn each(input: &[u8], count: usize, mut body: impl FnMut(&[u8])) {
    body(input);
    let mut numbers = Numbers::new(input.len() as u64);
    for _ in 0..count {
        let mut bytes = input.to_vec();
        for _ in 0..=numbers.below(3) {
            damage(&mut bytes, &mut numbers);
        }
        body(&bytes);
    }
}

fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.below(bytes.len());
    let len = numbers.below(16).min(bytes.len() - at);
    match numbers.below(6) {
        0 => bytes.truncate(at),
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << numbers.below(8);
            }
        }
        2 => {
            let width = [1, 2, 4, 8][numbers.below(4)];
            let value = EDGES[numbers.below(EDGES.len())].to_le_bytes();
            for (byte, new) in bytes.iter_mut().skip(at).zip(&value[..width]) {
                *byte = *new;
            }
        }
        3 => {
            let part = bytes[at..at + len].to_vec();
            let to = numbers.below(bytes.len());
            bytes.splice(to..to, part);
        }
        4 => drop(bytes.drain(at..at + len)),
        _ => {
            for byte in bytes.iter_mut().skip(at).take(len) {
                *byte = numbers.draw() as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_the_same_every_time_and_comes_in_kinds() {
        let collect = |input: &[u8]| {
            let mut all = Vec::new();
            each(input, 200, |bytes| all.push(bytes.to_vec()));
            all
        };
        let input: Vec<u8> = (0..100).collect();
        let all = collect(&input);
        assert_eq!(all, collect(&input));
        assert_eq!((all.len(), &all[0]), (201, &input));
        assert!(all.iter().any(|bytes| bytes.len() < 50), "some are cut");
        assert!(all.iter().any(|bytes| bytes.len() > 100), "some are longer");
        assert!(all.iter().skip(1).filter(|bytes| bytes[..] != input[..]).count() > 180);
        collect(&[]);
    }
}
