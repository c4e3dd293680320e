-- gate.lua: L1, the gate, inside Valkey: one step of one pool, atomic because a script is.
--
-- Gives the answers of pool.cc, number for number: tests/valkey plays random histories and
-- tests/vectors on both. pool.h says what the operations mean; docs/protocol.md lists keys, fields,
-- arguments and replies. What to know before changing a line:
--   * Lua counts in doubles: everything is a whole number below 2^53 (limits.h sees to that),
--     divided by (a - a % b) / b, which is exact and floors, and written with %.0f ('..' keeps 14
--     digits).
--   * Strings are compared by their bytes: '<' on strings would ask the server's locale.
--   * Nothing is written before the arguments are read: an error leaves the pool as it was.
--   * Calls into the server cost more than all of the arithmetic, and each function made here is
--     made anew at every call. So the pool's numbers are three fields of one hash, read at once and
--     written at once; the head is remembered from step to step; sorted sets are looked through
--     for what is due only when something can be (`next_sweep`).
--   * Every sorted set holds the member '' for ever, so that no key of the set vanishes by being
--     empty: a key that is missing was lost, and with it the pool.
-- The first line, with the script's flags, is put before this text by script.cc.
local call, format, match, sub = redis.call, string.format, string.match, string.sub

local FORMAT = 1                     -- Major version of what is stored.
local MICRO = 1000000
local NEVER = 9007199254740992       -- 2^53.
local SWEEP_MAX = 100                -- Of each kind a step, so that no step is long.
local AWAY_AFTER = 10000000          -- All times in microseconds.
local LAPSE_AFTER = 2000000
local HEAD_START_OF_SIZE = 15000000
local WAITED_LONG = 2000000
local PROBE_EVERY = 60000000
local INFLIGHT_WAIT_MAX = 5000000
local SHIM_LIVES = 6000000
local SHIM_KEPT = 660000000
local WITHHELD_FOR = 600000000
local WITHHELD_PPM = 900000
local WINDOW = 10000000
local WINDOWS_KEPT = 30
local RELEASE_WINDOWS = 6
local ALIASES_MAX = 1000
local TOKENS_MAX = 1000000000
local USAGE_MAX = 100000000
local WEIGHT_MAX = 20000000
local DEBT_MAX = 4000000000000000
local WAIT_MAX = 1000000000000000
local HOLD_MAX = 3600000000
local SENIORITY_MAX = 300000000
local TTL_MIN = 1000000
local TTL_MAX = 600000000
local PAUSE_MAX = 604800000000
local RENEW_MAX = 100
local RENEW_FIELDS = 7
local LIFETIME_S = 1209600           -- Of every key: twice the longest pause.
local REFRESH_EVERY = 3600000000     -- And is begun anew.

local op, given = ARGV[1], ARGV[2]
local POOL, LEASES, ENDED, ORDER, HOLDS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local LINES, FRONTS, LIVE, DEAD, WITHHELD = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]

local function fail(code, text) error({err = code .. ' ' .. text}) end

-- A number from outside, cut to its range (not a number: the least).
local function arg(i, least, most)
  local x = tonumber(ARGV[i])
  if not x then fail('HGARG', op .. ': argument ' .. i .. ' must be a number') end
  if not (x > least) then return least end
  if x >= most then return most end
  return x - x % 1
end

local raw  -- The store's time.
if given == '' then
  local time = call('TIME')
  raw = time[1] * MICRO + time[2]
else
  raw = tonumber(given) or fail('HGARG', 'the moment must be a number, or empty')
end

local id, shim, alias = '', '', ''
if op == 'acquire' then
  id, shim, alias = ARGV[3], ARGV[4], ARGV[5]
elseif op == 'settle' or op == 'overload' or op == 'leave' then
  id = ARGV[3]
elseif op == 'renew' or op == 'farewell' then
  shim = ARGV[3]
end
if not (given and id and shim and alias and WITHHELD) then
  fail('HGARG', 'too few keys or arguments; docs/protocol.md lists them')
end

local got = call('HMGET', POOL, 'state', 'limits', 'head', 'window', 'call:' .. id, 'shim:' .. shim,
                 'alias:' .. alias)
if got[1] and sub(got[1], 1, 2) ~= FORMAT .. ' ' then
  fail('HGVERSION', 'the pool is stored in format ' .. match(got[1], '^%S*') .. ', and this ' ..
                    'release of Headgate knows ' .. FORMAT .. ': use a newer release')
end
local there = got[1] and call('EXISTS', POOL, LEASES, ENDED, ORDER, HOLDS, LINES, FRONTS, LIVE,
                              DEAD, WITHHELD) == 10

-- A configuration from the arguments, from the i-th on, checked as limits.cc does.
local config
if op == 'create' or op == 'configure' or op == 'restore' then
  local first = op == 'create' and 3 or op == 'configure' and 4 or 5
  local rows = {
    {'c_burst', 1, TOKENS_MAX}, {'r_tok', 1, TOKENS_MAX}, {'k_inflight', 1, TOKENS_MAX},
    {'c_req', 1, 1000000}, {'r_qps', 1, 8000000000}, {'c_out', 1, TOKENS_MAX},
    {'r_out', 1, TOKENS_MAX}, {'refused_calls_count', 0, 1},
    {'priority_head_start_max (us)', 0, 300000000}, {'kappa_micro', 2000000, 8000000},
    {'weights.cached_ppm', 0, WEIGHT_MAX}, {'weights.output_ppm', 0, WEIGHT_MAX},
    {'seed.c_burst', 1, TOKENS_MAX}, {'seed.r_tok', 1, TOKENS_MAX},
    {'seed.k_inflight', 1, TOKENS_MAX}, {'seed.c_req', 1, 1000000}, {'seed.r_qps', 1, 8000000000},
    {'seed.c_out', 1, TOKENS_MAX}, {'seed.r_out', 1, TOKENS_MAX}, {'seeded_at (us)', -NEVER, NEVER},
  }
  config = {}
  local seedless = true
  for i = 1, 5 do seedless = seedless and ARGV[first + 11 + i] == '0' end
  for i, row in ipairs(rows) do
    local text = ARGV[first + i - 1]
    local optional = i == 6 or i == 7 or i == 18 or i == 19
    local none = optional and text == '' or seedless and i >= 13 and i <= 19
    local x = none and 0 or tonumber(text)
    if not x or x % 1 ~= 0 then fail('HGCONFIG', row[1] .. ' must be a whole number') end
    if not none and (x < row[2] or x > row[3]) then
      fail('HGCONFIG', format('%s is %.0f; allowed are %.0f to %.0f', row[1], x, row[2], row[3]))
    end
    config[i] = x
  end
  if (config[6] == 0) ~= (config[7] == 0) then
    fail('HGCONFIG', 'c_out and r_out: give both or neither')
  end
  if (config[18] == 0) ~= (config[19] == 0) then
    fail('HGCONFIG', 'seed.c_out and seed.r_out: give both or neither')
  end
  config.source = ARGV[first + 20] or ''
  config.limits = format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f', unpack(config, 1, 9))
  config.rest = format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %s',
                       config[10], config[11], config[12], config[13], config[14], config[15],
                       config[16], config[17], config[18], config[19], config[20], config.source)
