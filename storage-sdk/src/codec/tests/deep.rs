//! Values that are too deep for a thread's stack.

use super::*;

/// The stack of a tokio worker.
const STACK: usize = 2 << 20;

/// Runs on a thread with a stack as small as a server's.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap();
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Bag {
    name: String,
    weight: f64,
    bags: Vec<Bag>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Link {
    next: Option<Box<Link>>,
}

/// MessagePack has no trace of this type.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Shell(Option<Box<Shell>>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Part {
    Whole,
    One(Box<Part>),
    Pair(u8, Box<Part>),
    Named { part: Box<Part> },
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Flat {
    #[serde(flatten)]
    parts: BTreeMap<String, Flat>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    Leaf { value: u8 },
    Bag { items: Vec<Tagged> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Leaf(String),
    List(Vec<Untagged>),
    Pair((u8, Box<Untagged>)),
}

/// A value of this many steps, each around the one before.
fn nested<T>(steps: usize, leaf: T, step: impl Fn(T) -> T) -> T {
    (0..steps).fold(leaf, |value, _| step(value))
}

/// Both ways to encode reject the value at each depth, with advice.
fn refused_at_any_depth<T: Serialize + serde::de::DeserializeOwned>(
    leaf: fn() -> T,
    step: fn(T) -> T,
) {
    for steps in [2_000, 16_000, 100_000] {
        let value = nested(steps, leaf(), step);
        for error in [
            encode(&value, 1).unwrap_err(),
            encode_checked(&value, 1).unwrap_err(),
        ] {
            assert_eq!(error, CodecError::TooDeep { limit: DEPTH_MAX }, "{steps}");
            assert!(
                error
                    .to_string()
                    .contains("store the parts as a list that refers by index"),
                "{error}"
            );
        }
        // The drop of the value recurses, and the codec can't bound that.
        std::mem::forget(value);
    }
}

#[test]
fn a_value_of_any_shape_that_is_too_deep_for_the_stack_is_refused_with_advice() {
    on_a_small_stack(|| {
        refused_at_any_depth(Bag::default, |bag| Bag {
            bags: vec![bag],
            ..Bag::default()
        });
        refused_at_any_depth(Link::default, |link| Link {
            next: Some(Box::new(link)),
        });
        refused_at_any_depth(Shell::default, |shell| Shell(Some(Box::new(shell))));
        refused_at_any_depth(|| Part::Whole, |part| Part::One(Box::new(part)));
        refused_at_any_depth(|| Part::Whole, |part| Part::Pair(1, Box::new(part)));
        refused_at_any_depth(
            || Part::Whole,
            |part| Part::Named {
                part: Box::new(part),
            },
        );
        refused_at_any_depth(Flat::default, |flat| Flat {
            parts: [("a".to_owned(), flat)].into(),
        });
        refused_at_any_depth(
            || Tagged::Leaf { value: 1 },
            |item| Tagged::Bag { items: vec![item] },
        );
        refused_at_any_depth(
            || Untagged::Leaf(String::new()),
            |item| Untagged::List(vec![item]),
        );
        refused_at_any_depth(
            || Untagged::Leaf(String::new()),
            |item| Untagged::Pair((1, Box::new(item))),
        );
    });
}

/// The deepest stored value comes back, on the same small stack.
fn deepest_comes_back<T: Serialize + serde::de::DeserializeOwned + PartialEq>(
    leaf: fn() -> T,
    step: fn(T) -> T,
) {
    let whole = |steps| encode_checked(&nested(steps, leaf(), step), 1);
    let Some(deepest) = (1..=DEPTH_MAX).rev().find(|steps| whole(*steps).is_ok()) else {
        panic!("nothing is stored")
    };
    assert_eq!(
        whole(deepest + 1),
        Err(CodecError::TooDeep { limit: DEPTH_MAX })
    );
    assert!(deepest >= DEPTH_MAX / 2 - 1, "{deepest}");
    assert!(decode::<T>(&whole(deepest).unwrap(), 1).unwrap() == nested(deepest, leaf(), step));
}

#[test]
fn the_deepest_value_that_is_stored_comes_back_on_a_small_stack() {
    on_a_small_stack(|| {
        deepest_comes_back(Bag::default, |bag| Bag {
            bags: vec![bag],
            ..Bag::default()
        });
        deepest_comes_back(Link::default, |link| Link {
            next: Some(Box::new(link)),
        });
        deepest_comes_back(|| Part::Whole, |part| Part::Pair(1, Box::new(part)));
        deepest_comes_back(
            || Part::Whole,
            |part| Part::Named {
                part: Box::new(part),
            },
        );
        deepest_comes_back(Flat::default, |flat| Flat {
            parts: [("a".to_owned(), flat)].into(),
        });
        deepest_comes_back(
            || Tagged::Leaf { value: 1 },
            |item| Tagged::Bag { items: vec![item] },
        );
        deepest_comes_back(
            || Untagged::Leaf(String::new()),
            |item| Untagged::List(vec![item]),
        );
    });
}
