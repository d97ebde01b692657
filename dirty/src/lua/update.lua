#!lua
-- Sets or adds to fields of owners of one partition: the hot path, without the shared functions since making them costs time. The
-- writes share one call to the server, whether there is one write or a hundred. Whatever is not plain is left to mutate.lua.
-- KEYS[1] dirty map
-- KEYS[2] partition record
-- KEYS[3] snapshot
-- KEYS[4] error map
-- KEYS[5] marks on probation
-- KEYS[6] marks whose probation ends
-- KEYS[7] sessions
-- KEYS[8..] owner hash and exist marker of each write
-- ARGV[1] how far ahead a deadline may lie, microseconds
-- ARGV[2] the earliest deadline of the writes, microseconds since 1970
-- ARGV[3] the latest
-- ARGV[4] epoch that they are sent in, empty if nobody asks
-- ARGV[5] 1 if each write is of another owner
-- ARGV[6] field of the record that keeps the caller's last call
-- ARGV[7] number of this call
-- ARGV[8..] name in the maps of each write's owner; then of each: "N" to set N fields, "N=VERSION" if the owner has that version,
--   "N@VERSION TOKEN" if it is held by the session of that fence, "N+" to add to N fields; field and value, or the number to add, of each
-- Reply: a line for each write, as it is kept under the number of the call: "version", or "version changed counters…"; "moved epoch
--   generation" in another epoch; "version current" if another was wanted; "failed error"; "alone" if mutate.lua shall do it: if the
--   owner's session and the write's fence differ; if a deadline of the call has passed or lies too far ahead; if a value must be loaded
--   first or the hash is suspect; if a sum needs more than 15 digits; if the owner's hash is gone although a map names it.
-- Invariant: data, version, exist marker and mark change together or not at all (R1); a marked hash has no time to live (R2); a
--   write that makes a hash gives the marker another number (R7); a call is carried out once, whatever its answer was, and never
--   after a later one (R11).
local call, format, tonumber, unpack, ARGV, KEYS = redis.call, string.format, tonumber, unpack, ARGV, KEYS
local writes, apart = (#KEYS - 7) / 2, ARGV[5] == '1'
if writes < 1 or #ARGV < 7 + 4 * writes then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
local clock, replies = call('TIME'), {}
local now = clock[1] * 1000000 + clock[2]
local r = call('HMGET', KEYS[2], 'src', 'gen', 'epoch', 'first', 'inc', ARGV[6])
local source, generation = tonumber(r[1]), tonumber(r[2])
if not source or not generation then return redis.error_reply('UNPREPARED the partition has no record') end
-- A connection leads to one process, but while a request is on its way that may become a replica, and a master with other data (R14).
local history = format('master_replid:%s\r', string.match(r[5] or '', '/(%x+)$') or '?')
if not string.find(call('INFO', 'replication'), history, 1, true) then
  return redis.error_reply('UNPREPARED the record was made in another history of the server')
end

-- ORDER: the number before all else, so that a late copy learns what became of its call.
local number, last_call = tonumber(ARGV[7]), tonumber(string.match(r[6] or '0', '^%d+'))
if not number or not last_call then return redis.error_reply('CORRUPT the number of a call') end
if number == last_call then
  local text = string.match(r[6], '^%d+ (.*)$')
  if text ~= 'void' then return text end
end
if number <= last_call then return redis.error_reply('STALE the store has ended the call, or made a later one since') end

-- Keeps the answer for a copy that comes later, also where nothing was changed: the copy could still change something then.
local function answer()
  local text = table.concat(replies, '\n')
  call('HSET', KEYS[2], ARGV[6], table.concat({ ARGV[7], ' ', text }))
  return text
end
local function answer_all(line)
  for w = 1, writes do replies[w] = line end
end

if ARGV[4] ~= r[3] and ARGV[4] ~= '' then
  -- Its number, and what was written after it, may have been forgotten since.
  answer_all(format('moved %s %s', r[3], r[2]))
  return answer()
end
if now >= tonumber(ARGV[2]) or tonumber(ARGV[3]) - now > tonumber(ARGV[1]) then
  answer_all('alone')
  return answer()
end

-- The marks that the owners have by now, and their sessions.
local held = call('HMGET', KEYS[1], unpack(ARGV, 8, 7 + writes))
local sessions = call('EXISTS', KEYS[7]) == 1 and call('HMGET', KEYS[7], unpack(ARGV, 8, 7 + writes))

-- Whether another map than the dirty map names an owner. Mostly these maps are not there.
local others
local function is_named(name)
  if not others then
    others = {}
    for map = 3, 6 do
      if call('EXISTS', KEYS[map]) == 1 then others[#others + 1] = KEYS[map] end
    end
  end
  for _, map in ipairs(others) do
    if call('HGET', map, name) then return true end
  end
  return false
end

-- What the owner of a write is: its last version, generation and flag as they stand behind the version, whether it may hold tombstones,
-- why it can't be written here, and whether it has a hash.
local part_of, all_of, sub = format(' %sp', r[2]), format(' %sa', r[2]), string.sub
local function look(w)
  local h = call('HMGET', KEYS[6 + 2 * w], ':v', ':t')
  if not h[1] then
    local marker = call('GET', KEYS[7 + 2 * w])
    local lost = (held[w] or is_named(ARGV[7 + w])) and 'alone' or nil
    return tonumber(marker) or 0, marker == format('-%s', r[2]) and all_of or part_of, false, lost, false
  end
  -- Cut in two, which takes half the time of a pattern.
  local text, flags = sub(h[1], 1, -1 - #part_of), sub(h[1], -#part_of)
  local hash_generation = generation
  if flags ~= part_of and flags ~= all_of then
    text, flags = string.match(h[1], '^(%d+)( %d+[ap])$')
    hash_generation = tonumber(string.match(flags or '', '%d+'))
  end
  local version = tonumber(text)
  local refused
  if not version or not hash_generation then
    refused = 'failed CORRUPT the reserved fields of the owner hash'
  elseif hash_generation < generation then
    refused = 'alone'
  end
  return version, flags, h[2], refused, true
end

-- A mark's fields, as one text: those that it names, and these, which are every second item of a list.
local function listed(names, list, from, to)
  if names == '' and from == to then return list[from] end
  local seen
  if to - from > 16 then
    seen = {}
    for name in string.gmatch(names, '[^\31]+') do seen[name] = true end
  end
  local more = {}
  local around = seen or table.concat({ '\31', names, '\31' })
  for i = from, to, 2 do
    local name = list[i]
    if seen then
      if not seen[name] then more[#more + 1] = name end
    elseif names ~= name and not string.find(around, table.concat({ '\31', name, '\31' }), 1, true) then
      more[#more + 1] = name
    end
  end
  if not more[1] then return names end
  local text = table.concat(more, '\31')
  return names == '' and text or table.concat({ names, '\31', text })
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

-- The writes that are applied: seven values each. What there is once a call and not once a write is made only if it is needed, since
-- in a call of one write tables are most of the cost.
local plan, marks, markers = {}, {}, {}
local owners = not apart and {}
local applied, at, last_given = 0, 8 + writes, nil
for w = 1, writes do
  local hash, from = KEYS[6 + 2 * w], at + 1
  local fields, wanted, adds, fence = tonumber(ARGV[at]), nil, false, nil
  if not fields then
    local count, kind, rest = string.match(ARGV[at] or '', '^(%d+)([=+@])(.*)$')
    fields, adds = tonumber(count), kind == '+'
    if kind == '=' then wanted = tonumber(rest) end
    if kind == '@' then fence = table.concat({ rest, ' ', r[3], ' ' }) end
    if not adds and not wanted and not fence then fields = nil end
  end
  if not fields or fields < 1 or fields > 2000 or at + 2 * fields > #ARGV then
    return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
  end
  at = at + 1 + 2 * fields
  local last, flags, tombstones, refused, is_there, owner
  if apart then
    last, flags, tombstones, refused, is_there = look(w)
  else
    owner = owners[hash]
    if not owner then
      owner = {}
      owner.last, owner.flags, owner.tombstones, owner.refused, owner.is_there = look(w)
      owner.fields, owner.named, owner.was_marked, owners[hash] = {}, sub(held[w] or '', 15), held[w], owner
    end
    last, flags, tombstones, refused, is_there = owner.last, owner.flags, owner.tombstones, owner.refused, owner.is_there
  end
  local session = sessions and sessions[w]
  if fence and not (session and sub(session, 1, #fence) == fence) or session and not fence then refused = refused or 'alone' end
  local sums = adds and is_there and not refused and added_up(hash, from, at - 1, owner and owner.fields, flags == all_of)
  local version = math.max(source + 2, now, (last or 0) + 2)
  if refused then
    replies[w] = refused
  elseif version > 9007199254740991 then
    replies[w] = 'failed CORRUPT the version source has reached 2^53'
  elseif wanted and not is_there or adds and not sums then
    replies[w] = 'alone'
  elseif wanted and wanted ~= last then
    replies[w] = table.concat({ 'version ', format(whole, last) })
  else
    local v = format(whole, version)
    local reply = v
    if sums then
      local parts = { v, format(whole, fields) }
      for i = 2, #sums, 2 do parts[#parts + 1] = sums[i] end
      reply = table.concat(parts, ' ')
    end
    if owner then
      owner.last = version
      local list, first = sums or ARGV, sums and 1 or from
      for i = first, first + 2 * fields - 2, 2 do owner.fields[list[i]] = list[i + 1] end
    end
    local p, even = 7 * applied, 2 * applied
    local named = owner and owner.named or sub(held[w] or '', 15)
    named = listed(named, ARGV, from, at - 2)
    plan[p + 1], plan[p + 2], plan[p + 3], plan[p + 4] = w, sums or from, fields, v
    plan[p + 5], plan[p + 6] = flags, tombstones or false
    -- Who has a mark has no time to live.
    plan[p + 7] = is_there and not (owner and owner.was_marked or not owner and held[w])
    -- As `mark_text` in prelude.lua.
    marks[even + 1] = ARGV[7 + w]
    marks[even + 2] = wide and format('%014x%s', version, named)
      or format('%06x%08x%s', math.floor(version / 4294967296), version % 4294967296, named)
    if not is_there then markers[#markers + 1], markers[#markers + 2] = KEYS[7 + 2 * w], v end
    if owner then owner.named, owner.was_marked, owner.is_there = named, true, true end
    applied, source, replies[w], last_given = applied + 1, version, reply, v
  end
end
if at ~= #ARGV + 1 then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
if applied == 0 then return answer() end

-- ORDER: commands that are called here alone go while nothing is written. A user who lacks the right for one of them changes nothing
-- then, and data are followed only by commands that have passed before.
if not r[4] then call('HDEL', KEYS[1], ':') end

-- ORDER: marks, then record and markers, then data, then the answer: whatever fails between, no data is without a mark.
call('HSET', KEYS[1], unpack(marks))
if r[4] then
  call('HSET', KEYS[2], 'src', last_given)
else
  call('HSET', KEYS[2], 'src', last_given, 'first', format('%.0f', now))
  -- A new map. Small ones are lists, in which some hundred marks are searched one by one; a long value makes it a table.
  call('HSET', KEYS[1], ':', string.rep(':', 65))
  call('HDEL', KEYS[1], ':')
end
if markers[1] then call('MSET', unpack(markers)) end
for n = 1, applied do
  local p = 7 * (n - 1)
  local hash, list, from, v = KEYS[6 + 2 * plan[p + 1]], ARGV, plan[p + 2], plan[p + 4]
  local to, flags, tombstones = 2 * plan[p + 3] - 1, plan[p + 5], plan[p + 6]
  if type(from) == 'table' then list, from = from, 1 end
  to = from + to
  if tombstones then
    local names = {}
    for i = from, to, 2 do names[#names + 1] = table.concat({ ':d:', list[i] }) end
    call('HDEL', hash, unpack(names))
  end
  if plan[p + 7] then call('PERSIST', hash) end
  local head = v .. flags
  call('HSET', hash, ':v', head, unpack(list, from, to))
end

-- The answer comes last: a number without its data would have the call taken for carried out.
return answer()
