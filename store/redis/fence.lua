local guard, epoch = table.remove(KEYS), table.remove(ARGV)
local newest = redis.call('GET', guard) or ''
-- Compared as decimal numbers without leading zeros: Lua's own numbers are exact only up to 2^53.
if #newest > #epoch or #newest == #epoch and newest > epoch then return redis.error_reply('STALE ' .. newest) end
if newest ~= epoch then redis.call('SET', guard, epoch) end
