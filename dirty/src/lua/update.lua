#!lua
-- Sets fields of owners of one partition without a condition: the hot path, without the shared functions since making them costs
-- time. What all updates share is one call to the server, whether there is one update or a hundred.
-- KEYS[1] dirty map
-- KEYS[2] partition record
-- KEYS[3] operation ids of even windows
-- KEYS[4] operation ids of odd windows
-- KEYS[5..] owner hash and exist marker of each update
-- ARGV[1] window of operation ids, microseconds
-- ARGV[2..] of each update: operation id; deadline, microseconds since 1970; epoch that it is sent in, empty if nobody asks; mark of
--   owner and fields; number of fields; field and value of each
-- Reply: for each update "version changed" as remembered under its id; or {"expired"}; {"moved", epoch, generation} in another one;
--   {"load", marker, epoch} for a suspect hash; {"failed", error}; {"unverified"} if the partition is served unverified: then
--   mutate.lua does it.
-- Invariant: data, version, exist marker and mark change together or not at all (R1); a marked hash has no time to live (R2).
local call, format, updates = redis.call, string.format, (#KEYS - 4) / 2
local first, asked, at = {}, { ':w', ':j' }, 2
for u = 1, updates do
  local fields = tonumber(ARGV[at + 4])
  if not fields or fields < 1 or fields > 2000 then break end
  first[u], asked[u + 2] = at, ARGV[at]
  at = at + 5 + 2 * fields
end
if updates < 1 or #first ~= updates or at ~= #ARGV + 1 then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
local clock = call('TIME')
local now, window = clock[1] * 1000000 + clock[2], tonumber(ARGV[1])
local r = call('HMGET', KEYS[2], 'src', 'gen', 'epoch', 'first', 'unv', 'inc')
local source, generation = tonumber(r[1]), tonumber(r[2])
if not source or not generation then return redis.error_reply('UNPREPARED the partition has no record') end
local replies = {}
if r[5] then
  for u = 1, updates do replies[u] = { 'unverified' } end
  return replies
end
-- A connection leads to one process, but while a request is on its way that may become a replica, and a master with other data (R14).
local history = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
if not history or string.match(r[6] or '', '/(%x+)$') ~= history then
  return redis.error_reply('UNPREPARED the record was made in another history of the server')
end

local round = math.floor(now / window)
local ids = KEYS[3 + round % 2]
local seen, earlier = call('HMGET', ids, unpack(asked)), call('HMGET', KEYS[4 - round % 2], unpack(asked))

-- What the owner is before this call: its last version and count of marks, or why it can't be written.
local function look(hash, exist)
  local h = call('HMGET', hash, ':v', ':n', ':g', ':t')
  if not h[1] then
    local marker = call('GET', exist)
    local flags = format('%.0f%s', generation, marker == format('-%.0f', generation) and 'a' or 'p')
    return { last = tonumber(marker) or 0, marks = 0, flags = flags }
  end
  local last, marks, hash_generation = tonumber(h[1]), tonumber(h[2]), tonumber(string.match(h[3] or '', '^(%d+)[ap]$'))
  if not last or not marks or not hash_generation then
    return { refused = { 'failed', 'CORRUPT the reserved fields of the owner hash' } }
  end
  if hash_generation < generation then
    return { refused = { 'load', format('%.0f', marks > 0 and last - 1 or last), r[3] } }
  end
  return { last = last, marks = marks, tombstones = h[4] }
end

local owners, writes, marks, markers, remembered, given = {}, {}, {}, {}, {}, {}
for u = 1, updates do
  local at, hash, exist = first[u], KEYS[3 + 2 * u], KEYS[4 + 2 * u]
  local id, deadline, epoch = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local before = given[id] or seen[u + 2] or earlier[u + 2]
  -- ORDER: ids before the deadline, so that a late repeat of what was applied in time learns that it was.
  if before then
    replies[u] = before
  elseif now >= deadline then
    replies[u] = { 'expired' }
  elseif deadline - now > window then
    replies[u] = { 'failed', 'DEADLINE the deadline lies further ahead than ids are remembered' }
  elseif epoch ~= '' and epoch ~= r[3] then
    -- Its id, and what was written after it, may have been forgotten since.
    replies[u] = { 'moved', r[3], r[2] }
  else
    local owner = owners[hash] or look(hash, exist)
    owners[hash] = owner
    local version = math.max(source + 2, now, (owner.last or 0) + 2)
    if owner.refused then
      replies[u] = owner.refused
    elseif version > 9007199254740991 then
      replies[u] = { 'failed', 'CORRUPT the version source has reached 2^53' }
    else
      local v, w = format('%.0f', version), #writes + 1
      local reply = format('%s %s', v, ARGV[at + 4])
      source, owner.last = version, version
      writes[w] = { owner = owner, hash = hash, mark = ARGV[at + 3], v = v, from = at + 5, to = at + 4 + 2 * ARGV[at + 4] }
      marks[2 * w - 1], marks[2 * w] = ARGV[at + 3], v
      markers[2 * w - 1], markers[2 * w] = exist, v
      remembered[2 * w - 1], remembered[2 * w] = id, reply
      replies[u], given[id] = reply, reply
    end
  end
end
if #writes == 0 then return replies end

-- ORDER: marks, then record and markers, then data, then ids: whatever fails between, no data is without a mark.
local held
if #writes > 1 then
  local names = {}
  for w = 1, #writes do names[w] = writes[w].mark end
  held = call('HMGET', KEYS[1], unpack(names))
end
local added = call('HSET', KEYS[1], unpack(marks))
local last = marks[#marks]
if r[4] then
  call('HSET', KEYS[2], 'src', last)
else
  call('HSET', KEYS[2], 'src', last, 'first', format('%.0f', now))
end
call('MSET', unpack(markers))
local marked = {}
for w = 1, #writes do
  local write = writes[w]
  local owner, hash, mark = write.owner, write.hash, write.mark
  local new = held and not held[w] and not marked[mark] or not held and added == 1
  marked[mark] = true
  -- At least this write's mark is outstanding, also if the hash was lost while an earlier mark of the same name was not.
  local count = math.max(owner.marks + (new and 1 or 0), 1)
  local outstanding = count == 1 and '1' or format('%.0f', count)
  if owner.flags then
    call('HSET', hash, ':b', format('%.0f', write.v - 1), ':g', owner.flags, ':v', write.v, ':n', outstanding,
      unpack(ARGV, write.from, write.to))
    owner.flags = nil
  else
    call('HSET', hash, ':v', write.v, ':n', outstanding, unpack(ARGV, write.from, write.to))
    if owner.marks == 0 then call('PERSIST', hash) end
    if owner.tombstones then
      local tombstones = {}
      for i = write.from, write.to, 2 do tombstones[#tombstones + 1] = table.concat({ ':d:', ARGV[i] }) end
      call('HDEL', hash, unpack(tombstones))
    end
  end
  owner.marks = count
end

local seen_round, leaps = seen[1] and tonumber(seen[1]), tonumber(seen[2]) or 0
if seen_round == round then
  call('HSET', ids, unpack(remembered))
elseif seen_round and seen_round ~= round - 2 and leaps < 100 then
  -- Nobody wrote for a while, or the clock leapt and the ids are of just now: they stay, but not for ever (H11).
  call('HSET', ids, ':w', format('%.0f', round), ':j', format('%.0f', leaps + 1), unpack(remembered))
else
  if seen_round then call('UNLINK', ids) end
  call('HSET', ids, ':w', format('%.0f', round), unpack(remembered))
end
return replies
