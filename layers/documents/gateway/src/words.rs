//! Failures of the storage in words for callers. The storage's own words name addresses, databases
//! and keys. They go to the log, under the id of the request.

use storage_documents::Kind;
use storage_sdk::Kind as Of;

/// What a caller is told. `None` if the error has words for callers already.
pub(crate) fn of(kind: &Kind) -> Option<&'static str> {
    match kind {
        Kind::Storage(error) => Some(of_storage(error.kind())),
        Kind::Corrupt => Some(of_storage(Of::Corrupt)),
        Kind::Unsafe => Some(
            "an earlier call has made the change, which is not as safe yet as this one asks; send it again",
        ),
        Kind::Lost => Some(
            "an earlier call had made the change, which was lost before it was as safe as this one asks; send it again",
        ),
        _ => None,
    }
}

fn of_storage(kind: Of) -> &'static str {
    match kind {
        Of::HotUnavailable => "the store of new changes can't be used now; try again",
        Of::ColdUnavailable => "the database can't be used now; try again",
        Of::Timeout => "the storage did not answer in time; try again",
        Of::OutOfMemory => {
            "the store of new changes has no memory left; reads go on, and changes once others have landed"
        }
        Of::UnsafeEviction => {
            "the store of new changes might drop them, so it takes none; an operator has to mend its settings"
        }
        Of::Overloaded => "too many changes have not landed yet; try again",
        Of::Durability => {
            "this storage can't make a change so safe; send another Hyper-Storage-Wait"
        }
        Of::Denied => "a server of the storage denies the call; an operator has to act",
        Of::Unpaired => "the servers of the storage do not belong together; an operator has to act",
        Of::Corrupt => {
            "the stored document is none that this layer wrote; an operator has to look at it"
        }
        Of::TooNew => {
            "a newer program wrote the stored document; an operator has to update this one"
        }
        Of::CursorTooOld => {
            "changes behind the cursor were dropped for their age; read the documents again, and begin without a cursor"
        }
        Of::CursorForeign => {
            "the cursor is of another database, or of a later state of this one; read the documents again, and begin without a cursor"
        }
        Of::Conflict | Of::Contended => "other writers were faster at each attempt; try again",
        Of::Held | Of::Fenced => "another program holds the document; try again",
        Of::Closing | Of::Closed => "the gateway is about to end; try again",
        Of::Invalid => "the storage does not take the change as it is",
        Of::Rejected => "the database does not take the change as it is",
        _ => "the storage could not carry out the call",
    }
}

#[cfg(test)]
mod tests {
    use storage_documents::Error;

    use crate::problem::Problem;

    #[tokio::test]
    async fn a_failure_of_the_storage_has_its_own_words_in_the_log_alone() {
        let error = storage_sdk::Storage::embedded("/no/such/folder/a.db").await;
        let error = Error::from(error.err().unwrap());
        let inside = error.to_string();
        assert!(inside.contains("/no/such/folder"), "{inside}");
        let problem = Problem::from(error);
        assert_eq!(problem.cause(), inside);
        let told = problem.text("id-1", false);
        assert!(!told.contains("/no/such/folder"), "{told}");
        assert!(told.contains(r#""request_id":"id-1""#), "{told}");
    }
}