end

if not there then
  if op ~= 'create' and op ~= 'restore' then
    return redis.error_reply('NOPOOL this store has no such pool, or lost a part of it')
  end
  local full = op == 'create'
  local version = full and 1 or arg(3, 1, NEVER)
  local epoch = full and 1 or arg(4, 0, NEVER) + 1
  local tokens, requests, out = 0, 0, 0
  if full then tokens, requests, out = config[1] * MICRO, config[4] * MICRO, config[6] * MICRO end
  call('DEL', unpack(KEYS))
  call('HSET', POOL, 'limits', config.limits, 'config', config.rest, 'head', '',
       'window', format('%.0f 0 0 0 0 0 0 0 0 0', (raw - raw % WINDOW) / WINDOW),
       'windows', '',
       'state', format('%.0f %.0f %.0f %.0f 0 %.0f %.0f %.0f 0 %.0f %.0f %.0f %.0f 0 %.0f' ..
                       ' 0 0 0 0 0 0 0 0 %.0f 0',
                       FORMAT, given == '' and 0 or 1, version, epoch, raw, tokens, requests, out,
                       config[10], raw, raw, NEVER, raw))
  for i = 2, #KEYS do call('ZADD', KEYS[i], KEYS[i] == LINES and 0 or 'inf', '') end
  for i = 1, #KEYS do call('EXPIRE', KEYS[i], LIFETIME_S) end
  return {'ok', version, config[10], epoch, '', 1}
end

-- --- The pool as the last step left it -------------------------------------------------------

local state_format, clock, version, epoch, offset, last, tokens, requests, rest, out, kappa,
  paused_until, probe_at, withheld, next_sweep, leases, inflight, waiters, wait_charge,
  wait_estimate, wait_output, shim_count, alias_count, refreshed, endings, tail = match(got[1],
  '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)' ..
  ' (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)(.*)$')
if (clock == '1') ~= (given ~= '') then
  fail('HGCLOCK', clock == '1' and 'this is a pool for tests: each command must bring the moment'
                  or 'only a pool made for tests takes the moment from a command')
end
version, epoch, offset, last = version + 0, epoch + 0, offset + 0, last + 0
tokens, requests, rest, out, kappa = tokens + 0, requests + 0, rest + 0, out + 0, kappa + 0
paused_until, probe_at, withheld = paused_until + 0, probe_at + 0, withheld + 0
next_sweep, leases, inflight, waiters = next_sweep + 0, leases + 0, inflight + 0, waiters + 0
wait_charge, wait_estimate, wait_output = wait_charge + 0, wait_estimate + 0, wait_output + 0
shim_count, alias_count, endings = shim_count + 0, alias_count + 0, endings + 0

local c_burst, r_tok, k_inflight, c_req, r_qps, c_out, r_out, refused_count, head_start_max = match(
  got[2], '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)')
c_burst, r_tok, k_inflight = c_burst + 0, r_tok + 0, k_inflight + 0
c_req, r_qps, c_out, r_out = c_req + 0, r_qps + 0, c_out + 0, r_out + 0

-- The head and the moment of its turn (none: it waits for releases), and the last wake told.
local head_id, head_shim, told_id, told_shim, turn_at, told_at = nil, nil, nil, nil, nil, nil
local head_score, head_charge, head_estimate, head_output
if got[3] ~= '' then
  local id_length, shim_length, told_length, names
  head_score, head_charge, head_estimate, head_output, turn_at, told_at, id_length, shim_length,
    told_length, names = match(got[3],
    '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d+) (%d+) (%d+) (.*)$')
  head_score, head_charge = head_score + 0, head_charge + 0
  head_estimate, head_output = head_estimate + 0, head_output + 0
  turn_at, told_at = tonumber(turn_at), tonumber(told_at)
  if id_length ~= '0' then
    head_id = sub(names, 1, id_length)
    head_shim = sub(names, id_length + 1, id_length + shim_length)
  end
  if told_at then
    local start = id_length + shim_length
    told_id = sub(names, start + 1, start + told_length)
    told_shim = sub(names, start + told_length + 1)
  end
end
local turn_id = head_id
local head_known = true

local window, past_admitted, released_lately  -- Of the pool: index, then the seven counts.
do
  local w0, w1, w2, w3, w4, w5, w6, w7, w8, w9 = match(got[4],
    '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)')
  window = {w1 + 0, w2 + 0, w3 + 0, w4 + 0, w5 + 0, w6 + 0, w7 + 0, index = w0 + 0}
  past_admitted, released_lately = w8 + 0, w9 + 0
end
local ADMITTED, LONG, HELD, TIMEOUTS, ACCEPTED, OVERLOADS, RELEASED = 1, 2, 3, 4, 5, 6, 7

-- --- Time ------------------------------------------------------------------------------------

local looking = op == 'view' or op == 'summary'
local before = last
local now = raw + offset
if now < last then
  offset = offset + (last - now)
  now = last
