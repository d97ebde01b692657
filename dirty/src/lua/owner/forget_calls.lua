#!lua flags=allow-oom
-- Drops the last calls of stores that are gone, and names those that are left.
-- So a record does not grow forever.
-- KEYS[1] partition record
-- ARGV[1..] field and number of each last call to drop
-- Reply: field and number of each last call that is left.
-- Invariant: the call of a store stays if its number has changed since the caller read it (R11).
expect(#KEYS == 1 and #ARGV % 2 == 0)
for i = 1, #ARGV, 2 do
  local stored = call('HGET', KEYS[1], ARGV[i])
  if stored and string.match(stored, '^%d+') == ARGV[i + 1] then call('HDEL', KEYS[1], ARGV[i]) end
end
local left, all = {}, call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'w:' then
    left[#left + 1] = all[i]
    left[#left + 1] = string.match(all[i + 1], '^%d+') or ''
  end
end
return left
