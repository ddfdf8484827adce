import { connect, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { Writable } from "node:stream";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { effect, type TurnSaver } from "langgraph-checkpoint-turns";
import { Cursors, internalsOf, redactedThread, tellLive, WatchedFile } from "../../src/testing-internal";
import { makeThreads } from "../cli/cli-world";
import { longTest } from "../support/lane-test";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { ask, openToLook, viewing, type World } from "./viewer-world";

const place = tempFile();
let saver: TurnSaver;
let world: World;

beforeAll(async () => {
  const writer = openSaver(place);
  await makeThreads(writer);
  await (writer.close() as unknown);
  saver = openToLook(place);
  world = await viewing(saver);
});

afterAll(async () => {
  await world.close();
  await (saver.close() as unknown);
});

const own = () => `127.0.0.1:${world.port}`;

describe("who may ask", () => {
  test.each([
    ["a name that an attacker's DNS leads here", "evil.example"],
    ["the same with our port", "evil.example:PORT"],
    ["another port", "127.0.0.1:1"],
    ["no port", "127.0.0.1"],
    ["a name that only begins like ours", "127.0.0.1:PORT.evil.example"],
  ])("S10.5 a Host that isn't ours is refused with 421: %s", async (_, host) => {
    for (const target of ["/", "/api/overview", "/api/live", "/?token=x"]) {
      const { status, headers } = await world.ask(target, { host: host.replace("PORT", String(world.port)) });
      expect([status, headers["set-cookie"]]).toEqual([421, undefined]);
    }
  });

  test("S10.5 localhost is the same as 127.0.0.1", async () => {
    expect((await world.ask("/api/overview", { host: `localhost:${world.port}` })).status).toBe(200);
  });

  test.each(["cross-site", "same-site", "anything"])("S10.5 a request of another site is refused with 403: %s", async (site) => {
    for (const target of ["/", "/api/overview", "/api/live"]) {
      const { status, json } = await world.ask(target, { headers: { "Sec-Fetch-Site": site } });
      expect(status).toBe(403);
      if (json !== undefined) expect(json.error.code).toBe("CROSS_SITE");
    }
  });

  test("S10.5 a stranger's link with the right token is refused too, and the token still works", async () => {
    const { pathname, search } = new URL(world.viewer.newLink());
    expect((await ask(world.port, pathname + search, { headers: { "Sec-Fetch-Site": "cross-site" } })).status).toBe(403);
    expect((await ask(world.port, pathname + search)).status).toBe(303);
  });

  test.each(["same-origin", "none"])("S10.5 the page itself and a typed address may ask: %s", async (site) => {
    expect((await world.ask("/api/overview", { headers: { "Sec-Fetch-Site": site } })).status).toBe(200);
  });
});

describe("the token", () => {
  test("S10.5 nothing is shown to another user of the machine, who has no token", async () => {
    for (const target of ["/", "/page.js", "/api/overview", "/api/threads/finished", "/api/live", "/nowhere"]) {
      const { status, text } = await ask(world.port, target, {});
      expect(status).toBe(401);
      expect(text).not.toContain("finished");
    }
    for (const cookie of ["", "turns=x", `turns_${world.port}=`, `turns_${world.port}=${"a".repeat(43)}`, "=;;=", "a"])
      expect((await ask(world.port, "/api/overview", { headers: { Cookie: cookie } })).status).toBe(401);
  });

  test("S10.5 it works once, and becomes a cookie that no script reads and no other site sends", async () => {
    const { pathname, search } = new URL(world.viewer.newLink());
    const first = await ask(world.port, `${pathname}${search}&thread=finished`);
    expect(first.status).toBe(303);
    expect(first.headers.location).toBe("/?thread=finished");
    const [cookie] = first.headers["set-cookie"] ?? [];
    expect(cookie).toMatch(/^turns_\d+=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/$/);
    const again = await ask(world.port, pathname + search);
    expect([again.status, again.headers["set-cookie"]]).toEqual([401, undefined]);
    // A reload of the link in the browser that has the cookie leads to the page.
    expect((await ask(world.port, pathname + search, { headers: { Cookie: cookie?.split(";")[0] } })).status).toBe(303);
  });

  test("S10.2 it leads to what the page shows first, and names the answers about it; nobody learns it without the token", async () => {
    const { threads } = await world.get("/api/threads?limit=100");
    const wanted = threads.find(({ needsYou }: { needsYou: boolean }) => needsYou) ?? threads[0];
    const first = await ask(world.port, `/${new URL(world.viewer.newLink()).search}`);
    const { attempts } = await world.get(`/api/threads/${wanted.threadId}/timeline`).then(({ tasks }: any) => {
      return { attempts: tasks.flatMap(({ lanes }: any) => lanes.flatMap(({ bars }: any) => bars)) };
    });
    const running = attempts.filter(({ status }: any) => status === "in-flight" || status === "running");
    const turn = Math.max(...(running.length > 0 ? running : attempts).map(({ number }: any) => number));
    expect([first.status, first.headers.location]).toEqual([303, `/?thread=${wanted.threadId}&turn=${turn}`]);
    const page = await world.ask(String(first.headers.location));
    expect(page.headers["link"]).toContain(`</api/threads/${wanted.threadId}/timeline?limit=60>; rel=preload`);
    expect(page.headers["link"]).toContain(`</api/threads/${wanted.threadId}/turns/${turn}>; rel=preload`);
    const refused = await ask(world.port, "/?token=x");
    expect([refused.status, refused.headers.location]).toEqual([401, undefined]);
  });

  test("S10.5 a wrong token, and one that a newer link has replaced, let nobody in", async () => {
    const old = new URL(world.viewer.newLink());
    world.viewer.newLink();
    for (const token of ["", "x", old.searchParams.get("token") ?? "", "a".repeat(43)])
      expect((await ask(world.port, `/?token=${token}`)).status).toBe(401);
  });
});

test("S10.5 it listens on the loopback address alone", async () => {
  const outer = Object.values(networkInterfaces())
    .flat()
    .filter((one) => one !== undefined && !one.internal && one.family === "IPv4");
  for (const one of outer) {
    const failure = await new Promise<string>((resolve) => {
      const socket = connect({ host: one?.address, port: world.port }, () => resolve("connected"));
      socket.on("error", ({ code }: NodeJS.ErrnoException) => resolve(code ?? "error"));
      socket.on("connect", () => socket.destroy());
    });
    expect(failure).toBe("ECONNREFUSED");
  }
  expect((await world.ask("/api/overview")).status).toBe(200);
});

test("S10.5 every answer has a strict policy, isn't stored, and allows no other site", async () => {
  const targets = ["/", "/page.js", "/api/overview", "/api/nothing", "/api/threads/no-such-thread", "/..%2f..%2fetc%2fpasswd"];
  for (const target of targets) {
    const { headers } = await world.ask(target);
    const policy = String(headers["content-security-policy"]).split("; ");
    expect(policy).toEqual(
      expect.arrayContaining(["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]),
    );
    expect(policy.join()).not.toMatch(/unsafe|\*|http/);
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "cross-origin-resource-policy": "same-origin",
    });
    expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  }
  const preflight = await world.ask("/api/overview", {
    method: "OPTIONS",
    headers: { Origin: "http://evil.example", "Access-Control-Request-Method": "POST" },
  });
  expect(preflight.status).toBe(405);
  expect(Object.keys(preflight.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
});

test("S10.2 S10.5 the page names what its script asks for first, and no address breaks out of that header", async () => {
  const thread = 'a>; rel=preload, </evil>\r\n"';
  const { headers } = await world.ask(`/?thread=${encodeURIComponent(thread)}&sort=turns`);
  const named = String(headers["link"]).split(", ");
  expect(named).toEqual([
    "</page.css>; rel=preload; as=style",
    "</page.js>; rel=modulepreload",
    ...[
      "/api/server",
      "/api/threads?limit=100&sort=turns",
      `/api/threads/${encodeURIComponent(thread)}`,
      `/api/threads/${encodeURIComponent(thread)}/timeline?limit=60`,
    ].map((address) => `<${address}>; rel=preload; as=fetch; crossorigin`),
  ]);
  expect((await world.ask("/api/overview")).headers).not.toHaveProperty("link");
});

test("S10.5 no path leads to a file that isn't the page's", async () => {
  const paths = [
    ...["/../package.json", "/..%2fpackage.json", "/%2e%2e/package.json", "/page.js/../../package.json", "//etc/passwd"],
    ...["/page.js%00.html", "/./index.html", "/index.html", "/__proto__", "/constructor", "/api/threads/%2e%2e%2f%2e%2e"],
    ...["/api/threads/%00", "/api/threads/%", "/api/threads/%ff", "/api/threads/a%2fb", "http://evil.example/", "*"],
  ];
  for (const target of paths) {
    const { status, text } = await world.ask(target);
    // The address is tidied up to "/", or there is nothing.
    if (status === 200) expect(text).toContain("<title>turns</title>");
    else expect([400, 404]).toContain(status);
    expect(text).not.toMatch(/langgraph-checkpoint-turns"|root:/);
  }
  expect((await world.ask("/")).headers["content-type"]).toBe("text/html; charset=utf-8");
  expect((await world.ask("/page.js")).headers["content-type"]).toBe("text/javascript; charset=utf-8");
});

describe("without --write", () => {
  test("S10.5 every POST is refused, no matter what it says", async () => {
    const targets = ["threads/failed/resume", "threads/failed/answer", "threads/finished/rewind", "rewinds/x/take-back"];
    for (const target of [...targets, "effects/x/resolve", "overview", "nothing"]) {
      const { status, json, headers } = await world.post(`/api/${target}`, { confirm: "finished", toTask: "first" });
      expect([status, json.error.code, headers.allow]).toEqual([405, "READ_ONLY", "GET"]);
    }
    expect((await world.get("/api/threads/finished")).counts.tasks).toBe(2);
  });

  test.each(["PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])("S10.5 so is %s", async (method) => {
    expect((await world.ask("/api/threads/finished", { method })).status).toBe(405);
  });

  test("S10.5 its connection to the database can't write", async () => {
    const before = await world.get("/api/overview");
    expect(before.write).toBe(false);
    const at = { configurable: { thread_id: "intruder", checkpoint_ns: "" } };
    const put = async () => saver.put(at, emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    await expect(put()).rejects.toThrow(/read-only|readonly/i);
    await expect((async () => saver.deleteThread("finished"))()).rejects.toThrow(/read-only|readonly/i);
    // Not even where the saver's own check is passed by.
    const { store } = internalsOf(saver);
    await expect((async () => store.reuseThread("finished"))()).rejects.toThrow(/read-only|readonly/i);
    expect((await world.get("/api/overview")).threads).toBe(before.threads);
  });
});

describe("with --write", () => {
  let writing: World;
  let writer: TurnSaver;
  const rewind = () => `/api/threads/finished/rewind`;
  const body = { confirm: "finished", toTask: "first" };

  beforeAll(async () => {
    writer = openSaver(place);
    writing = await viewing(writer, { write: true });
  });
  afterAll(async () => {
    await writing.close();
    await (writer.close() as unknown);
  });
  afterEach(async () => {
    expect((await writing.get("/api/threads/finished")).counts.tasks).toBe(2);
  });

  test.each([
    ["of another site", { Origin: "http://evil.example" }, 403],
    ["of another port", { Origin: "http://127.0.0.1:1" }, 403],
    ["of a file", { Origin: "null" }, 403],
    ["without an origin", { Origin: undefined }, 403],
    ["that another site sent", { "Sec-Fetch-Site": "cross-site" }, 403],
    ["that a typed address sent", { "Sec-Fetch-Site": "none" }, 403],
    ["of a form", { "Content-Type": "application/x-www-form-urlencoded" }, 415],
    ["of plain text", { "Content-Type": "text/plain" }, 415],
    ["without a type", { "Content-Type": undefined }, 415],
    ["without the cookie", { Cookie: "" }, 401],
    ["to another host", { Host: "evil.example" }, 421],
  ])("S10.5 a change %s is refused", async (_, headers, status) => {
    expect((await writing.post(rewind(), body, headers)).status).toBe(status);
  });

  test.each([
    ["nothing", {}],
    ["another thread", { ...body, confirm: "failed" }],
    ["nearly the thread", { ...body, confirm: "Finished" }],
    ["something else", { ...body, confirm: ["finished"] }],
    ["unknown fields", { ...body, force: true }],
    ["no object", [body]],
    ["no JSON", "{"],
  ])("S10.5 a change that confirms %s is refused", async (_, given) => {
    const { status, json } = await writing.post(rewind(), given);
    expect([status, /Nothing was changed/.test(json.error.message)]).toEqual([400, true]);
  });

  test("S10.5 a body of any size is refused before it's read", async () => {
    const huge = JSON.stringify({ ...body, confirm: "x".repeat(1_100_000) });
    const refused = await writing.post(rewind(), huge).catch((error: NodeJS.ErrnoException) => error.code);
    expect(typeof refused === "object" ? refused.status : refused).toEqual(typeof refused === "object" ? 413 : "EPIPE");
    // It doesn't say how long it is, and never ends.
    const status = await new Promise<string>((resolve) => {
      const socket = connect(writing.port, "127.0.0.1");
      const send = (): void => {
        if (!socket.destroyed) socket.write(`10000\r\n${"x".repeat(0x10000)}\r\n`, () => setImmediate(send));
      };
      let text = "";
      socket.on("data", (piece) => (text += piece.toString()));
      socket.on("error", () => undefined);
      socket.on("close", () => resolve(text.split("\r\n")[0] ?? ""));
      socket.write(
        `POST ${rewind()} HTTP/1.1\r\nHost: 127.0.0.1:${writing.port}\r\nCookie: ${writing.cookie}\r\n` +
          `Origin: http://127.0.0.1:${writing.port}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
      );
      send();
    });
    expect(["HTTP/1.1 413 Payload Too Large", ""]).toContain(status);
    expect((await writing.get("/api/overview")).write).toBe(true);
  });
});

describe("a redacted bundle", () => {
  const text = `refused:\n    at Harbour Street 12, Berlin\n    at Erika (Meadow:1:2)`;
  const forged = tempFile("forged.db");
  let bundle: any;
  let exported = "";

  beforeAll(async () => {
    const writer = openSaver(forged);
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("work", async () => {
        await effect("send", () => {
          const error = new Error(text);
          error.name = "Mail of Erika";
          error.stack = `${String(error.stack)}\n    at Erika's note (/home/Erika Example/my agent/letter.js:1:2)\n    at run (/home/Erika Example/my agent/letter.js:3:4)`;
          throw error;
        });
      })
      .addEdge(START, "work")
      .addEdge("work", END)
      .compile({ checkpointer: writer });
    const run = writer.attach(graph).invoke({ n: 1 }, { configurable: { thread_id: "Erika", task_id: "Meadow" } });
    await run.catch(() => undefined);
    await (writer.close() as unknown);
    const reader = openToLook(forged);
    const looking = await viewing(reader);
    bundle = await looking.get("/api/threads/Erika/bundle");
    exported = JSON.stringify(await redactedThread(reader, "Erika"));
    await looking.close();
    await (reader.close() as unknown);
  });

  test("S10.3 has nothing of a message whose lines look like a stack, nor of a name that is a sentence", () => {
    expect(bundle.effects).toHaveLength(1);
    for (const secret of ["Harbour", "Berlin", "Meadow", "Erika", "Example", "refused", "Mail"])
      expect(JSON.stringify(bundle)).not.toContain(secret);
  });

  test("S10.3 a redacted export has ids, and nothing else of what the bundle leaves out", () => {
    expect(exported).toContain('"threadId":"Erika"');
    for (const secret of ["Harbour", "Berlin", "Example", "refused:", "Mail"]) expect(exported).not.toContain(secret);
  });

  test("S10.3 has the functions of a stack, with files and lines", () => {
    const [{ error }] = bundle.effects;
    expect(error.name).toBe("text of 13 characters");
    expect(error.frames.length).toBeGreaterThan(2);
    expect(error.frames.at(-1)).toBe("run (letter.js:3:4)");
    for (const frame of error.frames) expect(frame).toMatch(/^[^/\\]+$/);
  });
});

describe("clients that keep others waiting", () => {
  const patience = { request: 700, stranger: 500, reading: 700 };
  const large = tempFile("large.db");
  const text = "x".repeat(50_000_000);
  let reader: TurnSaver;
  let impatient: World;

  beforeAll(async () => {
    const writer = openSaver(large);
    const graph = new StateGraph(Annotation.Root({ text: Annotation<string> }))
      .addNode("work", () => ({ text }))
      .addEdge(START, "work")
      .addEdge("work", END)
      .compile({ checkpointer: writer });
    await writer.attach(graph).invoke({ text: "" }, { configurable: { thread_id: "large", task_id: "only" } });
    await (writer.close() as unknown);
    reader = openToLook(large);
    impatient = await viewing(reader, { patience, write: true });
  });
  afterAll(async () => {
    await impatient.close();
    await (reader.close() as unknown);
  });

  /** A connection that sends something, and tells when the server has closed it. */
  const connected = (sent: string): { socket: Socket; closed: Promise<string> } => {
    const socket = connect(impatient.port, "127.0.0.1", () => void (sent !== "" && socket.write(sent)));
    let heard = "";
    socket.on("error", () => undefined);
    socket.on("data", (piece) => (heard += piece.toString("latin1").slice(0, 200)));
    return { socket, closed: new Promise((resolve) => socket.on("close", () => resolve(heard))) };
  };
  const head = (line: string, ...more: string[]) => [line, `Host: 127.0.0.1:${impatient.port}`, ...more, "", ""].join("\r\n");

  test("S10.5 a thousand idle connections of somebody without the token don't shut out the owner", async () => {
    const strangers = Array.from({ length: 1_000 }, () => connected(""));
    for (let tries = 0; tries < 10; tries += 1) expect((await impatient.ask("/api/overview")).status).toBe(200);
    await Promise.all(strangers.map(({ closed }) => closed));
  });

  test.each([
    ["sends nothing", ""],
    ["sends half a request", "GET / HTTP/1.1\r\nHost: 127"],
    ["sends a wrong cookie again and again", "again"],
    ["sends a body slowly", "body"],
  ])("S10.5 a stranger who %s is cut off soon", async (_, kind) => {
    const sent =
      kind === "body"
        ? head("POST /api/threads/large/resume HTTP/1.1", "Content-Length: 1000")
        : kind === "again"
          ? head("GET /api/overview HTTP/1.1", "Cookie: turns=x")
          : kind;
    const began = Date.now();
    const { socket, closed } = connected(sent);
    const timer = setInterval(() => void (["body", "again"].includes(kind) && socket.write(kind === "body" ? "x" : sent)), 100);
    const heard = await closed;
    clearInterval(timer);
    expect(Date.now() - began).toBeLessThan(30_000);
    if (kind === "again") expect(heard).toMatch(/^HTTP\/1\.1 401 /);
  });

  test("S10.5 the owner's own body that takes too long is refused, and nothing is changed", async () => {
    const origin = `Origin: http://127.0.0.1:${impatient.port}`;
    const more = [origin, `Cookie: ${impatient.cookie}`, "Content-Type: application/json", "Content-Length: 1000"];
    const { socket, closed } = connected(head("POST /api/threads/large/rewind HTTP/1.1", ...more));
    const timer = setInterval(() => void socket.write(" "), 100);
    expect(await closed).toMatch(/^HTTP\/1\.1 408 |^$/);
    clearInterval(timer);
  });

  test("S10.5 a client that never reads what it asked for is cut off", async () => {
    const { socket, closed } = connected("");
    const begun = new Promise<Buffer>((resolve) => {
      socket.once("data", (piece: Buffer) => {
        socket.pause();
        resolve(piece);
      });
    });
    socket.write(head("GET /api/threads/large/state?channel=text&whole=1 HTTP/1.1", `Cookie: ${impatient.cookie}`));
    let { length } = await begun;
    const began = Date.now();
    // A paused socket doesn't notice its end: it's read when the server must have given up.
    await new Promise((resolve) => setTimeout(resolve, 4 * patience.reading));
    socket.on("data", (piece) => (length += piece.length));
    socket.resume();
    await closed;
    expect([length < text.length, Date.now() - began < 60_000]).toEqual([true, true]);
    expect((await impatient.ask("/api/overview")).status).toBe(200);
  });

  longTest("S10.5 a client that doesn't read the live tail has little of it in memory", async () => {
    const tail = new Writable({ highWaterMark: 4_096, write: () => undefined });
    const gone = new AbortController();
    const writer = openSaver(place);
    const file = new WatchedFile(internalsOf(writer).store.name);
    const told = tellLive(tail as never, {
      ...{ saver: writer, cursors: new Cursors(), file, threadId: undefined },
      ...{ after: undefined, signal: gone.signal },
    });
    for (let task = 0; task < 30; task += 1) await makeSteps(writer, `task-${task}`);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(tail.writableLength).toBeLessThan(16_384);
    gone.abort();
    await told;
    await (writer.close() as unknown);
  });

  async function makeSteps(on: TurnSaver, taskId: string): Promise<void> {
    const graph = new StateGraph(Annotation.Root({ left: Annotation<number> }))
      .addNode("step", ({ left }) => ({ left: left - 1 }))
      .addEdge(START, "step")
      .addConditionalEdges("step", ({ left }) => (left > 0 ? "step" : END))
      .compile({ checkpointer: on });
    await on.attach(graph).invoke({ left: 10 }, { configurable: { thread_id: "tailed", task_id: taskId } });
  }
});

test("S10.5 what isn't HTTP is answered, and nobody else notices", async () => {
  const told = await new Promise<string>((resolve) => {
    const socket = connect(world.port, "127.0.0.1", () => socket.write("hello\r\n\r\n"));
    let text = "";
    socket.on("data", (piece) => (text += piece.toString()));
    socket.on("close", () => resolve(text));
  });
  expect(told).toMatch(/^HTTP\/1\.1 400 /);
  expect((await world.ask("/api/overview", { host: own() })).status).toBe(200);
  expect(world.reports).toEqual([]);
});
