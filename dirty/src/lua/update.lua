#!lua
-- Sets or adds to fields of owners of one partition: the hot path, without the shared functions since making them costs time. What
-- all writes share is one call to the server, whether there is one write or a hundred. Whatever is not plain is left to mutate.lua.
-- KEYS[1] dirty map
-- KEYS[2] partition record
-- KEYS[3] operation ids of even windows
-- KEYS[4] operation ids of odd windows
-- KEYS[5..] owner hash and exist marker of each write
-- ARGV[1] window of operation ids, microseconds
-- ARGV[2] the earliest deadline of the writes, microseconds since 1970
-- ARGV[3] the latest
-- ARGV[4] epoch that they are sent in, empty if nobody asks
-- ARGV[5] 1 if each write is another one, of another owner
-- ARGV[6..] operation id of each write; mark of owner and fields of each; then of each: "N" to set N fields, "N=VERSION"
--   if the owner has that version, "N+" to add to N fields; field and value, or what is added, of each
-- Reply: for each write "version", or "version changed counters…", as remembered under its id; or {"moved", epoch, generation} in
--   another epoch; {"version", current} if another was wanted; {"load", marker, epoch} for a suspect hash; {"failed", error};
--   {"alone"} if mutate.lua shall do it: in a partition that is served unverified, near a deadline, if a value must be loaded first.
-- Invariant: data, version, exist marker and mark change together or not at all (R1); a marked hash has no time to live (R2).
local call, format, tonumber, unpack, ARGV, KEYS = redis.call, string.format, tonumber, unpack, ARGV, KEYS
local writes, apart = (#KEYS - 4) / 2, ARGV[5] == '1'
local first, special, at = {}, {}, 6 + 2 * writes
for w = 1, writes do
  local fields = tonumber(ARGV[at])
  if not fields then
    local count, kind, version = string.match(ARGV[at] or '', '^(%d+)([=+])(%d*)$')
    fields, special[w] = tonumber(count), kind == '+' and kind or tonumber(version)
    if not special[w] then break end
  end
  if not fields or fields < 1 or fields > 2000 then break end
  first[w] = at
  at = at + 1 + 2 * fields
end
if writes < 1 or #first ~= writes or at ~= #ARGV + 1 then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
first[writes + 1] = at
local clock, replies = call('TIME'), {}
local now, window = clock[1] * 1000000 + clock[2], tonumber(ARGV[1])
local r = call('HMGET', KEYS[2], 'src', 'gen', 'epoch', 'first', 'unv', 'inc')
local source, generation = tonumber(r[1]), tonumber(r[2])
if not source or not generation then return redis.error_reply('UNPREPARED the partition has no record') end
if r[5] or now >= tonumber(ARGV[2]) or tonumber(ARGV[3]) - now > window then
  for w = 1, writes do replies[w] = { 'alone' } end
  return replies
end
-- A connection leads to one process, but while a request is on its way that may become a replica, and a master with other data (R14).
local history = format('master_replid:%s\r', string.match(r[6] or '', '/(%x+)$') or '?')
if not string.find(call('INFO', 'replication'), history, 1, true) then
  return redis.error_reply('UNPREPARED the record was made in another history of the server')
end

local round = math.floor(now / window)
local ids = KEYS[3 + round % 2]
local seen = call('HMGET', ids, ':w', ':j', unpack(ARGV, 6, writes + 5))
local earlier = call('HMGET', KEYS[4 - round % 2], unpack(ARGV, 6, writes + 5))

-- What an owner is, by the number of its first write: its last version and count of marks, or why it can't be written.
local last, outstanding, flags, complete, has_tombstones, refused = {}, {}, {}, {}, {}, {}
local part_of, all_of = format('%sp', r[2]), format('%sa', r[2])
local function look(owner)
  local h = call('HMGET', KEYS[3 + 2 * owner], ':v', ':n', ':g', ':t')
  if not h[1] then
    local marker = call('GET', KEYS[4 + 2 * owner])
    flags[owner] = marker == format('-%s', r[2]) and all_of or part_of
    last[owner], outstanding[owner] = tonumber(marker) or 0, 0
    return
  end
  local version, marks = tonumber(h[1]), tonumber(h[2])
  local hash_generation = generation
  if h[3] ~= part_of and h[3] ~= all_of then hash_generation = tonumber(string.match(h[3] or '', '^(%d+)[ap]$')) end
  if not version or not marks or not hash_generation then
    refused[owner] = { 'failed', 'CORRUPT the reserved fields of the owner hash' }
  elseif hash_generation < generation then
    refused[owner] = { 'load', format('%.0f', marks > 0 and version - 1 or version), r[3] }
  end
  last[owner], outstanding[owner], complete[owner], has_tombstones[owner] = version or 0, marks, h[3] == all_of, h[4]
end

-- Integers are printed in a tenth of the time where they have 64 bits.
local whole = format('%d', 9007199254740991) == '9007199254740991' and '%d' or '%.0f'

-- What the writes so far make of owners that more than one of them names: field -> value, by owner.
local pending, sums = {}, {}
local function small(text)
  if #text > 15 or not (text == '0' or string.find(text, '^%-?[1-9][0-9]*$')) then return nil end
  return tonumber(text)
end
-- The fields and sums of a write that adds; nil if mutate.lua shall look at them.
local function added_up(w, owner)
  if flags[owner] then return nil end
  local from, to, names, sum = first[w] + 1, first[w + 1] - 1, {}, {}
  for i = from, to, 2 do names[#names + 1] = ARGV[i] end
  local stored, known = call('HMGET', KEYS[3 + 2 * owner], unpack(names)), pending[owner] or {}
  for i, name in ipairs(names) do
    local old, step = known[name] or stored[i], small(ARGV[from + 2 * i - 1])
    old = small(old or complete[owner] and '0' or '')
    if not old or not step then return nil end
    sum[2 * i - 1], sum[2 * i] = name, format(whole, old + step)
  end
  return sum
end

local owners, marks, markers, remembered, names = {}, {}, {}, {}, {}
local applied, written, owner_of, versions, given = 0, {}, {}, {}, {}
for w = 1, writes do
  local before, owner, kind = seen[w + 2] or earlier[w] or given[ARGV[5 + w]], w, special[w]
  if not apart then
    owner = owners[KEYS[3 + 2 * w]] or w
    owners[KEYS[3 + 2 * w]] = owner
  end
  if not before and not last[owner] then look(owner) end
  if before then
    replies[w] = before
  elseif ARGV[4] ~= r[3] and ARGV[4] ~= '' then
    -- Its id, and what was written after it, may have been forgotten since.
    replies[w] = { 'moved', r[3], r[2] }
  elseif refused[owner] then
    replies[w] = refused[owner]
  else
    local version = math.max(source + 2, now, last[owner] + 2)
    if kind == '+' then sums[w] = added_up(w, owner) end
    if version > 9007199254740991 then
      replies[w] = { 'failed', 'CORRUPT the version source has reached 2^53' }
    elseif kind and not sums[w] and (kind == '+' or flags[owner]) then
      replies[w] = { 'alone' }
    elseif kind and kind ~= '+' and kind ~= last[owner] then
      replies[w] = { 'version', format(whole, last[owner]) }
    else
      local v = format(whole, version)
      local mark, reply = ARGV[5 + writes + w], v
      if sums[w] then
        local parts = { v, format(whole, #sums[w] / 2) }
        for i = 2, #sums[w], 2 do parts[#parts + 1] = sums[w][i] end
        reply = table.concat(parts, ' ')
      end
      if not apart then
        local now_holds, from, list = pending[owner] or {}, first[w] + 1, ARGV
        if sums[w] then from, list = 1, sums[w] end
        for i = from, sums[w] and #list or first[w + 1] - 1, 2 do now_holds[list[i]] = list[i + 1] end
        pending[owner], given[ARGV[5 + w]] = now_holds, reply
      end
      source, last[owner], applied = version, version, applied + 1
      written[applied], owner_of[applied], versions[applied], names[applied] = w, owner, v, mark
      local even = 2 * applied
      marks[even - 1], marks[even] = mark, v
      markers[even - 1], markers[even] = KEYS[4 + 2 * w], v
      remembered[even - 1], remembered[even] = ARGV[5 + w], reply
      replies[w] = reply
    end
  end
end
if applied == 0 then return replies end

-- ORDER: marks, then record and markers, then data, then ids: whatever fails between, no data is without a mark.
local held = applied > 1 and call('HMGET', KEYS[1], unpack(names))
local added = call('HSET', KEYS[1], unpack(marks))
if r[4] then
  call('HSET', KEYS[2], 'src', versions[applied])
else
  call('HSET', KEYS[2], 'src', versions[applied], 'first', format('%.0f', now))
  -- A new map. Small ones are lists, in which some hundred marks are searched one by one; a long value makes it a table.
  call('HSET', KEYS[1], ':', string.rep(':', 65))
  call('HDEL', KEYS[1], ':')
end
call('MSET', unpack(markers))
local marked = {}
for n = 1, applied do
  local w, owner, v = written[n], owner_of[n], versions[n]
  local hash, list, from, to, before = KEYS[3 + 2 * w], ARGV, first[w] + 1, first[w + 1] - 1, outstanding[owner]
  if sums[w] then list, from, to = sums[w], 1, #sums[w] end
  local new = added == 1
  if held then
    new = not held[n]
    if not apart then
      new = new and not marked[names[n]]
      marked[names[n]] = true
    end
  end
  -- At least this write's mark is outstanding, also if the hash was lost while an earlier mark of the same name was not.
  local count = math.max(before + (new and 1 or 0), 1)
  if count == before then
    call('HSET', hash, ':v', v, unpack(list, from, to))
  elseif flags[owner] then
    call('HSET', hash, ':v', v, ':n', '1', ':g', flags[owner], ':b', format('%.0f', v - 1), unpack(list, from, to))
  else
    call('HSET', hash, ':v', v, ':n', count == 1 and '1' or format('%.0f', count), unpack(list, from, to))
    if before == 0 then call('PERSIST', hash) end
  end
  flags[owner] = nil
  if has_tombstones[owner] then
    local tombstones = {}
    for i = from, to, 2 do tombstones[#tombstones + 1] = table.concat({ ':d:', list[i] }) end
    call('HDEL', hash, unpack(tombstones))
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
