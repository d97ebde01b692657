//! All scripts, with the shared functions that each of them uses.

use std::sync::LazyLock;

use super::script::Script;

const PRELUDE: &str = include_str!("../../lua/shared/prelude.lua");
const OWNER: &str = include_str!("../../lua/shared/owner.lua");
const MARKS: &str = include_str!("../../lua/shared/marks.lua");
const INTEGERS: &str = include_str!("../../lua/shared/integers.lua");
const SESSION: &str = include_str!("../../lua/shared/session.lua");
const NOTES: &str = include_str!("../../lua/shared/notes.lua");
const MUTATION: &str = include_str!("../../lua/shared/mutation.lua");

macro_rules! scripts {
    ($($folder:ident { $($name:ident $shared:expr;)* })*) => {
        /// The scripts by name.
        pub(crate) struct Scripts { $($(pub(super) $name: Script,)*)* }

        impl Scripts {
            fn new() -> Self {
                Self { $($($name: Script::new(
                    stringify!($name),
                    include_str!(concat!("../../lua/", stringify!($folder), "/", stringify!($name), ".lua")),
                    &$shared,
                ),)*)* }
            }

            /// The text of a script that a server names by its hash.
            pub(crate) fn source_of(&self, sha: &str) -> Option<&str> {
                self.all().into_iter().find(|script| script.sha == sha).map(Script::source)
            }

            /// Every script, for loading.
            pub(crate) fn all(&self) -> Vec<&Script> {
                vec![$($(&self.$name,)*)*]
            }
        }
    };
}

scripts! {
    owner {
        update [];
        end_call [PRELUDE];
        forget_calls [PRELUDE];
        mutate [PRELUDE, OWNER, SESSION, INTEGERS, MUTATION];
        transact [PRELUDE, OWNER, SESSION, INTEGERS, MUTATION];
        observe [PRELUDE, OWNER];
        fill [PRELUDE, OWNER];
        fill_part [PRELUDE, OWNER];
        check_fill [PRELUDE, OWNER];
        read_names [PRELUDE];
        evict [PRELUDE];
        marked [PRELUDE];
    }
    session {
        open_session [PRELUDE, OWNER, SESSION];
        claim_session [PRELUDE, SESSION];
        close_session [PRELUDE, SESSION];
        ask_session [PRELUDE, SESSION];
        beat [PRELUDE, SESSION];
        lapse [PRELUDE, SESSION];
        forget_lapsed [PRELUDE, SESSION];
        end_grace [PRELUDE];
    }
    partition {
        rights [];
        part_state [PRELUDE];
        adopt [PRELUDE];
        raise_landed [PRELUDE];
        pairing [PRELUDE];
        pair [PRELUDE];
        announce [PRELUDE];
        peek [PRELUDE];
        lock [PRELUDE];
        renew [PRELUDE];
        unlock [PRELUDE];
        write_for_wait [PRELUDE];
    }
    landing {
        end_collect [PRELUDE];
        snapshot [PRELUDE];
        settle [PRELUDE, MARKS];
        reject [PRELUDE, MARKS];
        probation [PRELUDE];
        expire [PRELUDE, MARKS];
        collect_linked [PRELUDE, MARKS];
        links [PRELUDE, MARKS];
        requeue [PRELUDE, MARKS];
        tear [PRELUDE, MARKS];
    }
    feed {
        read_notes [PRELUDE, NOTES];
        resync [PRELUDE, NOTES];
        trim_notes [PRELUDE];
    }
}

/// The registry.
pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);
