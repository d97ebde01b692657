#!lua flags=allow-oom
-- Reads owners with all fields that their marks name, in one step, and the partners that their marks
-- lead to.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] links of the dirty map
-- KEYS[8] links of the snapshot
-- KEYS[9..] hash of each owner. Of partners that the call does not name, it reads hashes that are
--   there. They have keys of the same form and slot.
-- ARGV[1] the most rows, and the most owners
-- ARGV[2] the most bytes of values
-- ARGV[3] 1 if partners are read, too, or 0
-- ARGV[4..] of each owner its name in the maps, and its wanted fields as a mark names them: joined by
--   U+001F. U+001F alone wants all fields.
-- Reply: {"open", names of partners…} if the hash of a partner is not here and its key is not named.
--   It can be on the other server of a slot that moves, so the caller names it. {"large"} if there
--   are more owners, rows or bytes. Or {"closed", epoch, landed, how far the values reach, generation,
--   identity of the database (false if it is not watched), 1 if the error map has entries, the place
--   of the gap as in end_collect.lua, the number of the snapshot, the stamp of the epoch (false if an
--   older program adopted it)}, then of each owner its name, its values, the fields and partners that were wanted or that a mark names, as a mark names them, how
--   long it has been rejected in microseconds or "", and its mark in the snapshot or "". The named
--   owners come first. If all fields were wanted, the values are the whole hash, names and values.
--   Otherwise they are those of `:v`, `:b`, `:n`, and of each field its value and its tombstone, in
--   order. They are empty if the data is of another program.
-- Invariant: marks of all five maps count (R16, G1). As in end_collect.lua, the call fails under another
--   incarnation (R14).
expect(#KEYS >= 9 and #ARGV == 3 + 2 * (#KEYS - 8))
local most, bytes_left = number(ARGV[1], 'the number of rows'), number(ARGV[2], 'the number of bytes')
local rows_left, follow = most, ARGV[3] == '1'
local r = present(KEYS[PART])
-- Of each owner its name, hash, and what the call and its marks name. A busy landing reads thousands,
-- so an owner has no tables of its own.
local owners, hashes, texts, since, saved = {}, {}, {}, {}, {}
local whole, is_known = {}, {}
local function add(name, hash, text)
  local i = #owners + 1
  owners[i], hashes[i], texts[i], is_known[name] = name, hash, text, true
end
for i = 9, #KEYS do
  local at = 2 * i - 14
  whole[i - 8] = ARGV[at + 1] == '\31'
  add(ARGV[at], KEYS[i], whole[i - 8] and '' or ARGV[at + 1])
end
local named = #owners

-- Adds a partner. Transactions since `links.lua` can have linked more owners.
local prefix = string.sub(KEYS[9], 1, -1 - #ARGV[4])
local function add_partner(name)
  if follow and not is_known[name] then add(name, table.concat({ prefix, name }), '') end
end
-- Adds the partners of an owner that its mark does not name itself. A set of links is read up to so
-- many that there are too many owners for certain.
local further, enough = {}, digits(most + 1)
local function add_further(i, links)
  local partners = further_partners(links, owners[i], enough)
  for _, partner in ipairs(partners) do add_partner(partner) end
  further[i] = table.concat({ further[i] or '', '\31\30', table.concat(partners, '\31\30') })
end
-- Takes the names of a mark to those of the owner. Most owners of a landing have equal marks, so each
-- pair of texts is joined once. Its partners are known from then on.
local joined_texts = {}
local function take(i, text, links)
  local own = texts[i]
  if text == own then return end
  local of_own = joined_texts[own]
  if not of_own then
    of_own = {}
    joined_texts[own] = of_own
  end
  local both = of_own[text]
  if not both then
    local names, has_further = {}, false
    for name in string.gmatch(text, '[^\31]+') do
      if name == '\30' then
        has_further = true
      else
        names[#names + 1] = name
        if is_partner(name) then add_partner(string.sub(name, 2)) end
      end
    end
    both = string.sub(marked_with(table.concat({ mark_text(0), own }), mark_text(0), names), 15)
    if has_further and links then add_further(i, links) end
    if not has_further then of_own[text] = both end
  end
  texts[i] = both
end
local function take_errors(i, text)
  local lines, order = error_lines(text)
  take(i, table.concat(order, '\31'))
  for _, name in ipairs(order) do
    -- A mark whose value vanished from Redis was not rejected by the database.
    local first, reason = string.match(lines[name], '^%d+ %d+ (%d+) %d+ %d+ %d+ (.*)$')
    if first and string.sub(reason, 1, 8) ~= 'vanished' and (not since[i] or tonumber(first) < tonumber(since[i])) then since[i] = first end
  end
end
local maps, links = {}, { [DIRTY] = KEYS[7], [SNAPSHOT] = KEYS[8] }
for map = DIRTY, EXPIRING do
  if call('EXISTS', KEYS[map]) == 1 then maps[#maps + 1] = map end
end
-- Reads the marks of the owners from this one on, which can add others.
local function read_marks(from)
  local names, last = {}, #owners
  for i = from, last do names[i - from + 1] = owners[i] end
  for _, map in ipairs(maps) do
    local found = hmget(KEYS[map], names)
    for i = 1, last - from + 1 do
      local text = found[i]
      if text and map == ERRORS then
        take_errors(from + i - 1, text)
      elseif text then
        if map == SNAPSHOT then saved[from + i - 1] = text end
        take(from + i - 1, string.sub(text, 15), links[map])
      end
    end
  end
  return last + 1
end
local from = 1
while from <= #owners do
  if #owners > most then return { 'large' } end
  from = read_marks(from)
end

-- The names of the values that are read for such a text.
local wanted_by_text = {}
local function wanted_of(text)
  local wanted = wanted_by_text[text]
  if wanted then return wanted end
  wanted = { ':v', ':b', ':n' }
  for name in string.gmatch(text, '[^\31]+') do
    if not is_partner(name) then wanted[#wanted + 1], wanted[#wanted + 2] = name, table.concat({ ':d:', name }) end
  end
  wanted_by_text[text] = wanted
  return wanted
end
-- Nil if the hash of a partner is not here. The data of another program is no hash. Its owner has no
-- values, and its marks are rejected.
local function values_of(i)
  local wanted = whole[i] and {} or wanted_of(texts[i])
  local values = redis.pcall(whole[i] and 'HGETALL' or 'HMGET', hashes[i], unpack(wanted, 1, math.min(#wanted, CHUNK)))
  if values.err then
    if string.sub(values.err, 1, 9) == 'WRONGTYPE' then return {} end
    if i <= named then error(values) end
    return nil
  end
  if i > named and not values[1] then return nil end
  return #wanted <= CHUNK and values or hmget(hashes[i], wanted)
end
-- Counts what an owner adds to the transaction. Of the reserved names, only those of tombstones are
-- rows.
local function count_pairs(pairs)
  for at = 2, #pairs, 2 do
    local name = pairs[at - 1]
    if string.byte(name) ~= 58 or string.sub(name, 1, 3) == ':d:' then rows_left = rows_left - 1 end
    bytes_left = bytes_left - #pairs[at]
  end
end
local function count_values(values)
  for at = 1, #values do
    local value = values[at]
    if value then
      if at > 3 then rows_left = rows_left - 1 end
      bytes_left = bytes_left - #value
    end
  end
end
local source, now, missing = digits(r.source), time(), {}
local reply = { 'closed', r.epoch, digits(r.landed), source, digits(r.generation), call('HGET', KEYS[PART], 'db'), call('EXISTS', KEYS[ERRORS]), call('HGET', KEYS[PART], 'older'), call('HGET', KEYS[PART], 'snap') or '0', call('HGET', KEYS[PART], 'stamp') }
local last = #reply
for i, owner in ipairs(owners) do
  local values = values_of(i)
  if not values then
    missing[#missing + 1] = owner
  elseif whole[i] then
    count_pairs(values)
  else
    count_values(values)
  end
  if rows_left < 0 or bytes_left < 0 then return { 'large' } end
  reply[last + 1], reply[last + 2] = owner, values or ''
  reply[last + 3] = further[i] and table.concat({ texts[i], further[i] }) or texts[i]
  reply[last + 4], reply[last + 5] = since[i] and digits(math.max(now - tonumber(since[i]), 0)) or '', saved[i] or ''
  last = last + 5
end
if #missing > 0 then return { 'open', unpack(missing, 1, math.min(#missing, CHUNK)) } end
call('HSET', KEYS[PART], 'collected', source)
return reply
