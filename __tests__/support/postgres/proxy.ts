import { connect, createServer, type Server, type Socket } from "node:net";
import { type Message, MessageReader } from "./messages";

/**
 * What becomes of a message:
 * - `cut`: it isn't forwarded, and the connection is closed on both sides.
 * - `cut-after`: it is forwarded, then the connection is closed. What a server got, it carries out.
 * - `freeze`: it is swallowed, and so is everything after it in both directions. Neither side is told.
 * - `delay`: it and what follows it arrive that many milliseconds later.
 * - `lateBy`: the client's side is closed at once; the server gets the message that many milliseconds later.
 */
export type Fate = "pass" | "cut" | "cut-after" | "freeze" | { readonly delay: number } | { readonly lateBy: number };

/**
 * A flight: what a client sends before it sees an answer to any of it. The client waits for each flight once, so their number is the
 * number of round trips.
 */
export interface Flight {
  readonly connection: number;
  /** In their order, one for each time that a statement is run. */
  readonly statements: string[];
}

/** Messages of a client by which a flight begins; the rest is startup, authentication, COPY data and goodbye. */
const ASKING = "QPBDECFS";
/** Each of these is answered by one ReadyForQuery. */
const ANSWERED_BY_READY = "QFS";

/** For {@link PostgresProxy.fate}: the n-th message that matches, from 1, has this fate; all others pass. */
export function nth(number: number, matches: (message: Message) => boolean, fate: Fate): (message: Message) => Fate {
  let seen = 0;
  return (message) => (matches(message) && (seen += 1) === number ? fate : "pass");
}

/** A TCP proxy in front of a PostgreSQL server that counts round trips and makes the network bad. */
export class PostgresProxy {
  /** Where clients connect. */
  readonly url: string;
  /** How long each message is on its way, in milliseconds. */
  delay = { toServer: 0, toClient: 0 };
  /** Decides what becomes of each message when its time has come; called once for each. */
  fate: (message: Message) => Fate = () => "pass";
  /** New connections are served, closed at once, or accepted and never answered. */
  incoming: "serve" | "refuse" | "silent" = "serve";
  /** Since {@link reset}. */
  flights: Flight[] = [];
  /** How many connections there have been. */
  connections = 0;
  readonly #server: Server;
  readonly #links = new Set<Link>();

