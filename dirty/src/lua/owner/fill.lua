#!lua
-- Writes rows that were loaded from the cold tier, unless they can have become stale since.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- KEYS[4] dirty map
-- KEYS[5] snapshot
-- KEYS[6] error map
-- KEYS[7] marks on probation
-- KEYS[8] marks whose probation ends
-- KEYS[9] sessions
-- ARGV[1] time to live of landed data, milliseconds
-- ARGV[2] time to live of a negative answer, milliseconds
-- ARGV[3] time to live of a new hash's marker, milliseconds. 0 if it stays for ever.
-- ARGV[4] the owner's name in the maps
-- ARGV[5..] observed marker, whether there was a hash (0 or 1), epoch, complete (0 or 1), number of
--   rows. Then of each row field, stored name, stored value and version.
-- Reply: {"refused"}. Or {"filled", generation of the partition, all fields and values of the hash,
--   reserved ones included}.
-- Invariant: a fill never replaces a newer value. A hash that it makes has a number that no other hash
--   had (R7, R15). If a map names the owner, the hash is marked as a whole. A hash from before a
--   rewind is replaced by newer rows as a whole, or is marked where it differs from older ones (R16).
expect(#KEYS == 9 and #ARGV >= 9)
local load = load_of(5)
local ttl, absent_ttl = number(ARGV[1], 'the time to live'), number(ARGV[2], 'the time to live')
local r = present(KEYS[3])
local hash = header(KEYS[1])
local kind, mark_number, version = marker(KEYS[2], r)
if not proved(load, hash, kind, mark_number, r) then return { 'refused' } end
if not hash and #load.rows == 0 and (kind ~= '' or not load.complete) then
  if load.complete and kind ~= '-' then set_absent(KEYS[2], mark_number, r, absent_ttl) end
  return { 'filled', digits(r.generation), {} }
end
local is_held = call('HGET', KEYS[9], ARGV[4])
local _, is_marked = join_rows(load, hash, version, r, 4, ARGV[4], ARGV[3])
-- ORDER: the hash is read before it gets a time to live. If the clock is set back in between, the
-- whole hash expires at once.
local held = call('HGETALL', KEYS[1])
if not hash and not is_marked and not is_held then call('PEXPIRE', KEYS[1], digits(ttl)) end
return { 'filled', digits(r.generation), held }
