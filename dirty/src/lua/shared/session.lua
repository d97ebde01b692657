-- Shared by the scripts that look at sessions. Redis keeps a session under its owner's name as
-- "version token epoch holder asked name".
-- Version and token are its fence. The epoch is the one in which it was opened or confirmed, or 0
-- once its holder is gone. The holder is the process that renews the session, and the name is the
-- holder's name for people. `asked` is the name of the process that asks for the owner, or "-".
local function session_of(text)
  if not text then return nil end
  local version, token, epoch, holder, asked, name = string.match(text, '^(%d+) (%x+) (%d+) (%x+) (%S+) (.*)$')
  if not version then refuse('CORRUPT a session') end
  return { text = text, version = version, token = token, epoch = epoch, holder = holder, asked = asked, name = name }
end

local function session_text(version, token, epoch, holder, asked, name)
  return table.concat({ version, token, epoch, holder, asked, name }, ' ')
end

local function is_of(session, version, token) return session.version == version and session.token == token end

-- Whether a session has a greater fence than this one. Tokens are compared byte by byte, since Lua
-- orders texts by the server's locale.
local function is_later(session, version, token)
  local a, b = number(session.version, 'a fence'), number(version, 'a fence')
  if a ~= b then return a > b end
  for i = 1, math.max(#session.token, #token) do
    local x, y = string.byte(session.token, i) or 0, string.byte(token, i) or 0
    if x ~= y then return x > y end
  end
  return false
end

-- The number of a beat. Redis keeps a beat as "number", or as "number mark" while a process declares the holder gone.
local function beat_of(text) return string.match(text, '^%d+') end

-- Gives the holder of a session a beat without a mark. So the holder is missed if it dies before it beats, and a process that
-- has listed its sessions before this one leaves the beat.
local function expect_beats(key, holder)
  local beat = call('HGET', key, holder)
  local unmarked = beat and beat_of(beat) or '0'
  if beat ~= unmarked then call('HSET', key, holder, unmarked) end
end

-- Whether the grace of the record's epoch has ended.
local function is_graced(key, r) return call('HGET', key, 'graced') == r.epoch end

-- Called before anything is written, since a key of another type makes the call fail.
local function expect_hashes(from, to)
  for i = from, to do call('HLEN', KEYS[i]) end
end
