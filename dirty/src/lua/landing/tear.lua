#!lua flags=allow-oom
-- Lets rejected owners land apart from their partners: their error marks count as rejected for ever,
-- and are due at once.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- ARGV[1..] name of each owner in the maps
-- Reply: number of owners with error marks. A mark whose value vanished from Redis stays as it is.
-- Invariant: no error mark goes. The call fails under another incarnation (R14).
expect(#KEYS == PART and #ARGV >= 1)
present(KEYS[PART])
local puts, count = {}, 0
for i, text in ipairs(hmget(KEYS[ERRORS], ARGV)) do
  local fields, order = error_lines(text or nil)
  local is_rejected = false
  for field, line in pairs(fields) do
    local version, attempts, last, reason = string.match(line, '^(%d+) (%d+) %d+ (%d+) %d+ (%d+ .*)$')
    if version and not string.find(reason, '^%d+ vanished') then
      fields[field], is_rejected = table.concat({ version, attempts, '0', last, '0', reason }, ' '), true
    end
  end
  if is_rejected then
    count = count + 1
    puts[#puts + 1], puts[#puts + 2] = ARGV[i], lines_text(fields, order)
  end
end
each_chunk('HSET', KEYS[ERRORS], puts)
return count
