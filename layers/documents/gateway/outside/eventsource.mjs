// The live feed as the package eventsource hears it, over a line that ends after each line of the stream in turn, while changes
// are made. A client that comes back hears each change. PARTITIONS says how many the gateway has.
import http from "node:http";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { EventSource } from "eventsource";

const { URL: GATEWAY, TOKEN, PARTITIONS } = process.env;
const PREFIX = "outside-lines/";
const DOCUMENTS = 24;
const authorization = `Bearer ${TOKEN}`;

// Where the connections end, one after the other: so many lines behind the first event that comes after so many milliseconds.
// With many partitions an id comes about once a second. So a connection meets one in its first lines, and again after 1.1 s.
const cuts = [];
for (const [wait, most] of [[0, 29], [1100, 9], [0, 29]])
    for (let lines = 1; lines <= most; lines += 1) cuts.push({ wait, lines });
const planned = cuts.length;

const faults = new Set();
const made = new Map(); // The tag of each change, by its path and revision.
const heard = new Map(); // As `made`, of the changes that were heard.
const newest = new Map(); // The newest revision of each path that was heard.
const counts = { requests: 0, events: 0, repeats: 0, resets: 0, ids: 0 };
let id; // The last one of an event that was dispatched.

function carry(feed, answer, { wait, lines }) {
    const begun = Date.now();
    let isCounted = false;
    let isBetween = true; // Whether the next line begins an event.
    feed.setEncoding("utf8");
    feed.on("error", () => {}); // The line ends it.
    feed.on("data", (text) => {
        for (const part of text.split(/(?<=\n)/)) {
            if (lines === 0) return; // The feed can have sent more before its end.
            isCounted ||= isBetween && Date.now() - begun >= wait;
            isBetween = part === "\n";
            answer.write(part);
            lines -= isCounted && part.endsWith("\n");
            if (lines === 0) {
                answer.write("", () => answer.destroy());
                feed.destroy();
            }
        }
    });
}

const line = http.createServer((request, answer) => {
    counts.requests += 1;
    const sent = request.headers["last-event-id"];
    if (sent !== id) faults.add(`the client came back with ${sent} and not with ${id}`);
    const headers = { authorization, ...(sent && { "last-event-id": sent }) };
    http.get(`${GATEWAY}/feed?prefix=${PREFIX}`, { headers }, (feed) => {
        answer.writeHead(feed.statusCode, { "content-type": feed.headers["content-type"] });
        answer.write("retry: 1\n"); // The client comes back after a millisecond.
        carry(feed, answer, cuts.shift() ?? { wait: 0, lines: Infinity });
    });
});
line.listen(0, "127.0.0.1");
await once(line, "listening");

function hear({ type, data, lastEventId }) {
    if (lastEventId) {
        counts.ids += 1;
        id = lastEventId;
    }
    if (type === "reset") counts.resets += 1;
    if (type !== "feed:put") return;
    const { path, revision, etag } = JSON.parse(data);
    const [change, last] = [`${path} ${revision}`, newest.get(path) ?? 0];
    if (revision > last + 1) faults.add(`${path} went from ${last} to ${revision}`);
    counts.events += 1;
    counts.repeats += heard.has(change);
    heard.set(change, etag);
    newest.set(path, Math.max(revision, last));
}

async function put(number) {
    const url = `${GATEWAY}/content/${PREFIX}${number % DOCUMENTS}`;
    const answer = await fetch(url, { method: "PUT", headers: { authorization }, body: String(number) });
    if (!answer.ok) throw new Error(`PUT ${url}: ${answer.status}`);
    const { path, revision } = await answer.json();
    made.set(`${path} ${revision}`, answer.headers.get("etag"));
}

async function until(what, isDone, meanwhile = () => {}) {
    const end = Date.now() + 60_000;
    while (!isDone() && faults.size === 0) {
        if (Date.now() > end) return faults.add(`not within a minute: ${what}`);
        await meanwhile();
        await sleep(5);
    }
}

const source = new EventSource(`http://127.0.0.1:${line.address().port}`);
for (const name of ["begin", "reset", "feed:put"]) source.addEventListener(name, hear);
source.onerror = ({ code }) => source.readyState === EventSource.CLOSED && faults.add(`the client stopped by ${code}`);

// A client without an id hears what comes from now on.
await until("the first event", () => id !== undefined);
let number = 0;
await until("all cuts", () => counts.requests > planned, () => put((number += 1)));
await until("each change is heard", () => [...made.keys()].every((change) => heard.has(change)));
source.close();
line.close();

for (const [change, etag] of heard) if (made.get(change) !== etag) faults.add(`${change} was heard with ${etag}`);
const missing = [...made.keys()].filter((change) => !heard.has(change));
if (missing.length > 0) faults.add(`${missing.length} of ${made.size} changes were not heard, such as ${missing[0]}`);
if (counts.resets > 0) faults.add("a reset, though nothing was lost");
if (PARTITIONS === "1" && counts.repeats > 0) faults.add("an event came twice, though each has an id");
for (const text of [...faults].slice(0, 10)) console.log(`FAILED ${text}`);
console.log(`eventsource, partitions: ${PARTITIONS}: ${planned} cuts, ${made.size} changes, ${JSON.stringify(counts)}`);
process.exit(faults.size > 0 ? 1 : 0);
