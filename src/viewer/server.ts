import { setMaxListeners } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import { internalsOf } from "../internals";
import { firstAddresses, fromPath } from "./addresses";
import { CHANGES } from "./changes";
import { failureOf, HttpError } from "./failures";
import { Cursors, tellLive } from "./live";
import { type Context, firstPlace, ROUTES, warmUp } from "./routes";
import { Door, HEADERS, Strangers } from "./security";
import { WatchedFile } from "./watched-file";

/** Options of {@link serve}. */
export interface ViewerOptions {
  /** Open; read-only unless `write`. Its owner closes it after the viewer. */
  saver: BaseTurnSaver;
  /** The folder with the built page. */
  folder: string;
  /** 0: one that is free. */
  port: number;
  write: boolean;
  graph?: Context["graph"];
  theme: Context["theme"];
  /** How commands to copy begin: `turns agent.db`. Default: `turns`. */
  program?: string;
  version: string;
  /** Told of what nobody expected. */
  report: (what: string, error?: unknown) => void;
  patience?: Partial<Patience>;
}

/** How long clients may take, in milliseconds. */
export interface Patience {
  /** To send a request. */
  request: number;
  /** Without a cookie: to get one, from the moment of connecting. */
  stranger: number;
  /** Not to take the answer. The server may work on it for as long as it needs. */
  reading: number;
}

/** A viewer that listens. */
export interface Viewer {
  readonly port: number;
  /** A link that lets one browser in, once. The one before no longer works. */
  newLink(): string;
  /** Ends all connections. */
  close(): Promise<void>;
}

/** Nobody but this machine. */
const ADDRESS = "127.0.0.1";
const MOST_CONNECTIONS = 200;
/** Of the connections: those that have shown no cookie. Another one takes the place of the oldest. */
const MOST_STRANGERS = 100;
const LONGEST_BODY = 1_000_000;
const PATIENCE: Patience = { request: 30_000, stranger: 10_000, reading: 120_000 };
const LONGEST_WARM_UP_MS = 1_000;
const WARM_UPS = 6;
const WARM_UP_PAUSE_MS = 20;
/** How often Node looks for requests that take too long. */
const LOOK_MS = 5_000;

/** The files of the page, by path. No other file is ever read. */
const FILES: Readonly<Record<string, readonly [name: string, type: string]>> = {
  "/": ["index.html", "text/html; charset=utf-8"],
  "/page.js": ["page.js.gz", "text/javascript; charset=utf-8"],
  "/layout.js": ["layout.js.gz", "text/javascript; charset=utf-8"],
  "/page.css": ["page.css.gz", "text/css; charset=utf-8"],
  "/icon.svg": ["icon.svg", "image/svg+xml"],
};

