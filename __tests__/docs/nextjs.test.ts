import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { CHILD_ENV } from "../support/child-program";
import { tempFile } from "../support/temp";
import { packed } from "./packed";

/**
 * examples/nextjs, built by Next.js as a project of its own with the packed package, and asked over HTTP. It needs the npm registry once;
 * where that can't be had, TURNS_WITHOUT_NEXTJS=1 leaves it out.
 */
const ROOT = join(__dirname, "..", "..");
const PROJECT = join(ROOT, ".tmp", "nextjs");
const withNextjs = process.env["TURNS_WITHOUT_NEXTJS"] === "1" ? test.skip : test;

jest.setTimeout(1_200_000);
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function started(database: string) {
  const port = await freePort();
  const program = [
    join("node_modules", "next", "dist", "bin", "next"),
    "start",
    "--hostname",
    "127.0.0.1",
    "--port",
    String(port),
  ];
  const env = { ...CHILD_ENV, DATABASE: database, NEXT_MANUAL_SIG_HANDLE: "true", NEXT_TELEMETRY_DISABLED: "1" };
  const child = spawn(process.execPath, program, { cwd: PROJECT, env, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  const output = { text: "" };
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output.text += data.toString()));
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  while (!output.text.includes("Ready in")) {
    if (child.exitCode !== null) throw new Error(output.text);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const url = (threadId: string): string => `http://127.0.0.1:${port}/api/threads/${threadId}`;
  return {
    output,
    ended,
    terminate: () => child.kill("SIGTERM"),
    post: (threadId: string, body: object, signal?: AbortSignal) =>
      fetch(url(threadId), { method: "POST", body: JSON.stringify(body), ...(signal && { signal }) }),
    state: async (threadId: string) => (await (await fetch(url(threadId))).json()) as { messages: string[]; next: string[] },
  };
}

const tokens = (events: string): string =>
  [...events.matchAll(/^event: token\ndata: (.*)$/gm)].map(([, token]) => JSON.parse(token as string) as string).join("");

withNextjs("S8.6 examples: nextjs is built, streams, stops with its request, and drains on SIGTERM", async () => {
  const script = [join("scripts", "nextjs.mjs"), "--package", packed().tarball];
  const built = spawnSync(process.execPath, script, { cwd: ROOT, encoding: "utf8" });
  expect([built.status, built.status === 0 ? "" : built.stderr]).toEqual([0, ""]);

  const database = tempFile();
  const first = await started(database);
  expect(tokens(await (await first.post("chat", { text: "hello" })).text())).toBe("You said: hello");

  const controller = new AbortController();
  const stopped = await first.post("stop", { text: "a long question" }, controller.signal);
  const reader = stopped.body!.getReader();
  await reader.read();
  controller.abort();
  await reader.read().catch(() => undefined);
  // The server notices that the request is gone in its own time, and the run ends.
  let continued = "";
  while (continued === "") {
    const response = await first.post("stop", {});
    if (response.status === 200) continued = tokens(await response.text()) || (await first.state("stop")).messages.at(-1)!;
    else await new Promise((resolve) => setTimeout(resolve, 50));
  }
  expect(continued).toBe("You said: a long question");

  let [server, busy] = [first, "busy"];
  const terminated = async (): Promise<Response> => {
    const running = server.post(busy, { text: "are you there?" });
    while ((await server.state(busy)).next.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    server.terminate();
    return running;
  };
  let told = await terminated();
  // On a busy machine the signal may come when the last node is running: that one finishes.
  for (let tries = 0; tries < 10 && told.status === 200; tries += 1) {
    await told.text();
    expect(await server.ended).toBe(0);
    [server, busy] = [await started(database), `busy-${tries}`];
    told = await terminated();
  }
  // Nothing was streamed yet, so the status can say it.
  expect(told.status).toBe(503);
  expect(await server.ended).toBe(0);
  expect(server.output.text).toContain('drained: {"done":true,"running":[]}');

  const second = await started(database);
  expect(tokens(await (await second.post(busy, {})).text())).toBe("You said: are you there?");
  second.terminate();
  expect(await second.ended).toBe(0);
});
