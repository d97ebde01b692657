#!lua
-- Sets fields of owners of one partition, or adds to them: the hot path.
-- It does without the shared functions, since making them costs time. All writes share one call to
-- the server, whether there is one write or a hundred. Other writes go to transact.lua or mutate.lua.
-- KEYS[1] dirty map
-- KEYS[2] partition record
-- KEYS[3] snapshot
-- KEYS[4] error map
-- KEYS[5] marks on probation
-- KEYS[6] marks whose probation ends
-- KEYS[7] sessions
-- KEYS[8] notes
-- KEYS[9..] owner hash and exist marker of each write
-- ARGV[1] how far ahead a deadline may lie, microseconds
-- ARGV[2] the earliest deadline of the writes, microseconds since 1970
-- ARGV[3] the latest
-- ARGV[4] epoch that the writes were sent in. Empty if any epoch will do.
-- ARGV[5] 1 if each write is of another owner, else 0
-- ARGV[6] field of the record for the caller's last call
-- ARGV[7] number of this call
-- ARGV[8] time to live of a new hash's marker, milliseconds. 0 if it stays for ever.
-- ARGV[9..] name in the maps of each write's owner. Then of each write its kind, its fields as one
--   text if there are several, and its pairs. The kind is "N" to set N fields, "N=VERSION" to set
--   them if the owner has that version, "N@VERSION TOKEN" if the session of that fence holds the
--   owner, or "N+" to add to N fields. With a "!" at its end, the body of a note follows the pairs.
--   The text has the fields as a mark names them, with U+001F
--   between them. A pair is a field and a value, or a field and the number to add.
-- Reply: a line for each write, as it is kept under the number of the call. It is "version", or
--   "version changed counters…". Behind it " @epoch-number" is the place of the note. In another
--   epoch the line is "moved epoch generation". If the write wanted another version it is "version
--   current". For an error it is "failed error". It is "alone" if mutate.lua must do the write, for
--   one of these reasons. The owner's session and the write's fence differ. A deadline of the call
--   has passed or lies too far ahead. A value must be loaded first, or the hash is suspect. A
--   counter or its step is not an integer of at most 15 characters. The owner's hash is gone
--   although a map names the owner.
-- Invariant: data, version, exist marker and mark change together or not at all (R1). A marked hash
--   has no time to live (R2). A write that makes a hash gives the marker another number (R7). A
--   call is carried out at most once, and never after a later one (R11).
local call, format, tonumber, unpack, ARGV, KEYS = redis.call, string.format, tonumber, unpack, ARGV, KEYS
local writes, apart = (#KEYS - 8) / 2, ARGV[5] == '1'
if writes < 1 or #ARGV < 8 + 4 * writes then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local r = call('HMGET', KEYS[2], 'src', 'gen', 'epoch', 'first', 'inc', ARGV[6], 'note')
local source, generation = tonumber(r[1]), tonumber(r[2])
if not source or not generation then return redis.error_reply('UNPREPARED the partition has no record') end
-- A connection leads to one process. While a request is on its way, the process can become a
-- replica, and then a master with other data (R14).
local history = format('master_replid:%s\r', string.match(r[5] or '', '/(%x+)$') or '?')
if not string.find(call('INFO', 'replication'), history, 1, true) then
  return redis.error_reply('UNPREPARED the record was made in another history of the server')
end

-- ORDER: the number before all else. So a late copy learns the outcome of its call.
local number, last_call = tonumber(ARGV[7]), tonumber(string.match(r[6] or '0', '^%d+'))
if not number or not last_call then return redis.error_reply('CORRUPT the number of a call') end
if number == last_call then
  local text = string.match(r[6], '^%d+ (.*)$')
  if text ~= 'void' then return text end
end
if number <= last_call then return redis.error_reply('STALE the store has ended the call, or made a later one since') end

-- Keeps the answer for a late copy, even if nothing was changed. Otherwise the copy could still
-- change something.
local function answer(text)
  call('HSET', KEYS[2], ARGV[6], table.concat({ ARGV[7], ' ', text }))
  return text
end
local function answer_all(line) return answer(format('%s%s', string.rep(format('%s\n', line), writes - 1), line)) end

if ARGV[4] ~= r[3] and ARGV[4] ~= '' then
  -- The hot tier may have forgotten the number since, and later writes.
  return answer_all(format('moved %s %s', r[3], r[2]))
end
if now >= tonumber(ARGV[2]) or tonumber(ARGV[3]) - now > tonumber(ARGV[1]) then
  return answer_all('alone')
end

-- The present marks of the owners, and their sessions.
local held = call('HMGET', KEYS[1], unpack(ARGV, 9, 8 + writes))
local sessions = call('EXISTS', KEYS[7]) == 1 and call('HMGET', KEYS[7], unpack(ARGV, 9, 8 + writes))

-- Whether a map other than the dirty map names an owner. Usually these maps do not exist.
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

-- The owner of a write: its last version, then generation and flag as they stand behind the
-- version. Then whether it may hold tombstones, why it can't be written here, and whether it has a
-- hash.
local part_of, all_of, absent, sub = format(' %sp', r[2]), format(' %sa', r[2]), format('-%s ', r[2]), string.sub
local function look(w)
  local h = call('HMGET', KEYS[7 + 2 * w], ':v', ':t')
  if not h[1] then
    local marker = call('GET', KEYS[8 + 2 * w])
    local lost = (held[w] or is_named(ARGV[8 + w])) and 'alone' or nil
    return tonumber(marker) or 0, marker and sub(marker, 1, #absent) == absent and all_of or part_of, false, lost, false
  end
  -- The text is cut in two, which takes half the time of a pattern.
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

-- A mark's fields as one text: those that it names, and every second item of ARGV in a range.
local function listed(names, from, to)
  local seen
  if to - from > 16 then
    seen = {}
    for name in string.gmatch(names, '[^\31]+') do seen[name] = true end
  end
  local more = {}
  local around = seen or table.concat({ '\31', names, '\31' })
  for i = from, to, 2 do
    local name = ARGV[i]
    if seen then
      if not seen[name] then more[#more + 1] = name end
    elseif names ~= name and not string.find(around, table.concat({ '\31', name, '\31' }), 1, true) then
      more[#more + 1] = name
    end
  end
  if not more[1] then return names end
  return table.concat({ names, '\31', table.concat(more, '\31') })
end

-- A Lua with 64-bit integers prints them in a tenth of the time.
local whole = format('%d', 9007199254740991) == '9007199254740991' and '%d' or '%.0f'
local wide = whole ~= '%.0f'

-- The fields of a write that adds, and their sums. Nil if mutate.lua must do the write. `known` has
-- the fields as earlier writes of the call leave them.
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

-- For each applied write the field ':v', and where its fields begin and end in ARGV. Data that few
-- writes have is kept apart, since tables are most of the cost of a call.
local heads, starts, ends, marks = {}, {}, {}, {}
local summed, buried, lasting, markers, unlike -- sums, tombstones, to persist, markers, other lines
local notes, places, last_note -- the entry of the stream, and the place of each write's note
local owners = not apart and {}
-- Writes of different owners have one version, unless an owner has a greater one. So most texts are
-- made only once.
local base = math.max(source + 2, now)
local base_text, base_mark = format(whole, base), wide and format('%014x', base)
local base_all, base_part = base_text .. all_of, base_text .. part_of
local free, last_given = base, nil
local at = 9 + writes
for w = 1, writes do
  local hash, spec, names = KEYS[7 + 2 * w], ARGV[at], ARGV[at + 1]
  local fields, wanted, adds, fence, noted = tonumber(spec), nil, false, nil, 0
  if not fields and sub(spec or '', -1) == '!' then
    spec, noted = sub(spec, 1, -2), 1
    fields = tonumber(spec)
  end
  if not fields then
    local count, kind, rest = string.match(spec or '', '^(%d+)([=+@])(.*)$')
    fields, adds = tonumber(count), kind == '+'
    if kind == '=' then wanted = tonumber(rest) end
    if kind == '@' then fence = table.concat({ rest, ' ', r[3], ' ' }) end
    if not adds and not wanted and not fence then fields = nil end
  end
  local from = at + (fields == 1 and 1 or 2)
  local to = from + 2 * (fields or 0) - 1
  if not fields or fields < 1 or fields > 2000 or to + noted > #ARGV then
    return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
  end
  at = to + noted + 1
  local owner = owners and owners[hash]
  local last, flags, tombstones, refused, is_there
  if owner then
    last, flags, tombstones, refused, is_there = owner.last, owner.flags, owner.tombstones, owner.refused, owner.is_there
  else
    last, flags, tombstones, refused, is_there = look(w)
    if owners then
      owner = { flags = flags, tombstones = tombstones, refused = refused, is_there = is_there, last = last, mark = held[w], fields = {} }
      owners[hash] = owner
    end
  end
  local session = sessions and sessions[w]
  if fence and not (session and sub(session, 1, #fence) == fence) or session and not fence then refused = refused or 'alone' end
  local sums = adds and is_there and not refused and added_up(hash, from, to, owner and owner.fields, flags == all_of)
  local version, line = free, nil
  if last and last + 2 > version then version = last + 2 end
  if refused then
    line = refused
  elseif version > 9007199254740991 then
    line = 'failed CORRUPT the version source has reached 2^53'
  elseif wanted and not is_there or adds and not sums then
    line = 'alone'
  elseif wanted and wanted ~= last then
    line = table.concat({ 'version ', format(whole, last) })
  else
    local v, counters = version == base and base_text or format(whole, version), ''
    if sums then
      local parts = { v, format(whole, fields) }
      for i = 2, #sums, 2 do parts[#parts + 1] = sums[i] end
      line, summed, counters = table.concat(parts, ' '), summed or {}, table.concat(parts, ' ', 3)
      summed[w] = sums
    elseif version ~= base then
      line = v
    end
    if noted == 1 then
      if not notes then
        notes, places, last_note = {}, {}, tonumber(string.match(r[7] or '-0', '-(%d+)$'))
      end
      last_note = last_note + 1
      local place = table.concat({ r[3], '-', format(whole, last_note) })
      -- A hash that is not there has a version only if it is known to have no rows.
      local known = is_there or flags == all_of
      notes[#notes + 1], notes[#notes + 2] = 'n', table.concat({
        v, ' ', known and format(whole, math.max(last, 0)) or '-', ' ', counters, '\31', ARGV[8 + w], '\31', ARGV[at - 1] })
      places[w] = place
      line = table.concat({ line or v, ' @', place })
    end
    -- A version takes 14 hexadecimal digits, as `mark_text` in prelude.lua makes them.
    local mark = held[w]
    if owner then mark = owner.mark end
    local named = mark and sub(mark, 15) or ''
    if named ~= names then
      named = named == '' and names or listed(named, from, to - 1)
      -- A long mark takes no further fields: `expect_room` in mutation.lua. Nothing was written yet.
      if mark and #mark > 65536 and #named > #mark - 14 then return answer_all('alone') end
    end
    local digits14 = version == base and base_mark or wide and format('%014x', version)
      or format('%06x%08x', math.floor(version / 4294967296), version % 4294967296)
    local text = digits14 .. named
    marks[#marks + 1], marks[#marks + 2] = ARGV[8 + w], text
    starts[w], ends[w] = from, to
    heads[w] = v == base_text and (flags == all_of and base_all or flags == part_of and base_part) or v .. flags
    if tombstones then
      buried = buried or {}
      buried[w] = true
    end
    if not is_there then
      markers = markers or {}
      markers[#markers + 1], markers[#markers + 2] = KEYS[8 + 2 * w], v
    elseif not mark then
      -- A marked hash has no time to live already.
      lasting = lasting or {}
      lasting[w] = true
    end
    if owner then
      local list, first = sums or ARGV, sums and 1 or from
      for i = first, first + 2 * fields - 2, 2 do owner.fields[list[i]] = list[i + 1] end
      owner.last, owner.mark, owner.is_there, free = version, text, true, version + 2
    end
    if not last_given or last_given < version then last_given = version end
  end
  if line then
    unlike = unlike or {}
    unlike[w] = line
  end
end
if at ~= #ARGV + 1 then
  return redis.error_reply('BADCALL the script was called with the wrong number of KEYS or ARGV')
end
if unlike then
  for w = 1, writes do unlike[w] = unlike[w] or base_text end
end
if not last_given then return answer(table.concat(unlike, '\n')) end

-- ORDER: a command that is called nowhere before runs while nothing is written. If the user lacks
-- the right for it, nothing has changed. Data is followed only by commands that have run before.
if not r[4] then call('HDEL', KEYS[1], ':') end

-- ORDER: the stream first, since it alone can refuse its entry. Numbers of an entry that was refused
-- are given again. The notes of a call are one entry, at the place of the last of them.
if notes then
  local place = table.concat({ r[3], '-', format(whole, last_note) })
  call('HSET', KEYS[2], 'note', place)
  local reply = redis.pcall('XADD', KEYS[8], place, unpack(notes))
  if type(reply) == 'table' and reply.err then
    call('HSET', KEYS[2], 'note', r[7] or '0-0')
    if string.find(reply.err, 'smaller', 1, true) then
      return redis.error_reply('CORRUPT the stream of notes has an entry that no write made')
    end
    return reply
  end
end

-- ORDER: marks, then record and markers, then data, then the answer. So no failure in between
-- leaves data without a mark.
call('HSET', KEYS[1], unpack(marks))
if r[4] then
  call('HSET', KEYS[2], 'src', format(whole, last_given))
else
  call('HSET', KEYS[2], 'src', format(whole, last_given), 'first', format('%.0f', now))
  -- A new map. Redis keeps a small map as a list, and searches some hundred marks one by one. A
  -- long value makes the map a table.
  call('HSET', KEYS[1], ':', string.rep(':', 65))
  call('HDEL', KEYS[1], ':')
end
for i = 1, markers and #markers or 0, 2 do
  if ARGV[8] == '0' then call('SET', markers[i], markers[i + 1]) else call('SET', markers[i], markers[i + 1], 'PX', ARGV[8]) end
end
for w = 1, writes do
  local hash, head, from, to = KEYS[7 + 2 * w], heads[w], starts[w], ends[w]
  if head then
    local sums = summed and summed[w]
    if buried and buried[w] then
      local names = {}
      for i = from, to, 2 do names[#names + 1] = table.concat({ ':d:', ARGV[i] }) end
      call('HDEL', hash, unpack(names))
    end
    if lasting and lasting[w] then call('PERSIST', hash) end
    local place = places and places[w]
    local list, first, last = sums or ARGV, sums and 1 or from, sums and #sums or to
    if place then
      call('HSET', hash, ':v', head, ':n', place, unpack(list, first, last))
    else
      call('HSET', hash, ':v', head, unpack(list, first, last))
    end
  end
end

-- The answer comes last. A number without its data would make the call look carried out.
return unlike and answer(table.concat(unlike, '\n')) or answer_all(base_text)
