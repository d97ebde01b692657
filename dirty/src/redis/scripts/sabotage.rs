//! Scripts that break a rule on purpose, for `scripts/sabotage`.

use storage_model::sabotage::broken;

/// One change of one script: the switch, the script, a text that occurs in it exactly once, and the
/// replacement of that text. A change of "mutation" is made in both scripts that share mutation.lua.
type Break = (&'static str, &'static str, &'static str, &'static str);

const BREAKS: &[Break] = &[
    // Data changes without a mark. Or it changes before its mark, so that a failure in between
    // leaves it without one.
    (
        "R1-unmarked",
        "update",
        "call('HSET', KEYS[1], unpack(marks))",
        "0",
    ),
    (
        "R1-unmarked",
        "mutation",
        "call('HSET', KEYS[DIRTY], unpack(marks))",
        "",
    ),
    (
        "R1-apart",
        "update",
        "call('HSET', KEYS[1], unpack(marks))",
        "1",
    ),
    (
        "R1-apart",
        "update",
        "-- The answer comes last",
        "call('HSET', KEYS[1], unpack(marks))\n-- The answer comes last",
    ),
    // A write forgets the fields that the owner's mark had.
    (
        "R1-list",
        "update",
        "local named = mark and sub(mark, 15) or ''",
        "local named = ''",
    ),
    (
        "R1-list",
        "mutation",
        "marked_with(owner.mark_held, version",
        "marked_with('', version",
    ),
    // A clean hash that is written keeps its time to live. A hash with unlanded changes is dropped
    // on request.
    ("R2-expires", "update", "call('PERSIST', hash)", ""),
    ("R2-evicts", "evict", "is_named(3, ARGV[1])", "false"),
    // A field that the database rejected does not keep its hash. A fill lets a hash with unlanded
    // changes expire.
    (
        "R2-rejected",
        "reject",
        "{ DIRTY, SNAPSHOT, ERRORS, LANDED, EXPIRING, SESSIONS }",
        "{ DIRTY, SNAPSHOT, LANDED, EXPIRING, SESSIONS }",
    ),
    (
        "R2-filled",
        "fill",
        "if not hash and not is_marked and not is_held then call('PEXPIRE'",
        "if true then call('PEXPIRE'",
    ),
    // An owner that was written concurrently may expire, since the script ignores the dirty map.
    (
        "R2-settled",
        "settle",
        "{ DIRTY, ERRORS, LANDED, EXPIRING, SESSIONS, errors",
        "{ ERRORS, LANDED, EXPIRING, SESSIONS, errors",
    ),
    (
        "R4-overwrite",
        "snapshot",
        "if call('EXISTS', KEYS[2]) == 1 then return { 'leftover', last } end",
        "",
    ),
    (
        "R4-whole",
        "settle",
        "local cleared = 0\nfor from",
        "local cleared = call('DEL', KEYS[SNAPSHOT])\nfor from",
    ),
    // The script ignores the number of the snapshot.
    (
        "R5-number",
        "settle",
        "return (call('HGET', KEYS[PART], 'snap') or '0') == wanted",
        "return true",
    ),
    (
        "R5-number",
        "reject",
        "return (call('HGET', KEYS[PART], 'snap') or '0') == wanted",
        "return true",
    ),
    (
        "R5-any-error",
        "settle",
        "if line and error_version(line) <= version and",
        "if line and",
    ),
    // Any caller clears marks, of any snapshot. An error mark outlives its landing, or loses to an
    // older one. A flush settles marks, without the lock.
    (
        "R5-unlocked",
        "settle",
        "return (call('HGET', KEYS[PART], 'snap') or '0') == wanted",
        "return true",
    ),
    (
        "R5-unlocked",
        "settle",
        "if ARGV[1] ~= '' then held(KEYS[LOCK], ARGV[1]) end",
        "",
    ),
    (
        "R5-kept-error",
        "settle",
        "if line and error_version(line) <= version and",
        "if false and",
    ),
    (
        "R5-older-error",
        "reject",
        "old_version and error_version(old_version) > version --",
        "false --",
    ),
    (
        "R5-flush",
        "settle",
        "(count == 0 or ARGV[1] ~= '')",
        "true",
    ),
    // A hash that is made while a map names its owner does not say so, and joins the marks of the
    // hash before.
    (
        "R6-birth",
        "mutation",
        "if owner.is_reborn then\n      put_aside",
        "if false then\n      put_aside",
    ),
    (
        "R6-birth",
        "mutation",
        "if owner.is_reborn then put(owner.out, ':b', step.text) end",
        "",
    ),
    ("R6-birth", "fill", "if is_reborn then\n", "if false then\n"),
    // Marks are settled although their hash is gone, or stay in the snapshot under the name of the new
    // hash.
    (
        "R6-gone",
        "settle",
        "if not gone[i] then names",
        "if true then names",
    ),
    ("R6-before", "settle", "math.max(from, born)", "from"),
    (
        "R6-aside",
        "mutation",
        "KEYS[at], KEYS[at + 1],",
        "KEYS[at],",
    ),
    ("R6-aside", "fill", "KEYS[at], KEYS[at + 1],", "KEYS[at],"),
    // A fill takes any marker for proof, or ignores whether the hash is there. Or it gives the hash
    // that it makes no number.
    (
        "R7-marker",
        "fill",
        "if load.marker ~= table.concat({ kind, mark_number }) then return false end",
        "",
    ),
    (
        "R7-absent",
        "fill",
        "if load.marker ~= table",
        "if kind ~= '=' and load.marker ~= table",
    ),
    (
        "R7-presence",
        "fill",
        "return load.present == (hash ~= nil)",
        "return true",
    ),
    (
        "R7-refill",
        "fill",
        "set_marker(KEYS[2], digits(source), marker_ttl)",
        "if not tonumber(call('GET', KEYS[2])) then set_marker(KEYS[2], digits(source), marker_ttl) end",
    ),
    // A write that makes a hash does not give the marker another number.
    (
        "R7-unraised",
        "update",
        "if not is_there then\n",
        "if not is_there and last == 0 then\n",
    ),
    (
        "R7-unraised",
        "mutation",
        "if not owner.hash then set_marker(owner.marker_key",
        "if not owner.hash and owner.version == 0 then set_marker(owner.marker_key",
    ),
    // A row replaces a value of the hash.
    (
        "R7-row-wins",
        "fill",
        "if not is_held then put",
        "if true then put",
    ),
    // An unknown owner counts as absent. An absent one is remembered for good.
    (
        "R8-complete",
        "update",
        "marker and sub(marker, 1, #absent) == absent and all_of or part_of",
        "all_of",
    ),
    // A negative answer outlives a first write.
    (
        "R8-kept",
        "update",
        "for i = 1, markers and #markers or 0, 2 do\n",
        "for i = 1, markers and #markers or 0, 2 do\nif sub(call('GET', markers[i]) or '', 1, 1) == '-' then break end\n",
    ),
    (
        "R8-kept",
        "mutation",
        "if not owner.hash then set_marker(owner.marker_key",
        "if not owner.hash and string.sub(call('GET', owner.marker_key) or '', 1, 1) ~= '-' then set_marker(owner.marker_key",
    ),
    (
        "R8-forever",
        "fill",
        "mark_number }), 'PX', digits(ttl))",
        "mark_number }))",
    ),
    // The first counter is written before the second is checked.
    (
        "R10-half",
        "mutation",
        "put(out, field, text)\n",
        "call('HSET', owner.hash_key, field, text)\n",
    ),
    // Counters are added with Lua's rounding.
    (
        "R10-rounded",
        "mutation",
        "return text_of(new)",
        "return digits(tonumber(live or '0') + tonumber(argument))",
    ),
    // A call is carried out under any number. Its end leaves no trace. The calls of a store that is
    // not gone are forgotten.
    (
        "R11-number",
        "transact",
        "if this_call == last_call then",
        "if false then",
    ),
    (
        "R11-number",
        "update",
        "if number == last_call then",
        "if false then",
    ),
    (
        "R11-number",
        "update",
        "if number <= last_call then",
        "if false then",
    ),
    (
        "R11-asked",
        "end_call",
        "call('HSET', KEYS[1], ARGV[1], table.concat({ ARGV[2], ' void' }))",
        "",
    ),
    (
        "R11-hasty",
        "forget_calls",
        "if stored and string.match(stored, '^%d+') == ARGV[i + 1] then",
        "if stored then",
    ),
    // Ids are not looked up at all, or not those of the window before, or of a window that the
    // clock leapt over. A late copy is applied.
    ("R11-ids", "mutate", "if before then return before end", ""),
    (
        "R11-void",
        "mutate",
        "return remember(step.reply)\n",
        "if #step.changed > 0 then remember(step.reply) end\nreturn step.reply\n",
    ),
    (
        "R11-ids-set",
        "mutate",
        "if before then return before end",
        "",
    ),
    (
        "R11-ids-incr",
        "mutate",
        "if before then return before end",
        "",
    ),
    (
        "R11-leap",
        "mutate",
        "between ~= round - 1 and (leaps",
        "false and (leaps",
    ),
    (
        "R11-window",
        "mutate",
        "seen[2] or call('HGET', other_ids, ARGV[1])",
        "seen[2]",
    ),
    (
        "R11-deadline",
        "transact",
        "now >= number(ARGV[2], 'a deadline')",
        "false",
    ),
    (
        "R11-deadline",
        "update",
        "now >= tonumber(ARGV[2])",
        "false",
    ),
    (
        "R11-deadline",
        "mutate",
        "if now >= deadline then return { 'expired' } end",
        "",
    ),
    // The worker needs memory to free memory.
    ("R13-denied", "snapshot", "#!lua flags=allow-oom", "#!lua"),
    ("R13-denied", "settle", "#!lua flags=allow-oom", "#!lua"),
    ("R13-denied", "reject", "#!lua flags=allow-oom", "#!lua"),
    // A lock is one of the keys that a full server evicts.
    (
        "R13-evicted",
        "lock",
        "digits(ends), ' ', holder }))",
        "digits(ends), ' ', holder }), 'PX', '60000')",
    ),
    (
        "R13-evicted",
        "renew",
        "digits(ends), ' ', holder }))",
        "digits(ends), ' ', holder }), 'PX', '60000')",
    ),
    // A record of another incarnation is believed. Versions start below landed ones. Old hashes
    // stay trusted.
    (
        "R14-incarnation",
        "snapshot",
        "if r.incarnation ~= incarnation() then",
        "if false then",
    ),
    (
        "R14-incarnation",
        "settle",
        "if r.incarnation ~= incarnation() then",
        "if false then",
    ),
    (
        "R14-incarnation",
        "end_collect",
        "if r.incarnation ~= incarnation() then",
        "if false then",
    ),
    (
        "R14-source",
        "adopt",
        "suspect and leapt(from) or digits(from)",
        "digits(source)",
    ),
    (
        "R14-given-again",
        "adopt",
        "math.max(time(), from) + leap",
        "from",
    ),
    (
        "R14-generation",
        "adopt",
        "suspect and ARGV[3] or old[3]",
        "old[3]",
    ),
    ("R14-early", "adopt", "last <= collected", "last <= source"),
    (
        "R14-unraised",
        "settle",
        "raise_landed(KEYS[PART], r, landed)",
        "",
    ),
    (
        "R14-adopted-blindly",
        "adopt",
        "if (old[1] or '') ~= ARGV[1] or now_at ~= ARGV[2] then return 0 end",
        "",
    ),
    (
        "R14-adopted-late",
        "adopt",
        "if epoch <= number(old[2], 'the epoch') then return 0 end",
        "",
    ),
    (
        "R14-adopted-after",
        "adopt",
        "if time() > number(ARGV[11], 'the deadline') then return 0 end",
        "",
    ),
    (
        "R14-suspect",
        "update",
        "elseif hash_generation < generation then",
        "elseif false then",
    ),
    (
        "R14-marker",
        "mutation",
        "and not owner.hash then return needs_load(owner, r) end",
        "and not owner.hash and string.find(needs_load(owner, r)[2], '^[?=]') then return needs_load(owner, r) end",
    ),
    // A write that is on its way while the server's data is replaced is applied to the new data.
    (
        "R14-on-its-way",
        "update",
        "if not string.find(call('INFO', 'replication'), history, 1, true) then",
        "if false then",
    ),
    (
        "R14-on-its-way",
        "mutation",
        "string.match(r.incarnation, '/(%x+)$') ~= history() then",
        "false then",
    ),
    // Sessions are changed under another incarnation than the recorded one.
    ("R14-sessions", "close_session", "present(KEYS[11])\n", ""),
    ("R14-sessions", "ask_session", "present(KEYS[3])\n", ""),
    ("R14-sessions", "lapse", "present(KEYS[11])\n", ""),
    // A negative answer counts in any generation.
    (
        "R14-absent",
        "fill",
        "return generation == digits(r.generation) and '-' or '?'",
        "return '-'",
    ),
    (
        "R14-absent",
        "check_fill",
        "return generation == digits(r.generation) and '-' or '?'",
        "return '-'",
    ),
    (
        "R14-absent",
        "mutation",
        "return generation == digits(r.generation) and '-' or '?'",
        "return '-'",
    ),
    (
        "R14-absent",
        "update",
        "sub(marker, 1, #absent) == absent",
        "sub(marker, 1, 1) == '-'",
    ),
    // A field that the hash lacks is taken as absent. A read under another epoch is believed.
    (
        "R15-guess",
        "mutation",
        "if not owner.known and owner.reads[i] and not live[i] and not gone[i] then return needs_load(owner, r) end",
        "",
    ),
    (
        "R15-version",
        "mutation",
        "and not owner.hash then return needs_load(owner, r) end",
        "and false then return needs_load(owner, r) end",
    ),
    (
        "R15-fill-epoch",
        "fill",
        "if load.epoch ~= r.epoch then return false end",
        "",
    ),
    (
        "R15-settle-epoch",
        "settle",
        "if r.epoch ~= epoch then",
        "if false then",
    ),
    (
        "R15-reject-epoch",
        "reject",
        "if r.epoch ~= epoch then",
        "if false then",
    ),
    (
        "R15-mutate-epoch",
        "mutation",
        "if load.epoch ~= r.epoch then return false end",
        "",
    ),
    // Owners of a transaction land apart: their marks name nobody, or the partition does not say that
    // some do, or the partners stay behind when the owner is rejected.
    (
        "G1-unlinked",
        "mutation",
        "for i = 2, #changed do",
        "for i = 2, 0 do",
    ),
    (
        "G1-flag",
        "snapshot",
        "call('HSET', KEYS[3], 'linked_saving', at[3])",
        "",
    ),
    // Marks that name further fields than the landing has read are not looked for.
    ("R16-named", "end_collect", "find(DIRTY)\n", ""),
    (
        "R16-snapshot",
        "end_collect",
        "if (at[5] or '0') ~= ARGV[1] then find(SNAPSHOT) end\n",
        "",
    ),
    (
        "R16-errors",
        "end_collect",
        "if has_errors then find(ERRORS, true) end\n",
        "",
    ),
    (
        "R16-requeue",
        "end_collect",
        "if at[6] then",
        "if false then",
    ),
    // After a rewind, newer rows win field by field, or an older row stays beside the hash. Or its
    // field is marked with a version that the row has already.
    (
        "R16-replaced",
        "fill",
        "if not torn[field] then drop(out, cell.name) end",
        "",
    ),
    (
        "R16-replaced",
        "fill",
        "if not torn[row.field] then put",
        "if row.version > hash.version then put",
    ),
    (
        "R16-suspect",
        "fill",
        "return hash.version, r.generation, true, needs_mark and differ or {}, renews",
        "return hash.version, r.generation, true, {}, false",
    ),
    (
        "R16-suspect",
        "mutation",
        "return hash.version, r.generation, true, needs_mark and differ or {}, renews",
        "return hash.version, r.generation, true, {}, false",
    ),
    (
        "R16-met",
        "fill",
        "renews = renews or row.version >= hash.version",
        "renews = false",
    ),
    // A hash that takes the place of a lost one has the mark of its write alone. It is made without
    // its rows, or knows nothing of fields that only the former hash had.
    (
        "R16-reborn",
        "fill",
        "is_reborn and reborn(load.rows, load.complete, at, name, out) or {}",
        "{}",
    ),
    (
        "R16-reborn",
        "mutation",
        "is_reborn and reborn(load.rows, load.complete, at, name, out) or {}",
        "{}",
    ),
    (
        "R16-buried",
        "fill",
        "if not is_complete then return unlanded end",
        "if true then return unlanded end",
    ),
    (
        "R16-buried",
        "mutation",
        "if not is_complete then return unlanded end",
        "if true then return unlanded end",
    ),
    (
        "R16-unloaded",
        "mutation",
        "if owner.is_reborn and not owner.known then return needs_load(owner, r) end",
        "",
    ),
    (
        "R6-settled",
        "settle",
        "error_version(line) >= math.max(from, born) and",
        "error_version(line) >= born and",
    ),
    ("H123-room", "mutation", "#held < MARK_MAX", "true"),
    ("G1-epoch", "links", "in_epoch(KEYS[PART], ARGV[1])\n", ""),
    // The partners that a long mark does not name are not read, or stay behind when their mark moves.
    (
        "G1-further",
        "collect_linked",
        "further_partners(links, owners[i], enough)",
        "{}",
    ),
    (
        "G1-elsewhere",
        "snapshot",
        "if call('EXISTS', KEYS[8]) == 1 then call('RENAME', KEYS[8], KEYS[9]) end",
        "",
    ),
    ("G1-whole", "settle", "if signs == 0 then", "if true then"),
    (
        "G1-kept",
        "reject",
        "for partner = entry.to + 1, answers[i] == 1 and entry.last or 0 do",
        "for partner = 1, 0 do",
    ),
    (
        "G1-rejected",
        "reject",
        "if entry.raw == entry.name then keep_partners(entry.name, stored) end",
        "",
    ),
    // A former holder writes, or a process that holds nothing. A fence is recognized by its version
    // alone.
    (
        "S1-unfenced",
        "update",
        "fence and not (session and sub(session, 1, #fence) == fence) or session",
        "session",
    ),
    (
        "S1-unfenced",
        "mutation",
        "if table.concat({ session.version, ' ', session.token }) ~= owner.fence then return { 'fenced', session.text } end",
        "",
    ),
    (
        "S1-plain",
        "update",
        "== fence) or session and not fence then",
        "== fence) then",
    ),
    (
        "S1-plain",
        "mutation",
        "then return session and { 'held', session.text } end",
        "then return nil end",
    ),
    (
        "S1-below",
        "claim_session",
        "if above > r.source then",
        "if false then",
    ),
    (
        "S1-token",
        "mutation",
        "if table.concat({ session.version, ' ', session.token }) ~= owner.fence then",
        "if session.version ~= string.match(owner.fence, '^%d+') then",
    ),
    // A caller that may replace one session takes any. A session is opened with a part of its
    // owner. Its hash may expire.
    (
        "S2-any",
        "open_session",
        "if table.concat({ current.version, ' ', current.token }) ~= ARGV[5] then",
        "if ARGV[5] == '' then",
    ),
    (
        "S2-part",
        "open_session",
        "if not whole then return",
        "if false then return",
    ),
    (
        "S2-unpinned",
        "open_session",
        "call('PERSIST', KEYS[1])\nreturn opened(fence)",
        "return opened(fence)",
    ),
    // The hash of a held owner gets a time to live when a mark is settled, an entry is rejected or a
    // probation ends. It also gets one when an error mark is cleared or a fill makes it. It keeps
    // its time to live when its session is claimed. It is dropped on request.
    (
        "S2-settled",
        "settle",
        "{ DIRTY, ERRORS, LANDED, EXPIRING, SESSIONS, errors",
        "{ DIRTY, ERRORS, LANDED, EXPIRING, errors",
    ),
    (
        "S2-rejected",
        "reject",
        "{ DIRTY, SNAPSHOT, ERRORS, LANDED, EXPIRING, SESSIONS }",
        "{ DIRTY, SNAPSHOT, ERRORS, LANDED, EXPIRING }",
    ),
    (
        "S2-expired",
        "expire",
        "{ DIRTY, SNAPSHOT, ERRORS, LANDED, SESSIONS }",
        "{ DIRTY, SNAPSHOT, ERRORS, LANDED }",
    ),
    (
        "S2-filled",
        "fill",
        "and not is_marked and not is_held then",
        "and not is_marked then",
    ),
    (
        "S2-claimed",
        "claim_session",
        "  call('PERSIST', KEYS[1])\n",
        "",
    ),
    (
        "S2-confirmed",
        "mutation",
        "if owner.fields == 0 and owner.hash and owner.session then call('PERSIST', owner.hash_key) end",
        "",
    ),
    (
        "S2-evicted",
        "evict",
        "(is_named(3, ARGV[1]) or call('HGET', KEYS[8], ARGV[1]))",
        "is_named(3, ARGV[1])",
    ),
    // The last save leaves its session open.
    (
        "S3-kept",
        "mutation",
        "if owner.closes then",
        "if false then",
    ),
    // A holder that has beaten since is declared gone. The sessions of a holder that is gone stay.
    (
        "S5-hasty",
        "lapse",
        "if (beat and beat_of(beat) or '0') ~= ARGV[2] then return -1 end",
        "",
    ),
    (
        "S5-lowered",
        "beat",
        "number(beat_of(last), 'the last beat') < beat then",
        "true then",
    ),
    (
        "S5-unheard",
        "open_session",
        "expect_beats(KEYS[12], ARGV[3])\n",
        "",
    ),
    (
        "S5-unheard",
        "claim_session",
        "  expect_beats(KEYS[6], ARGV[5])\n",
        "",
    ),
    (
        "S5-unheard",
        "mutation",
        "    expect_beats(KEYS[BEATS], session.holder)\n",
        "",
    ),
    (
        "S5-confirmed",
        "lapse",
        "if beat == marked then",
        "if beat then",
    ),
    (
        "S5-kept",
        "mutation",
        "if beat ~= unmarked then",
        "if not beat then",
    ),
    (
        "R5-renumbered",
        "adopt",
        "call('HSET', KEYS[1], 'snap', digits(epoch * 268435456))",
        "",
    ),
    ("S6-unmarked", "lapse", "call('HDEL', KEYS[8], ARGV[i])", ""),
    // A lapsed session overwrites later writes. An earlier session keeps the owner. Nothing waits
    // for claims.
    (
        "S7-unconditional",
        "mutation",
        "if not owner.wants_version then return { 'unconfirmed', r.epoch } end",
        "",
    ),
    (
        "S8-late",
        "claim_session",
        "(ARGV[4] == r.epoch or is_graced(KEYS[2], r))",
        "ARGV[4] == r.epoch",
    ),
    (
        "S8-ended",
        "close_session",
        "if not is_graced(KEYS[11], r) then return 0 end",
        "",
    ),
    (
        "S8-greatest",
        "claim_session",
        "session.epoch == r.epoch or is_later(session, ARGV[2], ARGV[3])",
        "session.epoch == r.epoch",
    ),
    (
        "S8-grace",
        "adopt",
        "if epoch <= 1 then call('HSET', KEYS[1], 'graced', ARGV[3]) end",
        "call('HSET', KEYS[1], 'graced', ARGV[3])",
    ),
    (
        "S8-copied",
        "end_grace",
        "r.epoch ~= ARGV[1] or adopted ~= ARGV[2]",
        "r.epoch ~= ARGV[1]",
    ),
    // Marks on probation do not land again. Or a mark that lands again replaces a newer one.
    (
        "H33-kept",
        "adopt",
        "if call('EXISTS', KEYS[5], KEYS[6]) > 0 then",
        "if false then",
    ),
    (
        "H33-lowered",
        "requeue",
        "local version, more = math.max(mark_version(one), mark_version(other)), {}",
        "local version, more = mark_version(other), {}",
    ),
];

