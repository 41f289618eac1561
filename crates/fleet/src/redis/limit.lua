-- Generic cell rate algorithm. KEYS: limit. ARGV: interval in us, interval * burst in us. Returns the wait in us.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local free_at = arrival + ARGV[1] - ARGV[2]
if free_at > now then return free_at - now end
local next_arrival = arrival + ARGV[1]
redis.call('SET', KEYS[1], string.format('%.0f', next_arrival), 'PX',
  string.format('%.0f', math.ceil((next_arrival - now) / 1000) + 1))
return 0
