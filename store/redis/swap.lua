-- Writes a register if it still has the revision expected, and answers with 1; with nothing if it has not. The variable channel is set
-- before. Every renewal comes this way: so the fewest commands, and the simplest Lua.
--
-- KEYS: 1 and 2 as in get.lua; 3 the index of names, with a register that is written for the first time, but not in a cluster
-- ARGV: 1 revision expected, 2 new revision, 3 milliseconds until the seat expires, negative for an edit, '' if it does not, 4 who, 5 note,
--       6 record, 7 name, with the index
local call = redis.call
local m = call('HMGET', KEYS[2], 'rev', 'who', 'till', 'note')
local rev, who, till = m[1] or '', m[2] or '', m[3] or ''
local px, holder = ARGV[3], ARGV[4]
local late = rev ~= ARGV[1] -- it is expected to have expired
if late and (till == '' or rev .. '!' ~= ARGV[1]) then return false end

local seat = false
if who ~= '' then
  seat = call('GET', KEYS[1])
  if seat then
    if late or seat ~= who and holder ~= '' then return false end
  elseif till ~= '' then
    -- Whether it has expired, or was deleted before its time, decides which revision the register has.
    local t = call('TIME')
    if (t[1] * 1000 + t[2] / 1000 >= tonumber(till)) ~= late then return false end
  end
end

-- The index comes first: a name in it without a register does no harm.
if KEYS[3] then call('ZADD', KEYS[3], 0, ARGV[7]) end

local ends = ''
if holder == '' then
  if seat and seat == who then call('DEL', KEYS[1]) end
elseif px == '' then
  if not seat then
    if not call('SET', KEYS[1], holder, 'NX') then return false end
  elseif seat ~= holder or till ~= '' then
    call('SET', KEYS[1], holder)
  end
elseif px < '0' and till ~= '' and not late then -- '-' comes before digits
  ends = till -- an edit gives no time
  if seat and seat ~= holder then call('SET', KEYS[1], holder, 'KEEPTTL') end
else
  if px < '0' then px = string.sub(px, 2) end
  if not seat then
    if not call('SET', KEYS[1], holder, 'PX', px, 'NX') then return false end
  elseif seat == holder then
    call('PEXPIRE', KEYS[1], px)
  else
    call('SET', KEYS[1], holder, 'PX', px)
  end
  local t = call('TIME')
  ends = t[1] * 1000 + px + math.floor(t[2] / 1000)
end

if holder == who and ARGV[5] == m[4] then
  call('HSET', KEYS[2], 'rev', ARGV[2], 'till', ends, 'record', ARGV[6])
else
  call('HSET', KEYS[2], 'rev', ARGV[2], 'who', holder, 'till', ends, 'note', ARGV[5], 'record', ARGV[6])
  redis.pcall('PUBLISH', channel, KEYS[1])
end
return 1
