#!lua
-- Opens a session of a free owner, or replaces the session that is named.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- KEYS[4] dirty map
-- KEYS[5] snapshot
-- KEYS[6] error map
-- KEYS[7] marks on probation
-- KEYS[8] marks whose probation ends
-- KEYS[9] sessions
-- KEYS[10] lapsed sessions
-- KEYS[11] requests for held owners
-- KEYS[12] beats
-- ARGV[1] the owner's name in the maps
-- ARGV[2] token of the session
-- ARGV[3] holder
-- ARGV[4] the holder's name for people
-- ARGV[5] version and token of the session to replace. Empty if only a free owner is taken.
-- ARGV[6] deadline, microseconds since 1970
-- ARGV[7] time to live of a negative answer, milliseconds
-- ARGV[8] time to live of a new hash's marker, milliseconds. 0 if it stays for ever.
-- ARGV[9..] with a load: observed marker, whether there was a hash (0 or 1), epoch, complete (0 or
--   1), number of rows. Then of each row field, stored name, stored value and version.
-- Reply: {"open", version, epoch, generation of the partition, all fields and values of the hash}.
--   Or {"load", marker, whether there is a hash (0 or 1), epoch}, {"held", session}, {"grace",
--   epoch}, {"expired"}.
-- Invariant: a session is opened with the whole owner, or not at all (S2). Its fence is above every
--   version given before (S1). The hash has no time to live while the session holds the owner.
expect(#KEYS == 12 and #ARGV >= 8)
local deadline, absent_ttl = number(ARGV[6], 'the deadline'), number(ARGV[7], 'the time to live')
local r = present(KEYS[3])
local hash = header(KEYS[1])
local kind, mark_number, version = marker(KEYS[2], r)
local current = session_of(call('HGET', KEYS[9], ARGV[1]))
local function opened(fence)
  return { 'open', fence, r.epoch, digits(r.generation), call('HGETALL', KEYS[1]) }
end
if current then
  -- The call is a repeat: the first answer was lost.
  if current.token == ARGV[2] and current.epoch == r.epoch then return opened(current.version) end
  if table.concat({ current.version, ' ', current.token }) ~= ARGV[5] then return { 'held', current.text } end
end
if time() >= deadline then return { 'expired' } end
if not is_graced(KEYS[3], r) then return { 'grace', r.epoch } end

local load = #ARGV >= 9 and load_of(9) or nil
if load and not proved(load, hash, kind, mark_number, r) then load = nil end
local whole
if load then
  whole = load.complete or hash and hash.complete and hash.generation >= r.generation
elseif hash then
  whole = hash.complete and hash.generation >= r.generation
else
  whole = kind == '-'
end
if not whole then return { 'load', observed(KEYS[2], KEYS[3], r), hash and '1' or '0', r.epoch } end

expect_hashes(4, 12)
local above = math.max(r.source, hash and hash.version or 0, load and load.newest or 0, time())
if above + 4 > VERSION_MAX then refuse('CORRUPT the version source has reached 2^53') end
local source = r.source
local makes = load and (hash or #load.rows > 0 or kind == '')
if makes then
  source = join_rows(load, hash, version, r, 4, ARGV[1], ARGV[8])
elseif load and kind ~= '-' then
  -- As in fill.lua: the first save then makes a hash that is known to be whole.
  set_absent(KEYS[2], mark_number, r, absent_ttl)
end
local fence = digits(math.max(source, above) + 2)
call('HSET', KEYS[3], 'src', fence)
call('HSET', KEYS[9], ARGV[1], session_text(fence, ARGV[2], r.epoch, ARGV[3], '-', ARGV[4]))
call('HDEL', KEYS[10], ARGV[1])
call('HDEL', KEYS[11], ARGV[1])
expect_beats(KEYS[12], ARGV[3])
call('PERSIST', KEYS[1])
return opened(fence)
