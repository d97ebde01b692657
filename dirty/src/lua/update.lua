#!lua
-- Sets fields without a condition: the hot path, without the shared functions since making them costs time.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] dirty map
-- KEYS[4] partition record
-- KEYS[5] operation ids of even windows
-- KEYS[6] operation ids of odd windows
-- ARGV[1] operation id
-- ARGV[2] deadline, microseconds since 1970
-- ARGV[3] window of operation ids, microseconds
-- ARGV[4] epoch that it is sent in; empty if nobody asks
-- ARGV[5] mark of owner and fields
-- ARGV[6..] field and value of each change
-- Reply: "version changed" as remembered under the id; or {"expired"}; {"moved", epoch, generation} in another one; {"load", marker,
--   epoch} for a suspect hash; {"unverified"} if the partition is served unverified: then mutate.lua does it.
-- Invariant: data, version, exist marker and mark change together or not at all (R1); a marked hash has no time to live (R2).
local call, format, argc = redis.call, string.format, #ARGV
if #KEYS ~= 6 or argc < 7 or argc % 2 ~= 1 or argc > 4005 then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
local clock = call('TIME')
local now, deadline, window = clock[1] * 1000000 + clock[2], tonumber(ARGV[2]), tonumber(ARGV[3])
local r = call('HMGET', KEYS[4], 'src', 'gen', 'epoch', 'first', 'unv')
local source, generation = tonumber(r[1]), tonumber(r[2])
if not source or not generation then return redis.error_reply('UNPREPARED the partition has no record') end
if r[5] then return { 'unverified' } end

local round = math.floor(now / window)
local ids = KEYS[5 + round % 2]
local seen = call('HMGET', ids, ':w', ARGV[1], ':j')
local before = seen[2] or call('HGET', KEYS[6 - round % 2], ARGV[1])
if before then return before end
-- ORDER: ids before the deadline, so that a late repeat of what was applied in time learns that it was.
if now >= deadline then return { 'expired' } end
local seen_round = seen[1] and tonumber(seen[1])
if deadline - now > window then return redis.error_reply('DEADLINE the deadline lies further ahead than ids are remembered') end
-- Its id, and what was written after it, may have been forgotten since.
if ARGV[4] ~= '' and ARGV[4] ~= r[3] then return { 'moved', r[3], r[2] } end

local h = call('HMGET', KEYS[1], ':v', ':n', ':g', ':t')
local last, marks, flags, fresh_hash = tonumber(h[1]), tonumber(h[2]), nil, not h[1]
if fresh_hash then
  local marker = call('GET', KEYS[2])
  last, marks = tonumber(marker) or 0, 0
  flags = format('%.0f%s', generation, marker == format('-%.0f', generation) and 'a' or 'p')
else
  local hash_generation = tonumber(string.match(h[3] or '', '^(%d+)[ap]$'))
  if not last or not marks or not hash_generation then return redis.error_reply('CORRUPT the reserved fields of the owner hash') end
  if hash_generation < generation then
    return { 'load', format('%.0f', marks > 0 and last - 1 or last), r[3] }
  end
end
local version = math.max(source + 2, now, last + 2)
if version > 9007199254740991 then return redis.error_reply('CORRUPT the version source has reached 2^53') end
local v = format('%.0f', version)

-- ORDER: mark, then record and marker, then data, then id: whatever fails between, no data is without a mark.
local added = call('HSET', KEYS[3], ARGV[5], v)
if r[4] then
  call('HSET', KEYS[4], 'src', v)
else
  call('HSET', KEYS[4], 'src', v, 'first', format('%.0f', now))
end
call('SET', KEYS[2], v)
-- At least this write's mark is outstanding, also if the hash was lost while an earlier mark of the same name was not.
local outstanding = format('%.0f', math.max(marks + added, 1))
if fresh_hash then
  call('HSET', KEYS[1], ':v', v, ':n', outstanding, ':b', format('%.0f', version - 1), ':g', flags, unpack(ARGV, 6))
else
  call('HSET', KEYS[1], ':v', v, ':n', outstanding, unpack(ARGV, 6))
  if marks == 0 then call('PERSIST', KEYS[1]) end
  if h[4] then
    local tombstones = {}
    for i = 6, argc, 2 do tombstones[#tombstones + 1] = table.concat({ ':d:', ARGV[i] }) end
    call('HDEL', KEYS[1], unpack(tombstones))
  end
end
local reply = format('%s %.0f', v, (argc - 5) / 2)
if seen_round == round then
  call('HSET', ids, ARGV[1], reply)
elseif seen_round and seen_round ~= round - 2 and (tonumber(seen[3]) or 0) < 100 then
  -- Nobody wrote for a while, or the clock leapt and the ids are of just now: they stay, but not for ever (H11).
  call('HSET', ids, ':w', format('%.0f', round), ':j', format('%.0f', (tonumber(seen[3]) or 0) + 1), ARGV[1], reply)
else
  if seen_round then call('UNLINK', ids) end
  call('HSET', ids, ':w', format('%.0f', round), ARGV[1], reply)
end
return reply
