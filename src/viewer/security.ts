import { randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { HttpError } from "./failures";

/*
 * Localhost is no wall: every page in the user's browser, and every user of this machine, can send requests to it. What keeps them
 * out: a Host that is ours (DNS rebinding), a Sec-Fetch-Site that isn't another site, and a cookie that only the printed link gives.
 */

/** Sent with every answer. `connect-src` is for `fetch` and EventSource: without it Chromium blocks both. */
export const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join("; "),
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

/** Who may come in. A token works once, and becomes a cookie. */
export class Door {
  readonly #sessions = new Set<string>();
  #token: string | undefined;
  #port = 0;

  /** The port is known when the server listens. */
  set port(port: number) {
    this.#port = port;
  }

  /** A new token; the one before no longer works. 256 bits. */
  newToken(): string {
    this.#token = secret();
    return this.#token;
  }

  /**
   * Exchanges a token.
   *
   * @returns the cookie's header; undefined if the token is wrong, or was used before
   */
  enter(token: string): string | undefined {
    if (this.#token === undefined || !equal(token, this.#token)) return undefined;
    this.#token = undefined;
    const session = secret();
    this.#sessions.add(session);
    return `${this.#cookie}=${session}; HttpOnly; SameSite=Strict; Path=/`;
  }

  /** @throws {HttpError} 421, 403 */
  refuseStrangers({ headers }: IncomingMessage): void {
    const { host = "" } = headers;
    if (!this.#hosts.includes(host.toLowerCase()))
      throw new HttpError(421, "WRONG_HOST", `This server answers to ${this.#hosts.join(" and ")} only.`);
    const site = headers["sec-fetch-site"];
    if (site !== undefined && site !== "none" && site !== "same-origin")
      throw new HttpError(403, "CROSS_SITE", "Another site asked. Open the link that turns web printed in a tab of its own.");
  }

  /** @throws {HttpError} 401 */
  refuseUnknown({ headers }: IncomingMessage): void {
    const given = (headers.cookie ?? "")
      .split(";")
      .map((part) => part.trim().split("="))
      .filter(([name]) => name === this.#cookie)
      .map(([, value = ""]) => value);
    // All are compared, so that the time tells nothing.
    const isKnown = [...this.#sessions].map((session) => given.map((value) => equal(value, session)).includes(true));
    if (!isKnown.includes(true))
      throw new HttpError(
        401,
        "NOT_SIGNED_IN",
        "Open the link that turns web printed. It works once. In its terminal, Enter prints a new one.",
      );
  }

  /** What a POST needs besides. @throws {HttpError} 403, 415 */
  refuseForeignChange({ headers }: IncomingMessage): void {
    const { host = "", origin } = headers;
    if (origin?.toLowerCase() !== `http://${host.toLowerCase()}`)
      throw new HttpError(403, "WRONG_ORIGIN", "A change has to come from this server's own page.");
    const site = headers["sec-fetch-site"];
    if (site !== undefined && site !== "same-origin")
      throw new HttpError(403, "CROSS_SITE", "A change has to come from this server's own page.");
    const type = headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase();
    if (type !== "application/json")
      throw new HttpError(415, "NOT_JSON", "The body has to be JSON, with Content-Type: application/json.");
  }

  get #hosts(): string[] {
    return [`127.0.0.1:${this.#port}`, `localhost:${this.#port}`];
  }

  /** Cookies don't know ports, and two servers may run. */
  get #cookie(): string {
    return `turns_${this.#port}`;
  }
}

/**
 * Connections that have shown no cookie. Every user of this machine can make them, and they must not keep the owner out: they
 * have little time, and the oldest goes when there are too many.
 */
export class Strangers {
  /** In the order in which they came. */
  readonly #timers = new Map<Socket, NodeJS.Timeout>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  /** @param ms how long it may stay */
  came(socket: Socket, ms: number): void {
    const timer = setTimeout(() => socket.destroy(), ms);
    timer.unref();
    this.#timers.set(socket, timer);
    socket.once("close", () => this.isKnown(socket));
    const [oldest] = this.#timers.keys();
    if (oldest === undefined || this.#timers.size <= this.#most) return;
    this.isKnown(oldest);
    oldest.destroy();
  }

  /** It has shown the cookie, or is gone. */
  isKnown(socket: Socket): void {
    clearTimeout(this.#timers.get(socket));
    this.#timers.delete(socket);
  }
}

function secret(): string {
  return randomBytes(32).toString("base64url");
}

function equal(given: string, known: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(known)];
  return one.length === other.length && timingSafeEqual(one, other);
}