/** Starts the viewer. @throws what listening throws: EADDRINUSE, EACCES */
export async function serve(options: ViewerOptions): Promise<Viewer> {
  const { saver, folder, port, write, graph, theme, program = "turns", version, report } = options;
  const file = new WatchedFile(internalsOf(saver).store.name);
  const context: Context = { saver, graph, write, theme, program, version, report, isFile: file.isFile };
  const parts: Parts = {
    context,
    file,
    files: new Map(),
    folder,
    door: new Door(),
    strangers: new Strangers(MOST_STRANGERS),
    cursors: new Cursors(),
    closing: new AbortController(),
    asked: new AbortController(),
  };
  // Each open request listens.
  setMaxListeners(0, parts.closing.signal);
  const patience = { ...PATIENCE, ...options.patience };
  const times = { requestTimeout: patience.request, headersTimeout: patience.request };
  const look = { connectionsCheckingInterval: Math.min(LOOK_MS, patience.request) };
  const server = createServer({ ...times, ...look }, (request, response) => {
    handle(parts, request, response).catch((error: unknown) => {
      report("a request failed", error);
      response.destroy();
    });
  });
  server.maxConnections = MOST_CONNECTIONS;
  server.on("connection", (socket) => parts.strangers.came(socket, patience.stranger));
  // Nothing has moved for so long: it doesn't read, or doesn't send.
  server.setTimeout(patience.reading);
  server.on("clientError", ({ code }: NodeJS.ErrnoException, socket) => {
    const status = code === "ERR_HTTP_REQUEST_TIMEOUT" ? "408 Request Timeout" : "400 Bad Request";
    if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, ADDRESS, resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  parts.door.port = bound;
  // Before anybody has the link: a request that meets the same error tells it.
  const read = Object.values(FILES).map(([name]) => fileOf(parts, name).catch(() => undefined));
  const isWarm = Promise.all([...read, warmUp(context, parts.closing.signal).catch(() => undefined)]);
  void isWarm.then(() => warmer(parts));
  await Promise.race([isWarm, new Promise((resolve) => setTimeout(resolve, LONGEST_WARM_UP_MS).unref())]);
  return {
    port: bound,
    newLink: () => `http://${ADDRESS}:${bound}/?token=${parts.door.newToken()}`,
    close: () =>
      new Promise((resolve) => {
        parts.closing.abort();
        parts.asked.abort();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** New code is slow. A person needs a moment to follow the link, and meanwhile nobody else needs the processor. */
async function warmer({ context, asked: { signal } }: Parts): Promise<void> {
  try {
    for (let round = 0; round < WARM_UPS; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, WARM_UP_PAUSE_MS).unref());
      if (signal.aborted) return;
      await warmUp(context, signal);
    }
  } catch {
    // A request that meets the same error tells it.
  }
}

interface Parts {
  context: Context;
  file: WatchedFile;
  folder: string;
  /** Those of {@link FILES} that were sent, by name: the script waits for nothing that is read or made meanwhile. */
  files: Map<string, Buffer>;
  door: Door;
  strangers: Strangers;
  cursors: Cursors;
  closing: AbortController;
  /** Aborted by the first request, or when the server closes. */
  asked: AbortController;
}

async function handle(parts: Parts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  response.on("close", leave);
  // Nothing moves while a rewind's undos run, or a slow answer is made. What is written starts the time again.
  response.on("timeout", (socket: Socket) => void ((response.headersSent || !request.complete) && socket.destroy()));
  parts.closing.signal.addEventListener("abort", leave, { once: true });
  try {
    await answered(parts, request, response, gone.signal);
  } catch (error) {
    const isTold = error instanceof HttpError || TurnsError.is(error);
    // Who has gone in the middle of a body needs no answer.
    if (!isTold && !request.errored) parts.context.report("a request failed", error);
    if (response.headersSent) response.destroy();
    else fail(request, response, error, internalsOf(parts.context.saver).store.name);
  } finally {
    parts.closing.signal.removeEventListener("abort", leave);
  }
}

async function answered(parts: Parts, request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
  const { door, context } = parts;
  parts.asked.abort();
  door.refuseStrangers(request);
  const { pathname, searchParams: query } = addressOf(request);
  if (request.method === "GET" && pathname === "/" && query.has("token")) return enter(parts, request, response, query);
  door.refuseUnknown(request);
  parts.strangers.isKnown(request.socket);
  if (request.method === "POST") return changed(parts, request, response, pathname);
  if (request.method !== "GET") throw notAllowed(response, "GET");
  const asset = Object.hasOwn(FILES, pathname) ? FILES[pathname] : undefined;
  if (pathname === "/") response.setHeader("Link", preloads(query));
  if (asset !== undefined) return sendFile(parts, request, response, asset);
  // A browser can't read why a stream was refused: there it's told as an event.
  const isTold = pathname === "/api/live" && request.headers.accept?.includes("text/event-stream") === true;
  if (!isTold) parts.file.refuseOther();
  if (pathname === "/api/live") {
    response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
    const after = request.headers["last-event-id"] ?? query.get("after") ?? undefined;
    const threadId = query.get("thread") ?? undefined;
    const given = { threadId, after: Array.isArray(after) ? after[0] : after };
    return tellLive(response, { saver: context.saver, cursors: parts.cursors, file: parts.file, signal, ...given });
  }
  for (const route of ROUTES) {
    const params = matched(route.pattern, pathname);
    if (params === undefined) continue;
    const asked = { params, query, signal };
    const body = await route.answer(context, asked);
    if (route.download !== undefined)
      response.setHeader("Content-Disposition", `attachment; filename="${route.download(asked)}"`);
    return sendJson(response, 200, body);
  }
  if (CHANGES.some(({ pattern }) => matched(pattern, pathname) !== undefined)) throw notAllowed(response, "POST");
  throw new HttpError(404, "NOT_FOUND", "There is nothing at this address.");
}

/** Tells the browser to ask at once for what the page's script will ask for. `crossorigin`: as `fetch` does it, with the cookie. */
function preloads(query: URLSearchParams): string[] {
  return [
    // What shows anything at all is sent before what the answers take.
    "</page.css>; rel=preload; as=style",
    "</page.js>; rel=modulepreload",
    ...firstAddresses(query).map((address) => `<${address}>; rel=preload; as=fetch; crossorigin`),
  ];
}

/** @throws {HttpError} 400 */
function addressOf({ url = "/" }: IncomingMessage): URL {
  let address: URL;
  try {
    address = new URL(`http://localhost${url.startsWith("/") ? "" : "/"}${url}`);
  } catch {
    throw new HttpError(400, "WRONG_ADDRESS", "The address isn't valid.");
  }
  for (const [name, value] of address.searchParams)
    if (value.includes("\0") && name !== "q") throw new HttpError(400, "INVALID_OPTION", `The parameter ${name} has a NUL.`);
  return address;
}

/** The parts of a path that a pattern names; undefined if it isn't such a path. @throws {HttpError} 400 */
function matched(pattern: string, pathname: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern.split("/"), pathname.split("/")];
  if (wanted.length !== given.length) return undefined;
  if (!wanted.every((part, at) => part.startsWith(":") || part === given[at])) return undefined;
  try {
    const named = wanted.flatMap((part, at) =>
      part.startsWith(":") ? [[part.slice(1), fromPath(given[at] ?? "")] as const] : [],
    );
    return Object.fromEntries(named);
  } catch {
    throw new HttpError(400, "WRONG_ADDRESS", "The address isn't valid: it has a % that encodes nothing.");
  }
}

/**
 * The printed link: its token becomes a cookie, and leaves the address. An address of nothing in particular gets the thread and the turn that
 * the page would choose, so that the answers about them can be named beside the page.
 *
 * @throws {HttpError} 401
 */
async function enter(
  { door, context, strangers }: Parts,
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
): Promise<void> {
  const cookie = door.enter(query.get("token") ?? "");
  // A link that was used here before leads to the page.
  if (cookie === undefined) door.refuseUnknown(request);
  else response.setHeader("Set-Cookie", cookie);
  strangers.isKnown(request.socket);
  query.delete("token");
  // What can't be read now is told by the page.
  const nothing: Awaited<ReturnType<typeof firstPlace>> = {};
  const { thread, turn } = query.size === 0 ? await firstPlace(context).catch(() => nothing) : nothing;
  if (thread !== undefined) query.set("thread", thread);
  if (turn !== undefined) query.set("turn", turn);
  const rest = query.toString();
  response.writeHead(303, { Location: `/${rest === "" ? "" : `?${rest}`}` }).end();
}

async function changed(parts: Parts, request: IncomingMessage, response: ServerResponse, pathname: string): Promise<void> {
  const { context, door, file } = parts;
  if (!context.write) {
    response.setHeader("Allow", "GET");
    throw new HttpError(405, "READ_ONLY", "Nothing can be changed here. Start it with turns web --write.");
  }
  door.refuseForeignChange(request);
  for (const { pattern, act } of CHANGES) {
    const params = matched(pattern, pathname);
    if (params === undefined) continue;
    const body = await bodyOf(request);
    file.refuseOther();
    return sendJson(response, 200, await act(context, params, body));
  }
  throw new HttpError(404, "NOT_FOUND", "There is nothing to change at this address.");
}

/** @throws {HttpError} 400, 413 */
async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const tooLong = new HttpError(413, "TOO_LONG", `The body may have ${LONGEST_BODY} bytes. Nothing was changed.`);
  if (Number(request.headers["content-length"] ?? 0) > LONGEST_BODY) throw tooLong;
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    length += piece.length;
    if (length > LONGEST_BODY) throw tooLong;
    pieces.push(piece);
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString("utf8")) as unknown;
  } catch {
    throw new HttpError(400, "NOT_JSON", "The body isn't JSON. Nothing was changed.");
  }
}

