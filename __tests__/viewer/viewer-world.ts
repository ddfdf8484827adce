import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { serve, type Viewer, type ViewerOptions } from "../../src/testing-internal";
import { childProgram } from "../support/child-program";
import { openSaver } from "../support/open-saver";

/* A viewer on a database, and requests to it as programs and browsers send them. */

export interface Answered {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** Parsed, if it's JSON. */
  json: any;
}

export interface Asking {
  method?: string;
  headers?: Record<string, string | undefined>;
  body?: string;
  /** Sent as it is, if given. */
  host?: string;
}

/** Sends a request as given: a Host that `fetch` wouldn't send, a path that a URL would tidy up. */
export async function ask(
  port: number,
  target: string,
  { method = "GET", headers = {}, body, host }: Asking = {},
): Promise<Answered> {
  const given = { ...headers, ...(host !== undefined && { Host: host }) };
  const sent = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Record<string, string>;
  return new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, path: target, method, headers: sent, agent: false }, (response) => {
      const pieces: Buffer[] = [];
      response.on("data", (piece: Buffer) => pieces.push(piece));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(pieces).toString("utf8");
        const isJson = response.headers["content-type"]?.startsWith("application/json") === true;
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: isJson && text !== "" ? JSON.parse(text) : undefined,
        });
      });
    });
    asked.on("error", reject);
    asked.end(body);
  });
}

/** A viewer, and a browser that has opened its link. */
export interface World {
  viewer: Viewer;
  port: number;
  cookie: string;
  reports: unknown[];
  get(target: string): Promise<any>;
  ask(target: string, asking?: Asking): Promise<Answered>;
  post(target: string, body: unknown, headers?: Record<string, string | undefined>): Promise<Answered>;
  close(): Promise<void>;
}

const open: World[] = [];
const folders: string[] = [];
const children: ChildProcess[] = [];

afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  for (const world of [...open]) await world.close();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A folder with a page. */
export function pageFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "turns-page-"));
  folders.push(folder);
  writeFileSync(path.join(folder, "index.html"), "<!doctype html><title>turns</title>");
  writeFileSync(path.join(folder, "page.js.gz"), gzipSync("export {};"));
  writeFileSync(path.join(folder, "layout.js.gz"), gzipSync("export {};"));
  writeFileSync(path.join(folder, "page.css.gz"), gzipSync("body {}"));
  writeFileSync(path.join(folder, "icon.svg"), "<svg/>");
  return folder;
}

export async function viewing(saver: TurnSaver, options: Partial<ViewerOptions> = {}): Promise<World> {
  const reports: unknown[] = [];
  const viewer = await serve({
    ...{ saver, folder: pageFolder(), port: 0, write: false, theme: "auto", version: "0.0.0" },
    report: (what, error) => reports.push([what, error]),
    ...options,
  });
  const { port } = viewer;
  const link = new URL(viewer.newLink());
  const entered = await ask(port, link.pathname + link.search);
  const cookie = String(entered.headers["set-cookie"]).split(";")[0] ?? "";
  const askHere: World["ask"] = (target, asking = {}) =>
    ask(port, target, { ...asking, headers: { Cookie: cookie, ...asking.headers } });
  const world: World = {
    ...{ viewer, port, cookie, reports },
    ask: askHere,
    async get(target) {
      const { status, json, text } = await askHere(target);
      expect({ target, status, text: status === 200 ? "" : text }).toEqual({ target, status: 200, text: "" });
      expect(json.format).toBe(1);
      return json;
    },
    post: (target, body, headers = {}) =>
      askHere(target, {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
        headers: { Origin: `http://127.0.0.1:${port}`, "Content-Type": "application/json", ...headers },
      }),
    async close() {
      const at = open.indexOf(world);
      if (at !== -1) open.splice(at, 1);
      await viewer.close();
    },
  };
  open.push(world);
  return world;
}

/** A database that only this file of tests sees; read-only, as `turns web` opens it. */
export function openToLook(place: string): TurnSaver {
  return openSaver(place, { readOnly: true });
}

/** Waits until a program has ended. */
export function runToEnd(program: string, args: readonly string[]): { signal: string | null; stderr: string } {
  const { signal, stderr } = spawnSync(process.execPath, [...childProgram(program), ...args], {
    env: { ...process.env, NODE_OPTIONS: "" },
    encoding: "utf8",
  });
  return { signal, stderr };
}

/** Starts a program that goes on beside the test. */
export function startProgram(program: string, args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [...childProgram(program), ...args], {
    env: { ...process.env, NODE_OPTIONS: "" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  return child;
}

/** An event of `/api/live`. */
export interface Heard {
  id: string | undefined;
  event: any;
}

/** A browser's end of `/api/live`. */
export class Listener {
  readonly heard: Heard[] = [];
  readonly #asked: ClientRequest;
  #response: IncomingMessage | undefined;
  #text = "";
  #wake: (() => void) | undefined;
  #lastId: string | undefined;
  /** Whether the server has ended it. */
  isOver = false;

  constructor(world: World, target = "/api/live", lastId?: string) {
    const headers = {
      Accept: "text/event-stream",
      Cookie: world.cookie,
      ...(lastId !== undefined && { "Last-Event-ID": lastId }),
    };
    this.#lastId = lastId;
    this.#asked = request({ host: "127.0.0.1", port: world.port, path: target, headers, agent: false }, (response) => {
      this.#response = response;
      response.setEncoding("utf8");
      response.on("data", (text: string) => this.#got(text));
      response.on("close", () => this.#over());
      response.on("error", () => this.#over());
    });
    this.#asked.on("error", () => this.#over());
    this.#asked.end();
  }

  get lastId(): string | undefined {
    return this.#lastId;
  }

  get changes(): any[] {
    return this.heard.filter(({ event }) => event.type === "change").map(({ event }) => event.change);
  }

  /** The first event that fits, now or later; undefined if the stream ends before. */
  async until(fits: (event: any) => boolean): Promise<any> {
    for (;;) {
      const found = this.heard.find(({ event }) => fits(event));
      if (found !== undefined) return found.event;
      if (this.isOver) return undefined;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** As a connection that breaks. */
  cut(): void {
    this.#asked.destroy();
    this.#response?.destroy();
  }

  #over(): void {
    this.isOver = true;
    this.#wake?.();
  }

  #got(text: string): void {
    this.#text += text;
    for (let end = this.#text.indexOf("\n\n"); end !== -1; end = this.#text.indexOf("\n\n")) {
      const lines = this.#text.slice(0, end).split("\n");
      this.#text = this.#text.slice(end + 2);
      const field = (name: string): string | undefined =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const [id, data] = [field("id"), field("data")];
      if (id !== undefined) this.#lastId = id;
      if (data !== undefined) this.heard.push({ id, event: JSON.parse(data) });
    }
    this.#wake?.();
  }
}
