-- All keys of one prefix at this moment.
-- ARGV[1] prefix
-- Reply: for each key its name, its time to live in milliseconds, and its content (for a hash: names and values in
--   turn, for a stream: "length" and its length).
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '-*')) do
  local content = {}
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then content = redis.call('HGETALL', key) end
  if kind == 'stream' then content = { 'length', tostring(redis.call('XLEN', key)) } end
  found[#found + 1] = { key, redis.call('PTTL', key), content }
end
return found
