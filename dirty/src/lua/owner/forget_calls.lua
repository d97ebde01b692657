#!lua flags=allow-oom
-- Drops the last calls of stores that are gone, and names those of one page of the record.
-- So a record does not grow forever. A call may keep 2 KB of answers, so a record is read page by page.
-- KEYS[1] partition record
-- ARGV[1] cursor of the page, 0 for the first one
-- ARGV[2..] field and number of each last call to drop
-- Reply: cursor of the next page, or 0 after the last one. Then field and number of each last call of the page.
-- Invariant: the call of a store stays if its number has changed since the caller read it (R11).
local PAGE = 50
expect(#KEYS == 1 and #ARGV % 2 == 1)
for i = 2, #ARGV, 2 do
  local stored = call('HGET', KEYS[1], ARGV[i])
  if stored and string.match(stored, '^%d+') == ARGV[i + 1] then call('HDEL', KEYS[1], ARGV[i]) end
end
local page = call('HSCAN', KEYS[1], ARGV[1], 'COUNT', PAGE)
local left, all = { page[1] }, page[2]
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'w:' then
    left[#left + 1] = all[i]
    left[#left + 1] = string.match(all[i + 1], '^%d+') or ''
  end
end
return left
