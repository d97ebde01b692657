//! The examples of the README and of the book, compiled and run as doc tests.

macro_rules! chapters {
    ($($chapter:ident $file:literal)*) => {
        $(
            #[doc = include_str!(concat!("../../", $file))]
            struct $chapter;
        )*
    };
}

chapters! {
    Readme "README.md"
    Introduction "book/src/introduction.md"
    FirstGameServer "book/src/first-game-server.md"
    Owners "book/src/guide-owners.md"
    Objects "book/src/guide-objects.md"
    Conditions "book/src/guide-conditions.md"
    Durability "book/src/guide-durability.md"
    Transactions "book/src/guide-transactions.md"
    Feed "book/src/guide-feed.md"
    Sessions "book/src/guide-sessions.md"
    Embedded "book/src/embedded.md"
    Testing "book/src/guide-testing.md"
    Recipes "book/src/recipes.md"
    LayerOfYourOwn "book/src/layer-own.md"
    Guarantees "book/src/guarantees.md"
    Operations "book/src/operations.md"
}
