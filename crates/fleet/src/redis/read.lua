-- KEYS: session. ARGV: stream, position, max events. Returns last position, position of the last dropped event, events.
local stream = redis.call('HMGET', KEYS[1] .. ':t', ARGV[1] .. ':last', ARGV[1] .. ':trimmed')
if not stream[1] then return {} end
return {stream[1], stream[2] or '0-0',
  redis.call('XRANGE', KEYS[1] .. ':e:' .. ARGV[1], '(' .. ARGV[2], '+', 'COUNT', ARGV[3])}
