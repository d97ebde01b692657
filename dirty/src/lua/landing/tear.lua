#!lua flags=allow-oom
-- Lets a rejected owner land in parts, without its rejected fields and apart from its partners: its
-- error marks count as rejected for ever, and are due at once.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- ARGV[1] the owner's name in the maps
-- Reply: 1 if it did, 0 if the owner has no error marks. A mark whose value vanished from Redis stays
--   as it is, since the database never rejected it.
-- Invariant: no error mark goes. The call fails under another incarnation (R14).
expect(#KEYS == PART and #ARGV == 1)
present(KEYS[PART])
local entry = {}
entry.fields, entry.order = error_lines(call('HGET', KEYS[ERRORS], ARGV[1]) or nil)
local is_rejected = false
for field, line in pairs(entry.fields) do
  local version, attempts, last, reason = string.match(line, '^(%d+) (%d+) %d+ (%d+) %d+ (%d+ .*)$')
  if version and not string.find(reason, '^%d+ vanished') then
    entry.fields[field], is_rejected = table.concat({ version, attempts, '0', last, '0', reason }, ' '), true
  end
end
if not is_rejected then return 0 end
call('HSET', KEYS[ERRORS], ARGV[1], lines_text(entry.fields, entry.order))
return 1
