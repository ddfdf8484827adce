import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { type CheckpointTuple, uuid5 } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { decode, encode } from "../../src/testing-internal";
import { type TurnSaver, type TurnSaverOptions, TurnsError } from "../../src/index";
import { fingerprint } from "./arb-values";
import { configOf, get, idOf, listed, openOn, put, putWrites, valuesIn } from "./model-calls";
import { type ModelCheckpoint, ModelThread } from "./model-thread";
import { tempFile } from "./temp";

type Values = Record<string, any>;

/** What happens to one channel of the state. */
export interface Edit {
  channel: number;
  how: number;
  at: number;
  kind: number;
  /** Which of the values of a kind. */
  n: number;
  inPlace: boolean;
}

/** One thing that happens to the file. Numbers choose among what there is. */
export interface Step {
  do: (typeof DOINGS)[number];
  saver: number;
  thread: number;
  ns: number;
  /** How far back from the newest. */
  back: number;
  task: number;
  /** Whether a run begins here and reads its state, or goes on with what it holds. */
  reads: boolean;
  edits: readonly Edit[];
}

const DOINGS = [
  "put",
  "put blindly",
  "write",
  "read",
  "fork",
  "copy",
  "again",
  "update",
  "rewind",
  "take back",
  "reopen",
  "delete",
  "copy thread",
  "prune",
  "name",
] as const;
const WEIGHTS = [10, 4, 4, 2, 1, 4, 1, 1, 4, 2, 1, 1, 1, 1, 1];

const edit: fc.Arbitrary<Edit> = fc.record({
  channel: fc.nat(3),
  how: fc.nat(12),
  at: fc.nat(3),
  kind: fc.constantFrom(0, 3, 5, 6, 1, 2, 3, 4, 5, 6, 7, 3),
  n: fc.nat(5),
  inPlace: fc.boolean(),
});

export const step: fc.Arbitrary<Step> = fc.record({
  do: fc.oneof(...DOINGS.map((doing, index) => ({ weight: WEIGHTS[index]!, arbitrary: fc.constant(doing) }))),
  saver: fc.nat(1),
  thread: fc.constantFrom(0, 0, 0, 1),
  ns: fc.constantFrom(0, 0, 0, 1),
  back: fc.constantFrom(0, 0, 0, 1, 1, 2, 5),
  task: fc.nat(2),
  reads: fc.boolean(),
  edits: fc.array(edit, { minLength: 1, maxLength: 3, size: "max" }),
});

/** The root, and a subgraph with a memory of its own. */
const NAMESPACES = ["", "sub"];
const CHANNELS = ["messages", "log", "files", "flag"];

/** A file, two savers on it, and the model that says what has to be there. */
export class ModelWorld {
  #path = tempFile();
  readonly #options: TurnSaverOptions;
  readonly #savers: TurnSaver[];
  #observer: TurnSaver;
  readonly #threads = new Map<string, ModelThread>();
  /** What a run that goes on holds, by saver, thread and namespace. */
  readonly #held = new Map<string, { number: number; values: Values }>();
  #made = 0;

  constructor(options: TurnSaverOptions) {
    this.#options = options;
    this.#savers = [openOn(this.#path, options), openOn(this.#path, options)];
    this.#observer = this.#observing();
  }

  #observing(): TurnSaver {
    const { encryption } = this.#options;
    return openOn(this.#path, encryption === undefined ? {} : { encryption });
  }

  get saver(): TurnSaver {
    return this.#savers[0] as TurnSaver;
  }

