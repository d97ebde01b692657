#!lua flags=no-writes,allow-oom
-- Lists the commands of the scripts that the user may not run.
-- It changes nothing. Redis rejects every writing command of a read-only script, but it checks the
-- rights of the user first.
-- ARGV[1] a key that is named as all keys are
-- Reply: of each command that is rejected for want of a right, its name and the error text.
-- Invariant: the list has every command that a script calls. So no script misses a right in the
--   middle of its writes (R10).
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
  { 'PERSIST', key },
  { 'PEXPIRE', key, '1' },
  { 'RENAME', key, key },
  { 'SET', key, '' },
  { 'TYPE', key },
  { 'UNLINK', key },
  { 'XADD', key, '*', '', '' },
  { 'XLEN', key },
  { 'XRANGE', key, '-', '+', 'COUNT', '1' },
  { 'XTRIM', key, 'MINID', '0' },
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
