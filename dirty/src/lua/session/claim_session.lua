#!lua flags=allow-oom
-- Claims a session after a change of the epoch.
-- The greatest fence wins, over any session that was neither opened nor confirmed since.
-- KEYS[1] owner hash
-- KEYS[2] partition record
-- KEYS[3] sessions
-- KEYS[4] lapsed sessions
-- KEYS[5] requests for held owners
-- KEYS[6] beats
-- ARGV[1] the owner's name in the maps
-- ARGV[2] version of the fence
-- ARGV[3] token of the fence
-- ARGV[4] epoch in which the session was opened or last confirmed
-- ARGV[5] holder
-- ARGV[6] the holder's name for people
-- ARGV[7] greatest version of the owner that was acknowledged to the session
-- Reply: {"yes", epoch, 1 if its grace has ended (else 0), version at which the epoch began}. Or
--   {"no", session}, or {"no"} if there is no session.
-- Invariant: of two sessions the later one keeps the owner (S8). A session that was ended in this
--   epoch can't be claimed again. After the grace, a session that is not there can't be claimed,
--   since another one may have come and gone. Versions go on above those that the session knows,
--   even if the clock was set back (S1).
expect(#KEYS == 6 and #ARGV == 7)
local r = present(KEYS[2])
local above = math.max(number(ARGV[2], 'a fence'), number(ARGV[7], 'a version'))
local begun = digits(number(call('HGET', KEYS[2], 'begun'), 'the version at which the epoch began'))
local current, lapsed = session_of(call('HGET', KEYS[3], ARGV[1])), session_of(call('HGET', KEYS[4], ARGV[1]))
local session = current or lapsed
if session and not is_of(session, ARGV[2], ARGV[3]) then
  if session.epoch == r.epoch or is_later(session, ARGV[2], ARGV[3]) then return { 'no', session.text } end
elseif not session and (ARGV[4] == r.epoch or is_graced(KEYS[2], r)) then
  return { 'no' }
end
if not (session and is_of(session, ARGV[2], ARGV[3])) then
  expect_hashes(3, 6)
  call('HSET', KEYS[3], ARGV[1], session_text(ARGV[2], ARGV[3], ARGV[4], ARGV[5], '-', ARGV[6]))
  call('HDEL', KEYS[4], ARGV[1])
  call('HDEL', KEYS[5], ARGV[1])
  call('PERSIST', KEYS[1])
  expect_beats(KEYS[6], ARGV[5])
end
if above > r.source then call('HSET', KEYS[2], 'src', digits(above)) end
return { 'yes', r.epoch, is_graced(KEYS[2], r) and '1' or '0', begun }
