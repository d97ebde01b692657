#!lua flags=allow-oom
-- Asks the holder of a session for the owner.
-- KEYS[1] sessions
-- KEYS[2] requests for held owners
-- KEYS[3] partition record
-- ARGV[1] the owner's name in the maps
-- ARGV[2] version of the fence
-- ARGV[3] token of the fence
-- ARGV[4] id of the request. A process that still waits asks again under another id.
-- ARGV[5] name of the process that asks
-- Reply: 1 if the owner still has that session, else 0.
-- Invariant: the holder of the owner does not change. The call fails under another incarnation than
--   the recorded one, since its sessions may be older.
expect(#KEYS == 3 and #ARGV == 5)
present(KEYS[3])
local session = session_of(call('HGET', KEYS[1], ARGV[1]))
if not session or not is_of(session, ARGV[2], ARGV[3]) then return 0 end
expect_hashes(2, 2)
call('HSET', KEYS[1], ARGV[1], session_text(session.version, session.token, session.epoch, session.holder, ARGV[5], session.name))
call('HSET', KEYS[2], ARGV[1], table.concat({ session.holder, ARGV[2], ARGV[3], ARGV[4], ARGV[5] }, ' '))
return 1
