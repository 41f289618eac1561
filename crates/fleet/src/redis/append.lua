-- KEYS: session. ARGV: node, epoch, stream, sequence, kind, field of the pending answer, payload, max events, max bytes.
-- Kinds: m message, a answer.
local streams, events = KEYS[1] .. ':t', KEYS[1] .. ':e:' .. ARGV[3]
local stream = redis.call('HMGET', streams, ARGV[3] .. ':last', ARGV[3] .. ':bytes')
if not stream[1] then return {'gone'} end
local last, sequence = tonumber(string.match(stream[1], '(%d+)$')), tonumber(ARGV[4])
if sequence <= last then return {'at'} end
if sequence ~= last + 1 then return {'order', string.format('%.0f', last + 1)} end
if ARGV[5] == 'a' then
  if redis.call('HDEL', KEYS[1] .. ':o', ARGV[6]) == 0 then return {'answered'} end
  redis.call('HINCRBY', streams, ARGV[3] .. ':pending', -1)
end
local position = ARGV[2] .. '-' .. ARGV[4]
redis.call('XADD', events, position, 'k', ARGV[5], 'd', ARGV[7])
local bytes, length = tonumber(stream[2]) + #ARGV[7], redis.call('XLEN', events)
while length > tonumber(ARGV[8]) or (bytes > tonumber(ARGV[9]) and length > 1) do
  local oldest = redis.call('XRANGE', events, '-', '+', 'COUNT', 1)[1]
  redis.call('XDEL', events, oldest[1])
  redis.call('HSET', streams, ARGV[3] .. ':trimmed', oldest[1])
  bytes, length = bytes - #oldest[2][4], length - 1
end
redis.call('HSET', streams, ARGV[3] .. ':last', position, ARGV[3] .. ':bytes', bytes)
redis.call('PEXPIRE', events, lifetime)
extend(lifetime)
return {'at'}