  close(): void {
    for (const saver of [...this.#savers, this.#observer]) saver.close();
  }

  async step(what: Step): Promise<void> {
    const name = `thread ${what.thread}`;
    const thread = this.#threads.get(name);
    if (thread === undefined) return what.do === "put" ? this.#put({ ...what, ns: 0 }, name, new ModelThread()) : undefined;
    const ns = NAMESPACES[what.ns]!;
    const there = thread.checkpoints(ns);
    const chosen = there[Math.min(what.back, there.length - 1)];
    const saver = this.#savers[what.saver]!;
    switch (what.do) {
      case "put":
        return this.#put(what, name, thread);
      case "put blindly":
        return this.#putBlindly(what, name, thread, chosen);
      case "reopen":
        return this.#reopen(what.saver);
      case "rewind":
        return this.#rewind(saver, name, thread, what);
      case "take back":
        return this.#takeBack(saver, thread, what);
      case "delete":
        await saver.deleteThread(name);
        this.#threads.delete(name);
        return;
      case "copy thread":
        return this.#copyThread(saver, name, thread);
      case "prune":
        return this.#prune(saver, name, thread, what);
      default:
        return chosen === undefined ? undefined : this.#on(what, name, thread, chosen);
    }
  }

  /** Moves all threads to another database and back again. */
  async movedThereAndBack(
    other: TurnSaver,
    move: (
      from: TurnSaver,
      to: TurnSaver,
      options: object,
    ) => Promise<{ refused: readonly unknown[]; threads: readonly unknown[] }>,
  ): Promise<void> {
    const [saver] = this.#savers as [TurnSaver];
    for (const [from, to] of [
      [saver, other],
      [other, saver],
    ] as const) {
      const { refused, threads } = await move(from, to, { allowPlaintext: true });
      expect([refused, threads.length]).toEqual([[], this.#threads.size]);
    }
  }

  /** Everything continues on another file: a copy, or what was rescued. */
  async replaced(make: (saver: TurnSaver, path: string, target: string) => Promise<unknown>): Promise<void> {
    const target = tempFile();
    await make(this.saver, this.#path, target);
    this.#observer.close();
    this.#path = target;
    this.#observer = this.#observing();
    for (const which of this.#savers.keys()) await this.#reopen(which);
  }

  /** Does something with each thread, one after the other. */
  async withThreads(work: (saver: TurnSaver, threadId: string) => Promise<void>): Promise<void> {
    for (const threadId of this.#threads.keys()) await work(this.#savers[0] as TurnSaver, threadId);
  }

  /** What is wrong with the file, and on which thread. */
  async problems(): Promise<unknown> {
    return (await this.#observer.verify()).problems;
  }

  /** What a saver tells about everything must be what the model says. */
  async check(which: "observer" | "both"): Promise<void> {
    for (const saver of which === "both" ? this.#savers : [this.#observer]) {
      const rows = [];
      for (const { threadId, checkpoints, tasks } of await saver.listThreads()) rows.push([threadId, checkpoints, tasks]);
      const expected = [...this.#threads].map(([name, thread]) => [name, thread.checkpoints().length, thread.tasks().length]);
      expect(rows).toEqual(expected.sort(([a], [b]) => (a! < b! ? -1 : 1)));
      for (const [name, thread] of this.#threads) await this.#checkThread(saver, name, thread);
      expect(await get(saver, { thread: "thread 9" })).toBeUndefined();
    }
  }

  async #checkThread(saver: TurnSaver, name: string, thread: ModelThread): Promise<void> {
    const all = thread.checkpoints();
    const expected = all.map((checkpoint) => modelView(thread, checkpoint));
    expect((await listed(saver, { thread: name })).map(tupleView)).toEqual(expected);
    for (const [index, { ns, number }] of all.entries()) {
      expect(tupleView((await get(saver, { thread: name, ns, id: number }))!)).toEqual(expected[index]);
    }
    for (const ns of NAMESPACES) {
      const own = thread.checkpoints(ns);
      expect((await get(saver, { thread: name, ns }))?.checkpoint.id).toBe(own[0] && idOf(own[0].number));
      const [, second, third] = own;
      const page = await listed(saver, { thread: name, ns }, { limit: 2, ...(second && { before: second.number }) });
      const wanted = second === undefined ? own : [third, own[3]];
      expect(page.map(({ checkpoint }) => checkpoint.id)).toEqual(wanted.flatMap((one) => (one ? [idOf(one.number)] : [])));
      expect(await get(saver, { thread: name, ns, id: 999 })).toBeUndefined();
    }
    expect((await saver.turns.tasks(name)).map(({ taskId }) => taskId)).toEqual(thread.tasks());
    const names = (await saver.names.list(name)).map((one) => [one.name, one.checkpointNs, one.checkpointId]);
    const split = ([label, key]: [string, string]): string[] => [label, key.split(" ")[0]!, idOf(Number(key.split(" ")[1]))];
    expect(names).toEqual(thread.names().map(split));
  }

  async #put(what: Step, name: string, thread: ModelThread): Promise<void> {
    const ns = NAMESPACES[what.ns]!;
    const there = thread.checkpoints(ns);
    const parent = there[Math.min(what.back, there.length - 1)];
    const values = await this.#state(what, name, ns, parent);
    const fresh = this.#edited(values, what.edits, parent === undefined);
    await this.#save(what, name, thread, { ns, number: this.#next(thread), parent: parent?.number, from: parent, values, fresh });
  }

  /** Saves what a run holds, all of it, whatever has become of the thread. */
  async #putBlindly(what: Step, name: string, thread: ModelThread, parent: ModelCheckpoint | undefined): Promise<void> {
    const ns = NAMESPACES[what.ns]!;
    const held = this.#held.get(`${what.saver} ${name} ${ns}`);
    if (held === undefined || parent === undefined) return;
    const values = { ...held.values };
    if (what.reads) this.#edited(values, what.edits);
    const to = { ns, number: this.#next(thread), parent: parent.number, from: parent, values, fresh: CHANNELS };
    await this.#save(what, name, thread, to);
  }

  async #on(what: Step, name: string, thread: ModelThread, chosen: ModelCheckpoint): Promise<void> {
    const { ns, number, parent } = chosen;
    const saver = this.#savers[what.saver]!;
    const task = `task ${what.task}`;
    switch (what.do) {
      case "read":
        await valuesIn(saver, { thread: name, ns, id: number });
        return;
      case "write":
        await this.#write(what, name, thread, { ns, number, task }, `node ${what.task}`);
        // A node task that runs again has the same id.
        if (what.reads)
          await this.#write({ ...what, edits: what.edits.slice(1) }, name, thread, { ns, number, task }, `node ${what.task}`);
        return;
      case "name":
        await saver.names.set({ threadId: name, checkpointNs: ns, checkpointId: idOf(number) }, `name ${what.task}`);
        return thread.name(`name ${what.task}`, chosen);
      case "update": {
        const update = `update ${++this.#made}`;
        await this.#write(what, name, thread, { ns, number, task: update }, uuid5("__interrupt__", idOf(number)));
        const values = await this.#state(what, name, ns, chosen);
        const fresh = this.#edited(values, what.edits);
        const to = {
          ns,
          number: this.#next(thread),
          parent: number,
          from: chosen,
          values,
          fresh,
          source: "update",
          task: update,
        } as const;
        return this.#save(what, name, thread, to);
      }
      case "again": {
        const values = await this.#state(what, name, ns, chosen);
        const fresh = this.#edited(values, what.edits);
        return this.#save(what, name, thread, { ns, number, parent: number, from: chosen, values, fresh });
      }
      default: {
        const values = await valuesIn(saver, { thread: name, ns, id: number });
        const above = what.do === "fork" ? number : parent;
        // A save below what is not there is refused in a thread whose id was deleted once.
        if (above !== undefined && thread.checkpoint(ns, above) === undefined) return;
        const to = { ns, number: this.#next(thread), parent: above, from: chosen, values, fresh: [], source: "fork" } as const;
        return this.#save(what, name, thread, to);
      }
    }
  }

  async #save(
    what: Step,
    name: string,
    thread: ModelThread,
    to: {
      ns: string;
      number: number;
      parent: number | undefined;
      from: ModelCheckpoint | undefined;
      values: Values;
      fresh: readonly string[];
      source?: "fork" | "update";
      task?: string;
    },
  ): Promise<void> {
    const { ns, number, parent, from, values, fresh } = to;
    const versions: Record<string, number> = { ...from?.versions };
    const version = Math.max(0, ...Object.values(versions)) + 1;
    for (const channel of fresh) versions[channel] = version;
    const { task = `task ${what.task}`, source = parent === undefined ? "input" : "loop" } = to;
    const saved = Object.fromEntries(Object.entries(values).map(([channel, value]) => [channel, printOf(value)]));
    await put(this.#savers[what.saver]!, { thread: name, ns, id: number, parent, values, versions, fresh, source, task });
    this.#threads.set(name, thread);
    thread.put({ ns, number, parent, source, versions, values: saved, fresh, task });
    this.#held.set(`${what.saver} ${name} ${ns}`, { number, values });
  }

  async #write(what: Step, name: string, thread: ModelThread, at: { ns: string; number: number; task: string }, node: string) {
    const values = await this.#state(what, name, at.ns, thread.checkpoint(at.ns, at.number));
    const writes = what.edits.map(({ channel, how, kind, n }): [string, unknown] => {
      const special = ["__interrupt__", "__resume__"][how];
      if (how === 5) return [CHANNELS[channel]!, [values["files"], ...(values["messages"] ?? [])]];
      return [special ?? CHANNELS[channel]!, how % 2 === 0 ? [this.#element(kind, n)] : this.#element(kind, n)];
    });
    if (writes.length === 0) writes.push(["__no_writes__", null]);
    const printed = writes.map(([channel, value]) => [channel, printOf(value)] as const);
    const { ns, number, task } = at;
    await putWrites(this.#savers[what.saver]!, { thread: name, ns, id: number, task }, node, writes);
    thread.putWrites(at, node, printed);
  }

  async #reopen(which: number): Promise<void> {
    this.#savers[which]!.close();
    this.#savers[which] = openOn(this.#path, this.#options);
    for (const key of this.#held.keys()) if (key.startsWith(`${which} `)) this.#held.delete(key);
  }

  async #rewind(saver: TurnSaver, name: string, thread: ModelThread, { back }: Step): Promise<void> {
    const tasks = thread.tasks();
    const task = tasks[Math.max(0, tasks.length - 1 - back)]!;
    const rewind = thread.rewind(task);
    try {
      const { rewindId } = await saver.rewind({ threadId: name, toTask: task });
      if (rewind === undefined) expect(rewindId).toBeUndefined();
      else rewind.go(rewindId!);
    } catch (error) {
      if (rewind?.mayRefuse !== true || !TurnsError.is(error, "CHECKPOINT_NOT_FOUND")) throw error;
    }
  }

  async #takeBack(saver: TurnSaver, thread: ModelThread, { back }: Step): Promise<void> {
    const id = thread.rewinds().at(-1 - (back % 2));
    if (id === undefined) return;
    const outcome = await saver.rewinds.takeBack(id).then(
      () => "done",
      (error: unknown) => TurnsError.is(error, "REWIND_CONFLICT"),
    );
    expect(outcome).toBe(thread.takeBack(id) ? "done" : true);
  }

  async #copyThread(saver: TurnSaver, name: string, thread: ModelThread): Promise<void> {
    const target = `thread ${this.#threads.size + 2}`;
    if (this.#threads.has(target) || this.#threads.size > 3) return;
    await saver.copyThread(name, target);
    this.#threads.set(target, thread.copy());
  }

  /** The newest of each namespace stay, and what has a name; which others do is the saver's business. */
  async #prune(saver: TurnSaver, name: string, thread: ModelThread, { back }: Step): Promise<void> {
    const keepLast = back + 1;
    await saver.prune({ threadId: name, keepLast });
    const left = new Set((await listed(saver, { thread: name })).map(({ config }) => JSON.stringify(config.configurable)));
    const isLeft = ({ ns, number }: ModelCheckpoint): boolean =>
      left.has(JSON.stringify(configOf({ thread: name, ns, id: number }).configurable));
    const newest = NAMESPACES.flatMap((ns) => thread.checkpoints(ns).slice(0, ns === "" ? keepLast : 1));
    const mustStay = [...newest, ...thread.checkpoints().filter((one) => thread.isNamed(one))];
    expect(mustStay.filter((one) => !isLeft(one))).toEqual([]);
    thread.prune(isLeft);
    expect(thread.checkpoints()).toHaveLength(left.size);
  }

  /** What a run has in its hands at this checkpoint. */
  async #state(what: Step, name: string, ns: string, at: ModelCheckpoint | undefined): Promise<Values> {
    if (at === undefined) return this.#begun();
    const held = this.#held.get(`${what.saver} ${name} ${ns}`);
    if (!what.reads && held?.number === at.number && this.#isAsSaved(held.values, at)) return { ...held.values };
    const values = await valuesIn(this.#savers[what.saver]!, { thread: name, ns, id: at.number });
    this.#held.set(`${what.saver} ${name} ${ns}`, { number: at.number, values });
    return { ...values };
  }

  /** Enough of each kind for parts of it to be stored apart. */
  #begun(): Values {
    const [small, large, record, tree] = [0, 5, 3, 6].map((kind) => this.#element(kind, 2));
    return { messages: [large, record, small], log: [small], files: { "key 0": tree, "key 1": large }, flag: 0 };
  }

  /** A rewind may have put something else under the number. */
  #isAsSaved(values: Values, at: ModelCheckpoint): boolean {
    const channels = Object.keys(values);
    if (channels.length !== Object.keys(at.values).length) return false;
    return channels.every((channel) => printOf(values[channel]) === at.values[channel]);
  }

  #next(thread: ModelThread): number {
    return Math.max(0, ...thread.checkpoints().map(({ number }) => number)) + 1;
  }

  /** @returns the channels that are new */
  #edited(values: Values, edits: readonly Edit[], isNew = false): string[] {
    for (const one of edits) {
      const channel = CHANNELS[one.channel]!;
      if (one.how === 12) delete values[channel];
      else if (one.channel < 2) values[channel] = this.#editedList(values[channel] ?? [], values, one);
      else if (one.channel === 2) values[channel] = this.#editedRecord(values[channel] ?? {}, one);
      else
        values[channel] = one.inPlace
          ? this.#element(one.kind, one.n)
          : [this.#element(one.kind, one.n), this.#element(0, one.at)];
    }
    const changed = new Set(edits.map(({ channel }) => CHANNELS[channel]!));
    // A state that has just begun is new as a whole.
    return CHANNELS.filter((channel) => changed.has(channel) || isNew);
  }

  #editedList(old: unknown[], values: Values, { how, at, kind, n, inPlace }: Edit): unknown[] {
    const list = inPlace && this.#options.immutable !== true ? old : [...old];
    const index = list.length === 0 ? 0 : at % list.length;
    switch (how) {
      case 1:
        list.push(...[0, 1, 2].map((more) => this.#element(kind, n + more)));
        break;
      case 2:
        list[index] = this.#element(kind, n);
        break;
      case 3:
        list.splice(0, at);
        break;
      case 4:
        list.length = index;
        break;
      case 5:
        return Array.from({ length: at }, (_, place) => this.#element(kind, place));
      case 6:
        list.reverse();
        break;
      case 7:
        if (list.length > 0) list.push(list[index]);
        break;
      case 8:
        return list.map((item, place) => (place === index ? this.#changed(item, n) : item));
      case 9:
        list.push(values["files"] ?? null);
        break;
      case 10:
        list.length += at;
        break;
      case 11:
        return [...(values["messages"] ?? []), ...(values["log"] ?? [])];
      default:
        list.push(this.#element(kind, n));
    }
    return list;
  }

  #editedRecord(old: Record<string, unknown>, { how, at, kind, n, inPlace }: Edit): Record<string, unknown> {
    if (Object.getPrototypeOf(old) !== Object.prototype) return {};
    const record = inPlace && this.#options.immutable !== true ? old : { ...old };
    if (how === 1) delete record[`key ${at}`];
    else if (how === 2) return { [`key ${at}`]: this.#element(kind, n) };
    else if (how === 3) record[`key ${at}`] = [this.#element(kind, n), this.#element(5, n)];
    else record[`key ${at}`] = this.#element(kind, n);
    return record;
  }

  /** In place, where the graph is one that does so. */
  #changed(item: any, at: number): unknown {
    if (this.#options.immutable === true || typeof item !== "object" || item === null) return this.#element(3, at + 1);
    item.content = `changed ${at}`;
    return item;
  }

  /** Equal for equal numbers, and never the same object. */
  #element(kind: number, n: number): unknown {
    switch (kind) {
      case 1:
        return new HumanMessage({ content: `${n} ${"h".repeat(180)}`, additional_kwargs: { map: new Map([[n, new Date(n)]]) } });
      case 2:
        return new AIMessage({
          id: `ai ${n}`,
          content: "",
          tool_calls: [{ name: "t", id: `c${n}`, args: { b: Buffer.from([n]) } }],
        });
      case 3:
        return { n, body: "r".repeat(140 + n * 8), nested: [{ at: new Date(n) }] };
      case 4:
        return [0, -0, NaN, undefined, null, 7n][n % 6];
      case 5:
        return "t".repeat([120, 126, 158, 254, 510, 600][n % 6]!);
      case 6:
        return {
          kind: "large",
          parts: ["p".repeat(200), "q".repeat(200 + n)],
          more: { a: "a".repeat(300), b: ["b".repeat(170)] },
        };
      case 7:
        return Object.assign([n, , "x".repeat(200)], n % 2 === 0 ? { extra: n } : {}); // eslint-disable-line no-sparse-arrays
      default:
        return `s${n}`;
    }
  }
}

/** Everything of a checkpoint that a reader gets. */
function tupleView(tuple: CheckpointTuple): unknown {
  const { config, checkpoint, metadata, parentConfig, pendingWrites } = tuple;
  return {
    at: [config.configurable?.["checkpoint_ns"], checkpoint.id],
    parent: parentConfig?.configurable?.["checkpoint_id"] as unknown,
    source: metadata?.source,
    versions: checkpoint.channel_versions,
    values: printed(checkpoint.channel_values),
    writes: pendingWrites?.map(([nodeTask, channel, value]) => [nodeTask, channel, fingerprint(value)]),
  };
}

function modelView(thread: ModelThread, checkpoint: ModelCheckpoint): unknown {
  const { ns, number, parent, source, versions, values } = checkpoint;
  return {
    at: [ns, idOf(number)],
    parent: parent === undefined ? undefined : idOf(parent),
    source,
    versions,
    values,
    writes: thread.writes(ns, number),
  };
}

function printed(values: Values): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([channel, value]) => [channel, fingerprint(value)]));
}

/** As it comes back. The codec has tests of its own; a message that was changed in place comes back with arguments that agree. */
function printOf(value: unknown): string {
  return fingerprint(decode(encode(value)));
}