elseif not looking and (leases > 0 or waiters > 0) and now - last > AWAY_AFTER then
  offset = offset - (now - last)
  now = last
  epoch = epoch + 1
end
last = now

-- The rates, less what is withheld for shims that vanished.
local rate, request_rate, out_rate
local function apply_withheld()
  rate, request_rate, out_rate = r_tok, r_qps, r_out
  if withheld > 0 then
    local left = MICRO - math.min(withheld, WITHHELD_PPM)
    local x = r_tok * left
    rate = math.max((x - x % MICRO) / MICRO, 1)
    x = r_qps * left
    request_rate = math.max((x - x % MICRO) / MICRO, 1)
    x = r_out * left
    out_rate = math.max((x - x % MICRO) / MICRO, 1)
  end
end
apply_withheld()

-- Until `need` micro-tokens are there.
local function token_wait(need, level, per_us)
  local missing = need - level
  if missing <= 0 then return 0 end
  if (missing - missing % per_us) / per_us >= WAIT_MAX then return WAIT_MAX end
  return (missing + -missing % per_us) / per_us
end

-- Until `need` micro-requests are there.
local function request_wait(need)
  local missing = need - requests
  if missing <= 0 then return 0 end
  local whole = (missing - missing % request_rate) / request_rate
  if whole >= WAIT_MAX / MICRO then return WAIT_MAX end
  local part = missing % request_rate * MICRO - rest
  return math.max(whole * MICRO + (part + -part % request_rate) / request_rate, 0)
end

if now > before then
  local elapsed = now - before
  local capacity = c_burst * MICRO
  local gained = elapsed * rate
  if gained >= capacity - tokens or elapsed >= WAIT_MAX then
    tokens = capacity
  else
    tokens = tokens + gained
  end
  if c_out > 0 then
    capacity = c_out * MICRO
    gained = elapsed * out_rate
    if gained >= capacity - out or elapsed >= WAIT_MAX then
      out = capacity
    else
      out = out + gained
    end
  end
  capacity = c_req * MICRO
  if elapsed >= request_wait(capacity) then
    requests, rest = capacity, 0
  else
    gained = elapsed % MICRO * request_rate + rest
    requests = requests + (elapsed - elapsed % MICRO) / MICRO * request_rate +
      (gained - gained % MICRO) / MICRO
    rest = gained % MICRO
  end
end

-- --- Records: read once, written at the end --------------------------------------------------

local batch, batched = {}, 0  -- For one HSET.
local function put(field, value)
  batch[batched + 1], batch[batched + 2] = field, value
  batched = batched + 2
end

-- What a call's record has become in this step: text, or false for none.
local calls = {}
local function read_call(name)
  local text = calls[name]
  if text == nil then text = call('HGET', POOL, 'call:' .. name) end
  return text
end

local function ring_text(ring)
  return format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f', ring.index, ring[1], ring[2], ring[3],
                ring[4], ring[5], ring[6], ring[7])
end

-- A window that is over: appended to the older ones, of which those of five minutes are kept.
local index = (now - now % WINDOW) / WINDOW
local function close_window(ring, older)
  for i = 1, 7 do
    if ring[i] ~= 0 then
      older = older .. ring_text(ring) .. ';'
      break
    end
  end
  for i = 1, 7 do ring[i] = 0 end
  ring.index = index
  while older ~= '' do
    local oldest, next_at = match(older, '^(%S+)[^;]*;()')
    if oldest + 0 > index - WINDOWS_KEPT then break end
    older = sub(older, next_at)
  end
  return older
end

local pool_windows  -- The older windows of the pool, where they were read.
if window.index ~= index then
  pool_windows = close_window(window, call('HGET', POOL, 'windows'))
  past_admitted, released_lately = 0, 0
  local entry = '(%S+) (%S+) %S+ %S+ %S+ %S+ %S+ (%S+);'
  for at, admitted, released in string.gmatch(pool_windows, entry) do
    past_admitted = past_admitted + admitted
    if at + 0 >= index - RELEASE_WINDOWS then released_lately = released_lately + released end
  end
  put('windows', pool_windows)
end

local rings = {}
local function ring_of(name)
  local ring = rings[name]
  if ring then return ring end
  local text
  if name == alias then text = got[7] else text = call('HGET', POOL, 'alias:' .. name) end
  if not text then
    if alias_count >= ALIASES_MAX and name ~= 'other' then return ring_of('other') end
    alias_count = alias_count + 1
    ring = {0, 0, 0, 0, 0, 0, 0, index = index}
  else
    local w0, w1, w2, w3, w4, w5, w6, w7 = match(text,
      '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)')
    ring = {w1 + 0, w2 + 0, w3 + 0, w4 + 0, w5 + 0, w6 + 0, w7 + 0, index = w0 + 0}
    if ring.index ~= index then
      ring.closed = close_window(ring, call('HGET', POOL, 'past:' .. name) or '')
      put('past:' .. name, ring.closed)
    end
  end
  rings[name] = ring
  return ring
end

