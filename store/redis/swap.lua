-- Writes a register if it still has the expected revision. Returns 1, or nothing if it has another one. Every renewal
-- runs this, so it uses few and simple commands. These variables are set before: channel, the shared channel; publish,
-- the command for the channel of a register, which is in the hash slot of its keys; members, with which the keys of
-- member registers begin.
--
-- KEYS: 1 and 2 as in get.lua; 3 the index of names, if the register is written for the first time, not in a cluster
-- ARGV: 1 expected revision
--       2 new revision
--       3 milliseconds until the election expires, negative for an edit, '' if it does not expire; 'publish' if 4 is
--         empty
--         and the record is published as well
--       4 the election's value, empty if it is vacant
--       5 the other fields of which a change is published
--       6 record
--       7 name, with the index
local call = redis.call
local register = call('GET', KEYS[2]) or ' \n\n\n'
local rev, till, stamp, who, note = string.match(register, '^(%S*) (%S*) ?(%S*)\n([^\n]*)\n([^\n]*)\n')
if not rev then return false end
local px, holder = ARGV[3], ARGV[4]
local me = ''
local value = false
-- A release by the holder succeeds whichever server wrote the record, if the election is still there.
if till ~= '' and holder == '' and rev == ARGV[1] then value = call('GET', KEYS[1]) end
if till ~= '' and not value or px ~= '' and px ~= 'publish' then me = server() end

local late = false -- the caller expects that it has expired
local other = till ~= '' and me ~= '' and me ~= stamp -- another server wrote it: its time of expiry proves nothing
if other then
  -- Its holder continues from its own write. Anybody else must have read it from this server, and waited since.
  local own = rev == ARGV[1] and (holder == who or holder == '')
  if not own and rev .. '@' .. me ~= ARGV[1] then return false end
elseif rev ~= ARGV[1] then
  late = till ~= '' and rev .. '!' == ARGV[1]
  if not late then return false end
end

if rev == '' and leftover(KEYS[1], redis.pcall('GET', KEYS[1])) then call('DEL', KEYS[1]) end

if who ~= '' then
  value = value or call('GET', KEYS[1])
  if value then
    if late or value ~= who and holder ~= '' then return false end
  elseif till ~= '' and not other then
    -- Whether it has expired or was deleted before decides which revision the register has.
    local t = call('TIME')
    if (t[1] * 1000 + t[2] / 1000 >= tonumber(till)) ~= late then return false end
  end
end

-- The index comes first: a name in it without a register does no harm.
if KEYS[3] then call('ZADD', KEYS[3], 0, ARGV[7]) end

local ends = ''
if holder == '' then
  if value and value == who then call('DEL', KEYS[1]) end
elseif px == '' then
  if not value then
    if not call('SET', KEYS[1], holder, 'NX') then return false end
  elseif value ~= holder or till ~= '' then
    call('SET', KEYS[1], holder)
  end
elseif px < '0' and till ~= '' and not late then -- '-' comes before digits
  ends = till .. ' ' .. stamp -- an edit extends nothing, and keeps the ID of the server that wrote the expiry
  if value and value ~= holder then call('SET', KEYS[1], holder, 'KEEPTTL') end
else
  if px < '0' then px = string.sub(px, 2) end
  if not value then
    if not call('SET', KEYS[1], holder, 'PX', px, 'NX') then return false end
  elseif value == holder then
    call('PEXPIRE', KEYS[1], px)
  else
    call('SET', KEYS[1], holder, 'PX', px)
  end
  local t = call('TIME')
  ends = string.format('%.0f %s', t[1] * 1000 + math.ceil(t[2] / 1000) + px, me)
end

call('SET', KEYS[2], ARGV[2] .. ' ' .. ends .. '\n' .. holder .. '\n' .. ARGV[5] .. '\n' .. ARGV[6])
if holder ~= who or ARGV[5] ~= note then
  local news = KEYS[1]
  if px == 'publish' then news = news .. '\n' .. ARGV[2] .. '\n' .. ARGV[6] end
  redis.pcall(publish, channel .. '{' .. KEYS[1] .. '}', news)
  redis.pcall('PUBLISH', channel, news)
  if string.sub(KEYS[1], 1, #members) == members then redis.pcall('PUBLISH', channel .. 'members', news) end
end
return 1
