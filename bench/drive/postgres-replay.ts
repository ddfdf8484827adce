import { Socket } from "node:net";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Client, Pool } from "pg";
import { timed, timedWithCpu } from "../measure/clock";
import type { Bench } from "./postgres";
import { OURS } from "./contenders";
import { PAIR, Script } from "./script";
import { Thread } from "./thread";
import { conversation } from "./workloads";

/** A piece that the saver sends, and the number of its connection. */
interface Piece {
  lane: number;
  bytes: Buffer;
}

/** What the saver sends for one boundary. Usually it's one piece, with everything from BEGIN to COMMIT. */
interface Sent {
  pieces: readonly Piece[];
  /** Whether it is a step whose time is asked for. */
  isMeasured: boolean;
}

export interface Replayed {
  clock: number;
  cpu: number;
}

/** How the threads of a recording go: these many at a time, each over the connection of its lane. */
interface Course {
  messages: number;
  measured: number;
  threads: number;
  lanes: number;
}

/** The first letters of the messages that a batch of statements begins with. Those of a login are others. */
const BATCH = new Set(["B", "C", "P"].map((letter) => letter.charCodeAt(0)));
let schemas = 0;

/**
 * The floor of what a saver with this layout can reach: the very bytes that ours sends, sent again to tables of the same form, with nothing
 * done before a send and nothing after an answer.
 */
export class Replay {
  readonly #bench: Bench;
  readonly #sent: readonly Sent[];
  readonly #recordedOn: string;
  /** How many turns the recorded schema had. */
  readonly #turns: number;

  private constructor(bench: Bench, sent: readonly Sent[], recordedOn: string, turns: number) {
    this.#bench = bench;
    this.#sent = sent;
    this.#recordedOn = recordedOn;
    this.#turns = turns;
  }

  /** Runs the conversations of a course, and keeps what the saver sends. All threads begin before the first one continues. */
  static async of(bench: Bench, { messages, measured, threads, lanes }: Course): Promise<Replay> {
    const schema = await newSchema(bench);
    const sent: Sent[] = [];
    const pools = Array.from({ length: lanes }, () => new Pool({ connectionString: bench.url, max: 1 }));
    const savers = pools.map((pool) => new PostgresTurnSaver(pool, { schema }));
    const contender = { id: OURS, records: true } as Thread["contender"];
    const all = Array.from({ length: threads }, (_, seed) => {
      const saver = savers[seed % lanes]!;
      return new Thread({ contender, saver, path: "", script: new Script(conversation(seed), PAIR) });
    });
    await listening(bench.url, async (during) => {
      const keep = async (isMeasured: boolean, work: () => Promise<unknown>): Promise<void> => {
        sent.push({ pieces: await during(work), isMeasured });
      };
      for (const saver of savers) await keep(false, () => saver.setup());
      for (const thread of all) await keep(false, () => thread.begin());
      for (const thread of all)
        for (let step = 0; step < messages; step += 1) await keep(step >= messages - measured, () => thread.step());
    });
    const turns = await turnsIn(pools[0]!, schema);
    for (const thread of all) await thread.end();
    for (const saver of savers) await saver.close();
    for (const pool of pools) await pool.end();
    return new Replay(bench, sent, schema, turns);
  }

  get #lanes(): number {
    return 1 + Math.max(...this.#sent.flatMap(({ pieces }) => pieces.map(({ lane }) => lane)));
  }

  /** One send after the other, as they were. @returns the times of the measured ones */
  async inOrder(url: string): Promise<Replayed[]> {
    const replayed: Replayed[] = [];
    await this.#on(url, async (send) => {
      for (const one of this.#sent) {
        let clock = 0;
        const { cpu } = await timedWithCpu(async () => (clock = await timed(() => send(one))));
        if (one.isMeasured) replayed.push({ clock, cpu });
      }
    });
    return replayed;
  }

  /** All lanes at once, from where all threads have begun. @returns the time per measured step */
  async atOnce(url: string): Promise<number> {
    const first = this.#sent.findIndex(({ isMeasured }) => isMeasured);
    const [before, after] = [this.#sent.slice(0, first), this.#sent.slice(first)];
    let took = 0;
    await this.#on(url, async (send) => {
      for (const one of before) await send(one);
      took = await timed(() =>
        Promise.all(
          Array.from({ length: this.#lanes }, async (_, lane) => {
            for (const one of after) if (one.pieces[0]?.lane === lane) await send(one);
          }),
        ),
      );
    });
    return took / after.length;
  }

  /** New tables get the same rows, and are compared with the recorded ones. */
  async #on(url: string, work: (send: (one: Sent) => Promise<void>) => Promise<void>): Promise<void> {
    const schema = await newSchema(this.#bench);
    const clients = Array.from({ length: this.#lanes }, () => new Client(url));
    for (const client of clients) await client.connect();
    const renamed = ({ bytes }: Piece): Buffer =>
      Buffer.from(bytes.toString("latin1").replaceAll(this.#recordedOn, schema), "latin1");
    const pieces = new Map(this.#sent.flatMap((one) => one.pieces.map((piece) => [piece, renamed(piece)])));
    try {
      await work(async (one) => {
        for (const piece of one.pieces) await sentAgain(clients[piece.lane]!, pieces.get(piece)!);
      });
      const found = await turnsIn(clients[0]!, schema);
      if (found !== this.#turns) throw new Error(`${found} turns were replayed of ${this.#turns}`);
    } finally {
      for (const client of clients) await client.end();
    }
  }
}

/** All names are of the same length, so that one can take the place of another in a message. */
async function newSchema(bench: Bench): Promise<string> {
  const schema = bench.schemaOf(`floor_${String((schemas += 1)).padStart(3, "0")}`);
  const saver = PostgresTurnSaver.fromConnString(bench.url, { schema });
  await saver.setup();
  await saver.close();
  return schema;
}

async function turnsIn(database: Client | Pool, schema: string): Promise<number> {
  const { rows } = await database.query<{ count: string }>(`SELECT count(*) AS count FROM ${schema}.langgraph_checkpoints`);
  return Number(rows[0]?.count);
}

/** Listens to what this process sends to a server. */
async function listening(
  url: string,
  work: (during: (part: () => Promise<unknown>) => Promise<Piece[]>) => Promise<void>,
): Promise<void> {
  const port = Number(new URL(url).port || 5432);
  const { write } = Socket.prototype;
  const sockets: Socket[] = [];
  let heard: Piece[] = [];
  Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
    const [bytes] = args as unknown[];
    if (this.remotePort === port && Buffer.isBuffer(bytes) && BATCH.has(bytes[0]!)) {
      if (!sockets.includes(this)) sockets.push(this);
      heard.push({ lane: sockets.indexOf(this), bytes: Buffer.from(bytes) });
    }
    return write.apply(this, args);
  } as typeof write;
  try {
    await work(async (part) => {
      heard = [];
      await part();
      return heard;
    });
  } finally {
    Socket.prototype.write = write;
  }
}

/** Sends bytes over an open connection. Resolves when the server has answered all of them. */
function sentAgain(client: Client, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const ignored = (): void => undefined;
    client.query({
      submit: ({ stream }: { stream: Socket }) => void stream.write(bytes),
      handleRowDescription: ignored,
      handleDataRow: ignored,
      handleCommandComplete: ignored,
      handleEmptyQuery: ignored,
      handlePortalSuspended: ignored,
      handleError: reject,
      handleReadyForQuery: resolve,
    } as never);
  });
}
