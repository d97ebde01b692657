#!lua
-- Changes fields of one owner under a condition, with the load that it builds on, if it needs one.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- KEYS[4] operation ids of even windows
-- KEYS[5] operation ids of odd windows
-- KEYS[6] dirty map
-- KEYS[7] snapshot
-- KEYS[8] error map
-- KEYS[9] marks on probation
-- KEYS[10] marks whose probation ends
-- KEYS[11] sessions
-- KEYS[12] lapsed sessions
-- KEYS[13] requests for held owners
-- KEYS[14] beats
-- ARGV[1] operation id
-- ARGV[2] deadline, microseconds since 1970
-- ARGV[3] epoch that the write was sent in. Empty if any epoch will do.
-- ARGV[4] window of operation ids, microseconds
-- ARGV[5] the owner's name in the maps
-- ARGV[6] condition: "none", "absent" or the version wanted
-- ARGV[7] version and token of the session that writes. Empty for a plain write.
-- ARGV[8] 1 if the session ends with the write, which then only sets, else 0
-- ARGV[9] number of changes
-- ARGV[10..] field, operation (set, incr, remove, restore, purge) and argument of each change,
--   sorted by field. Then, with a load: observed marker, whether there was a hash (0 or 1), epoch,
--   complete (0 or 1), number of rows. Then of each row field, stored name, stored value and
--   version.
-- Reply: "version changed counters…" as remembered under the id. Or {"expired"}, {"moved", epoch,
--   generation}, {"load", marker, whether there is a hash (0 or 1), epoch}, {"version", current},
--   {"exists", field}, {"integer", field}, {"overflow", field}, {"unlanded"}. Also {"held",
--   session} to a plain write. Also {"fenced", session or ""}, {"grace", epoch}, {"unconfirmed",
--   epoch} to a write of a session.
-- Invariant: as in update.lua. No field that the hash does not hold is guessed (R15).
expect(#KEYS == 14 and #ARGV >= 12)
local now, deadline, window = time(), number(ARGV[2], 'the deadline'), number(ARGV[4], 'the window')
local r = record(KEYS[3])
-- A connection leads to one process. While a request is on its way, the process can become a
-- replica, and then a master with other data (R14).
if string.match(r.incarnation, '/(%x+)$') ~= history() then
  refuse('UNPREPARED the record was made in another history of the server')
end

local round = math.floor(now / window)
local ids = KEYS[4 + round % 2]
local seen = call('HMGET', ids, ':w', ARGV[1], ':j')
local before = seen[2] or call('HGET', KEYS[5 - round % 2], ARGV[1])
if before then return before end
-- ORDER: ids before the deadline. So a late repeat of a write that was applied in time learns its
-- outcome.
if now >= deadline then return { 'expired' } end
local seen_round = seen[1] and number(seen[1], 'the window of ids')
if deadline - now > window then refuse('DEADLINE the deadline lies further ahead than ids are remembered') end
-- The hot tier may have forgotten the id since, and later writes.
if ARGV[3] ~= '' and ARGV[3] ~= r.epoch then return { 'moved', r.epoch, digits(r.generation) } end

-- Whether the caller may write (S1). A session that was not opened or confirmed in this epoch may
-- write once the grace has ended, on condition of the version that it knows (S7).
local session = session_of(call('HGET', KEYS[11], ARGV[5]))
if ARGV[7] == '' then
  if session then return { 'held', session.text } end
else
  expect_hashes(11, 14)
  session = session or session_of(call('HGET', KEYS[12], ARGV[5]))
  if not session then return { 'fenced', '' } end
  if table.concat({ session.version, ' ', session.token }) ~= ARGV[7] then return { 'fenced', session.text } end
  if session.epoch ~= r.epoch then
    if not is_graced(KEYS[3], r) then return { 'grace', r.epoch } end
    if ARGV[6] == 'none' or ARGV[6] == 'absent' then return { 'unconfirmed', r.epoch } end
  end
end
local function confirm()
  if ARGV[7] == '' then return end
  if ARGV[8] == '1' then
    call('HDEL', KEYS[11], ARGV[5])
    call('HDEL', KEYS[12], ARGV[5])
    call('HDEL', KEYS[13], ARGV[5])
  elseif session.epoch ~= r.epoch then
    local text = session_text(session.version, session.token, r.epoch, session.holder, session.asked, session.name)
    call('HSET', KEYS[11], ARGV[5], text)
    call('HDEL', KEYS[12], ARGV[5])
    expect_beats(KEYS[14], session.holder)
  end
end

-- Keeps the answer for repeats and late copies, even if there was nothing to change. Otherwise a
-- delayed copy could be applied after later writes.
local window_fields = {}
-- Called before anything else is written.
local function make_room()
  local leaps = tonumber(seen[3]) or 0
  -- Ids of an earlier window are old. They stay if the clock may have leapt, since then they may be
  -- recent (H11).
  local between = seen_round == round - 2 and tonumber(call('HGET', KEYS[5 - round % 2], ':w') or '')
  local is_new = seen_round and seen_round ~= round
  if is_new and between ~= round - 1 and (leaps < 3 or leaps < 100 and call('HLEN', ids) < 10000) then
    window_fields = { ':w', digits(round), ':j', digits(leaps + 1) }
  elseif seen_round ~= round then
    if seen_round then call('UNLINK', ids) end
    window_fields = { ':w', digits(round) }
  end
end
local function remember(reply)
  window_fields[#window_fields + 1], window_fields[#window_fields + 2] = ARGV[1], reply
  call('HSET', ids, unpack(window_fields))
  return reply
end

local count = number(ARGV[9], 'the number of changes')
local load_at = 10 + 3 * count
expect(count > 0 and #ARGV >= load_at - 1)
local hash = header(KEYS[1])
local mark, version = marker(KEYS[2], r)
local needs_load = { 'load', mark, hash and '1' or '0', r.epoch }
local load = #ARGV >= load_at and load_of(load_at) or nil
if load and not proved(load, hash, mark, r) then load = nil end
if hash then version = hash.version end

-- The owner as the changes find it: the hash, and the rows that the load adds.
local out = changes()
local base, generation, complete = version, r.generation, mark == '-'
if load then
  overlay(load, hash, KEYS[1], r, out)
  base, generation, complete = merged(load, hash, version, r)
elseif hash then
  generation, complete = hash.generation, hash.complete
end
if generation < r.generation then return needs_load end -- a suspect hash needs all of its rows
local names, blind = {}, ARGV[6] ~= 'absent'
for i = 1, count do
  local field, op = ARGV[7 + 3 * i], ARGV[8 + 3 * i]
  names[2 * i - 1], names[2 * i] = field, tombstone(field)
  if op ~= 'set' then
    blind = false
    expect(ARGV[8] ~= '1')
  end
end
local cells = hash and hmget(KEYS[1], names) or {}
local known = load ~= nil or complete
for i, name in ipairs(names) do
  if out.puts[name] then
    cells[i] = out.puts[name]
  elseif out.drops[name] then
    cells[i] = false
  end
end
-- A marker alone does not tell the version: in a hot tier that came back older it lies behind
-- landed data (R14).
if not known and (ARGV[6] ~= 'none' and ARGV[6] ~= 'absent') and not hash then return needs_load end
if ARGV[6] ~= 'none' and ARGV[6] ~= 'absent' and number(ARGV[6], 'the wanted version') ~= base then
  return { 'version', digits(base) }
end
if not known and not blind then
  for i = 1, count do
    local needs = ARGV[6] == 'absent' or ARGV[8 + 3 * i] ~= 'set'
    if needs and not cells[2 * i - 1] and not cells[2 * i] then return needs_load end
  end
end
if ARGV[6] == 'absent' then
  for i = 1, count do
    if cells[2 * i - 1] then return { 'exists', ARGV[7 + 3 * i] } end
  end
end

-- Signed 64-bit integers as hi * 10^9 + lo with 0 <= lo < 10^9, since Lua's numbers hold only 53
-- bits exactly.
local function integer(text)
  local sign, body = string.match(text, '^(%-?)(%d+)$')
  if not body or #body > 19 or (text ~= '0' and string.sub(body, 1, 1) == '0') then return nil end
  local hi, lo = tonumber(string.sub(body, 1, -10)) or 0, tonumber(string.sub(body, -9))
  if sign == '-' then
    hi, lo = 0 - hi, 0 - lo
    if lo < 0 then hi, lo = hi - 1, lo + 1000000000 end
  end
  return { hi, lo }
end
local function in_range(n)
  if n[1] > 9223372036 or n[1] < -9223372037 then return false end
  if n[1] == 9223372036 and n[2] > 854775807 then return false end
  return n[1] > -9223372037 or n[2] >= 145224192
end
local function sum(a, b)
  local hi, lo = a[1] + b[1], a[2] + b[2]
  if lo >= 1000000000 then hi, lo = hi + 1, lo - 1000000000 end
  return { hi, lo }
end
local function text_of(n)
  local hi, lo, sign = n[1], n[2], ''
  if hi < 0 then
    sign, hi, lo = '-', 0 - hi, 0 - lo -- not -0, which prints its sign
    if lo < 0 then hi, lo = hi - 1, lo + 1000000000 end
  end
  if hi == 0 then return string.format('%s%.0f', sign, lo) end
  return string.format('%s%.0f%09.0f', sign, hi, lo)
end

local marked, counters = {}, {}
for i = 1, count do
  local field, op, argument = ARGV[7 + 3 * i], ARGV[8 + 3 * i], ARGV[9 + 3 * i]
  local live, gone, changed = cells[2 * i - 1], cells[2 * i], true
  if op == 'set' then
    out.put(field, argument)
    out.drop(names[2 * i])
  elseif op == 'incr' then
    local old, step = integer(live or '0'), integer(argument)
    if not old or not in_range(old) then return { 'integer', field } end
    expect(step)
    local new = sum(old, step)
    if not in_range(new) then return { 'overflow', field } end
    counters[#counters + 1] = text_of(new)
    out.put(field, counters[#counters])
    out.drop(names[2 * i])
  elseif op == 'remove' then
    changed = live
    if live then
      out.put(names[2 * i], table.concat({ 'r', live }))
      out.drop(field)
    end
  elseif op == 'restore' then
    changed = gone and string.sub(gone, 1, 1) == 'r'
    if changed then
      out.put(field, string.sub(gone, 2))
      out.drop(names[2 * i])
    end
  elseif op == 'purge' then
    if is_named(6, ARGV[5]) then return { 'unlanded' } end
    changed = gone and string.sub(gone, 1, 1) == 'r'
    if changed then out.put(names[2 * i], 'p') end
  else
    expect(false)
  end
  if changed then marked[#marked + 1] = field end
end
local changed_count = #marked
local function reply_of(at)
  table.insert(counters, 1, digits(changed_count))
  table.insert(counters, 1, digits(at))
  return table.concat(counters, ' ')
end
-- ORDER: the maps are read before anything is written, since one of another type makes the call
-- fail.
local is_reborn, mark_held = not hash and is_named(6, ARGV[5]), call('HGET', KEYS[6], ARGV[5]) or ''
make_room()
if changed_count == 0 then
  confirm()
  if hash and ARGV[7] ~= '' then call('PERSIST', KEYS[1]) end
  return remember(reply_of(base))
end
local new = math.max(r.source + 2, now, base + 2, version + 2)
if new > VERSION_MAX then refuse('CORRUPT the version source has reached 2^53') end
local reply = reply_of(new)

if not r.first then call('HDEL', KEYS[6], ':') end
if is_reborn then
  put_aside(6, ARGV[5])
  mark_held = ''
end
if hash and mark_held == '' then call('PERSIST', KEYS[1]) end
-- ORDER: mark, then record and marker, then data, then id. So no failure in between leaves data
-- without a mark.
call('HSET', KEYS[6], ARGV[5], marked_with(mark_held, new, marked))
call('HSET', KEYS[3], 'src', digits(new), 'first', r.first or digits(now))
if not r.first then
  -- As in update.lua: Redis searches the marks of a small map one by one, until the map has held a
  -- long value.
  call('HSET', KEYS[6], ':', string.rep(':', 65))
  call('HDEL', KEYS[6], ':')
end
if not hash then call('SET', KEYS[2], digits(new)) end
out.put(':v', head(new, generation, complete))
if is_reborn then out.put(':b', digits(new)) end
out.write(KEYS[1])
confirm()
return remember(reply)