/// Whether a change is made in this script.
fn is_in(of: &str, script: &str) -> bool {
    of == script || of == "mutation" && ["mutate", "transact"].contains(&script)
}

/// The script's text, with the change of the chosen switch.
///
/// # Panics
/// The text to change is not there exactly once. So the switch would break something else, or
/// nothing.
pub(in crate::redis) fn spoil(script: &str, source: String) -> String {
    let of_script = BREAKS
        .iter()
        .filter(|(switch, of, ..)| is_in(of, script) && broken(switch));
    of_script.fold(source, |source, (switch, _, from, to)| {
        assert_eq!(
            source.matches(from).count(),
            1,
            "sabotage: {switch} is stale: {script}.lua must have {from:?} once"
        );
        source.replace(from, to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::scripts::SCRIPTS;

    #[test]
    fn every_break_fits_its_script() {
        let scripts = SCRIPTS.all();
        for (switch, name, from, to) in BREAKS {
            let changed = scripts.iter().filter(|script| is_in(name, script.name));
            let counts: Vec<usize> = changed
                .map(|script| script.source().matches(from).count())
                .collect();
            assert!(
                !counts.is_empty() && counts.iter().all(|count| *count == 1),
                "{switch}: {name}.lua must have {from:?} once"
            );
            assert_ne!(from, to, "{switch}");
        }
    }
}
