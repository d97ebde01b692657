#!lua flags=no-writes,allow-oom
-- Which commands that the scripts call the user may not run. It changes nothing: a script that may not write is refused each writing
-- command, but the server looks at the user's rights before that.
-- ARGV[1] a key that is named as all keys are
-- Reply: of each command that is refused for want of a right, its name and the server's words.
-- Invariant: all that a script calls is in the list, so that no right is found missing in the middle of its writes (R10).
local key, refused = ARGV[1], {}
local commands = {
  { 'TIME' },
  { 'INFO', 'server' },
  { 'DEL', key },
  { 'EXISTS', key },
  { 'GET', key },
  { 'HDEL', key, ':' },
  { 'HGET', key, ':' },
  { 'HGETALL', key },
  { 'HLEN', key },
  { 'HMGET', key, ':' },
  { 'HSCAN', key, '0', 'COUNT', '1' },
  { 'HSET', key, ':', '' },
  { 'MSET', key, '' },
  { 'PERSIST', key },
  { 'PEXPIRE', key, '1' },
  { 'RENAME', key, key },
  { 'SET', key, '' },
  { 'UNLINK', key },
  { 'ZADD', key, '0', '' },
  { 'ZRANGE', key, '0', '0' },
  { 'ZRANGEBYSCORE', key, '0', '0' },
  { 'ZREM', key, '' },
  { 'ZREMRANGEBYSCORE', key, '0', '0' },
}
for _, command in ipairs(commands) do
  local reply = redis.pcall(unpack(command))
  local why = type(reply) == 'table' and reply.err
  if why and (string.find(why, 'ACL failure', 1, true) or string.find(why, 'The user executing the script', 1, true)) then
    refused[#refused + 1], refused[#refused + 2] = command[1], why
  end
end
return refused