-- A shim: live, dead or forgotten (kept for its leases' sake); its admissions of five minutes.
local shims = {}
local function shim_of(name)
  local s = shims[name]
  if s then return s end
  local text
  if name == shim then text = got[6] else text = call('HGET', POOL, 'shim:' .. name) end
  if text then
    local state, withheld_ppm, withheld_until, held, waiting, seen, at, admitted, past, older =
      match(text, '^(%a) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (.*)$')
    s = {state = state, withheld = withheld_ppm + 0, withheld_until = withheld_until + 0,
         leases = held + 0, waiters = waiting + 0, seen = seen + 0, index = at + 0,
         admitted = admitted + 0, past = past + 0, older = older}
    if s.index ~= index then
      if s.admitted > 0 then s.older = s.older .. format('%.0f:%.0f ', s.index, s.admitted) end
      s.admitted, s.past, s.index = 0, 0, index
      local kept = ''
      for when, count in string.gmatch(s.older, '(%S+):(%S+) ') do
        if when + 0 > index - WINDOWS_KEPT then
          kept = kept .. when .. ':' .. count .. ' '
          s.past = s.past + count
        end
      end
      s.older = kept
    end
  else
    s = {state = 'f', withheld = 0, withheld_until = 0, leases = 0, waiters = 0, seen = 0,
         index = index, admitted = 0, past = 0, older = ''}
  end
  shims[name] = s
  return s
end

local function share_of(s)
  local all = past_admitted + window[ADMITTED]
  if all == 0 or s.state == 'f' then return 0 end
  local x = (s.past + s.admitted) * MICRO
  return (x - x % all) / all
end

-- --- The queue -------------------------------------------------------------------------------

-- LINES holds, in order, who of a shim's waiters reserves: its name with its length before it, so
-- that no name begins another; the score, moved to be positive; the id.
local function line_entry(w)
  return #w.shim .. ':' .. w.shim .. format('%017.0f', w.score + 4503599627370496) .. w.id
end

-- The first `count` of a shim's line, as LINES has them, and where the score begins.
local function line_begin(name, count)
  local prefix = #name .. ':' .. name
  return call('ZRANGE', LINES, '[' .. prefix, '(' .. prefix .. '\255', 'BYLEX', 'LIMIT', 0, count),
    #prefix + 1
end

local function add_front(name)
  local first, at = line_begin(name, 1)
  if not first[1] then return end
  call('ZADD', FRONTS, format('%.0f', sub(first[1], at, at + 16) - 4503599627370496),
       sub(first[1], at + 17))
  head_known = false
end

local function remove_front(name)
  local first, at = line_begin(name, 1)
  if not first[1] then return end
  call('ZREM', FRONTS, sub(first[1], at + 17))
  head_known = false
end

local function parse_waiter(name, text)
  local score, charge, estimate, output, cached, out_weight, registered, reserves, length, names =
    match(text, '^W (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d+) (.*)$')
  return {id = name, score = score + 0, charge = charge + 0, estimate = estimate + 0,
          output = output + 0, cached = cached, out_weight = out_weight,
          registered = registered + 0, reserves = reserves == '1', shim = sub(names, 1, length),
          alias = sub(names, length + 1)}
end

local function write_waiter(w)
  calls[w.id] = format('W %.0f %.0f %.0f %.0f %s %s %.0f %s %.0f %s%s', w.score, w.charge,
                       w.estimate, w.output, w.cached, w.out_weight, w.registered,
                       w.reserves and '1' or '0', #w.shim, w.shim, w.alias)
end

local function set_head(w)
  head_id, head_shim, head_score = w.id, w.shim, w.score
  head_charge, head_estimate, head_output = w.charge, w.estimate, w.output
  head_known = true
end

local function find_head()
  if head_known then return end
  head_id = call('ZRANGE', FRONTS, 0, 0)[1]
  head_known = true
  if head_id == '' then
    head_id = nil
  else
    set_head(parse_waiter(head_id, read_call(head_id)))
  end
end

-- Into its shim's line, which may get a new front by it.
local function into_line(w, first_of_line)
  call('ZADD', LINES, 0, line_entry(w))
  if shim_of(w.shim).state ~= 'l' then return end
  if not first_of_line then
    local first, at = line_begin(w.shim, 2)
    if sub(first[1], at + 17) ~= w.id then return end
    if first[2] then call('ZREM', FRONTS, sub(first[2], at + 17)) end
  end
  call('ZADD', FRONTS, format('%.0f', w.score), w.id)
  head_known = false
end

local function out_of_line(w)
  call('ZREM', LINES, line_entry(w))
  if call('ZREM', FRONTS, w.id) == 1 then
    add_front(w.shim)
    head_known = false
  end
end

local function take_waiter(w)
  call('ZREM', ORDER, w.id)
  call('ZREM', HOLDS, w.id)
  if w.reserves then out_of_line(w) end
  waiters = waiters - 1
  wait_charge = wait_charge - w.charge
  wait_estimate = wait_estimate - w.estimate
  wait_output = wait_output - w.output
  local s = shim_of(w.shim)
  s.waiters, s.changed = s.waiters - 1, true
  calls[w.id] = false
end

local function set_reserves(w, reserves)
  if w.reserves == reserves then return end
  w.reserves = reserves
  write_waiter(w)
  if reserves then into_line(w) else out_of_line(w) end
end

-- --- Shims -----------------------------------------------------------------------------------

local function due(at)
  if at < next_sweep then next_sweep = at end
end

local function give_back_share(name, s)
  if s.withheld == 0 then return end
  call('ZREM', WITHHELD, name)
  withheld = withheld - s.withheld
  s.withheld, s.changed = 0, true
  apply_withheld()
end

-- Seen now: alive, and nothing is withheld for it any more.
local function seen(name)
  local s = shim_of(name)
  if s.state == 'l' and s.seen == now then return s end
  call('ZADD', LIVE, format('%.0f', now), name)
  s.seen, s.changed = now, true
  due(now + SHIM_LIVES)
  if s.state == 'l' then return s end
  if s.state == 'd' then call('ZREM', DEAD, name) else shim_count = shim_count + 1 end
  s.state = 'l'
  give_back_share(name, s)
  if s.waiters > 0 then add_front(name) end
  return s
end

local function no_longer_live(name, s)
  call('ZREM', LIVE, name)
  call('ZADD', DEAD, format('%.0f', s.seen), name)
  due(s.seen + SHIM_KEPT)
  s.state, s.changed = 'd', true
  if s.waiters > 0 then remove_front(name) end
end

-- --- What happens by itself ------------------------------------------------------------------

if not looking and head_id and turn_at and turn_at + LAPSE_AFTER <= now then
  set_reserves(parse_waiter(head_id, read_call(head_id)), false)
end

local function due_in(key, until_at)
  return call('ZRANGE', key, '-inf', format('%.0f', until_at), 'BYSCORE', 'LIMIT', 0, SWEEP_MAX)
end

local function forget_ended()
  local ids = due_in(ENDED, now)
  if not ids[1] then return end
  call('ZREM', ENDED, unpack(ids))
  for _, name in ipairs(ids) do
    if sub(read_call(name) or '', 1, 1) == 'E' then calls[name] = false end
  end
end

if not looking and now >= next_sweep then
  for _, name in ipairs(due_in(LEASES, now)) do
    local estimate, length, names = match(read_call(name),
      '^L (%S+) %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) (.*)$')
    local ring = ring_of(sub(names, length + 1))
    ring[RELEASED] = ring[RELEASED] + estimate
    window[RELEASED] = window[RELEASED] + estimate
    leases, inflight = leases - 1, inflight - estimate
    local s = shim_of(sub(names, 1, length))
    s.leases, s.changed = s.leases - 1, true
    call('ZREM', LEASES, name)
    calls[name] = false
  end
  for _, name in ipairs(due_in(HOLDS, now)) do
    local w = parse_waiter(name, read_call(name))
    take_waiter(w)
    local ring = ring_of(w.alias)
    ring[TIMEOUTS], window[TIMEOUTS] = ring[TIMEOUTS] + 1, window[TIMEOUTS] + 1
  end
  for _, name in ipairs(due_in(LIVE, now - SHIM_LIVES)) do
    local s = shim_of(name)
    if s.leases > 0 or s.waiters > 0 then
      local x = share_of(s) * WITHHELD_PPM
      s.withheld = (x - x % MICRO) / MICRO
      if s.withheld > 0 then
        s.withheld_until = now + WITHHELD_FOR
        call('ZADD', WITHHELD, format('%.0f', s.withheld_until), name)
        withheld = withheld + s.withheld
      end
    end
    no_longer_live(name, s)
  end
  forget_ended()
  for _, name in ipairs(due_in(WITHHELD, now)) do give_back_share(name, shim_of(name)) end
  for _, name in ipairs(due_in(DEAD, now - SHIM_KEPT)) do
    local s = shim_of(name)
    give_back_share(name, s)
    call('ZREM', DEAD, name)
    shim_count = shim_count - 1
    s.state, s.admitted, s.past, s.older, s.changed = 'f', 0, 0, '', true
  end
  apply_withheld()
  local function first(key, later)
    return call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] + (later or 0)
  end
  next_sweep = math.min(first(LEASES), first(HOLDS), first(LIVE, SHIM_LIVES),
                        first(WITHHELD), first(DEAD, SHIM_KEPT), NEVER)
end

-- --- The decision ----------------------------------------------------------------------------

-- Until the next call may pass: the head's probe, for others the one after it.
local function pause_left(behind_head)
  if paused_until <= now then return 0 end
  local probe = probe_at
  if behind_head and probe_at <= now then probe = now + PROBE_EVERY end
  return math.max(math.min(paused_until, probe) - now, 0)
end

local function predicted_wait(w, place)
  local function ahead(sum)
    if waiters == 0 then return 0 end
    return math.min((sum - sum % waiters) / waiters * place, TOKENS_MAX)
  end
  local wait = token_wait((ahead(wait_charge) + math.min(w.charge, c_burst)) * MICRO, tokens, rate)
  wait = math.max(wait, request_wait((math.min(place, 1000000) + 1) * MICRO))
  local needed = inflight + ahead(wait_estimate) + math.min(w.estimate, k_inflight) - k_inflight
  if needed > 0 then
    local released = math.min(released_lately, TOKENS_MAX)
    local period = RELEASE_WINDOWS * WINDOW
    local release_wait = INFLIGHT_WAIT_MAX
    local most = released * INFLIGHT_WAIT_MAX
    if needed <= (most - most % period) / period then
      local x = needed * period
      release_wait = (x + -x % released) / released
    end
    wait = math.max(wait, math.min(release_wait, INFLIGHT_WAIT_MAX))
  end
  if c_out > 0 then
    wait = math.max(wait, token_wait((ahead(wait_output) + math.min(w.output, c_out)) * MICRO, out,
                                     out_rate))
  end
  return wait
end

-- Takes micro-units, whatever the level; a negative amount is a refund.
local function draw_tokens(amount)
  tokens = math.max(math.min(tokens - amount, c_burst * MICRO), -DEBT_MAX)
end
local function draw_out(amount)
  if c_out > 0 then out = math.max(math.min(out - amount, c_out * MICRO), -DEBT_MAX) end
end
local function draw_request(amount)
  requests = math.max(math.min(requests - amount, c_req * MICRO), -DEBT_MAX)
  if requests == c_req * MICRO then rest = 0 end
end

local status = 'ok'
local answer = {}  -- After the fields that every reply begins with.
local published    -- A message for all shims that have waiters.

if op == 'acquire' then
  if id == '' or shim == '' then fail('HGARG', 'acquire: id and shim must not be empty') end
  local w = {id = id, estimate = arg(6, 0, TOKENS_MAX), charge = arg(7, 0, TOKENS_MAX),
             output = arg(8, 0, TOKENS_MAX)}
  local hold_left = arg(9, 0, HOLD_MAX)
  local head_start = arg(10, 0, head_start_max + 0)
  local since = arg(11, 0, SENIORITY_MAX)
  local ttl = arg(12, TTL_MIN, TTL_MAX)
  local cached, out_weight = arg(13, 0, WEIGHT_MAX), arg(14, 0, WEIGHT_MAX)

  local s = seen(shim)
  if told_id == id then told_id, told_shim, told_at = nil, nil, nil end
  local record = calls[id]
  if record == nil then record = got[5] end
  local kind = record and sub(record, 1, 1)
  if kind == 'E' and sub(record, 3) + 0 <= now then kind = nil end

  if kind == 'L' or kind == 'E' then
    status = kind == 'L' and 'admitted' or 'ended'
    answer = {share_of(s), shim_count}
  else
    local was_waiting = kind == 'W'
    if was_waiting then
      w = parse_waiter(id, record)
      set_reserves(w, true)
      call('ZADD', HOLDS, format('%.0f', now + hold_left), id)
      due(now + hold_left)
    else
      local size = math.min(w.charge, c_burst) * MICRO
      local refill = (size - size % r_tok) / r_tok
      w.score = now - since - math.min(refill, HEAD_START_OF_SIZE) - head_start
      w.shim, w.alias, w.registered = shim, alias, now
      w.cached, w.out_weight = format('%.0f', cached), format('%.0f', out_weight)
    end

    find_head()
    local behind = head_id ~= nil and head_id ~= id and w.score >= head_score
    if behind and w.score == head_score then  -- Ties by id.
      local at = 1
      local mine, its = string.byte(id, at), string.byte(head_id, at)
      while mine and mine == its do
        at = at + 1
        mine, its = string.byte(id, at), string.byte(head_id, at)
      end
      behind = its == nil or mine ~= nil and mine > its
    end

    local axis
    local tokens_needed, estimate_needed, output_needed
    if behind then
      tokens_needed = w.charge + math.min(head_charge, c_burst)
      estimate_needed = w.estimate + math.min(head_estimate, k_inflight)
      output_needed = w.output + math.min(head_output, c_out)
    else
      tokens_needed = math.min(w.charge, c_burst)
      estimate_needed = math.min(w.estimate, k_inflight)
      output_needed = math.min(w.output, c_out)
    end
    if paused_until > now and (behind or probe_at > now) then
      axis = 'paused'
    elseif tokens < tokens_needed * MICRO then
      axis = 'tok'
    elseif requests < (behind and 2 or 1) * MICRO then
      axis = 'req'
    elseif inflight + estimate_needed > k_inflight then
      axis = 'inflight'
    elseif c_out > 0 and out < output_needed * MICRO then
      axis = 'out'
    end

    if not axis then
      status = 'admitted'
      draw_tokens(w.charge * MICRO)
      draw_request(MICRO)
      draw_out(w.output * MICRO)
      if was_waiting then take_waiter(w) end
      calls[id] = format('L %.0f %.0f %.0f %s %s 0 %.0f %.0f %.0f %s%s', w.estimate, w.charge,
                         w.output, w.cached, w.out_weight, now, ttl, #w.shim, w.shim, w.alias)
      call('ZADD', LEASES, format('%.0f', now + ttl), id)
      due(now + ttl)
      leases, inflight = leases + 1, inflight + w.estimate
      local owner = shim_of(w.shim)
      owner.leases, owner.changed = owner.leases + 1, true
      if owner.state ~= 'f' then owner.admitted = owner.admitted + 1 end
      if paused_until > now then probe_at = now + PROBE_EVERY end
      local long = was_waiting and now - w.registered > WAITED_LONG and 1 or 0
      local ring = ring_of(w.alias)
      ring[ADMITTED], ring[LONG] = ring[ADMITTED] + 1, ring[LONG] + long
      window[ADMITTED], window[LONG] = window[ADMITTED] + 1, window[LONG] + long
      answer = {share_of(s), shim_count}
    else
      status = 'denied'
      local waits = was_waiting
      if not was_waiting and hold_left > 0 then
        waits = true
        w.reserves = true
        call('ZADD', ORDER, format('%.0f', w.score), id)
        call('ZADD', HOLDS, format('%.0f', now + hold_left), id)
        due(now + hold_left)
        waiters = waiters + 1
        wait_charge = wait_charge + w.charge
        wait_estimate = wait_estimate + w.estimate
        wait_output = wait_output + w.output
        write_waiter(w)
        s.waiters, s.changed = s.waiters + 1, true
        into_line(w, s.waiters == 1)
        if behind then head_known = true else set_head(w) end
        local ring = ring_of(alias)
        ring[HELD], window[HELD] = ring[HELD] + w.charge, window[HELD] + w.charge
      end
      local place = 0
      if behind then
        if not waits then call('ZADD', ORDER, format('%.0f', w.score), id) end
        place = math.max(call('ZRANK', ORDER, id), 1)
        if not waits then call('ZREM', ORDER, id) end
      end
      local wait, pause = predicted_wait(w, place), 0
      if axis == 'paused' then
        pause = pause_left(behind)
        wait = math.max(wait, pause)
      end
      answer = {share_of(s), shim_count, axis, place, wait, pause}
    end
  end

-- --- Endings ---------------------------------------------------------------------------------

elseif op == 'settle' or op == 'overload' then
  local by = op == 'settle' and ARGV[4] or 'overload'
  local uncached, cached, output, chars, flat, overloaded = 0, 0, 0, 0, 0, 0
  if by == 'usage' then
    uncached, cached, output = arg(5, 0, USAGE_MAX), arg(6, 0, USAGE_MAX), arg(7, 0, USAGE_MAX)
    chars, flat = arg(8, 0, TOKENS_MAX), arg(9, 0, USAGE_MAX)
  elseif by ~= 'estimate' and by ~= 'refund' and by ~= 'overload' then
    fail('HGARG', 'settle: by must be usage, estimate or refund')
  end
  if op == 'settle' then overloaded = arg(10, 0, 1) end
  local record = calls[id]
  if record == nil then record = got[5] end
  local done = record and sub(record, 1, 1) == 'L'
  if done then
    local estimate, charge, out_charge, w_cached, w_output, rebuilt, _, ttl, length, names =
      match(record, '^L (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d+) (.*)$')
    local owner, name = sub(names, 1, length), sub(names, length + 1)
    call('ZREM', LEASES, id)
    leases, inflight = leases - 1, inflight - estimate
    calls[id] = format('E %.0f', now + 2 * ttl)
    call('ZADD', ENDED, format('%.0f', now + 2 * ttl), id)
    endings = endings + 1
    if endings >= SWEEP_MAX / 2 then
      endings = 0
      forget_ended()
    end
    local s = seen(owner)
    s.leases, s.changed = s.leases - 1, true
    local ring = ring_of(name)
    ring[RELEASED], window[RELEASED] = ring[RELEASED] + estimate, window[RELEASED] + estimate
    rebuilt = rebuilt == '1'
    local accepted = 0
    if by == 'estimate' then
      accepted = charge + 0
    elseif by == 'usage' then
      local x = uncached * MICRO + cached * w_cached + output * w_output
      accepted = math.min((x - x % MICRO) / MICRO, TOKENS_MAX)
      if accepted > charge + 0 or not rebuilt then draw_tokens((accepted - charge) * MICRO) end
      if output > out_charge + 0 or not rebuilt then draw_out((output - out_charge) * MICRO) end
      -- Characters per token: an average of what calls of some size show.
      local text_tokens = uncached + cached - flat
      if chars > 0 and text_tokens >= 1000 then
        x = chars * MICRO
        local observed = (x - x % text_tokens) / text_tokens
        local difference = math.max(math.min(observed, 8000000), 2000000) - kappa
        kappa = kappa + (difference - difference % 20) / 20
      end
    elseif (by == 'refund' or refused_count == '0') and not rebuilt then
      draw_tokens(-charge * MICRO)
      draw_request(-MICRO)
      draw_out(-out_charge * MICRO)
    end
    if by == 'overload' then overloaded = 1 end
    ring[ACCEPTED], window[ACCEPTED] = ring[ACCEPTED] + accepted, window[ACCEPTED] + accepted
    ring[OVERLOADS] = ring[OVERLOADS] + overloaded
    window[OVERLOADS] = window[OVERLOADS] + overloaded
  end
  answer = {done and 1 or 0}

elseif op == 'leave' then
  local why = ARGV[4]
  if why ~= 'gone' and why ~= 'timed_out' then fail('HGARG', 'leave: say gone or timed_out') end
  local record = calls[id]
  if record == nil then record = got[5] end
  local done = record and sub(record, 1, 1) == 'W'
  if done then
    local w = parse_waiter(id, record)
    seen(w.shim)
    take_waiter(w)
    if why == 'timed_out' then
      local ring = ring_of(w.alias)
      ring[TIMEOUTS], window[TIMEOUTS] = ring[TIMEOUTS] + 1, window[TIMEOUTS] + 1
    end
  end
  answer = {done and 1 or 0}

-- --- Heartbeats ------------------------------------------------------------------------------

elseif op == 'renew' then
  if shim == '' then fail('HGARG', 'renew: shim must not be empty') end
  local ttl = arg(4, TTL_MIN, TTL_MAX)
  local count = math.min((#ARGV - 4) / RENEW_FIELDS, RENEW_MAX)
  if (#ARGV - 4) % RENEW_FIELDS ~= 0 then fail('HGARG', 'renew: seven arguments a lease') end
  local renewed, fields = {}, {}
  for i = 1, count do
    local at = 5 + (i - 1) * RENEW_FIELDS
    if ARGV[at] == '' then fail('HGARG', 'renew: an id must not be empty') end
    renewed[i] = {id = ARGV[at], alias = ARGV[at + 1], estimate = arg(at + 2, 0, TOKENS_MAX),
                  charge = arg(at + 3, 0, TOKENS_MAX), output = arg(at + 4, 0, TOKENS_MAX),
                  cached = arg(at + 5, 0, WEIGHT_MAX), out_weight = arg(at + 6, 0, WEIGHT_MAX)}
    fields[i] = 'call:' .. ARGV[at]
  end
  local s = seen(shim)
  local records = count > 0 and call('HMGET', POOL, unpack(fields)) or {}
  local deadlines = {}
  for i, lease in ipairs(renewed) do
    local record = calls[lease.id]
    if record == nil then record = records[i] end
    local kind = record and sub(record, 1, 1)
    if kind == 'E' and sub(record, 3) + 0 <= now then kind = nil end
    if kind ~= 'E' then
      deadlines[#deadlines + 1] = format('%.0f', now + ttl)
      deadlines[#deadlines + 1] = lease.id
      if kind == 'L' then
        local head, old, names = match(record, '^(L %S+ %S+ %S+ %S+ %S+ %S+ %S+ )(%S+)( .*)$')
        if old + 0 ~= ttl then calls[lease.id] = head .. format('%.0f', ttl) .. names end
      else
        -- Its owner knows better: the store lost the admission, and maybe still has the waiter.
        if kind == 'W' then take_waiter(parse_waiter(lease.id, record)) end
        calls[lease.id] = format('L %.0f %.0f %.0f %.0f %.0f 1 %.0f %.0f %.0f %s%s', lease.estimate,
                                 lease.charge, lease.output, lease.cached, lease.out_weight, now,
                                 ttl, #shim, shim, lease.alias)
        leases, inflight = leases + 1, inflight + lease.estimate
        s.leases, s.changed = s.leases + 1, true
      end
    end
  end
  if deadlines[1] then
    call('ZADD', LEASES, unpack(deadlines))
    due(now + ttl)
  end
  answer = {share_of(s), shim_count}

elseif op == 'farewell' then
  local s = shim_of(shim)
  if s.state ~= 'f' then
    give_back_share(shim, s)
    if s.state == 'l' then no_longer_live(shim, s) end
  end

-- --- Configuration ---------------------------------------------------------------------------

elseif op == 'configure' or op == 'restore' then
  local number = arg(3, 0, NEVER)
  local adopt
  if op == 'configure' then adopt = number == version else adopt = number > version end
  if adopt then
    local old_kappa = match(call('HGET', POOL, 'config'), '^(%S+)') + 0
    -- What was learned stays, unless a person says otherwise.
    if config[10] ~= old_kappa then kappa = config[10] end
    version = op == 'configure' and version + 1 or number
    local had_out = c_out > 0
    c_burst, r_tok, k_inflight, c_req, r_qps, c_out, r_out = unpack(config, 1, 7)
    tokens = math.min(tokens, c_burst * MICRO)
    requests = math.min(requests, c_req * MICRO)
    if requests == c_req * MICRO then rest = 0 end
    out = had_out and math.min(out, c_out * MICRO) or c_out * MICRO
    apply_withheld()
    put('limits', config.limits)
    put('config', config.rest)
  elseif op == 'configure' then
    status = 'conflict'
  end
  answer = {adopt and 1 or 0}

elseif op == 'create' then
  status = 'exists'

elseif op == 'pause' then
  paused_until = now + arg(3, 0, PAUSE_MAX)
  probe_at = now + PROBE_EVERY
  local left = pause_left(false)
  answer = {now + left - offset, left}
  published = format('%.0f %.0f ', left, now + left - offset)

elseif op == 'resume' then
  paused_until = now

elseif op == 'summary' then
  return {status, version, kappa, epoch, '', got[2], call('HGET', POOL, 'config')}

elseif op == 'view' then
  local function list(key)
    local flat, rows = call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
    for i = 1, #flat, 2 do
      if flat[i] ~= '' then rows[#rows + 1] = {flat[i], flat[i + 1] + 0} end
    end
    return rows
  end
  local held, waiting, past, known = {}, {}, {}, {}
  for i, row in ipairs(list(LEASES)) do
    local estimate, since, length, names = match(read_call(row[1]),
      '^L (%S+) %S+ %S+ %S+ %S+ %S+ (%S+) %S+ (%d+) (.*)$')
    held[i] = {row[1], sub(names, 1, length), sub(names, length + 1), estimate + 0, now - since,
               math.max(row[2] - now, 0)}
  end
  for i, row in ipairs(list(ORDER)) do
    local w = parse_waiter(row[1], read_call(row[1]))
    local place = w.id == head_id and 0 or math.max(i - 1, 1)
    waiting[i] = {w.id, w.shim, w.alias, w.estimate, w.charge, now - w.registered,
                  predicted_wait(w, place)}
  end
  local flat = call('HGETALL', POOL)
  local fields = {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  for field in pairs(fields) do
    local name = match(field, '^alias:(.*)$')
    if name then
      local ring = ring_of(name)
      local text = ring.closed or fields['past:' .. name] or ''
      past[#past + 1] = {name, close_window(ring, text)}
    end
  end
  for _, key in ipairs({LIVE, DEAD}) do
    for _, row in ipairs(list(key)) do
      local s = shim_of(row[1])
      known[#known + 1] = {row[1], now - s.seen, share_of(s), s.withheld > 0 and 1 or 0}
    end
  end
  pool_windows = close_window(window, pool_windows or fields.windows)
  return {status, version, kappa, epoch, '', got[2], fields.config, tokens, requests, out, inflight,
          math.max(paused_until - now, 0), held, waiting, pool_windows, past, known}

elseif op ~= 'step' then
  fail('HGARG', 'no operation "' .. op .. '"')
end

-- --- The head's turn, and the end of the step ------------------------------------------------

find_head()
if not head_id then
  turn_id, turn_at = nil, nil
else
  local at
  if inflight + math.min(head_estimate, k_inflight) <= k_inflight then
    local wait = math.max(token_wait(math.min(head_charge, c_burst) * MICRO, tokens, rate),
                          request_wait(MICRO))
    if c_out > 0 then
      wait = math.max(wait, token_wait(math.min(head_output, c_out) * MICRO, out, out_rate))
    end
    at = now + math.max(wait, pause_left(false))
  end
  -- Since turn_at: the time in which it may ask goes on.
  local still_its_turn = head_id == turn_id and turn_at and turn_at <= now and at == now
  if not still_its_turn then turn_id, turn_at = head_id, at end
end

local wake = ''
if turn_at then
  local at = turn_at - offset
  if told_id ~= head_id or told_shim ~= head_shim or told_at ~= at then
    told_id, told_shim, told_at = head_id, head_shim, at
    wake = {head_id, head_shim, at, math.max(turn_at - now, 0)}
  end
end

for name, s in pairs(shims) do
  if s.changed then
    if s.state == 'f' and s.leases == 0 and s.waiters == 0 then
      call('HDEL', POOL, 'shim:' .. name)
    else
      put('shim:' .. name, format('%s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %s', s.state,
                                  s.withheld, s.withheld_until, s.leases, s.waiters, s.seen,
                                  s.index, s.admitted, s.past, s.older))
    end
  end
end
for name, ring in pairs(rings) do
  put('alias:' .. name, ring_text(ring))
end
for name, text in pairs(calls) do
  if text then put('call:' .. name, text) else call('HDEL', POOL, 'call:' .. name) end
end
local head = ''
if head_id or told_at then
  head = format('%.0f %.0f %.0f %.0f %s %s %.0f %.0f %.0f %s%s%s%s', head_score or 0,
                head_charge or 0, head_estimate or 0, head_output or 0,
                turn_at and format('%.0f', turn_at) or '-',
                told_at and format('%.0f', told_at) or '-', head_id and #head_id or 0,
                head_id and #head_shim or 0, told_at and #told_id or 0, head_id or '',
                head_id and head_shim or '', told_at and told_id or '', told_at and told_shim or '')
end
if head ~= got[3] then put('head', head) end
local text = format('%s %.0f %.0f', ring_text(window), past_admitted, released_lately)
if text ~= got[4] then put('window', text) end
if raw - refreshed >= REFRESH_EVERY or raw < refreshed + 0 then
  refreshed = raw
  for i = 1, #KEYS do call('EXPIRE', KEYS[i], LIFETIME_S) end
end
put('state', format('%s %s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f' ..
                    ' %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f%s',
                    state_format, clock, version, epoch, offset, last, tokens, requests, rest, out,
                    kappa, paused_until, probe_at, withheld, next_sweep, leases, inflight, waiters,
                    wait_charge, wait_estimate, wait_output, shim_count, alias_count, refreshed,
                    endings, tail))
call('HSET', POOL, unpack(batch, 1, batched))

-- Told last, and never able to fail the step.
local channel = sub(KEYS[1], 1, -5) .. 'wake:'
if wake ~= '' then
  redis.pcall('PUBLISH', channel .. head_shim, format('%.0f %.0f %s', wake[4], wake[3], head_id))
end
if published and waiters > 0 then
  for _, name in ipairs(call('ZRANGE', LIVE, 0, -1)) do
    if name ~= '' and shim_of(name).waiters > 0 then
      redis.pcall('PUBLISH', channel .. name, published)
    end
  end
end
return {status, version, kappa, epoch, wake, unpack(answer)}
