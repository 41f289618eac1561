-- Common beginning of changes by the owner. ARGV: node, epoch. The parts of a session have keys that begin with
-- KEYS[1]: ':x' entries, ':t' streams, ':o' pending answers, ':e:<stream>' events.
local record = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'state', 'lifetime')
if not record[1] or record[3] == '3' then return {'gone'} end
if record[1] ~= ARGV[1] or record[2] ~= ARGV[2] then return {'fenced', record[1], record[2]} end
local lifetime = record[4]
local function extend()
  for _, part in ipairs({'', ':x', ':t', ':o'}) do redis.call('PEXPIRE', KEYS[1] .. part, lifetime) end
end
