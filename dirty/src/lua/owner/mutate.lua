#!lua
-- Changes fields of one owner, or of several owners of a partition, in one step. Each owner has its
-- condition, and the load that its changes build on, if they need one. The id of the operation is
-- remembered.
-- KEYS[1] partition record
-- KEYS[2] dirty map
-- KEYS[3] snapshot
-- KEYS[4] error map
-- KEYS[5] marks on probation
-- KEYS[6] marks whose probation ends
-- KEYS[7] sessions
-- KEYS[8] lapsed sessions
-- KEYS[9] requests for held owners
-- KEYS[10] beats
-- KEYS[11] notes
-- KEYS[12] links of the dirty map
-- KEYS[13] operation ids of even windows
-- KEYS[14] operation ids of odd windows
-- KEYS[15..] owner hash and exist marker of each owner
-- ARGV[1] operation id
-- ARGV[2] deadline, microseconds since 1970
-- ARGV[3] epoch that the write was sent in. Empty if any epoch will do.
-- ARGV[4] window of operation ids, microseconds
-- ARGV[5] time to live of a new hash's marker, milliseconds. 0 if it stays for ever.
-- ARGV[6..] the arguments of each owner, as `owner_of` in mutation.lua reads them
-- Reply: "version changed counters…" as remembered under the id, a line for each owner. Behind it
--   " @epoch-number" is the place of the owner's note. Or
--   {"expired"}, {"moved", epoch, generation}, {"load", marker, whether there is a hash (0 or 1),
--   epoch}, {"version", current}, {"exists", field}, {"differs", field}, {"integer", field},
--   {"overflow", field}, {"bounds", field, value}, {"unlanded"}. Also {"held", session} to a plain
--   write. Also {"fenced", session or ""}, {"grace", epoch}, {"unconfirmed", epoch} to a write of a
--   session. For a further owner, {"partner", its place, ...} with one of the former.
-- Invariant: as in update.lua, for all owners together. No field that a hash does not hold is
--   guessed (R15). The marks of owners that change together lead to each other (G1).
local OWNER_KEYS, OWNER_ARGS = 15, 6
local IDS = 13
expect(#KEYS > OWNER_KEYS and #KEYS % 2 == 0 and #ARGV >= 5)
local now, deadline, window = time(), number(ARGV[2], 'the deadline'), number(ARGV[4], 'the window')
local r = record_of_change(now, ARGV[5])

local round = math.floor(now / window)
local ids, other_ids = KEYS[IDS + round % 2], KEYS[IDS + 1 - round % 2]
local seen = call('HMGET', ids, ':w', ARGV[1], ':j')
local before = seen[2] or call('HGET', other_ids, ARGV[1])
if before then return before end
-- ORDER: ids before the deadline. So a late repeat of a write that was applied in time learns its
-- outcome.
if now >= deadline then return { 'expired' } end
local seen_round = seen[1] and number(seen[1], 'the window of ids')
if deadline - now > window then refuse('DEADLINE the deadline lies further ahead than ids are remembered') end
-- The hot tier may have forgotten the id since, and later writes.
if ARGV[3] ~= '' and ARGV[3] ~= r.epoch then return { 'moved', r.epoch, digits(r.generation) } end

-- Keeps the answer for repeats and late copies, even if there was nothing to change. Otherwise a
-- delayed copy could be applied after later writes.
local window_fields = {}
-- Called before anything else is written.
local function make_room()
  local leaps = tonumber(seen[3]) or 0
  -- Ids of an earlier window are old. They stay if the clock may have leapt, since then they may be
  -- recent (H11).
  local between = seen_round == round - 2 and tonumber(call('HGET', other_ids, ':w') or '')
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

local owners, at = {}, OWNER_ARGS
for key_at = OWNER_KEYS, #KEYS, 2 do
  owners[#owners + 1], at = owner_of(at, key_at)
end
expect(at == #ARGV + 1)
local refused = refusal_of(owners, r)
if refused then return refused end
local step = step_of(owners, r)
make_room()
write_step(step, r)
return remember(step.reply)
