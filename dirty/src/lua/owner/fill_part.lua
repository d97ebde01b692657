#!lua
-- Writes some of the rows that were loaded from the cold tier, unless they can have become stale since.
-- An owner with many rows is filled by several calls, so that none of them takes long. The last of them
-- is that of another script, which takes the rest of the load.
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
-- ARGV[2] time to live of a new hash's marker, milliseconds. 0 if it stays for ever.
-- ARGV[3] the owner's name in the maps
-- ARGV[4..] observed marker, whether there was a hash (0 or 1), epoch, complete (0), number of rows. Then
--   of each row field, stored name, stored value and version. The first call has the newest row.
-- Reply: {"refused"}. {"whole"} if the rows must come by one call. Or {"part", marker}: the marker of the
--   hash that holds the rows now, for the observation of the next call.
-- Invariant: as in fill.lua. The number of a hash is given once. So the calls of a load are about one
--   hash, or the later ones are refused. A hash from before a rewind is compared with all rows, and one
--   in place of a lost one is marked as a whole, so their rows come together (R16).
expect(#KEYS == 9 and #ARGV >= 8)
local load, ttl = load_of(4), number(ARGV[1], 'the time to live')
expect(not load.complete and #load.rows > 0)
local r = present(KEYS[3])
local hash = header(KEYS[1])
local kind, mark_number, version = marker(KEYS[2], r)
if not proved(load, hash, kind, mark_number, r) then return { 'refused' } end
if hash and hash.generation < r.generation or not hash and is_named(4, ARGV[3]) then return { 'whole' } end
local is_held = call('HGET', KEYS[9], ARGV[3])
local source = join_rows(load, hash, version, r, 4, ARGV[3], ARGV[2])
if hash then return { 'part', load.marker } end
if not is_held then call('PEXPIRE', KEYS[1], digits(ttl)) end
return { 'part', digits(source) }
