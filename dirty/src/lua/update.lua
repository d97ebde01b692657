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
-- Reply: an answer for each write: "version", or "version changed counters…", as remembered under its id; or {"moved", epoch,
--   generation} in another epoch; {"version", current} if another was wanted; {"load", marker, epoch} for a suspect hash; {"failed",
--   error}; {"alone"} if mutate.lua shall do it: if a deadline of the call has passed or lies too far ahead, if a value must be loaded
--   first, if a sum needs more than 15 digits.
-- Invariant: data, version, exist marker and mark change together or not at all (R1); a marked hash has no time to live (R2); the
--   marker is raised by each write of a clean owner (R7).
local call, format, tonumber, unpack, ARGV, KEYS = redis.call, string.format, tonumber, unpack, ARGV, KEYS
local writes, apart = (#KEYS - 4) / 2, ARGV[5] == '1'
if writes < 1 or #ARGV < 5 + 5 * writes then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
local clock, replies = call('TIME'), {}
local now, window = clock[1] * 1000000 + clock[2], tonumber(ARGV[1])
local r = call('HMGET', KEYS[2], 'src', 'gen', 'epoch', 'first', 'inc')
local source, generation = tonumber(r[1]), tonumber(r[2])
if not source or not generation then return redis.error_reply('UNPREPARED the partition has no record') end
if now >= tonumber(ARGV[2]) or tonumber(ARGV[3]) - now > window then
  for w = 1, writes do replies[w] = { 'alone' } end
  return replies
end
-- A connection leads to one process, but while a request is on its way that may become a replica, and a master with other data (R14).
local history = format('master_replid:%s\r', string.match(r[5] or '', '/(%x+)$') or '?')
if not string.find(call('INFO', 'replication'), history, 1, true) then
  return redis.error_reply('UNPREPARED the record was made in another history of the server')
end

local round = math.floor(now / window)
local ids = KEYS[3 + round % 2]
local seen = call('HMGET', ids, ':w', ':j', unpack(ARGV, 6, writes + 5))
local earlier = call('HMGET', KEYS[4 - round % 2], unpack(ARGV, 6, writes + 5))

-- What the owner of a write is: last version, count of marks, generation and flag as they stand behind the version, whether it may hold
-- tombstones, why it can't be written, and the last version as text, which is when a clean hash counts as born, none if the hash is to
-- be made.
local part_of, all_of, sub = format(' %sp', r[2]), format(' %sa', r[2]), string.sub
local function look(w)
  local h = call('HMGET', KEYS[3 + 2 * w], ':v', ':n', ':t')
  if not h[1] then
    local marker = call('GET', KEYS[4 + 2 * w])
    return tonumber(marker) or 0, 0, marker == format('-%s', r[2]) and all_of or part_of
  end
  -- Cut in two, which takes half the time of a pattern.
  local born, flags = sub(h[1], 1, -1 - #part_of), sub(h[1], -#part_of)
  local hash_generation = generation
  if flags ~= part_of and flags ~= all_of then
    born, flags = string.match(h[1], '^(%d+)( %d+[ap])$')
    hash_generation = tonumber(string.match(flags or '', '%d+'))
  end
  local version, marks = tonumber(born), tonumber(h[2] or '0')
  local refused
  if not version or not marks or not hash_generation then
    refused = { 'failed', 'CORRUPT the reserved fields of the owner hash' }
  elseif hash_generation < generation then
    refused = { 'load', format('%.0f', marks > 0 and version - 1 or version), r[3] }
  end
  return version, marks, flags, h[3], refused, born
end

-- Integers are printed in a tenth of the time where they have 64 bits.
local whole = format('%d', 9007199254740991) == '9007199254740991' and '%d' or '%.0f'
local wide = whole ~= '%.0f'

-- The fields of a write that adds, and their sums; nil if mutate.lua shall look at them. `known` are fields as writes before it leave
-- them.
local function added_up(hash, from, to, known, complete)
  local names, sums = {}, {}
  for i = from, to, 2 do names[#names + 1] = ARGV[i] end
  local stored = call('HMGET', hash, unpack(names))
  local function small(text)
    if #text > 15 or not (text == '0' or string.find(text, '^%-?[1-9][0-9]*$')) then return nil end
    return tonumber(text)
  end
  for i, name in ipairs(names) do
    local old, step = small(known and known[name] or stored[i] or complete and '0' or ''), small(ARGV[from + 2 * i - 1])
    if not old or not step then return nil end
    sums[2 * i - 1], sums[2 * i] = name, format(whole, old + step)
  end
  return sums
end

-- The writes that are applied: eight values each. What there is once a call and not once a write is made only if it is needed, since
-- in a call of one write tables are most of the cost.
local plan, marks, markers, remembered = {}, {}, {}, {}
local owners, given = not apart and {}, not apart and {}
local applied, at, last_given = 0, 6 + 2 * writes, nil
for w = 1, writes do
  local hash, id, from = KEYS[3 + 2 * w], ARGV[5 + w], at + 1
  local fields, wanted, adds = tonumber(ARGV[at]), nil, false
  if not fields then
    local count, kind, version = string.match(ARGV[at] or '', '^(%d+)([=+])(%d*)$')
    fields, adds, wanted = tonumber(count), kind == '+', tonumber(version)
    if not adds and not wanted then fields = nil end
  end
  if not fields or fields < 1 or fields > 2000 or at + 2 * fields > #ARGV then
    return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
  end
  at = at + 1 + 2 * fields
  local before = seen[w + 2] or earlier[w] or given and given[id]
  if before then
    replies[w] = before
  elseif ARGV[4] ~= r[3] and ARGV[4] ~= '' then
    -- Its id, and what was written after it, may have been forgotten since.
    replies[w] = { 'moved', r[3], r[2] }
  else
    local last, outstanding, flags, tombstones, refused, born, owner
    if apart then
      last, outstanding, flags, tombstones, refused, born = look(w)
    else
      owner = owners[hash]
      if not owner then
        owner = {}
        owner.last, owner.outstanding, owner.flags, owner.tombstones, owner.refused, owner.born = look(w)
        owner.fields, owners[hash] = {}, owner
      end
      last, outstanding, flags = owner.last, owner.outstanding, owner.flags
      tombstones, refused, born = owner.tombstones, owner.refused, owner.born
    end
    local sums = adds and born and not refused and added_up(hash, from, at - 1, owner and owner.fields, flags == all_of)
    local version = math.max(source + 2, now, (last or 0) + 2)
    if refused then
      replies[w] = refused
    elseif version > 9007199254740991 then
      replies[w] = { 'failed', 'CORRUPT the version source has reached 2^53' }
    elseif wanted and not born or adds and not sums then
      replies[w] = { 'alone' }
    elseif wanted and wanted ~= last then
      replies[w] = { 'version', format(whole, last) }
    else
      local v = format(whole, version)
      local reply = v
      if sums then
        local parts = { v, format(whole, fields) }
        for i = 2, #sums, 2 do parts[#parts + 1] = sums[i] end
        reply = table.concat(parts, ' ')
      end
      if owner then
        owner.last, given[id] = version, reply
        local list, first = sums or ARGV, sums and 1 or from
        for i = first, first + 2 * fields - 2, 2 do owner.fields[list[i]] = list[i + 1] end
      end
      local p, even = 8 * applied, 2 * applied
      plan[p + 1], plan[p + 2], plan[p + 3], plan[p + 4] = w, sums or from, fields, v
      plan[p + 5], plan[p + 6], plan[p + 7], plan[p + 8] = owner or outstanding, flags, tombstones or false, born or false
      -- As `mark_text` in prelude.lua.
      marks[even + 1] = ARGV[5 + writes + w]
      marks[even + 2] = wide and format('%014x', version)
        or format('%06x%08x', math.floor(version / 4294967296), version % 4294967296)
      if (owner and owner.outstanding or outstanding) == 0 then
        markers[#markers + 1], markers[#markers + 2] = KEYS[4 + 2 * w], v
      end
      remembered[even + 1], remembered[even + 2] = id, reply
      applied, source, replies[w], last_given = applied + 1, version, reply, v
    end
  end
end
if at ~= #ARGV + 1 then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
if applied == 0 then return replies end

-- ORDER: commands that are called here alone go while nothing is written. A user who lacks the right for one of them changes nothing
-- then, and data are followed only by commands that have passed before.
local seen_round, leaps = seen[1] and tonumber(seen[1]), tonumber(seen[2]) or 0
local window_begins = seen_round ~= round
-- Ids of the window before last are old if somebody wrote in the one between. Else nobody wrote for a while, or the clock leapt and
-- they are of just now: they stay, but not for ever, and many not for long (H11).
local between = seen_round == round - 2 and tonumber(call('HGET', KEYS[4 - round % 2], ':w') or '')
local ids_stay = window_begins and seen_round and between ~= round - 1 and (leaps < 3 or leaps < 100 and call('HLEN', ids) < 10000)
if window_begins and seen_round and not ids_stay then call('UNLINK', ids) end
if not r[4] then call('HDEL', KEYS[1], ':') end

-- ORDER: marks, then record and markers, then data, then ids: whatever fails between, no data is without a mark.
local held
if applied > 1 then
  local names = {}
  for n = 1, applied do names[n] = marks[2 * n - 1] end
  held = call('HMGET', KEYS[1], unpack(names))
end
local added = call('HSET', KEYS[1], unpack(marks))
if r[4] then
  call('HSET', KEYS[2], 'src', last_given)
else
  call('HSET', KEYS[2], 'src', last_given, 'first', format('%.0f', now))
  -- A new map. Small ones are lists, in which some hundred marks are searched one by one; a long value makes it a table.
  call('HSET', KEYS[1], ':', string.rep(':', 65))
  call('HDEL', KEYS[1], ':')
end
if markers[1] then call('MSET', unpack(markers)) end
local marked = not apart and {}
for n = 1, applied do
  local p = 8 * (n - 1)
  local hash, list, from, v = KEYS[3 + 2 * plan[p + 1]], ARGV, plan[p + 2], plan[p + 4]
  local to, before, flags, tombstones = 2 * plan[p + 3] - 1, plan[p + 5], plan[p + 6], plan[p + 7]
  if type(from) == 'table' then list, from = from, 1 end
  to = from + to
  local new, owner = added == 1, nil
  if held then new = not held[n] end
  if not apart then
    owner, before = before, before.outstanding
    -- Two writes of a call may have one mark.
    if held then new, marked[marks[2 * n - 1]] = new and not marked[marks[2 * n - 1]], true end
  end
  -- At least this write's mark is outstanding, also if the hash was lost while an earlier mark of the same name was not.
  local count = math.max(before + (new and 1 or 0), 1)
  local head = v .. flags
  if tombstones then
    local names = {}
    for i = from, to, 2 do names[#names + 1] = table.concat({ ':d:', list[i] }) end
    call('HDEL', hash, unpack(names))
  end
  if count == before then
    call('HSET', hash, ':v', head, unpack(list, from, to))
  elseif before > 0 then
    call('HSET', hash, ':v', head, ':n', format('%.0f', count), unpack(list, from, to))
  elseif plan[p + 8] then
    call('PERSIST', hash)
    call('HSET', hash, ':v', head, ':n', '1', ':b', plan[p + 8], unpack(list, from, to))
  else
    call('HSET', hash, ':v', head, ':n', '1', ':b', format('%.0f', v - 1), unpack(list, from, to))
  end
  if owner then owner.outstanding = count end
end

-- Ids come last: an id without its data would have its repeat dropped.
if not window_begins then
  call('HSET', ids, unpack(remembered))
elseif ids_stay then
  call('HSET', ids, ':w', format('%.0f', round), ':j', format('%.0f', leaps + 1), unpack(remembered))
else
  call('HSET', ids, ':w', format('%.0f', round), unpack(remembered))
end
return replies
