//! Bytes of no program: random, mutated and cut.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::*;

/// Inputs of each test. Three tests make 180,000.
const INPUTS: usize = 60_000;

/// A generator that shows its seed when the test fails. `CODEC_SEED` repeats a run.
fn generator() -> StdRng {
    let seed = std::env::var("CODEC_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(rand::random);
    println!("CODEC_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// Decodes as several types. It must return, mostly with an error.
fn decode_all(object: &[u8]) -> bool {
    let sample = decode::<Sample>(object, 1);
    if let Ok(sample) = &sample {
        assert!(
            encode(sample, 1).is_ok(),
            "what was read can be written: {sample:?}"
        );
    }
    let others = [
        decode::<Item>(object, 1).is_ok(),
        decode::<Tree>(object, 1).is_ok(),
        decode::<Vec<Option<(u8, String)>>>(object, 1).is_ok(),
        decode::<BTreeMap<String, Vec<u8>>>(object, 1).is_ok(),
        decode::<(f64, i128, char)>(object, 1).is_ok(),
        decode::<serde::de::IgnoredAny>(object, 1).is_ok(),
    ];
    sample.is_ok() || others.contains(&true)
}

fn random(rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..80)];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Flips, cuts, inserts, repeats or overwrites some bytes.
fn mutate(bytes: &mut Vec<u8>, rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..5) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.random()),
            2 => bytes.extend_from_within(at..),
            3 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << rng.random_range(0..8)),
            _ => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte = rng.random()),
        }
    }
}

#[test]
fn random_bytes_are_refused_and_never_panic() {
    let mut rng = generator();
    for _ in 0..INPUTS {
        let bytes = random(&mut rng);
        assert!(!decode_all(&bytes), "{}", hex(&bytes));
    }
}

#[test]
fn mutated_objects_are_refused_and_never_panic() {
    let (mut rng, whole) = (generator(), encode(&sample(), 1).unwrap());
    for _ in 0..INPUTS {
        let mut object = whole.to_vec();
        mutate(&mut object, &mut rng);
        assert!(object == whole || !decode_all(&object), "{}", hex(&object));
    }
}

#[test]
fn random_and_mutated_payloads_behind_a_good_header_never_panic() {
    let (mut rng, whole) = (generator(), encode(&sample(), 1).unwrap());
    let mut read = 0;
    for round in 0..INPUTS {
        let mut payload = if round % 2 == 0 {
            random(&mut rng)
        } else {
            whole[header::LEN..].to_vec()
        };
        mutate(&mut payload, &mut rng);
        read += usize::from(decode_all(&sealed(&payload, 1)));
    }
    assert!(
        read > INPUTS / 20,
        "only {read} payloads got as far as being read"
    );
}

#[test]
fn payloads_cut_at_any_length_behind_a_good_header_are_refused() {
    let whole = encode(&sample(), 1).unwrap();
    for length in header::LEN..whole.len() {
        let object = sealed(&whole[header::LEN..length], 1);
        assert!(
            matches!(decode::<Sample>(&object, 1), Err(CodecError::Decode { .. })),
            "length {length}"
        );
        assert!(!decode_all(&object), "length {length}");
    }
}
