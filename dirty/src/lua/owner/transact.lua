#!lua
-- Carries out writes of one partition, one after the other: those that share a call and that
-- update.lua does not take. Each write is checked against the state that the writes before it left,
-- and has a version of its own. A write changes one owner or several, as in mutate.lua.
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
-- KEYS[13..] owner hash and exist marker of each owner of each write
-- ARGV[1] how far ahead a deadline may lie, microseconds
-- ARGV[2] the earliest deadline of the writes, microseconds since 1970
-- ARGV[3] the latest
-- ARGV[4] epoch that the writes were sent in. Empty if any epoch will do.
-- ARGV[5] field of the record for the caller's last call
-- ARGV[6] number of this call
-- ARGV[7] time to live of a new hash's marker, milliseconds. 0 if it stays for ever.
-- ARGV[8..] of each write the number of its owners, then the arguments of each owner, as `owner_of`
--   in mutation.lua reads them
-- Reply: "*" and the answer to each write, as it is kept under the number of the call. An answer is
--   the number of its words and a space. Each word is its length, ":" and its bytes. The answers
--   are those of mutate.lua, except {"expired"}. A text is an answer of 0 words, and the text
--   follows like a word. Two answers are new: {"alone"} if mutate.lua must do the write, since a
--   deadline of the call has passed or lies too far ahead, and {"failed", error}.
-- Invariant: each write as in mutate.lua. A call is carried out at most once, and never after a
--   later one (R11).
local OWNER_KEYS, WRITE_ARGS = 13, 8
expect(#KEYS > OWNER_KEYS and #KEYS % 2 == 0 and #ARGV > WRITE_ARGS)
local now = time()
local r = record_of_change(now, ARGV[7])

-- ORDER: the number before all else. So a late copy learns the outcome of its call.
local stored = call('HGET', KEYS[1], ARGV[5]) or '0'
local this_call, last_call = number(ARGV[6], 'the number of a call'), number(string.match(stored, '^%d+'), 'the number of a call')
if this_call == last_call then
  local text = string.match(stored, '^%d+ (.*)$')
  if text ~= 'void' then return text end
end
if this_call <= last_call then refuse('STALE the store has ended the call, or made a later one since') end

-- Reads all writes, before the first one is carried out.
local writes, key_at, at = {}, OWNER_KEYS, WRITE_ARGS
while at <= #ARGV do
  local owners, count = {}, number(ARGV[at], 'the number of owners')
  expect(count > 0)
  at = at + 1
  for w = 1, count do
    owners[w], at = owner_of(at, key_at)
    key_at = key_at + 2
  end
  writes[#writes + 1] = owners
end
expect(at == #ARGV + 1 and key_at == #KEYS + 1)

-- An answer as it is kept.
local function framed(answer)
  if type(answer) == 'string' then return table.concat({ '0 ', digits(#answer), ':', answer }) end
  local parts = { digits(#answer), ' ' }
  for _, word in ipairs(answer) do
    parts[#parts + 1] = table.concat({ digits(#word), ':', word })
  end
  return table.concat(parts)
end

-- Keeps the answers for a late copy, even if nothing was changed. Otherwise the copy could still
-- change something.
local function answer_with(framed_answers)
  local text = table.concat({ '*', framed_answers })
  call('HSET', KEYS[1], ARGV[5], table.concat({ ARGV[6], ' ', text }))
  return text
end

-- The hot tier may have forgotten the number since, and later writes.
if ARGV[4] ~= '' and ARGV[4] ~= r.epoch then
  return answer_with(string.rep(framed({ 'moved', r.epoch, digits(r.generation) }), #writes))
end
if now >= number(ARGV[2], 'a deadline') or number(ARGV[3], 'a deadline') - now > number(ARGV[1], 'the reach of deadlines') then
  return answer_with(string.rep(framed({ 'alone' }), #writes))
end

-- The refusal of a write, or the step that carries it out.
local function planned(owners)
  local refused = refusal_of(owners, r)
  if refused then return refused end
  return nil, step_of(owners, r)
end

-- Some servers throw the text of an error, others a table.
local function text_of_error(thrown)
  local text = type(thrown) == 'table' and thrown.err or thrown
  return string.find(text, '^%u+ ') and text or table.concat({ 'ERR ', text })
end

-- A write whose own key is spoilt fails alone, before it has changed anything. Any other error ends
-- the call, for example a right that is missing. The writes before it are applied then, so their
-- answers must be kept. The writes after it fail with it.
local answers, is_any_written, broken = {}, false, nil
for w, owners in ipairs(writes) do
  local is_done, refused, step = true, nil, nil
  if not broken then is_done, refused, step = pcall(planned, owners) end
  if not broken and is_done and step then
    is_done, refused = pcall(write_step, step, r)
    is_any_written = is_any_written or is_done
  end
  if broken then
    answers[w] = framed(broken)
  elseif is_done then
    answers[w] = framed(refused or step.reply)
  else
    local text = text_of_error(refused)
    local failed = { 'failed', text }
    if step or not (string.find(text, '^WRONGTYPE') or string.find(text, '^CORRUPT')) then
      if not is_any_written then error(refused, 0) end
      broken = failed
    end
    answers[w] = framed(failed)
  end
end
-- ORDER: the answers come last. A number without its data would make the call look carried out.
return answer_with(table.concat(answers))
