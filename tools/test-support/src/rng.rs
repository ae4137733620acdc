//! Seeded random choices.

/// A small random number generator (`SplitMix64`). The generator is implemented here so that a seed
/// gives the same numbers on every machine and after every update.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// Returns a random number.
    #[allow(clippy::should_implement_trait, reason = "the numbers have no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a random number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns `true` once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns one of the values in `from`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Returns another generator, for example for another thread.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// Returns the number in an environment variable, such as a seed. The number is decimal, or
/// hexadecimal after `0x`. If the variable is not set, returns the default.
///
/// # Panics
///
/// Panics if the variable contains anything else.
#[must_use]
pub fn env_number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let text = text.trim();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{name} must be a number, got {text:?}"))
}
