#!lua
-- Sets fields of owners of one partition without a condition: the hot path, without the shared functions since making them costs
-- time. What all updates share is one call to the server, whether there is one update or a hundred.
-- KEYS[1] dirty map
-- KEYS[2] partition record
-- KEYS[3] operation ids of even windows
-- KEYS[4] operation ids of odd windows
-- KEYS[5..] owner hash and exist marker of each update
-- ARGV[1] window of operation ids, microseconds
-- ARGV[2..] operation id of each update; mark of owner and fields of each; then of each: deadline, microseconds since 1970; epoch that
--   it is sent in, empty if nobody asks; number of fields; field and value of each
-- Reply: for each update "version changed" as remembered under its id; or {"expired"}; {"moved", epoch, generation} in another one;
--   {"load", marker, epoch} for a suspect hash; {"failed", error}; {"unverified"} if the partition is served unverified: then
--   mutate.lua does it.
-- Invariant: data, version, exist marker and mark change together or not at all (R1); a marked hash has no time to live (R2).
local call, format, updates = redis.call, string.format, (#KEYS - 4) / 2
local first, at = {}, 2 * updates + 2
for u = 1, updates do
  local fields = tonumber(ARGV[at + 2])
  if not fields or fields < 1 or fields > 2000 then break end
  first[u] = at
  at = at + 3 + 2 * fields
end
if updates < 1 or #first ~= updates or at ~= #ARGV + 1 then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
first[updates + 1] = at
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
local seen = call('HMGET', ids, ':w', ':j', unpack(ARGV, 2, updates + 1))
local earlier = call('HMGET', KEYS[4 - round % 2], unpack(ARGV, 2, updates + 1))

-- What an owner is, by the number of its first update: its last version and count of marks, or why it can't be written.
local last, outstanding, flags, has_tombstones, refused = {}, {}, {}, {}, {}
local trusted, complete = format('%sp', r[2]), format('%sa', r[2])
local function look(owner)
  local h = call('HMGET', KEYS[3 + 2 * owner], ':v', ':n', ':g', ':t')
  if not h[1] then
    local marker = call('GET', KEYS[4 + 2 * owner])
    flags[owner] = marker == format('-%s', r[2]) and complete or trusted
    last[owner], outstanding[owner] = tonumber(marker) or 0, 0
    return
  end
  local version, marks = tonumber(h[1]), tonumber(h[2])
  local hash_generation = generation
  if h[3] ~= trusted and h[3] ~= complete then hash_generation = tonumber(string.match(h[3] or '', '^(%d+)[ap]$')) end
  if not version or not marks or not hash_generation then
    refused[owner] = { 'failed', 'CORRUPT the reserved fields of the owner hash' }
  elseif hash_generation < generation then
    refused[owner] = { 'load', format('%.0f', marks > 0 and version - 1 or version), r[3] }
  end
  last[owner], outstanding[owner], has_tombstones[owner] = version, marks, h[4]
end

-- Integers are printed in a tenth of the time where they have 64 bits.
local whole = format('%d', 9007199254740991) == '9007199254740991' and '%d' or '%.0f'
local owners, given, marks, markers, remembered = {}, {}, {}, {}, {}
local writes, written, owner_of, versions = 0, {}, {}, {}
for u = 1, updates do
  local at, hash, id = first[u], KEYS[3 + 2 * u], ARGV[u + 1]
  local deadline, epoch = tonumber(ARGV[at]), ARGV[at + 1]
  local before = given[id] or seen[u + 2] or earlier[u]
  -- ORDER: ids before the deadline, so that a late repeat of what was applied in time learns that it was.
  if before then
    replies[u] = before
  elseif now >= deadline then
    replies[u] = { 'expired' }
  elseif deadline - now > window then
    replies[u] = { 'failed', 'DEADLINE the deadline lies further ahead than ids are remembered' }
  elseif epoch ~= r[3] and epoch ~= '' then
    -- Its id, and what was written after it, may have been forgotten since.
    replies[u] = { 'moved', r[3], r[2] }
  else
    local owner = owners[hash]
    if not owner then
      owner, owners[hash] = u, u
      look(u)
    end
    local version = math.max(source + 2, now, (last[owner] or 0) + 2)
    if refused[owner] then
      replies[u] = refused[owner]
    elseif version > 9007199254740991 then
      replies[u] = { 'failed', 'CORRUPT the version source has reached 2^53' }
    else
      local v = format(whole, version)
      local reply = format('%s %s', v, ARGV[at + 2])
      source, last[owner], writes = version, version, writes + 1
      written[writes], owner_of[writes], versions[writes] = u, owner, v
      marks[2 * writes - 1], marks[2 * writes] = ARGV[updates + 1 + u], v
      markers[2 * writes - 1], markers[2 * writes] = KEYS[4 + 2 * u], v
      remembered[2 * writes - 1], remembered[2 * writes] = id, reply
      replies[u], given[id] = reply, reply
    end
  end
end
if writes == 0 then return replies end

-- ORDER: marks, then record and markers, then data, then ids: whatever fails between, no data is without a mark.
local held
if writes > 1 then
  local names = {}
  for w = 1, writes do names[w] = marks[2 * w - 1] end
  held = call('HMGET', KEYS[1], unpack(names))
end
local added = call('HSET', KEYS[1], unpack(marks))
if r[4] then
  call('HSET', KEYS[2], 'src', versions[writes])
else
  call('HSET', KEYS[2], 'src', versions[writes], 'first', format('%.0f', now))
  -- A new map. Small ones are lists, in which some hundred marks are searched one by one; a long value makes it a table.
  call('HSET', KEYS[1], ':', string.rep(':', 65))
  call('HDEL', KEYS[1], ':')
end
call('MSET', unpack(markers))
local marked = {}
for w = 1, writes do
  local u, owner, v = written[w], owner_of[w], versions[w]
  local hash, from, to, before = KEYS[3 + 2 * u], first[u] + 3, first[u + 1] - 1, outstanding[owner]
  local new = added == 1
  if held then
    local mark = marks[2 * w - 1]
    new = not held[w] and not marked[mark]
    marked[mark] = true
  end
  -- At least this write's mark is outstanding, also if the hash was lost while an earlier mark of the same name was not.
  local count = math.max(before + (new and 1 or 0), 1)
  local n = count == 1 and '1' or format('%.0f', count)
  if flags[owner] then
    call('HSET', hash, ':v', v, ':n', n, ':g', flags[owner], ':b', format('%.0f', v - 1), unpack(ARGV, from, to))
    flags[owner] = nil
  else
    call('HSET', hash, ':v', v, ':n', n, unpack(ARGV, from, to))
    if before == 0 then call('PERSIST', hash) end
    if has_tombstones[owner] then
      local tombstones = {}
      for i = from, to, 2 do tombstones[#tombstones + 1] = table.concat({ ':d:', ARGV[i] }) end
      call('HDEL', hash, unpack(tombstones))
    end
  end
  outstanding[owner] = count
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