function notAllowed(response: ServerResponse, allowed: string): HttpError {
  response.setHeader("Allow", allowed);
  return new HttpError(405, "WRONG_METHOD", `This address takes ${allowed} only.`);
}

/** A file that ends with `.gz` is sent as it is to a client that takes it so, which all browsers do. */
async function sendFile(
  parts: Pick<Parts, "files" | "folder">,
  request: IncomingMessage,
  response: ServerResponse,
  [file, type]: readonly [name: string, type: string],
): Promise<void> {
  let content = parts.files.get(file) ?? (await fileOf(parts, file));
  if (file.endsWith(".gz")) {
    response.setHeader("Vary", "Accept-Encoding");
    if (/\bgzip\b/.test(request.headers["accept-encoding"] ?? "")) response.setHeader("Content-Encoding", "gzip");
    else content = gunzipSync(content);
  }
  // A browser asks for the icon again whenever the address changes.
  if (file.endsWith(".svg")) response.setHeader("Cache-Control", "private, max-age=3600");
  response.writeHead(200, { "Content-Type": type, "Content-Length": content.length }).end(content);
}

/** @throws {HttpError} 500 */
async function fileOf({ files, folder }: Pick<Parts, "files" | "folder">, file: string): Promise<Buffer> {
  try {
    const content = await readFile(path.join(folder, file));
    files.set(file, content);
    return content;
  } catch {
    throw new HttpError(500, "PAGE_NOT_BUILT", `The page isn't built: there is no ${file}. Run npm run build.`);
  }
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  const content = Buffer.from(JSON.stringify(body));
  response
    .writeHead(status, { "Content-Type": "application/json; charset=utf-8", "Content-Length": content.length })
    .end(content);
}

/** A person who opens the address in a browser gets a sentence, a program JSON. */
function fail(request: IncomingMessage, response: ServerResponse, error: unknown, database: string): void {
  const { status, body } = failureOf(error, database);
  // The rest of a body that nobody reads.
  if (status === 413) response.setHeader("Connection", "close");
  if (request.url?.startsWith("/api/") === true) return sendJson(response, status, body);
  const { message } = body.error;
  response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" }).end(`${message}\n`);
}