  private constructor(server: Server, to: URL) {
    this.#server = server;
    const { port } = server.address() as { port: number };
    this.url = Object.assign(new URL(to), { hostname: "127.0.0.1", port: String(port) }).href;
    server.on("connection", (client: Socket) => this.#accept(client, to));
  }

  /** @param to the address of the server's database */
  static async inFrontOf(to: string): Promise<PostgresProxy> {
    // A side that has said all it has to say may still be waiting for answers.
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return new PostgresProxy(server, new URL(to));
  }

  /**
   * How often a client has waited for the server since {@link reset}: the number of {@link Flight}s on all connections, without logins. A client that pipelines must
   * be seen to send before it is answered: set a {@link delay} of some milliseconds.
   */
  get roundTrips(): number {
    return this.flights.length;
  }

  /** Counts from zero. */
  reset(): void {
    this.flights = [];
    for (const link of this.#links) link.forgetFlight();
  }

  /** Closes all connections, as a server that restarts. */
  cutAll(): void {
    for (const link of this.#links) link.cut();
  }

  /** Swallows everything on the connections there are, and closes none. */
  freezeAll(): void {
    for (const link of this.#links) link.frozen = true;
  }

  async close(): Promise<void> {
    this.cutAll();
    await new Promise((done) => this.#server.close(done));
  }

  #accept(client: Socket, to: URL): void {
    if (this.incoming === "refuse") {
      client.destroy();
      return;
    }
    const server = connect({ host: to.hostname, port: Number(to.port || 5432), allowHalfOpen: true, noDelay: true });
    const link: Link = new Link(this, (this.connections += 1), client, server, () => this.#links.delete(link));
    link.frozen = this.incoming === "silent";
    this.#links.add(link);
  }
}

/** One connection of a client, and the one to the server that belongs to it. */
class Link {
  frozen = false;
  readonly #proxy: PostgresProxy;
  readonly #number: number;
  readonly #reader: MessageReader;
  readonly #toServer: Lane;
  readonly #toClient: Lane;
  readonly #sockets: readonly [client: Socket, server: Socket];
  #flight: Flight | undefined;
  /** Of each question that the server hasn't yet answered with ReadyForQuery. */
  readonly #unanswered: Flight[] = [];

  constructor(proxy: PostgresProxy, number: number, client: Socket, server: Socket, gone: () => void) {
    this.#proxy = proxy;
    this.#number = number;
    this.#reader = new MessageReader(number);
    this.#sockets = [client, server];
    this.#toServer = new Lane(server, (message, flush) => this.#decide(message, flush));
    this.#toClient = new Lane(client, (message, flush) => this.#decide(message, flush));
    this.#connect("client", client, this.#toServer);
    this.#connect("server", server, this.#toClient);
    let open = 2;
    for (const socket of this.#sockets) socket.once("close", () => (open -= 1) === 0 && gone());
  }

  forgetFlight(): void {
    this.#flight = undefined;
  }

  cut(): void {
    this.frozen = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  #connect(from: "client" | "server", socket: Socket, lane: Lane): void {
    socket.on("data", (chunk: Buffer) => {
      if (this.frozen) return;
      const messages = this.#reader.read(from, chunk);
      if (from === "client") for (const message of messages) this.#count(message);
      lane.add(messages, this.#proxy.delay[from === "client" ? "toServer" : "toClient"]);
    });
    socket.on("end", () => {
      if (!this.frozen) lane.end();
    });
    socket.on("error", () => {
      if (!this.frozen) this.cut();
    });
  }

  #count({ type, text }: Message): void {
    if (type === "" || !ASKING.includes(type)) return;
    if (this.#flight === undefined) {
      this.#flight = { connection: this.#number, statements: [] };
      this.#proxy.flights.push(this.#flight);
    }
    if (type === "Q" || type === "E") this.#flight.statements.push(text);
    if (ANSWERED_BY_READY.includes(type)) this.#unanswered.push(this.#flight);
  }

  /**
   * Decides what becomes of a message.
   *
   * @param flush sends what comes before it
   * @returns whether it is forwarded, or in how many milliseconds
   */
  #decide(message: Message, flush: () => void): boolean | number {
    if (this.frozen) return false;
    const fate = this.#proxy.fate(message);
    if (fate === "pass") {
      // The client sees an answer, so what it sends from now on is another flight. The first ReadyForQuery completes the login.
      if (message.type === "Z" && this.#unanswered.shift() === this.#flight) this.#flight = undefined;
      return true;
    }
    flush();
    const [client, server] = this.#sockets;
    if (fate === "freeze") {
      this.frozen = true;
      return false;
    }
    if (fate === "cut") {
      this.cut();
      return false;
    }
    if (fate === "cut-after") {
      // Behind the message. The server reads it, carries it out, and sees only then that nobody is there.
      setImmediate(() => {
        client.end(() => client.destroy());
        server.end();
      });
      return true;
    }
    if ("delay" in fate) return fate.delay;
    client.destroy();
    setImmediate(() => this.#toServer.end());
    return fate.lateBy;
  }
}

type Decision = (message: Message, flush: () => void) => boolean | number;

/** One direction of a connection: messages arrive in their order, each when its time has come. */
class Lane {
  readonly #to: Socket;
  readonly #decide: Decision;
  readonly #queue: { readonly message: Message | undefined; at: number; decided: boolean }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(to: Socket, decide: Decision) {
    this.#to = to;
    this.#decide = decide;
  }

  add(messages: readonly (Message | undefined)[], delay: number): void {
    const at = performance.now() + delay;
    this.#queue.push(...messages.map((message) => ({ message, at, decided: false })));
    if (this.#timer === undefined) this.#send();
  }

  /** The other side has said all it had to say. */
  end(): void {
    this.add([undefined], 0);
  }

  #send(): void {
    this.#timer = undefined;
    const due: Buffer[] = [];
    const flush = (): void => {
      if (due.length > 0 && this.#to.writable) this.#to.write(Buffer.concat(due.splice(0)));
    };
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      const wait = first.at - performance.now();
      if (wait > 0) {
        this.#timer = setTimeout(() => this.#send(), Math.ceil(wait));
        break;
      }
      const { message } = first;
      if (message === undefined) {
        flush();
        if (this.#to.writable) this.#to.end();
      } else {
        const forwards = first.decided || this.#decide(message, flush);
        if (typeof forwards === "number") {
          Object.assign(first, { at: performance.now() + forwards, decided: true });
          continue;
        }
        if (forwards) due.push(message.bytes);
      }
      this.#queue.shift();
    }
    flush();
  }
}
