-- The PUTs of wrk. A thread has one connection and one document, and names the revision that the last answer said.
--   wrk … URL -- RULE BODY VALUE REVISION…
-- The rule is `etag` (If-Match and ETag) or `rev` (?rev= and the member rev). The body has %d for a value, which is another one each time.
local threads = 0

function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end

function init(args)
    rule, body, value = args[1], args[2], tonumber(args[3])
    revision = args[4 + number]
    path = wrk.path .. number
end

function request()
    value = value + 1
    local target = path
    if rule == "rev" then
        target = path .. "?rev=" .. revision
    else
        wrk.headers["If-Match"] = revision
    end
    return wrk.format("PUT", target, nil, string.format(body, value))
end

function response(status, headers, text)
    if rule == "rev" then
        revision = text:match('"rev":"([^"]+)"')
    else
        revision = headers["etag"] or headers["ETag"] or headers["Etag"]
    end
end
