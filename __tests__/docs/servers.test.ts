import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CHILD_ENV } from "../support/child-program";
import { tempFile } from "../support/temp";

/** The servers of examples/servers as a user runs them, asked over HTTP on the loopback interface. */
jest.setTimeout(300_000);

const ROOT = join(__dirname, "..", "..");
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

interface Event {
  event: string;
  data: any;
}

class Server {
  private constructor(
    private readonly child: ChildProcess,
    readonly url: string,
    readonly output: { text: string },
    readonly ended: Promise<number | null>,
  ) {}

  static async start(script: string, database: string): Promise<Server> {
    const program = ["--import", "tsx", join("examples", "servers", script)];
    const env = { ...CHILD_ENV, DATABASE: database, PORT: "0" };
    const child = spawn(process.execPath, program, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
    children.push(child);
    const output = { text: "" };
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    const port = await new Promise<string>((resolve, reject) => {
      const hear = (data: Buffer): void => {
        output.text += data.toString();
        const port = /listening on (\d+)/.exec(output.text)?.[1];
        if (port !== undefined) resolve(port);
      };
      child.stdout.on("data", hear);
      child.stderr.on("data", hear);
      child.on("close", () => reject(new Error(output.text)));
    });
    return new Server(child, `http://127.0.0.1:${port}`, output, ended);
  }

  post(path: string, body: object = {}): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return fetch(`${this.url}/threads/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  }

  /** The events of a run, as they come. */
  async *events(path: string, body: object = {}): AsyncGenerator<Event> {
    let response = await this.post(path, body);
    // A stopped node may still be returning: the thread is busy until it has, and a client tries again.
    for (let tries = 0; path.endsWith("/continue") && response.status === 409 && tries < 2_000; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      response = await this.post(path, body);
    }
    expect([response.status, response.headers.get("content-type")]).toEqual([200, expect.stringMatching(/^text\/event-stream/)]);
    let rest = "";
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
      const blocks = (rest + Buffer.from(part).toString()).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const field = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
        yield { event: field("event"), data: JSON.parse(field("data")) };
      }
    }
  }

  async all(path: string, body: object = {}): Promise<Event[]> {
    const found: Event[] = [];
    for await (const event of this.events(path, body)) found.push(event);
    return found;
  }

  async state(threadId: string): Promise<{ messages: string[]; next: string[]; question?: unknown }> {
    return (await fetch(`${this.url}/threads/${threadId}`)).json() as never;
  }

  terminate(): void {
    this.child.kill("SIGTERM");
  }
}

const text = (events: readonly Event[]): string =>
  events
    .filter(({ event }) => event === "token")
    .map(({ data }) => data as string)
    .join("");

describe.each(["express.ts", "hono.ts"])("examples: servers/%s", (script) => {
  test("S8.6 streams, asks a person, stops and continues; SIGTERM drains it, and the next process continues where each thread was", async () => {
    const database = tempFile();
    const first = await Server.start(script, database);

    const hello = await first.all("chat/messages", { text: "hello" });
    expect(hello.filter(({ event }) => event === "token").length).toBeGreaterThan(3);
    expect(text(hello)).toBe("You said: hello");
    expect(hello.at(-1)?.event).toBe("done");

    // Human approval: the question comes over HTTP, and so does the answer. Nothing else is taken meanwhile.
    const asked = await first.all("letter/messages", { text: "Dear Ada" });
    const question = { question: "Send this letter?", letter: "Dear Ada" };
    expect(asked.filter(({ event }) => event === "question")).toEqual([{ event: "question", data: question }]);
    expect(await first.state("letter")).toMatchObject({ next: ["approve"], question });
    expect((await first.post("letter/messages", { text: "another" })).status).toBe(409);
    expect(text(await first.all("letter/answer", { answer: "yes" }))).toBe("You said: yes");
    expect(readFileSync(`${database}.letters`, "utf8")).toBe("Dear Ada\n");

    // The stop button, before the first word and in the middle of the answer.
    let early = "early";
    const stoppedEarly = async (): Promise<Event[]> => {
      let isOver = false;
      const events = first.all(`${early}/messages`, { text: "wait" }).finally(() => (isOver = true));
      const stop = async () => ((await (await first.post(`${early}/stop`)).json()) as { stopped: boolean }).stopped;
      while (!isOver && !(await stop())) await new Promise(setImmediate);
      return events;
    };
    let all = await stoppedEarly();
    // On a busy machine the button may be pressed later than the first word.
    for (let tries = 0; tries < 10 && all.some(({ event }) => event === "token"); tries += 1) {
      early = `early-${tries}`;
      all = await stoppedEarly();
    }
    expect(all).toEqual([{ event: "stopped", data: {} }]);
    expect(text(await first.all(`${early}/continue`))).toBe("You said: wait");
    // The answer takes seconds: on a busy machine the button is pressed late.
    const long = "a long question, ".repeat(20);
    const stopped: Event[] = [];
    for await (const event of first.events("stop/messages", { text: long })) {
      if (stopped.push(event) === 1) expect(await (await first.post("stop/stop")).json()).toEqual({ stopped: true });
    }
    expect(stopped.at(-1)?.event).toBe("stopped");
    expect(text(stopped)).not.toBe(`You said: ${long}`);
    expect(await (await first.post("stop/stop")).json()).toEqual({ stopped: false });
    expect(text(await first.all("stop/continue"))).toBe(`You said: ${long}`);

    // The end of the process: one thread is in the middle of a node, one waits for a person.
    await first.all("waits/messages", { text: "Dear Bob" });
    let [server, busy] = [first, "busy"];
    const terminated = async (): Promise<Event[]> => {
      const running = server.all(`${busy}/messages`, { text: "are you there?" });
      while ((await server.state(busy)).next.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      server.terminate();
      return running;
    };
    let told = await terminated();
    // On a busy machine the signal may come when the last node is running: that one finishes.
    for (let tries = 0; tries < 10 && told.at(-1)?.event === "done"; tries += 1) {
      expect(await server.ended).toBe(0);
      [server, busy] = [await Server.start(script, database), `busy-${tries}`];
      told = await terminated();
    }
    expect(told).toEqual([{ event: "error", data: { code: "STORE_DRAINING", message: expect.stringMatching(/"answer"/) } }]);
    expect(await server.ended).toBe(0);
    expect(server.output.text).toMatch(/drained: \{"done":true,"running":\[\]\}/);

    const second = await Server.start(script, database);
    expect((await second.state(busy)).next).toEqual(["answer"]);
    expect(text(await second.all(`${busy}/continue`))).toBe("You said: are you there?");
    expect(text(await second.all("waits/answer", { answer: "no" }))).toBe("You said: no");
    expect(readFileSync(`${database}.letters`, "utf8")).toBe("Dear Ada\n");
    expect((await second.state("chat")).messages).toEqual(["hello", "You said: hello"]);
    second.terminate();
    expect(await second.ended).toBe(0);
  });
});

describe("examples: servers/Dockerfile", () => {
  const lines = readFileSync(join(ROOT, "examples", "servers", "Dockerfile"), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const of = (instruction: string): string[] =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1));

  test("S8.6 it runs node itself, so that SIGTERM reaches it, as another user than root, with the file on a volume", () => {
    const known = ["FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "CMD"];
    expect(lines.filter((line) => !known.some((name) => line.startsWith(`${name} `)))).toEqual([]);
    expect(lines[0]).toMatch(/^FROM node:(\d+)/);
    const [program, script] = JSON.parse(of("CMD")[0] ?? "[]") as string[];
    expect(program).toBe("node");
    expect(
      existsSync(
        join(
          ROOT,
          "examples",
          "servers",
          String(script)
            .replace(/^dist\//, "")
            .replace(/\.js$/, ".ts"),
        ),
      ),
    ).toBe(true);
    expect(of("STOPSIGNAL")).toEqual(["SIGTERM"]);
    expect(of("USER")).toEqual(["node"]);
    expect(lines.indexOf("USER node")).toBeLessThan(lines.findIndex((line) => line.startsWith("CMD")));
    const [volume] = of("VOLUME");
    expect(of("ENV")[0]).toContain(`DATABASE=${volume}/`);
    // What the program reads is what the file sets.
    const source = readFileSync(join(ROOT, "examples", "servers", "express.ts"), "utf8");
    for (const name of ["DATABASE", "PORT"]) expect([source.includes(name), of("ENV")[0]?.includes(name)]).toEqual([true, true]);
    const engines = (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { engines: { node: string } }).engines.node;
    expect(Number(/node:(\d+)/.exec(lines[0] ?? "")?.[1])).toBeGreaterThanOrEqual(Number(/(\d+)/.exec(engines)?.[1]));
  });
});
